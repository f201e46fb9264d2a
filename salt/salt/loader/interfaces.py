"""
A loader of execution modules that knows their interfaces

It is used when :conf_minion:`smi` is not ``off``; otherwise this file is not even
imported. Nothing is put into modules or among the loader's keys, as Salt asks
``"pkg.hold" in __salt__`` to learn what a platform can do: tests, ``.get``, iteration
and attributes answer what they always did. Only ``loader["pkg.hold"]``, which is how
functions are called, finds what the interface says of a function that is not there.
As that is looked up at the moment of the call, functions that another file of the
same virtual name, an alias or ``providers`` brings in are never hidden.

.. versionadded:: 3009.0
"""

import logging

import salt.interfaces
import salt.interfaces.function
import salt.interfaces.marks
from salt.interfaces.schema import problems
from salt.loader.lazy import LazyLoader, LoadedCoro, LoadedFunc, LoadedMod

log = logging.getLogger(__name__)

OFF = "off"
REPORT = "report"
WARN = "warn"
ENFORCE = "enforce"
MODES = (OFF, REPORT, WARN, ENFORCE)

# What was warned about in this process: a warning with each of 100 calls helps nobody
_WARNED = set()

_NONE = object()


def mode(opts):
    """
    Return how interfaces are applied

    :param dict opts: The Salt options dictionary
    :return: One of :data:`MODES`; ``off`` if the option is none of them
    """
    given = opts.get("smi", OFF)
    # YAML reads a bare off as False
    if given is False or given is None:
        return OFF
    if given not in MODES:
        _once(
            logging.ERROR,
            ("smi", str(given)),
            "The option smi is '%s'; set it to one of %s. Interfaces are not applied.",
            given,
            ", ".join(MODES),
        )
        return OFF
    return given


def loader_class(opts):
    """
    Return the class of the loader for execution modules

    :param dict opts: The Salt options dictionary
    """
    return LazyLoader if mode(opts) == OFF else InterfaceLoader


def _once(level, key, message, *args):
    if key not in _WARNED:
        _WARNED.add(key)
        log.log(level, message, *args)


class StrictMod(LoadedMod):
    """
    What ``loader.pkg`` is: its attributes are the functions that are there
    """

    __slots__ = ()

    def __getattr__(self, name):
        key = f"{self.mod}.{name}"
        if key not in self.loader:
            raise AttributeError(self.loader.missing_fun_string(key))
        return self.loader[key]


class WatchedFunc(LoadedFunc):
    """
    A function that is deprecated, or whose return is looked at
    """

    def __init__(self, name, loader, watch):
        super().__init__(name, loader)
        self.watch = watch

    def __call__(self, *args, **kwargs):
        self.watch.before()
        ret = super().__call__(*args, **kwargs)
        self.watch.after(ret)
        return ret


class Watch:
    """
    What to say before a call of a function, and what to look at after it

    :param str name: The function with its module, for example ``pkg.install``
    :param interface: The interface of the module
    :param function: The :class:`salt.interfaces.function.Function`, or None if it has none
    :param bool enforce: Whether a wrong return is an error
    """

    def __init__(self, name, interface, function, enforce):
        self.name = name
        self.interface = interface
        self.enforce = enforce
        self.schema = salt.interfaces.function.NoSchema
        self.deprecation = salt.interfaces.marks.Deprecation()
        if function is not None:
            self.schema = function.schema
            self.deprecation = function.deprecation

    @property
    def _names(self):
        # a module that is loaded anew brings a new class of its own interface
        return self.interface.__name__, self.interface.__version__, self.name

    @property
    def needed(self):
        """
        Whether there is anything to say or to look at
        """
        return (
            self.deprecation is not None
            or self.schema is not salt.interfaces.function.NoSchema
        )

    def before(self):
        """
        Warn once that the function is deprecated
        """
        if self.deprecation is not None:
            _once(
                logging.WARNING,
                (*self._names, "deprecated"),
                "The function '%s' is %s.",
                self.name,
                self.deprecation,
            )

    def after(self, ret):
        """
        Warn once, or raise, if the function returned what it must not

        :raises ReturnStructureError: In mode enforce
        """
        if self.schema is salt.interfaces.function.NoSchema:
            return
        found = problems(self.schema, ret)
        if not found:
            return
        message = (
            f"'{self.name}' was called and returned another structure than the interface "
            f"{self.interface.__name__} {self.interface.__version__} declares: "
            f"{'; '.join(found)}."
        )
        if self.enforce:
            raise salt.interfaces.ReturnStructureError(message)
        _once(logging.WARNING, (*self._names, "returns"), "%s", message)


class InterfaceLoader(LazyLoader):
    """
    A LazyLoader whose missing functions answer as their interface says
    """

    def __init__(self, *args, **kwargs):
        self._interfaces = {}
        self._watches = {}
        super().__init__(*args, **kwargs)
        self._smi = mode(self.opts)

    def clear(self):
        """
        Clear the dict, and forget what modules declared
        """
        with self._lock:
            super().clear()
            self._interfaces = {}
            self._watches = {}

    def _process_virtual(self, mod, module_name, virtual_func="__virtual__"):
        ret = super()._process_virtual(mod, module_name, virtual_func)
        declared = getattr(mod, "__virtualname__", None)
        if ret[0] and isinstance(declared, salt.interfaces.Interface):
            self._interfaces[str(declared)] = declared.interface
        return ret

    def _interface_of(self, mod_name):
        """
        Return the interface of a virtual name, or None if it has none

        It is what a loaded module declares, or else what Salt has of this name.

        :param str mod_name: For example ``pkg``
        """
        try:
            return self._interfaces[mod_name]
        except KeyError:
            pass
        try:
            found = salt.interfaces.get(mod_name)
        except Exception:  # pylint: disable=broad-except
            log.error("The interface of '%s' is broken", mod_name, exc_info=True)
            found = None
        self._interfaces[mod_name] = found
        return found

    def _providers_of(self, mod_name):
        """
        Return the names of the files whose functions a virtual name has so far, sorted

        :param str mod_name: For example ``pkg``
        :rtype: list
        """
        prefix = f"{mod_name}."
        return sorted(
            {
                func.__module__.rpartition(".")[2]
                for name, func in list(self._dict.items())
                if name.startswith(prefix)
            }
        )

    def _absent(self, key):
        """
        Return interface and function of what a loaded module lacks, or None
        """
        if not isinstance(key, str) or key in self._dict:
            return None
        mod_name, _, name = key.partition(".")
        providers = self._providers_of(mod_name) if name else None
        # without any module, why there is none says more than an interface can
        if not providers:
            return None
        interface = self._interface_of(mod_name)
        if interface is None:
            return None
        function = salt.interfaces.functions(interface).get(name)
        if function is None:
            return None
        return interface, function, providers

    def _answer(self, key, interface, function, providers):
        """
        Return what is the matter with an absent function, and a sentence about it
        """
        absent = function.absent(self.pack["__grains__"])
        where = (
            "platform"
            if absent != salt.interfaces.function.NOT_IMPLEMENTED
            else "minion"
        )
        return absent, (
            f"'{key}' of the interface {interface.__name__} {interface.__version__} is "
            f"{absent} by {', '.join(providers)}, which is '{interface.__modulename__}' "
            f"on this {where}."
        )

    def missing_fun_string(self, function_name):
        """
        Return the error string for a missing function
        """
        found = self._absent(function_name)
        if found is None:
            return super().missing_fun_string(function_name)
        return self._answer(function_name, *found)[1]

    def _smi_stub(self, key):
        """
        Return what a call of a missing function of an interface runs, or None

        :param str key: For example ``pkg.hold``
        """
        found = self._absent(key)
        if found is None:
            return None
        function = found[1]

        def answer(*args, **kwargs):
            # grains may have changed since the function was looked up
            absent, message = self._answer(key, *found)
            if absent == salt.interfaces.function.NOT_APPLICABLE:
                log.debug("%s Its declared structure is returned.", message)
                return function.default()
            if absent == salt.interfaces.function.NOT_SUPPORTED:
                raise salt.interfaces.FunctionNotSupportedError(message)
            raise salt.interfaces.FunctionNotImplementedError(message)

        answer.__name__ = function.name
        answer.__doc__ = function.doc
        return answer

    def _watch(self, key):
        """
        Return the Watch of a function that is there, or None if it needs none
        """
        try:
            return self._watches[key]
        except KeyError:
            pass
        mod_name, _, name = key.partition(".")
        interface = self._interface_of(mod_name)
        watch = None
        if interface is not None:
            function = salt.interfaces.functions(interface).get(name)
            watch = Watch(key, interface, function, self._smi == ENFORCE)
            if not watch.needed:
                watch = None
        self._watches[key] = watch
        return watch

    def __getitem__(self, item):
        try:
            func = super().__getitem__(item)
        except KeyError:
            stub = self._smi_stub(item)
            if stub is None:
                raise
            return stub
        if self._smi != REPORT and not isinstance(func, LoadedCoro):
            watch = self._watch(item)
            if watch is not None:
                return WatchedFunc(item, self, watch)
        return func

    # MutableMapping's own would ask __getitem__, which has more answers

    def __contains__(self, key):
        try:
            LazyLoader.__getitem__(self, key)
        except KeyError:
            return False
        return True

    def get(self, key, default=None):
        """
        Return the function, or the default if it is not there
        """
        return self[key] if key in self else default

    def setdefault(self, key, default=None):
        """
        Return the function, and set it first if it is not there
        """
        if key in self:
            return self[key]
        self[key] = default
        return default

    def pop(self, key, default=_NONE):
        """
        Remove the function and return it, or the default if it is not there
        """
        if key not in self:
            if default is not _NONE:
                return default
            raise KeyError(key)
        func = self[key]
        del self[key]
        return func

    def __getattr__(self, mod_name):
        found = super().__getattr__(mod_name)
        return StrictMod(mod_name, self) if isinstance(found, LoadedMod) else found
