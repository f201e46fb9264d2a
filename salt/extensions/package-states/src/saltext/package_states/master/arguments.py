"""What the functions of a runner take: their help says it, and an unknown name is an error."""

import difflib
import functools
import inspect
import types

from saltext.package_states.errors import InvalidInput
from saltext.package_states.model import names


def strict(module):
    """Let the functions of a runner refuse what they do not take; Salt would print the help, and exit with 0"""
    for name, one in [*module.items()]:
        if inspect.isfunction(one) and name[0] != "_":
            module[name] = _strict(one, name.rstrip("_"))


def _strict(function, name):
    signature = inspect.signature(function)
    check = functools.partial(_checked, name, signature)

    def call(*args, **kwargs):
        return function(*args, **check(args, kwargs))

    # Salt puts the user who calls into the globals of a function: those of the runner
    made = types.FunctionType(
        call.__code__, function.__globals__, closure=call.__closure__
    )
    functools.update_wrapper(made, function)
    # Salt would ask that for arguments, and not see that any name is taken
    vars(made).pop("__wrapped__")
    made.__doc__ = function.__doc__.replace(
        "\n", f"\n\n    Arguments: {signature}\n", 1
    )
    return made


def _checked(name, signature, args, kwargs):
    """Return the arguments of a call without what Salt adds of who calls, or raise what is wrong with them"""
    kwargs = {key: kwargs[key] for key in kwargs if not key.startswith("__")}
    for key in kwargs:
        if key not in signature.parameters:
            near = difflib.get_close_matches(key, signature.parameters, 1)
            some = ", ".join(near or signature.parameters)
            raise InvalidInput(f"{name} takes no {names.shown(key)}; use {some}.")
    try:
        signature.bind(*args, **kwargs)
    except TypeError as exc:
        raise InvalidInput(f"{name}: {exc}; it takes {signature}.") from None
    return kwargs
