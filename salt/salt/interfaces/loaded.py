"""
How the module that a minion has loaded keeps its interface

.. versionadded:: 3009.0
"""

import inspect
import sys

import salt.interfaces
import salt.interfaces.conformance
import salt.interfaces.signature
import salt.interfaces.verdict
from salt.interfaces.errors import InterfaceError


def describe(virtualname, functions, grains):
    """
    Compare a loaded module with its interface

    :param str virtualname: For example ``pkg``, or the name of a module which
        declares an interface of its own
    :param functions: The loader of execution modules, or a dictionary like it
    :param dict grains: The grains of the minion
    :return: ``interface``, ``version``, ``modules`` (the files that provide it),
        ``profile``, ``verdict``, ``functions`` (names to one word each, see
        :mod:`salt.interfaces.verdict`) and ``findings`` (see
        :mod:`salt.interfaces.conformance`)
    :rtype: dict
    :raises InterfaceError: The virtual name has no interface
    """
    prefix = f"{virtualname}."
    loaded = {
        key[len(prefix) :]: functions[key]
        for key in functions
        if key.startswith(prefix)
    }
    modules = sorted({inspect.unwrap(one).__module__ for one in loaded.values()})
    declared = _declared(modules, virtualname)
    interface = declared.interface if declared else salt.interfaces.get(virtualname)
    if interface is None:
        raise InterfaceError(
            f"There is no interface '{virtualname}'; use one of: "
            f"{', '.join(salt.interfaces.names())}, or a module that declares its own."
        )
    profile = declared.profile if declared else None
    signatures = {
        name: salt.interfaces.signature.of_function(function)
        for name, function in loaded.items()
    }
    findings = salt.interfaces.conformance.check(interface, signatures, grains, profile)
    words = salt.interfaces.verdict.verdicts(interface, loaded, findings, grains)
    return {
        "interface": interface.__modulename__,
        "version": interface.__version__,
        "modules": [name.rsplit(".", 1)[-1] for name in modules],
        "profile": profile,
        "verdict": salt.interfaces.verdict.overall(words.values()),
        "functions": words,
        "findings": [
            {**finding._asdict(), "level": finding.level} for finding in findings
        ],
    }


def summary(functions, grains):
    """
    Give one word for each virtual name that has an interface

    :return: Virtual names to ``conforms``, ``tolerated``, ``differs`` or ``not loaded``
    :rtype: dict
    """
    found = {}
    for name in salt.interfaces.names():
        described = describe(name, functions, grains)
        found[name] = described["verdict"] if described["modules"] else "not loaded"
    return found


def _declared(modules, virtualname):
    """
    Give what the modules declare as the interface of their virtual name, or None.
    """
    for name in modules:
        declared = getattr(sys.modules.get(name), "__virtualname__", None)
        if declared == virtualname and isinstance(declared, salt.interfaces.Interface):
            return declared
    return None
