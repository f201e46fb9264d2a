"""
The matrix of modules and functions, for all interfaces of a source tree

It is plain data, ready for JSON. ``format`` is the version of its structure: it grows
by one when a key is taken away or changes its meaning, and not when one is added.

.. versionadded:: 3009.0
"""

import salt.interfaces
import salt.interfaces.conformance
import salt.interfaces.function
import salt.interfaces.schema
import salt.interfaces.verdict
from salt.interfaces.report.known import Known
from salt.interfaces.report.platforms import grains_of
from salt.interfaces.report.providers import providers, root_of_salt

FORMAT = 1
KNOWN = "known"


def matrix(root=None, virtualnames=None, known=None):
    """
    Compare all modules of a source tree with their interfaces

    :param root: The folder that holds the package ``salt``; that of the Salt that runs
        by default
    :param virtualnames: The virtual names; all that have an interface by default
    :param known: The :class:`~salt.interfaces.report.known.Known` differences
    :return: ``format``, ``interfaces`` and ``summary``
    :rtype: dict
    """
    known = Known() if known is None else known
    names = sorted(virtualnames or salt.interfaces.names())
    found = providers(root or root_of_salt(), names)
    interfaces = {}
    for name in names:
        interface = salt.interfaces.get(name)
        if interface is None:
            raise salt.interfaces.InterfaceError(
                f"There is no interface '{name}'; use one of: "
                f"{', '.join(salt.interfaces.names())}."
            )
        interfaces[name] = {
            "version": interface.__version__,
            "doc": _sentences(interface.__doc__ or ""),
            "profiles": salt.interfaces.profiles(interface),
            "functions": {
                function.name: _function(function)
                for function in salt.interfaces.functions(interface).values()
            },
            "modules": {
                provider.name: _module(interface, provider, known)
                for provider in found.get(name, ())
            },
        }
    return {
        "format": FORMAT,
        "interfaces": interfaces,
        "summary": _summary(interfaces),
        "unused": known.unused(names),
    }


def _sentences(doc):
    """
    Put the paragraphs of a docstring into one line.
    """
    paragraphs = [" ".join(paragraph.split()) for paragraph in doc.split("\n\n")]
    return "".join(f"{paragraph.rstrip('.')}. " for paragraph in paragraphs).rstrip()


def _function(function):
    """
    Describe a function of an interface.
    """
    described = {
        "tier": function.tier,
        "feature": function.feature,
        "signature": str(function.signature),
        "doc": function.doc,
        "supported": function.supported,
        "not_applicable": function.not_applicable,
        "deprecated": None,
        "returns": None,
    }
    if function.deprecation is not None:
        described["deprecated"] = str(function.deprecation)
    if function.schema is not salt.interfaces.function.NoSchema:
        described["returns"] = salt.interfaces.schema.describe(function.schema)
    return described


def _module(interface, provider, known):
    """
    Describe a module beside its interface.
    """
    grains = grains_of(provider.name)
    signatures = provider.signatures
    profile = provider.profile
    if profile not in salt.interfaces.profiles(interface):
        profile = None
    findings = salt.interfaces.conformance.check(interface, signatures, grains, profile)
    words = salt.interfaces.verdict.verdicts(interface, signatures, findings, grains)
    functions = {
        name: {
            "is": word,
            "signature": str(signatures[name]) if name in signatures else None,
            "findings": [],
        }
        for name, word in words.items()
    }
    for finding in findings:
        reason = None
        if finding.level == salt.interfaces.conformance.ERROR:
            reason = known.reason(interface.__modulename__, provider.name, finding)
        functions[finding.function]["findings"].append(
            {
                "code": finding.code,
                "level": finding.level,
                "parameter": finding.parameter,
                "message": finding.message,
                "known": reason,
            }
        )
    return {
        "files": [source.path.name for source in provider.sources],
        "profile": profile,
        "declares": provider.sources[0].interface,
        "grains": grains,
        "verdict": salt.interfaces.verdict.overall(words.values()),
        "functions": functions,
    }


def unknown(data):
    """
    List the errors of a matrix that are not known, as sentences

    :param dict data: What :func:`matrix` returned
    :rtype: list
    """
    return [
        f"{virtualname}: {module}.{function}: {finding['code']}"
        f"{' ' + finding['parameter'] if finding['parameter'] else ''}: "
        f"{finding['message']}"
        for virtualname, interface in data["interfaces"].items()
        for module, described in interface["modules"].items()
        for function, cell in described["functions"].items()
        for finding in cell["findings"]
        if finding["level"] == salt.interfaces.conformance.ERROR
        and finding["known"] is None
    ]


def _summary(interfaces):
    """
    Count.
    """
    modules = [
        module
        for interface in interfaces.values()
        for module in interface["modules"].values()
    ]
    cells = [cell for module in modules for cell in module["functions"].values()]
    findings = [finding for cell in cells for finding in cell["findings"]]
    errors = [finding for finding in findings if finding["level"] == "error"]

    def count(items):
        counted = {}
        for item in items:
            counted[item] = counted.get(item, 0) + 1
        return dict(sorted(counted.items()))

    return {
        "interfaces": len(interfaces),
        "functions": sum(len(one["functions"]) for one in interfaces.values()),
        "modules": count(module["verdict"] for module in modules),
        "cells": count(cell["is"] for cell in cells),
        "errors": count(finding["code"] for finding in errors),
        "known": sum(finding["known"] is not None for finding in errors),
    }
