"""
What a virtual module promises: the Salt Module Interface

Several modules serve one virtual name: ``aptpkg``, ``yumpkg``, ``win_pkg`` and others
all are ``pkg``. An interface is a class whose methods are the functions that callers
can rely on. A module declares it with

.. code-block:: python

    from salt.interfaces.pkg_module import PkgInterface

    __virtualname__ = PkgInterface(__name__)()

See :ref:`module-interfaces`.

.. versionadded:: 3009.0
"""

import functools
import inspect
import logging

from salt.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

# RFC 0003 spells this grain without the underscore
_GRAINS = {"osfamily": "os_family"}
_warned = set()


class FunctionNotImplementedError(CommandExecutionError, KeyError):
    """
    The interface has the function, and the loaded module lacks it

    It is a KeyError too: code that handles a missing function handles this.
    """

    # Code that asks with ``in`` discards it: SaltException takes five times as long
    __init__ = Exception.__init__
    __str__ = Exception.__str__
    message = strerror = property(Exception.__str__)


class FunctionNotSupportedError(FunctionNotImplementedError):
    """
    The interface has the function, and the platform cannot have it
    """


class Declaration(str):
    """
    A virtual name with its interface: what ``PkgInterface(__name__)`` returns

    A call returns it again, so ``__virtualname__`` may be either. A copy in another
    process is a plain string.
    """

    def __new__(cls, interface, module, own=(), lacks=None):
        self = super().__new__(cls, interface.__modulename__)
        self.interface = interface
        self.module = module
        self.own = frozenset(own)
        self.lacks = dict(lacks or {})
        return self

    def __call__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return str, (str(self),)


def _mark(**marks):
    for kind, grains in marks.items():
        if not grains:
            raise TypeError(f"Interface.{kind} needs a grain, such as os=['Debian'].")

    def decorate(method):
        vars(method).setdefault("__smi__", {}).update(marks)
        return method

    return decorate


class Feature:
    """
    A class in an interface: a module has all functions of it, or none
    """


class _Declaring(type):
    """
    The call of an interface declares it: the result is a Declaration, not an instance
    """

    def __call__(cls, module=None, own=(), lacks=None):
        if not cls.__modulename__:
            raise TypeError(f"Set __modulename__ in {cls.__name__} to a virtual name.")
        if module is None:
            raise TypeError(f"Declare it with {cls.__name__}(__name__).")
        if isinstance(own, str) or not isinstance(lacks or {}, dict):
            raise TypeError(
                f"{module}: own is a list of functions, lacks a dictionary of reasons."
            )
        known = {*features(cls), *functions(cls)}
        for name in lacks or ():
            if name not in known:
                raise TypeError(
                    f"{module} lacks '{name}', which is neither a feature nor a "
                    f"function of {cls.__name__}. Its features are: "
                    f"{', '.join(features(cls)) or 'none'}."
                )
        for name in own:
            if name in known:
                raise TypeError(
                    f"{module} lists '{name}' as its own function, but "
                    f"{cls.__name__} has it; remove it from own."
                )
        return Declaration(cls, module, own, lacks)


class Interface(metaclass=_Declaring):
    """
    What all modules of a virtual name promise

    Each method is a function; ``self`` is no part of its signature. Functions in a
    nested :class:`Feature` belong together, and a module may lack all of them.
    ``__deprecated__`` maps second names of functions to the name to use.

    :param str module: ``__name__`` of the declaring module
    :param list own: Functions of this platform only; all others that are not in the
        interface are deprecated
    :param dict lacks: Features and functions that the platform cannot have, with
        the reason
    """

    __modulename__ = None
    __deprecated__ = {}

    @staticmethod
    def supported(**grains):
        """
        Only minions that match one of these grains must have the function
        """
        return _mark(supported=grains)

    @staticmethod
    def not_applicable(**grains):
        """
        On minions that match one of these grains the function returns what the method
        returns, unless the module has it
        """
        return _mark(not_applicable=grains)


@functools.cache
def functions(interface):
    """
    Return the methods of an interface and of its features by name

    :rtype: dict
    """
    methods = {}
    for parent in reversed(interface.__mro__):
        for name, value in vars(parent).items():
            if name.startswith("_") or parent in (object, Interface, Feature):
                continue
            if inspect.isclass(value) and issubclass(value, Feature):
                methods.update(functions(value))
            elif inspect.isfunction(value):
                methods[name] = value
    return methods


@functools.cache
def features(interface):
    """
    Return the names of the features of an interface with their functions

    :rtype: dict
    """
    return {
        name: list(functions(value))
        for name, value in inspect.getmembers(interface, inspect.isclass)
        if issubclass(value, Feature)
    }


def declared(mod):
    """
    Return the Declaration of a module, or None

    A class, whose call was forgotten, counts as a declaration.
    """
    name = getattr(mod, "__virtualname__", None)
    if inspect.isclass(name) and issubclass(name, Interface):
        name = mod.__virtualname__ = name(mod.__name__)
    return name if isinstance(name, Declaration) else None


def _words(value):
    values = value if isinstance(value, list) else [value]
    return {str(one).casefold() for one in values}


def _matches(method, kind, grains):
    marks = getattr(method, "__smi__", {}).get(kind, {})
    return any(
        _words(values) & _words(grains.get(name, grains.get(_GRAINS.get(name))))
        for name, values in marks.items()
    )


def absent(declaration, name, grains):
    """
    Return the class and the message of the error for a function that is not loaded, or
    None if the interface does not have it

    :param Declaration declaration: What the loaded module declares
    :param str name: The function, without the module
    :param dict grains: The grains of the minion
    """
    method = functions(declaration.interface).get(name)
    if method is None:
        return None
    by = f"by {declaration.module.rpartition('.')[2]}"
    feature = method.__qualname__.split(".")[-2]
    reason = declaration.lacks.get(name) or declaration.lacks.get(feature)
    marks = getattr(method, "__smi__", {})
    if reason or ("supported" in marks and not _matches(method, "supported", grains)):
        error, state = FunctionNotSupportedError, "supported"
        reason = f": {reason}" if reason else " on this platform"
    else:
        error, state, reason = FunctionNotImplementedError, "implemented", ""
    return error, f"'{declaration}.{name}' is not {state} {by}{reason}."


def stand_ins(declaration, grains):
    """
    Yield names and functions for what is not applicable to a minion
    """
    for name, method in functions(declaration.interface).items():
        if _matches(method, "not_applicable", grains):
            yield name, _stand_in(f"{declaration}.{name}", method)


def _stand_in(name, method):
    parameters = list(inspect.signature(method).parameters.values())[1:]
    required = sum(
        one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
        for one in parameters
    )

    @functools.wraps(method)
    def function(*args, **kwargs):
        log.debug("'%s' is not applicable here; it returns nothing.", name)
        return method(None, *[None] * required)

    # callers see the parameters without self
    del function.__wrapped__
    function.__signature__ = inspect.Signature(parameters)
    return function


def deprecated(declaration, name, func):
    """
    Return the function of a module, with a warning if the interface lacks it
    """
    if name in declaration.own or name in functions(declaration.interface):
        return func
    key = f"{declaration}.{name}"
    successor = declaration.interface.__deprecated__.get(name)
    use = f"use '{declaration}.{successor}'" if successor else "other modules lack it"

    @functools.wraps(func)
    def warns(*args, **kwargs):
        if key not in _warned:
            _warned.add(key)
            log.warning("The function '%s' is deprecated; %s.", key, use)
        return func(*args, **kwargs)

    return warns


def difference(method, func):
    """
    Return what a caller who keeps to the interface cannot pass to a function, or None

    :param method: The method of the interface
    :param func: The function of the module
    """
    given = inspect.signature(func).parameters
    kinds = {one.kind for one in given.values()}
    names = [n for n, one in given.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    wanted = list(inspect.signature(method).parameters.values())[1:]
    for position, one in enumerate(wanted):
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            if one.kind not in kinds:
                return f"takes no {one}"
        elif one.name not in given:
            # **kwargs takes what callers pass by name
            if one.default is one.empty or inspect.Parameter.VAR_KEYWORD not in kinds:
                return f"takes no argument '{one.name}'"
        elif one.default is one.empty and names[position : position + 1] != [one.name]:
            return f"takes '{one.name}' at another position"
        elif one.default not in (one.empty, given[one.name].default):
            return f"has another default for '{one.name}' than {one.default!r}"
    for name in given.keys() - {one.name for one in wanted}:
        one = given[name]
        if one.default is one.empty and one.kind not in (
            one.VAR_POSITIONAL,
            one.VAR_KEYWORD,
        ):
            return f"requires the argument '{name}'"
    return None


def check(declaration, name, func):
    """
    Log a warning if callers of the interface cannot call a function of a module
    """
    method = functions(declaration.interface).get(name)
    problem = method and difference(method, func)
    if problem:
        code = inspect.unwrap(func).__code__
        place = f"{code.co_filename}:{code.co_firstlineno}: '{declaration}.{name}'"
        promise = f"{declaration.interface.__name__} has {name}"
        log.warning("%s %s; %s%s.", place, problem, promise, inspect.signature(method))
