"""
Guess the type of what a function returns from its syntax tree

.. versionadded:: 3009.0
"""

import ast
import collections

NODES = (
    ((ast.Dict, ast.DictComp), "dict"),
    ((ast.List, ast.ListComp), "list"),
    ((ast.JoinedStr,), "str"),
    ((ast.Compare,), "bool"),
)
CALLED = {"dict": "dict", "list": "list", "sorted": "list", "str": "str"}
CALLED.update(bool="bool", int="int", any="bool", all="bool")


def returned_types(node):
    """
    Name the types that a function returns, ``?`` among them for what is not plain

    :param node: The definition, an :py:class:`ast.FunctionDef`
    :rtype: frozenset
    """
    plain = {}
    stored = collections.Counter()
    returned = []
    for part in _own(node):
        if isinstance(part, ast.Assign):
            for target in part.targets:
                if isinstance(target, ast.Name):
                    plain.setdefault(target.id, []).append(part.value)
        elif isinstance(part, ast.Return):
            returned.append(part.value)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            stored[part.id] += 1
    stored.update(part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg))
    # a parameter, or what a loop sets, may hold anything
    assigned = {
        name: values for name, values in plain.items() if stored[name] == len(values)
    }
    found = set()
    for value in returned:
        found |= _types(value, assigned)
    if not _always_returns(node.body):
        found.add("None")
    return frozenset(found)


def _always_returns(statements):
    """
    Whether the end of a block is never reached.
    """
    for node in statements:
        if isinstance(node, (ast.Return, ast.Raise)):
            return True
        if isinstance(node, ast.If) and node.orelse:
            if _always_returns(node.body) and _always_returns(node.orelse):
                return True
        if isinstance(node, ast.Try):
            handled = all(_always_returns(one.body) for one in node.handlers)
            if _always_returns([*node.body, *node.orelse]) and handled:
                return True
        if isinstance(node, ast.With) and _always_returns(node.body):
            return True
        if isinstance(node, ast.While) and getattr(node.test, "value", False):
            return True
    return False


def _own(node):
    """
    Walk a function without the functions in it.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from _own(child)


def _types(node, assigned):
    """
    Name the types of an expression.
    """
    if node is None:
        return {"None"}
    if isinstance(node, ast.Constant):
        return {"None" if node.value is None else type(node.value).__name__}
    for kinds, name in NODES:
        if isinstance(node, kinds):
            return {name}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return {"bool"}
    if isinstance(node, ast.IfExp):
        return _types(node.body, assigned) | _types(node.orelse, assigned)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return {CALLED.get(node.func.id, "?")}
    if isinstance(node, ast.Name) and node.id in assigned:
        found = set()
        for value in assigned[node.id]:
            found |= _types(value, {})
        return found
    return {"?"}
