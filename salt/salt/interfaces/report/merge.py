"""
Find the signature that all providers of a function accept

.. versionadded:: 3009.0
"""

import collections

from salt.interfaces.conformance import ERROR, compare
from salt.interfaces.signature import Parameter, Signature

Merged = collections.namedtuple("Merged", ("signature", "dropped", "conflicts"))
Merged.__doc__ = """
What providers have in common.

signature
    The signature of the interface.

dropped
    Sentences on parameters that some providers have and that can't be promised.

conflicts
    Pairs of a provider's name and a
    :py:class:`~salt.interfaces.conformance.Finding`: where no signature suits all.
"""


def merge(name, signatures):
    """
    Merge the signatures of one function

    A parameter is in the result if every provider takes it, by its name or in
    ``**kwargs``, if half of them name it, and if all that name it agree on its
    default. Where they agree on names and not on their order, the interface promises
    names only.

    :param str name: The name of the function
    :param dict signatures: The names of providers to signatures
    :rtype: Merged
    """
    order = []
    for signature in signatures.values():
        place = 0
        for parameter in signature.named:
            if parameter.name in order:
                place = order.index(parameter.name) + 1
            else:
                order.insert(place, parameter.name)
                place += 1
    dropped = []
    kept = []
    for parameter in order:
        merged, reason = _parameter(parameter, signatures)
        if merged:
            kept.append(merged)
        elif reason:
            dropped.append(f"{parameter}, {reason}")
    _keep_demanded(order, kept, signatures)
    signature = _assemble(kept, signatures)
    conflicts = [
        (provider, finding)
        for provider, given in signatures.items()
        for finding in compare(name, signature, given)
        if finding.level == ERROR
    ]
    return Merged(signature, tuple(dropped), tuple(conflicts))


def _parameter(name, signatures):
    """
    Merge one parameter; give it, or None and why it can't be promised.
    """
    own = {}
    for provider, signature in signatures.items():
        for parameter in signature.named:
            if parameter.name == name:
                own[provider] = parameter
    without = [
        provider
        for provider, signature in signatures.items()
        if provider not in own and not signature.kwargs
    ]
    if len(own) * 2 < len(signatures):
        # what few have is theirs, and nothing to be sorry for
        return None, ""
    if without:
        return None, f"which {', '.join(sorted(without))} does not take"
    defaults = {parameter.default for parameter in own.values()}
    by_default = defaults - {None}
    if None in defaults:
        default = None
    elif len(by_default) == 1:
        default = by_default.pop()
    else:
        return None, f"which is {' or '.join(sorted(by_default))} by default"
    kind = "both"
    if any(parameter.kind == "name" for parameter in own.values()):
        kind = "name"
    return Parameter(name, kind, default), ""


def _keep_demanded(order, kept, signatures):
    """
    Keep one name of a parameter that all demand at the same place and call differently:
    the name that most of them use.
    """
    names = {parameter.name for parameter in kept}
    places = {}
    for signature in signatures.values():
        for place, parameter in enumerate(signature.named):
            if parameter.default is None:
                places.setdefault(place, collections.Counter())[parameter.name] += 1
    for counted in places.values():
        name, count = counted.most_common(1)[0]
        often = count * 2 > len(signatures) and name not in names
        if often or names.isdisjoint(counted):
            kept.append(Parameter(name, "both", None))
            names.add(name)
    kept.sort(key=lambda parameter: order.index(parameter.name))


def _assemble(kept, signatures):
    """
    Put parameters in an order that every provider has; the rest go by name only.
    """
    everywhere = signatures.values()
    args = all(signature.args for signature in everywhere)
    kwargs = all(signature.kwargs for signature in everywhere)
    positional = []
    for parameter in kept:
        trial = [*positional, parameter]
        if parameter.kind == "both" and _orderly(trial, everywhere):
            positional = trial
    by_name = [
        parameter._replace(kind="name")
        for parameter in kept
        if parameter not in positional
    ]
    parameters = [*positional]
    if args:
        named = [signature.parameters for signature in everywhere if signature.args]
        name = next(part.name for part in named[0] if part.kind == "args")
        parameters.append(Parameter(name, "args", None))
    parameters += by_name
    if kwargs:
        taken = any(parameter.name == "kwargs" for parameter in parameters)
        parameters.append(Parameter("more" if taken else "kwargs", "kwargs", None))
    return Signature(parameters)


def _orderly(parameters, signatures):
    """
    Whether all providers take the parameters in this order, and Python allows it.
    """
    optional = [parameter.default is not None for parameter in parameters]
    if optional != sorted(optional):
        return False
    names = [parameter.name for parameter in parameters]
    for signature in signatures:
        own = [
            parameter.name
            for parameter in signature.named
            if parameter.kind != "name" and parameter.name in names
        ]
        if own != [name for name in names if name in own]:
            return False
    return True
