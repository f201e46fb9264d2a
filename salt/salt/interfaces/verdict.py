"""
What each function of an interface is in a module, in one word

============================  =====================================================
``conforms``                  it is there, as promised
``tolerated``                 callers that use names notice nothing
``differs``                   it is there, and some calls fail or do something else
``deprecated``                it is there, and on its way out
``missing``                   the module must have it and does not
``absent``                    the module need not have it and does not
``not supported``             it is not there, and not for this platform
``not applicable``            it is not there, and makes no sense on this platform
``alien``                     it is there, and the interface knows nothing of it
============================  =====================================================

.. versionadded:: 3009.0
"""

import salt.interfaces
import salt.interfaces.conformance
import salt.interfaces.function

CONFORMS = "conforms"
TOLERATED = "tolerated"
DIFFERS = "differs"
DEPRECATED = "deprecated"
MISSING = "missing"
ABSENT = "absent"
NOT_SUPPORTED = "not supported"
NOT_APPLICABLE = "not applicable"
ALIEN = "alien"

# The worst first
ORDER = (
    MISSING,
    DIFFERS,
    ALIEN,
    DEPRECATED,
    TOLERATED,
    CONFORMS,
    ABSENT,
    NOT_SUPPORTED,
    NOT_APPLICABLE,
)

_ABSENT = {
    salt.interfaces.function.NOT_APPLICABLE: NOT_APPLICABLE,
    salt.interfaces.function.NOT_SUPPORTED: NOT_SUPPORTED,
    salt.interfaces.function.NOT_IMPLEMENTED: ABSENT,
}


def verdicts(interface, provided, findings, grains=None):
    """
    Give the word for each function

    :param interface: A subclass of :class:`salt.interfaces.Interface`
    :param provided: The names of the functions that the module has
    :param list findings: What :func:`salt.interfaces.conformance.check` found
    :param dict grains: The grains of the platform
    :return: The names of functions, those of the interface first, to words
    :rtype: dict
    """
    by_function = {}
    for finding in findings:
        by_function.setdefault(finding.function, []).append(finding)
    given = {}
    for name, function in salt.interfaces.functions(interface).items():
        own = by_function.get(name, ())
        if name not in provided:
            if own:
                given[name] = MISSING
            else:
                given[name] = _ABSENT[function.absent(grains or {})]
        else:
            given[name] = _present(own)
    for name in provided:
        if name not in given:
            given[name] = ALIEN
    return given


def _present(findings):
    """
    Give the word for a function that is there.
    """
    levels = {finding.level for finding in findings}
    if salt.interfaces.conformance.ERROR in levels:
        return DIFFERS
    if any(finding.code == "deprecated-function" for finding in findings):
        return DEPRECATED
    if salt.interfaces.conformance.TOLERATED in levels:
        return TOLERATED
    return CONFORMS


def overall(words):
    """
    Give one word for a module: ``differs``, ``tolerated`` or ``conforms``

    :param words: The words of its functions
    """
    words = set(words)
    if words & {MISSING, DIFFERS}:
        return DIFFERS
    if words & {TOLERATED, ALIEN, DEPRECATED}:
        return TOLERATED
    return CONFORMS
