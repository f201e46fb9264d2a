"""
Forms of formulas: which value each element gets

A formula describes its form in the file ``form.yml``. People fill it in for
groups and for minions, and only what they typed is stored. The pillar needs a
value for each element, so the stored values are merged over the defaults of the
form.

:func:`fill` does that as Uyuni does. The rules, for each element of a form:

- Keys that begin with ``$`` are properties, and what is no mapping is no element.
- ``$type`` is ``text`` if it is not there. ``group``, ``hidden-group`` and
  ``namespace`` contain elements, which are filled by the same rules.
- ``$scope`` says whose values count, and that of a group holds for the elements in
  it that have none: ``system`` (the default) takes the value of the minion, else
  that of the group, else the default; ``group`` takes that of the group, else the
  default; ``readonly`` takes the default. Any other scope takes nothing.
- The default is ``$default``, else ``$placeholder``, else an empty text.
- ``edit-group`` is a list or a mapping of entries that ``$prototype`` describes. It is
  never merged: it comes whole from one place. If the type of the prototype is
  ``group`` (or there is none), each entry gets what the prototype names, with an
  empty text for what it lacks. It is a mapping if the prototype has ``$key``. A
  value of another type counts as empty.
- An empty value (false, 0, an empty text, list or mapping) gives way to
  ``$ifEmpty``. If it is empty after that and the element is ``$optional``, the element
  is left out.
"""

import copy

# Elements that contain others
GROUPS = ("group", "hidden-group", "namespace")

# Whose values count, by scope. What was typed for others is not even looked at.
OWNERS = {"system": ("minion", "group"), "group": ("group",), "readonly": ()}


class BadForm(Exception):
    """
    A form or the values for it are not what they have to be
    """


def fill(form, group, minion):
    """
    Return the values of all elements of a form

    form
        What ``form.yml`` holds.

    group, minion
        What was typed for the group and for the minion. Empty mappings if nothing was.

    Raises BadForm if a form, or a group of its elements, is no mapping.
    """
    typed = {"minion": minion, "group": group}
    return _complete(form, _choose(form, typed, "system", ""), "")


def _elements(form, path):
    _mapping(form, path, "is in the form")
    return {
        name: element
        for name, element in form.items()
        if not str(name).startswith("$") and isinstance(element, dict)
    }


def _mapping(value, path, said):
    if not isinstance(value, dict):
        raise BadForm(
            f"{path or 'all of it'} has to be a mapping, but a {type(value).__name__} {said}"
        )
    return value


def _is_group(element):
    return element.get("$type", "text") in GROUPS


def _choose(form, typed, scope, path):
    """
    Return for each element the value of the one that counts
    """
    chosen = {}
    for name, element in _elements(form, path).items():
        own = element.get("$scope", scope)
        owners = OWNERS.get("system" if _is_group(element) else own, ())
        values = {
            owner: _mapping(typed[owner], path, f"was typed for the {owner}")
            for owner in owners
        }
        if _is_group(element):
            inner = f"{path}:{name}" if path else str(name)
            within = {owner: value.get(name, {}) for owner, value in values.items()}
            chosen[name] = _choose(element, within, own, inner)
        elif own in OWNERS:
            # forms are kept, and what a pillar holds is merged into
            default = element.get("$default", element.get("$placeholder", ""))
            found = [value[name] for value in values.values() if name in value]
            chosen[name] = found[0] if found else copy.deepcopy(default)
        else:
            chosen[name] = None
    return chosen


def _complete(form, values, path):
    """
    Return the values with their empty ones replaced or left out
    """
    elements = _elements(form, path)
    if elements:
        _mapping(values, path, "was typed")
    complete = {}
    for name, element in elements.items():
        inner = f"{path}:{name}" if path else str(name)
        if _is_group(element):
            value = _complete(element, values.get(name, {}), inner)
        else:
            value = values.get(name, "")
            if element.get("$type") == "edit-group":
                value = _entries(element.get("$prototype"), value, inner)
        if not value and "$ifEmpty" in element:
            value = copy.deepcopy(element["$ifEmpty"])
        if value or not element.get("$optional"):
            complete[name] = value
    return complete


def _entries(prototype, value, path):
    """
    Return the entries of an ``edit-group``, complete
    """
    if not prototype:
        return value
    _mapping(prototype, path, "is its $prototype")
    if prototype.get("$type", "group") != "group":
        return value
    if prototype.get("$key") is None:
        entries = value if isinstance(value, list) else []
        return [_complete(prototype, entry, path) for entry in entries]
    entries = value if isinstance(value, dict) else {}
    return {key: _complete(prototype, entry, path) for key, entry in entries.items()}
