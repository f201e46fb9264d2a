"""
A plugin of pylint: a virtual name that has an interface is declared through it

The interfaces are the files ``salt/interfaces/*_module.py`` of the tree that the checked
module is in. Nothing of Salt is imported.

.. code-block:: bash

    pylint --load-plugins=tests.support.pylint_interfaces salt/modules/aptpkg.py

Modules move to declarations one virtual name after another. For the names in the option
``declared-interfaces`` a module without a declaration is an error; for others it is a
warning of its own, so that a run can be asked for what is left to do. A declaration that
is wrong is always an error.
"""

import functools
import pathlib

import astroid
from pylint.checkers import BaseChecker

NOT_DECLARED = "interface-not-declared"
TO_DECLARE = "interface-to-declare"
WRONG = "wrong-interface-declaration"
SUFFIX = "_module"


class InterfaceChecker(BaseChecker):
    """
    Checks ``__virtualname__`` of execution modules.
    """

    name = "interface-checker"
    priority = -1
    msgs = {
        "E9810": (
            "Declare the virtual name '%s' as %s(__name__)()",
            NOT_DECLARED,
            "The virtual name has an interface, and its modules declare it",
        ),
        "E9811": (
            "Wrong declaration of an interface: %s",
            WRONG,
            "__virtualname__ is not a declaration that the loader understands",
        ),
        "W9812": (
            "The virtual name '%s' has an interface that no module declares yet",
            TO_DECLARE,
            "The module gets the interface of its virtual name without saying so",
        ),
    }
    options = (
        (
            "declared-interfaces",
            {
                "default": ("pkg",),
                "type": "csv",
                "metavar": "<virtual names>",
                "help": "Virtual names whose modules must declare their interface",
            },
        ),
    )

    def visit_module(self, node):
        """
        Look at one module.
        """
        path = pathlib.Path(node.file or "")
        if path.parent.name != "modules" or path.parent.parent.name != "salt":
            return
        interfaces = _interfaces(path.parent.parent / "interfaces")
        place, value = node, None
        for statement in node.body:
            if isinstance(statement, astroid.nodes.Assign) and any(
                getattr(target, "name", None) == "__virtualname__"
                for target in statement.targets
            ):
                place, value = statement, statement.value
        if value is None or isinstance(value, astroid.nodes.Const):
            name = value.value if value is not None else _returned(node) or path.stem
            if name not in interfaces:
                return
            if name in self.linter.config.declared_interfaces:
                self.add_message(
                    NOT_DECLARED, node=place, args=(name, interfaces[name])
                )
            else:
                self.add_message(TO_DECLARE, node=place, args=(name,))
        elif isinstance(value, astroid.nodes.Call):
            problem = _problem(node, value, interfaces)
            if problem:
                self.add_message(WRONG, node=place, args=(problem,))


def _returned(module):
    """
    Give the name that ``__virtual__`` returns, None if it only says yes or no.
    """
    for function in module.locals.get("__virtual__", ()):
        if isinstance(function, astroid.nodes.FunctionDef):
            for statement in function.nodes_of_class(astroid.nodes.Return):
                value = getattr(statement.value, "value", None)
                if isinstance(value, str):
                    return value
    return None


def _problem(module, call, interfaces):
    """
    Say what is wrong with a declaration, None if nothing is.
    """
    if isinstance(call.func, astroid.nodes.Call):
        if call.args or call.keywords:
            return "the second call takes nothing"
        call = call.func
    if not isinstance(call.func, astroid.nodes.Name):
        return "import the class of the interface by its name"
    if not call.args or getattr(call.args[0], "name", None) != "__name__":
        return f"pass __name__ to {call.func.name}"
    for statement in module.body:
        if not isinstance(statement, astroid.nodes.ImportFrom):
            continue
        for original, local in statement.names:
            if (local or original) != call.func.name:
                continue
            package, _, last = statement.modname.rpartition(".")
            if package != "salt.interfaces" or not last.endswith(SUFFIX):
                return f"{call.func.name} is not from salt.interfaces"
            name = last[: -len(SUFFIX)]
            if interfaces.get(name) != original:
                return f"{statement.modname} has no interface {original}"
            return None
    return f"{call.func.name} is not imported"


@functools.cache
def _interfaces(folder):
    """
    Give the virtual names that have an interface, with the names of the classes.
    """
    found = {}
    for path in sorted(folder.glob(f"*{SUFFIX}.py")):
        name = path.stem[: -len(SUFFIX)]
        tree = astroid.parse(path.read_text(encoding="utf-8"))
        for statement in tree.body:
            if not isinstance(statement, astroid.nodes.ClassDef):
                continue
            for value in statement.locals.get("__modulename__", ()):
                assigned = value.parent.value
                if getattr(assigned, "value", None) == name:
                    found[name] = statement.name
    return found


def register(linter):
    """
    Add the checker; pylint calls this.
    """
    linter.register_checker(InterfaceChecker(linter))
