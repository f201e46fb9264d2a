"""
The base class of interfaces, its decorators, and what an instance is

.. versionadded:: 3009.0
"""

import inspect

from salt.interfaces.marks import MARKS, Deprecation, check_schema, condition, wrong


class Declaration(str):
    """
    A virtual name that knows its interface

    It is what ``PkgInterface(__name__)`` returns, and calling it returns it again, so
    that ``__virtualname__`` may be either. As a string it is the virtual name; the
    loader reads the rest.

    ``interface`` is the interface's class, ``module`` the name of the declaring
    module, ``profile`` the name of the profile that it promises, or None.

    Whatever leaves the process is the plain string, as the other side may not have
    the interface.
    """

    def __new__(cls, interface, module, profile=None):
        self = super().__new__(cls, interface.__modulename__)
        self.interface = interface
        self.module = module
        self.profile = profile
        return self

    def __call__(self):
        return self

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return str, (str(self),)


def _mark(method, **marks):
    if not inspect.isfunction(method):
        raise wrong(
            f"{method!r} is not a method; decorate methods of an interface only."
        )
    vars(method).setdefault(MARKS, {}).update(marks)
    return method


class _InterfaceType(type):
    """
    The class of interface classes: collects functions, makes declarations
    """

    def __init__(cls, name, bases, namespace):
        super().__init__(name, bases, namespace)
        if not bases:
            return
        if not isinstance(getattr(cls, "__modulename__", None), str):
            raise wrong(
                f"Set __modulename__ in {name} to the virtual name that it describes."
            )
        aliases = namespace.get("__func_alias__", {})
        methods = dict(getattr(cls, "__methods__", {}))
        for attribute, value in namespace.items():
            if not attribute.startswith("_") and inspect.isfunction(value):
                methods[aliases.get(attribute, attribute)] = value
        cls.__methods__ = methods
        cls.__features__ = dict(getattr(cls, "__features__", {}))
        cls.__profiles__ = dict(getattr(cls, "__profiles__", {}))

    def __call__(cls, module, profile=None):
        if cls is Interface:
            raise wrong(
                "Declare a subclass of Interface; Interface itself describes nothing."
            )
        if profile is not None and profile not in cls.__profiles__:
            raise wrong(
                f"{cls.__name__} has no profile '{profile}'; use one of: "
                f"{', '.join(sorted(cls.__profiles__)) or 'none'}."
            )
        return Declaration(cls, module, profile)

    def __instancecheck__(cls, instance):
        return isinstance(instance, Declaration) and issubclass(instance.interface, cls)


def _known(interface, what, name, functions):
    unknown = [one for one in functions if one not in interface.__methods__]
    if unknown or not functions:
        raise wrong(
            f"The {what} '{name}' of {interface.__name__} must list functions of the "
            f"interface; it lists {', '.join(unknown) or 'none'}."
        )


class Interface(metaclass=_InterfaceType):
    """
    What a virtual module promises: its functions, their signatures, their results

    Subclass it, set ``__modulename__`` (the virtual name) and ``__version__``, and
    write each function as a method without a body but for ``return`` and the empty
    result. ``self`` is no part of the signature. A method without decorators is in
    the core tier: every module has it.

    If a function's name is a word that Python keeps to itself, write it with an
    underscore and name it in ``__func_alias__``, as in an execution module.
    """

    __modulename__ = None
    __version__ = "1.0"

    # Names only; see salt.interfaces.functions(), features() and profiles()
    __methods__ = {}
    __features__ = {}
    __profiles__ = {}

    @staticmethod
    def supported(**grains):
        """
        Only minions that match any of these grains must have the function

        Without it in the module, they get "not implemented" and others "not supported".

        :param grains: A grain's name to one value or a list of values
        """
        wanted = condition("supported", grains)
        return lambda method: _mark(method, supported=wanted)

    @staticmethod
    def not_applicable(**grains):
        """
        On minions that match any of these grains the function makes no sense

        Without it in the module, a call returns the declared structure, and a line is
        logged at the debug level.

        :param grains: A grain's name to one value or a list of values
        """
        wanted = condition("not_applicable", grains)
        return lambda method: _mark(method, not_applicable=wanted)

    @staticmethod
    def optional(method):
        """
        Put the function into the optional tier: a module may have it
        """
        return _mark(method, optional=True)

    @staticmethod
    def deprecated(until=None, successor=None):
        """
        Put the function into the deprecated tier: it works, and callers are warned

        :param str until: The release in which it goes, for example ``"3011"``
        :param str successor: What to call instead, for example ``"pkg.hold"``
        """
        if callable(until):
            return _mark(until, deprecation=Deprecation())
        return lambda method: _mark(method, deprecation=Deprecation(until, successor))

    @staticmethod
    def returns(schema):
        """
        Declare the least that the function returns on every platform

        :param schema: See :mod:`salt.interfaces.schema`
        """
        check_schema(schema)
        return lambda method: _mark(method, schema=schema)

    @staticmethod
    def feature(name, functions):
        """
        Decorate the class: a module has all of these functions, or none of them

        :param str name: The name of the feature
        :param list functions: The names of functions of the interface
        """

        def decorate(interface):
            _known(interface, "feature", name, functions)
            taken = {one for each in interface.__features__.values() for one in each}
            twice = [one for one in functions if one in taken]
            if twice:
                raise wrong(
                    f"{', '.join(twice)} of {interface.__name__} can be in one feature only."
                )
            interface.__features__[name] = list(functions)
            return interface

        return decorate

    @staticmethod
    def profile(name, functions):
        """
        Decorate the class: a module that declares this profile promises no more than these

        :param str name: The name of the profile; ``minimal`` is the one for proxies
        :param list functions: The names of functions of the interface
        """

        def decorate(interface):
            _known(interface, "profile", name, functions)
            interface.__profiles__[name] = list(functions)
            return interface

        return decorate


def functions(interface):
    """
    Return the functions of an interface, by name, in the order of the class

    :param interface: A subclass of :class:`Interface`
    :return: A dictionary of :class:`salt.interfaces.function.Function`
    :rtype: dict
    """
    # a module that only declares its interface needs no more than the marks
    from salt.interfaces.function import (  # pylint: disable=import-outside-toplevel
        Function,
    )

    # by the class itself, not by a parent of it
    if "__functions__" not in vars(interface):
        of_feature = {
            one: name for name, each in interface.__features__.items() for one in each
        }
        interface.__functions__ = {
            name: Function(name, method, of_feature.get(name))
            for name, method in interface.__methods__.items()
        }
    return interface.__functions__


def features(interface):
    """
    Return the features of an interface: names to lists of function names

    :rtype: dict
    """
    return interface.__features__


def profiles(interface):
    """
    Return the profiles of an interface: names to lists of function names

    :rtype: dict
    """
    return interface.__profiles__
