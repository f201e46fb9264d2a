"""
Forms of formulas: which value each element gets

A formula describes its form in the file ``form.yml``. People fill it in for groups and
for minions, and only what they typed is stored: it is merged over the defaults of the
form, by the rules of Uyuni. Of an element of the form:

- Keys that begin with ``$`` are properties, and what is no mapping is no element.
- ``$scope`` of a group holds for the elements in it that have none. One that is not known
  takes nothing.
- ``edit-group`` is a list or a mapping of entries that ``$prototype`` describes, and comes
  whole from one place. A value of another type counts as empty.
- An empty value (false, 0, an empty text, list or mapping) gives way to ``$ifEmpty``. If
  it is empty after that and the element is ``$optional``, the element is left out.
"""

import copy

# Elements that contain others
GROUPS = ("group", "hidden-group", "namespace")

# Of whom values count, by scope. What was typed for others is not even looked at. In an
# entry of an edit-group there are no scopes.
ENTRY = object()
OWNERS = {
    "system": ("minion", "group"),
    "group": ("group",),
    "readonly": (),
    ENTRY: ("entry",),
}


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
    return _fill(form, {"minion": minion, "group": group}, "system", "")


def _mapping(value, path, said):
    if not isinstance(value, dict):
        raise BadForm(
            f"{path or 'all of it'} has to be a mapping, but a {type(value).__name__} {said}"
        )
    return value


def _fill(form, typed, scope, path):
    filled = {}
    for name, element in _mapping(form, path, "is in the form").items():
        if str(name).startswith("$") or not isinstance(element, dict):
            continue
        inner = f"{path}:{name}" if path else str(name)
        kind = element.get("$type", "text")
        is_group = kind in GROUPS
        own = scope if scope is ENTRY else element.get("$scope", scope)
        owners = OWNERS["system"] if is_group and own is not ENTRY else OWNERS.get(own)
        values = {
            owner: _mapping(typed[owner], path, f"was typed for the {owner}")
            for owner in owners or ()
        }
        if is_group:
            within = {owner: value.get(name, {}) for owner, value in values.items()}
            value = _fill(element, within, own, inner)
        elif owners is None:
            value = None
        else:
            found = [value[name] for value in values.values() if name in value]
            default = ""
            if own is not ENTRY:
                default = element.get("$default", element.get("$placeholder", ""))
            # forms are kept, and what a pillar holds is merged into
            value = found[0] if found else copy.deepcopy(default)
        if kind == "edit-group":
            value = _entries(element.get("$prototype"), value, inner)
        if not value and "$ifEmpty" in element:
            value = copy.deepcopy(element["$ifEmpty"])
        if value or not element.get("$optional"):
            filled[name] = value
    return filled


def _entries(prototype, value, path):
    if not prototype:
        return value
    _mapping(prototype, path, "is its $prototype")
    if prototype.get("$type", "group") != "group":
        return value

    def fill_entry(entry):
        return _fill(prototype, {"entry": entry}, ENTRY, path)

    if prototype.get("$key") is None:
        return [*map(fill_entry, value)] if isinstance(value, list) else []
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: fill_entry(entry) for key, entry in pairs}
