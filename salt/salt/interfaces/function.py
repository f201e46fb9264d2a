"""
One function of an interface

.. versionadded:: 3009.0
"""

import functools
import inspect

from salt.interfaces.conditions import matches
from salt.interfaces.marks import MARKS
from salt.interfaces.schema import empty

# The tiers of functions
CORE = "core"  # every module has it
OPTIONAL = "optional"  # a module may have it
FEATURE = "feature"  # a module has all functions of the feature, or none
DEPRECATED = "deprecated"  # a module may still have it, and callers are warned
TIERS = (CORE, FEATURE, OPTIONAL, DEPRECATED)

# What a function is that the module lacks
NOT_IMPLEMENTED = "not implemented"
NOT_SUPPORTED = "not supported"
NOT_APPLICABLE = "not applicable"


class NoSchema:
    """
    The schema of a function that declares none: anything goes
    """


class Function:
    """
    A function as its interface declares it

    The attributes are ``name``, ``tier`` (one of :data:`TIERS`), ``feature`` (the
    feature's name or None), ``method`` (the method as written in the class),
    ``supported`` and ``not_applicable`` (conditions or None), ``deprecation`` (a
    :class:`~salt.interfaces.marks.Deprecation` or None), ``schema`` (see
    :mod:`salt.interfaces.schema`, or :class:`NoSchema`), ``doc`` and ``signature``.
    """

    def __init__(self, name, method, feature=None):
        marks = getattr(method, MARKS, {})
        self.name = name
        self.method = method
        self.feature = feature
        self.supported = marks.get("supported")
        self.not_applicable = marks.get("not_applicable")
        self.deprecation = marks.get("deprecation")
        self.schema = marks.get("schema", NoSchema)
        if self.deprecation is not None:
            self.tier = DEPRECATED
        elif feature is not None:
            self.tier = FEATURE
        elif marks.get("optional"):
            self.tier = OPTIONAL
        else:
            self.tier = CORE

    def __repr__(self):
        return f"<Function {self.name}{self.signature} {self.tier}>"

    @property
    def doc(self):
        """
        The docstring, without its indentation
        """
        return inspect.getdoc(self.method) or ""

    @functools.cached_property
    def signature(self):
        """
        The :class:`inspect.Signature` that a module's function must have, without ``self``
        """
        signature = inspect.signature(self.method)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    def absent(self, grains):
        """
        Say what the function is on a minion whose module lacks it

        :param dict grains: The grains of the minion, at the moment of the call
        :return: :data:`NOT_APPLICABLE`, :data:`NOT_SUPPORTED` or :data:`NOT_IMPLEMENTED`
        """
        if self.not_applicable is not None and matches(self.not_applicable, grains):
            return NOT_APPLICABLE
        if self.supported is not None and not matches(self.supported, grains):
            return NOT_SUPPORTED
        return NOT_IMPLEMENTED

    def default(self):
        """
        Return the declared structure: what the method returns, or else its schema's

        :return: A new object with each call
        """
        required = [
            parameter
            for parameter in self.signature.parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        value = self.method(
            None,
            *[None for one in required if one.kind is not one.KEYWORD_ONLY],
            **{one.name: None for one in required if one.kind is one.KEYWORD_ONLY},
        )
        if value is None and self.schema is not NoSchema:
            return empty(self.schema)
        return value
