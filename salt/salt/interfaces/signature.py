"""
What callers see of a function: its parameters, their order and their defaults

A signature comes from a function object (on a minion) or from a syntax tree
(offline), and both ways give the same, so that what is reported about the whole
source tree holds for the module that a minion has loaded.

.. versionadded:: 3009.0
"""

import ast
import collections
import inspect

Parameter = collections.namedtuple("Parameter", ("name", "kind", "default"))
Parameter.__doc__ = """
One parameter.

name
    Its name, as a string.

kind
    One of ``both``, ``position``, ``name``, ``args`` and ``kwargs``: how it is
    passed. ``both`` is by position or by name.

default
    The source text of its default, ``None`` if it has none.
"""

KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "both",
    inspect.Parameter.POSITIONAL_ONLY: "position",
    inspect.Parameter.KEYWORD_ONLY: "name",
    inspect.Parameter.VAR_POSITIONAL: "args",
    inspect.Parameter.VAR_KEYWORD: "kwargs",
}


class Signature:
    """
    The parameters of one function.

    parameters
        An iterable of :py:class:`Parameter`.

    asynchronous
        Whether a call gives a coroutine or a generator instead of the answer.
    """

    __slots__ = ("asynchronous", "parameters")

    def __init__(self, parameters, asynchronous=False):
        self.parameters = tuple(parameters)
        self.asynchronous = asynchronous

    def __eq__(self, other):
        if not isinstance(other, Signature):
            return NotImplemented
        return (self.parameters, self.asynchronous) == (
            other.parameters,
            other.asynchronous,
        )

    def __hash__(self):
        return hash((self.parameters, self.asynchronous))

    def __repr__(self):
        return f"Signature{self}"

    def __str__(self):
        parts = []
        by_name_only = False
        kinds = [parameter.kind for parameter in self.parameters]
        for place, parameter in enumerate(self.parameters):
            if parameter.kind == "args":
                by_name_only = True
            elif parameter.kind == "name" and not by_name_only:
                parts.append("*")
                by_name_only = True
            star = {"args": "*", "kwargs": "**"}.get(parameter.kind, "")
            default = "" if parameter.default is None else f"={parameter.default}"
            parts.append(f"{star}{parameter.name}{default}")
            if parameter.kind == "position" and "position" not in kinds[place + 1 :]:
                parts.append("/")
        return f"({', '.join(parts)})"

    @property
    def named(self):
        """
        The parameters that have a name of their own, in order.
        """
        return tuple(
            parameter
            for parameter in self.parameters
            if parameter.kind not in ("args", "kwargs")
        )

    @property
    def args(self):
        """
        Whether the function takes any number of values, as ``*args``.
        """
        return any(parameter.kind == "args" for parameter in self.parameters)

    @property
    def kwargs(self):
        """
        Whether the function takes any names, as ``**kwargs``.
        """
        return any(parameter.kind == "kwargs" for parameter in self.parameters)


def of_function(function):
    """
    Read the signature of a function object; wrappers that name what they wrap are
    looked through.

    function
        A function, or a :py:class:`functools.partial`.
    """
    inner = inspect.unwrap(function)
    asynchronous = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(
        inner
    )
    return of_inspected(inspect.signature(function), asynchronous)


def of_inspected(signature, asynchronous=False):
    """
    Convert an :py:class:`inspect.Signature`.
    """
    parameters = []
    for parameter in signature.parameters.values():
        default = None
        if parameter.default is not inspect.Parameter.empty:
            default = repr(parameter.default)
        parameters.append(Parameter(parameter.name, KINDS[parameter.kind], default))
    return Signature(parameters, asynchronous)


def of_tree(node, constants=None):
    """
    Read the signature of a function definition.

    node
        An :py:class:`ast.FunctionDef` or :py:class:`ast.AsyncFunctionDef`.

    constants
        Syntax trees of what is assigned at the top of the module, by name: a default
        may be one of these.
    """
    arguments = node.args
    positional = [(argument, "position") for argument in arguments.posonlyargs]
    positional += [(argument, "both") for argument in arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    parameters = [
        Parameter(argument.arg, kind, text_of(default, constants))
        for (argument, kind), default in zip(positional, defaults)
    ]
    if arguments.vararg:
        parameters.append(Parameter(arguments.vararg.arg, "args", None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        parameters.append(Parameter(argument.arg, "name", text_of(default, constants)))
    if arguments.kwarg:
        parameters.append(Parameter(arguments.kwarg.arg, "kwargs", None))
    return Signature(parameters, isinstance(node, ast.AsyncFunctionDef))


def text_of(default, constants=None):
    """
    Write a default the way ``repr`` writes its value, if it is a literal.

    default
        A syntax tree, or ``None`` for no default.

    constants
        As for :py:func:`of_tree`.
    """
    if default is None:
        return None
    if isinstance(default, ast.Name):
        default = (constants or {}).get(default.id, default)
    try:
        return repr(ast.literal_eval(default))
    except ValueError:
        return ast.unparse(default)
