"""
Values against the annotations of an interface
"""

_TYPES = {
    "array": (list, tuple),
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": (str, bytes),
}


def problem(value, schema, place="the result"):
    """
    Return what is wrong with a value, or None

    :param schema: A JSON Schema as ``salt-run interfaces.schema`` returns it
    """
    if "anyOf" in schema:
        found = [problem(value, one, place) for one in schema["anyOf"]]
        return None if None in found else found[0]
    kind = schema.get("type")
    if kind is None:
        return None
    is_switch = isinstance(value, bool) and kind in ("integer", "number")
    if is_switch or not isinstance(value, _TYPES[kind]):
        return f"{place} is {value!r}, not of type {kind}"
    parts = []
    if kind == "array":
        parts = [(one, schema.get("items", {}), f"{place}[]") for one in value]
    if kind == "object":
        for key in schema.get("required", ()):
            if key not in value:
                return f"{place} lacks {key!r}"
        fields = schema.get("properties", {})
        rest = schema.get("additionalProperties", {})
        parts = [
            (one, fields.get(key, rest), f"{place}[{key!r}]")
            for key, one in value.items()
        ]
    found = (problem(*part) for part in parts)
    return next((one for one in found if one), None)
