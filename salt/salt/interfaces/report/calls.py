"""
Which functions of execution modules Salt's own code calls

What states, runners and other modules of Salt's call is what a virtual module must
have on every platform, or those states don't work there. Calls are found in syntax
trees: ``__salt__["pkg.install"](...)``, ``__salt__.get("pkg.install")`` and the test
``"pkg.install" in __salt__``, which says that the caller can do without. A name that
is put together, as in ``__salt__[f"user.ch{key}"]``, is kept as a pattern.

.. versionadded:: 3009.0
"""

import ast
import collections
import fnmatch
import pathlib

Call = collections.namedtuple("Call", ("function", "path", "line", "tested", "passed"))
Call.__doc__ = """
One place that uses a function.

function
    Its full name, with ``*`` for what is not known before the call.

path
    The file, relative to the source tree.

line
    The line.

tested
    Whether it is asked for, and not called.

passed
    The names of the parameters that are passed by name.
"""

DUNDERS = ("__salt__", "__proxy_salt__")


def calls(root):
    """
    Find all of them in a source tree.

    root
        The folder that holds the package ``salt``.
    """
    root = pathlib.Path(root)
    found = []
    for path in sorted(root.joinpath("salt").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(dunder in text for dunder in DUNDERS):
            finder = Finder(path.relative_to(root).as_posix())
            finder.visit(ast.parse(text, str(path)))
            found.extend(finder.found)
    return tuple(found)


class Uses:
    """
    What is called of one virtual module.

    virtualname
        Its name.

    found
        An iterable of :py:class:`Call`.
    """

    def __init__(self, virtualname, found):
        prefix = f"{virtualname}."
        self.calls = tuple(
            call
            for call in found
            if call.function.startswith(prefix)
            # a pattern that matches everything says nothing
            and call.function != f"{prefix}*"
        )
        self.prefix = prefix

    def of(self, name):
        """
        The calls of one function.
        """
        full = self.prefix + name
        return [call for call in self.calls if fnmatch.fnmatchcase(full, call.function)]

    def needed(self, name, without=()):
        """
        Whether some code calls a function and nowhere asks first if it is there.

        without
            Paths that don't count: a module's calls of itself.
        """
        seen = [call for call in self.of(name) if call.path not in without]
        asking = {call.path for call in seen if call.tested}
        return any(call.path not in asking for call in seen)

    def passed(self, name):
        """
        The parameters that Salt's code passes to a function by name.
        """
        return frozenset(part for call in self.of(name) for part in call.passed)


class Finder(ast.NodeVisitor):
    """
    Collects the calls of one file.
    """

    def __init__(self, path):
        self.path = path
        self.found = []

    def visit_Call(self, node):
        """
        ``__salt__["x.y"](...)`` and ``__salt__.get("x.y")``
        """
        called = node.func
        if isinstance(called, ast.Subscript) and _is_salt(called.value):
            passed = tuple(part.arg for part in node.keywords if part.arg)
            self._keep(called.slice, node.lineno, passed=passed)
            for part in [*node.args, *(keyword.value for keyword in node.keywords)]:
                self.visit(part)
            return
        if (
            isinstance(called, ast.Attribute)
            and called.attr in ("get", "__contains__")
            and _is_salt(called.value)
            and node.args
        ):
            self._keep(node.args[0], node.lineno, tested=True)
        self.generic_visit(node)

    def visit_Subscript(self, node):
        """
        ``function = __salt__["x.y"]``
        """
        if _is_salt(node.value):
            self._keep(node.slice, node.lineno)
        self.generic_visit(node)

    def visit_Compare(self, node):
        """
        ``"x.y" in __salt__``
        """
        tests = isinstance(node.ops[0], (ast.In, ast.NotIn))
        if tests and _is_salt(node.comparators[0]):
            self._keep(node.left, node.lineno, tested=True)
        self.generic_visit(node)

    def _keep(self, node, line, tested=False, passed=()):
        function = _pattern(node)
        if function and "." in function:
            self.found.append(Call(function, self.path, line, tested, passed))


def _is_salt(node):
    """
    Whether an expression is the dictionary of execution modules.
    """
    return isinstance(node, ast.Name) and node.id in DUNDERS


def _pattern(node):
    """
    Give the name that an expression makes, with ``*`` for what is not known.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(part) or "*" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        left = _pattern(node.left)
        return left.replace("%s", "*") if left else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_pattern(node.left) or "*") + (_pattern(node.right) or "*")
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
    ):
        left = _pattern(node.func.value)
        return left.replace("{}", "*").replace("{0}", "*") if left else None
    return None
