"""
Compare what a module provides with what its interface promises

All differences are found at once, and each has a code of its own, so that a known
one can be named in a file and a new one is noticed:

===========================  =========  ===============================================
code                         level      the module
===========================  =========  ===============================================
``missing-function``         error      lacks a function that every module has
``renamed-function``         error      has the function under another name
``incomplete-feature``       error      has a part of a feature's functions
``asynchronous-function``    error      gives a coroutine instead of the answer
``missing-parameter``        error      does not take a parameter
``renamed-parameter``        error      takes it under another name
``reordered-parameters``     error      takes the parameters in another order
``changed-default``          error      has another default
``required-parameter``       error      demands a parameter that may be left out
``extra-parameter``          error      demands a parameter that nobody knows of
``positional-parameter``     error      takes a parameter by position only
``keyword-parameter``        error      takes a parameter by name only
``only-args``                error      takes it somewhere in ``*args``
``missing-args``             error      does not take any number of values
``missing-kwargs``           error      does not take further names
``only-kwargs``              tolerated  takes it somewhere in ``**kwargs``
``optional-parameter``       tolerated  has a default where none is promised
``shifted-parameters``       tolerated  has parameters of its own in between
``deprecated-function``      note       still has a function that is deprecated
``alien-function``           note       has a function that is not in the interface
===========================  =========  ===============================================

.. versionadded:: 3009.0
"""

import collections

import salt.interfaces
import salt.interfaces.function
import salt.interfaces.signature

ERROR = "error"
TOLERATED = "tolerated"
NOTE = "note"

RENAMED = "renamed-function"

LEVELS = {
    "missing-function": ERROR,
    RENAMED: ERROR,
    "incomplete-feature": ERROR,
    "asynchronous-function": ERROR,
    "missing-parameter": ERROR,
    "renamed-parameter": ERROR,
    "reordered-parameters": ERROR,
    "changed-default": ERROR,
    "required-parameter": ERROR,
    "extra-parameter": ERROR,
    "positional-parameter": ERROR,
    "keyword-parameter": ERROR,
    "only-args": ERROR,
    "missing-args": ERROR,
    "missing-kwargs": ERROR,
    "only-kwargs": TOLERATED,
    "optional-parameter": TOLERATED,
    "shifted-parameters": TOLERATED,
    "deprecated-function": NOTE,
    "alien-function": NOTE,
}


class Finding(
    collections.namedtuple("Finding", ("code", "function", "parameter", "message"))
):
    """
    One difference between a module and its interface.

    ``code`` is one of the table above, ``function`` the name of the function,
    ``parameter`` the name of the parameter or an empty string, ``message`` a sentence
    for people.
    """

    __slots__ = ()

    @property
    def level(self):
        """
        How bad it is: ``error``, ``tolerated`` or ``note``
        """
        return LEVELS[self.code]


def check(interface, provided, grains=None, profile=None):
    """
    Find all differences

    :param interface: A subclass of :class:`salt.interfaces.Interface`
    :param dict provided: The signatures of the module's functions, by their names; see
        :mod:`salt.interfaces.signature`
    :param dict grains: The grains of the platform. Without them, a function that only
        some platforms must have is demanded of all
    :param str profile: The profile that the module promises, None for all functions
    :return: The findings, in the order of the interface
    :rtype: list
    """
    functions = salt.interfaces.functions(interface)
    aliens = [name for name in provided if name not in functions]
    demanded = demands(interface, provided, grains, profile)
    found = []
    for name, function in functions.items():
        if name in provided:
            if function.deprecation is not None:
                found.append(
                    Finding(
                        "deprecated-function", name, "", f"is {function.deprecation}"
                    )
                )
            wanted = salt.interfaces.signature.of_inspected(function.signature)
            found.extend(compare(name, wanted, provided[name]))
        elif name in demanded:
            found.append(_absent(function, demanded[name], aliens, provided))
    renamed = {finding.parameter for finding in found if finding.code == RENAMED}
    for name in aliens:
        if name not in renamed:
            found.append(Finding("alien-function", name, "", "is not in the interface"))
    return found


def demands(interface, provided, grains=None, profile=None):
    """
    Say which functions a module must have

    :return: A dictionary of their names to the name of the feature that asks for
        them, or to None
    :rtype: dict
    """
    functions = salt.interfaces.functions(interface)
    if profile is not None:
        return dict.fromkeys(salt.interfaces.profiles(interface)[profile])
    demanded = {}
    for name, function in functions.items():
        if function.tier == salt.interfaces.function.CORE and (
            grains is None
            or function.absent(grains) == salt.interfaces.function.NOT_IMPLEMENTED
        ):
            demanded[name] = None
    for feature, names in salt.interfaces.features(interface).items():
        if any(name in provided for name in names):
            demanded.update(dict.fromkeys(names, feature))
    return demanded


def _absent(function, feature, aliens, provided):
    """
    Describe a function that is not there.
    """
    name = function.name
    wanted = salt.interfaces.signature.of_inspected(function.signature)
    for alien in aliens:
        if wanted.parameters and provided[alien] == wanted:
            return Finding(RENAMED, name, alien, f"is called {alien} here")
    if feature is not None:
        return Finding(
            "incomplete-feature",
            name,
            "",
            f"is not implemented, and the feature '{feature}' needs it",
        )
    return Finding("missing-function", name, "", "is not implemented")


def compare(name, wanted, given):
    """
    Compare two signatures

    :param str name: The name of the function
    :param wanted: The :class:`~salt.interfaces.signature.Signature` of the interface
    :param given: The one of the module
    :return: The findings
    :rtype: list
    """
    found = []

    def add(code, parameter, message):
        found.append(Finding(code, name, parameter, message))

    if given.asynchronous and not wanted.asynchronous:
        add("asynchronous-function", "", "is asynchronous")
    promised = {parameter.name: parameter for parameter in wanted.named}
    taken = {parameter.name: parameter for parameter in given.named}
    renamed = _renamed(wanted, given, promised, taken)
    for parameter in wanted.named:
        own = taken.get(parameter.name)
        if own is not None:
            _compare_parameter(parameter, own, add)
        elif parameter.name in renamed:
            other = renamed[parameter.name]
            add("renamed-parameter", parameter.name, f"is called '{other}' here")
        elif given.kwargs:
            add("only-kwargs", parameter.name, "is somewhere in **kwargs")
        elif given.args:
            add("only-args", parameter.name, "is somewhere in *args")
        else:
            add("missing-parameter", parameter.name, "is not taken")
    for parameter in given.named:
        if (
            parameter.name not in promised
            and parameter.default is None
            and parameter.name not in renamed.values()
        ):
            add("extra-parameter", parameter.name, "is demanded")
    _compare_order(promised, taken, renamed, add)
    if wanted.args and not given.args:
        add("missing-args", "", "takes no further values")
    if wanted.kwargs and not given.kwargs:
        add("missing-kwargs", "", "takes no further names")
    return found


def _renamed(wanted, given, promised, taken):
    """
    Pair the parameters that stand at the same place under different names.
    """
    pairs = {}
    for parameter, own in zip(wanted.named, given.named):
        if parameter.name in taken or own.name in promised:
            continue
        # a name of its own with a default, beside **kwargs, is an extra parameter
        if own.default is None or not given.kwargs:
            if (own.default is None) == (parameter.default is None):
                pairs[parameter.name] = own.name
    return pairs


def _compare_parameter(promised, own, add):
    """
    Compare a parameter that both have.
    """
    if promised.kind != "position" and own.kind == "position":
        add("positional-parameter", own.name, "is taken by position only")
    if promised.kind != "name" and own.kind == "name":
        add("keyword-parameter", own.name, "is taken by name only")
    if promised.default is None:
        if own.default is not None:
            add("optional-parameter", own.name, f"is {own.default} by default")
    elif own.default is None:
        add("required-parameter", own.name, "is demanded")
    elif promised.default != own.default:
        message = f"is {own.default} by default, not {promised.default}"
        add("changed-default", own.name, message)


def _compare_order(promised, taken, renamed, add):
    """
    Compare the order of the parameters that both take by position.
    """
    wanted = [
        name
        for name, parameter in promised.items()
        if name in taken and parameter.kind != "name" and taken[name].kind != "name"
    ]
    given = [name for name in taken if name in wanted]
    if wanted != given:
        order = ", ".join(given)
        add("reordered-parameters", "", f"takes its parameters as {order}")
        return
    if not wanted:
        return
    before = list(taken)[: list(taken).index(wanted[-1])]
    own = [
        name for name in before if name not in promised and name not in renamed.values()
    ]
    if own and all(taken[name].default is not None for name in own):
        names = ", ".join(own)
        add("shifted-parameters", "", f"has {names} before {wanted[-1]}")
