"""
What the decorators of an interface take, and leave on its methods

A minion imports this with each interface that a module declares, and no more: what
reads the marks is in :mod:`salt.interfaces.function`.

.. versionadded:: 3009.0
"""

# The attribute of a method with its marks
MARKS = "__smi__"

_SEVERAL = (list, tuple, set, frozenset)


def wrong(message):
    """
    Return a DeclarationError

    :param str message: What is wrong, and what to do
    """
    # a module that declares its interface rightly needs no errors
    from salt.interfaces.errors import (  # pylint: disable=import-outside-toplevel
        DeclarationError,
    )

    return DeclarationError(message)


def condition(decorator, grains):
    """
    Return the condition that a decorator was given

    :param str decorator: The name of the decorator, for the message
    :param dict grains: A grain's name to one value or a list of them
    :rtype: dict
    :raises DeclarationError: There is no grain in it
    """
    if not grains:
        raise wrong(
            f"Give Interface.{decorator} at least one grain, for example os=['Debian']."
        )
    return {
        name: list(values) if isinstance(values, _SEVERAL) else [values]
        for name, values in grains.items()
    }


def check_schema(schema):
    """
    Raise DeclarationError unless the schema is one

    :param schema: See :mod:`salt.interfaces.schema`
    """
    if schema is None or isinstance(schema, type):
        return
    if isinstance(schema, tuple) and schema:
        for part in schema:
            check_schema(part)
        return
    if isinstance(schema, list) and len(schema) == 1:
        check_schema(schema[0])
        return
    if isinstance(schema, dict):
        if all(isinstance(key, (str, type)) for key in schema):
            for part in schema.values():
                check_schema(part)
            return
    raise wrong(
        f"{schema!r} is not a schema; use a type, None, a tuple of alternatives, "
        "a list of one schema, or a dictionary with strings or types as keys."
    )


class Deprecation:
    """
    Until when a function lives, and what takes its place

    :param until: The release in which it goes, as a string, or None if that is open
    :param successor: What to call instead, or None
    """

    __slots__ = ("successor", "until")

    def __init__(self, until=None, successor=None):
        self.until = until
        self.successor = successor

    def __str__(self):
        text = "deprecated"
        if self.until:
            text += f" and will be removed in Salt {self.until}"
        else:
            text += " and is subject to be removed in the future"
        if self.successor:
            text += f"; use '{self.successor}' instead"
        return text
