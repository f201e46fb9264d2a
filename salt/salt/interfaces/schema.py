"""
The structure of what a function returns

A schema is written with plain Python objects:

====================  ===========================================================
``str``, ``bool`` ... a value of this type; ``object`` is any value
``None``              the value ``None``
``(A, B)``            one of these schemas
``[A]``               a list (or tuple) whose items all fit ``A``
``{"key": A}``        a dictionary with at least this key; more keys are allowed
``{str: A}``          a dictionary whose other keys have this type and fit ``A``
====================  ===========================================================

A schema names the least that every platform returns. What a platform returns
on top is its own business. A value is checked and never changed.

.. versionadded:: 3009.0
"""

# A dictionary of thousands of packages that are all wrong needs no thousand lines
MOST_PROBLEMS = 5


def describe(schema):
    """
    Return the schema as plain data, ready for JSON

    :rtype: str, list or dict
    """
    if schema is None:
        return "None"
    if isinstance(schema, type):
        return "any" if schema is object else schema.__name__
    if isinstance(schema, tuple):
        return {"any_of": [describe(part) for part in schema]}
    if isinstance(schema, list):
        return [describe(schema[0])]
    return {
        key if isinstance(key, str) else f"<{key.__name__}>": describe(part)
        for key, part in schema.items()
    }


def empty(schema):
    """
    Return the smallest value that has the schema's outer type

    :rtype: object
    """
    if isinstance(schema, tuple):
        return empty(schema[0])
    if isinstance(schema, list):
        return []
    if isinstance(schema, dict):
        return {
            key: empty(part) for key, part in schema.items() if isinstance(key, str)
        }
    if schema in (str, bytes, bool, int, float, list, dict, set, tuple):
        return schema()
    return None


def problems(schema, value):
    """
    Return what is wrong with a value, in words; nothing if it fits

    At most :data:`MOST_PROBLEMS` of them are returned.

    :param schema: See the table above
    :param value: What a function returned
    :rtype: list
    """
    found = []
    _check(schema, value, "the result", found)
    return found[:MOST_PROBLEMS]


def _is(kind, value):
    if isinstance(value, bool) and kind in (int, float):
        return False
    if kind is list:
        return isinstance(value, (list, tuple))
    if kind is float:
        return isinstance(value, (float, int))
    return isinstance(value, kind)


def _wrong(schema, value, where, found):
    wanted = describe(schema)
    if isinstance(wanted, dict) and "any_of" in wanted:
        wanted = " or ".join(str(part) for part in wanted["any_of"])
    found.append(f"{where} is {type(value).__name__}, not {wanted}")


def _check(schema, value, where, found):
    if len(found) >= MOST_PROBLEMS:
        return
    if schema is None:
        if value is not None:
            _wrong(schema, value, where, found)
    elif isinstance(schema, type):
        if not _is(schema, value):
            _wrong(schema, value, where, found)
    elif isinstance(schema, tuple):
        _check_any(schema, value, where, found)
    elif isinstance(schema, list):
        if not isinstance(value, (list, tuple)):
            _wrong(schema, value, where, found)
            return
        for index, item in enumerate(value):
            _check(schema[0], item, f"{where}[{index}]", found)
    elif not isinstance(value, dict):
        found.append(f"{where} is {type(value).__name__}, not a dictionary")
    else:
        _check_dict(schema, value, where, found)


def _check_any(schema, value, where, found):
    closest = None
    for part in schema:
        tried = []
        _check(part, value, where, tried)
        if not tried:
            return
        # of the alternatives of the right outer type, say what is wrong inside
        if isinstance(part, (dict, list)) and isinstance(value, type(part)):
            closest = closest or tried
    if closest:
        found.extend(closest)
    else:
        _wrong(schema, value, where, found)


def _check_dict(schema, value, where, found):
    for key, part in schema.items():
        if not isinstance(key, str):
            continue
        if key not in value:
            found.append(f"{where} lacks the key '{key}'")
        else:
            _check(part, value[key], f"{where}['{key}']", found)
    open_keys = [(key, part) for key, part in schema.items() if isinstance(key, type)]
    if not open_keys:
        return
    for key, item in value.items():
        if len(found) >= MOST_PROBLEMS:
            return
        if isinstance(key, str) and key in schema:
            continue
        for kind, part in open_keys:
            if _is(kind, key):
                _check(part, item, f"{where}[{key!r}]", found)
                break
        else:
            found.append(
                f"{where} has the key {key!r} of type {type(key).__name__}, not "
                + " or ".join(kind.__name__ for kind, _ in open_keys)
            )
