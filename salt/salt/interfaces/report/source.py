"""
Read what an execution module provides from its syntax tree

The module is not imported: most of them can't be, on any one machine. What the
LazyLoader would make of it is followed as far as source text tells: aliases of
functions, definitions under a condition, functions taken over from another module
by ``namespaced_function``, ``__all__`` and ``__load__``.

.. versionadded:: 3009.0
"""

import ast
import collections
import pathlib

import salt.interfaces.report.returned
import salt.interfaces.signature


class Function(
    collections.namedtuple("Function", ("name", "signature", "node", "line"))
):
    """
    One function that a module provides.

    name
        The name that callers use, so after ``__func_alias__``.

    signature
        A :py:class:`salt.interfaces.signature.Signature`.

    node
        Its definition, an :py:class:`ast.FunctionDef`.

    line
        Where the file that provides it does so: the number of a line.
    """

    __slots__ = ()

    @property
    def doc(self):
        """
        The first sentence of its docstring, or an empty string
        """
        return _first_sentence(ast.get_docstring(self.node) or "")

    @property
    def returns(self):
        """
        The names of the types that it returns, ``?`` for what source text does not tell
        """
        return salt.interfaces.report.returned.returned_types(self.node)


COPIES = ("namespaced_function", "alias_function")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Source:
    """
    One source file of an execution module.

    path
        The file, as a :py:class:`pathlib.Path`.

    root
        The folder that holds the package ``salt``; imports of other modules of
        Salt are looked up there.
    """

    def __init__(self, path, root):
        self.path = pathlib.Path(path)
        self.root = pathlib.Path(root)
        self.tree = ast.parse(self.path.read_text(encoding="utf-8"), str(path))
        self.constants = {}
        self.imported = {}
        self.found = {}
        self._others = {}
        self._walk(self.tree.body, False)

    @property
    def name(self):
        """
        The name of the module: the file's, or the folder's for a package.
        """
        if self.path.name == "__init__.py":
            return self.path.parent.name
        return self.path.stem

    @property
    def virtualname(self):
        """
        The name under which the loader offers the module.
        """
        declared = self.constants.get("__virtualname__")
        if declared is not None:
            value = self._value(declared)
            if value is None:
                value = self._declared_by_interface(declared)
            if value:
                return value
        for returned in self._returned_by_virtual():
            if isinstance(returned, str):
                return returned
        return self.name

    @property
    def interface(self):
        """
        The class that declares the module's name, or ``None`` if a string does.
        """
        declared = self.constants.get("__virtualname__")
        while isinstance(declared, ast.Call):
            declared = declared.func
        return declared.id if isinstance(declared, ast.Name) else None

    @property
    def profile(self):
        """
        The profile of the interface that the module declares, or ``None``.
        """
        declared = self.constants.get("__virtualname__")
        while isinstance(declared, ast.Call):
            for keyword in declared.keywords:
                if keyword.arg == "profile":
                    return self._value(keyword.value)
            if len(declared.args) > 1:
                return self._value(declared.args[1])
            declared = declared.func
        return None

    @property
    def only_proxy(self):
        """
        Whether the module asks which type of proxy minion it runs on.
        """
        return any(
            isinstance(part, ast.Constant) and part.value == "proxytype"
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef) and node.name == "__virtual__"
            for part in ast.walk(node)
        )

    @property
    def functions(self):
        """
        What the module provides, as a dictionary of :py:class:`Function`.
        """
        aliases = self._value(self.constants.get("__func_alias__")) or {}
        wanted = self._value(
            self.constants.get("__load__", self.constants.get("__all__"))
        )
        provided = {}
        for attribute, function in self.found.items():
            if attribute.startswith("_"):
                continue
            if wanted is not None and attribute not in wanted:
                continue
            name = aliases.get(attribute, attribute)
            provided[name] = function._replace(name=name)
        return provided

    def _walk(self, statements, conditional):
        """
        Follow the statements of the module in their order.
        """
        for node in statements:
            if isinstance(node, DEFINITIONS):
                self._keep(node.name, self._function(node), conditional)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (
                        node.module,
                        alias.name,
                    )
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._assign(target.id, node, conditional)
            elif isinstance(node, ast.If):
                if _never(node.test):
                    continue
                self._walk(node.body, True)
                self._walk(node.orelse, True)
            elif isinstance(node, ast.Try):
                # the body is the rule, the rest is the exception
                self._walk(node.body, conditional)
                for handler in node.handlers:
                    self._walk(handler.body, True)
                self._walk(node.orelse, conditional)
                self._walk(node.finalbody, conditional)
            elif isinstance(node, ast.With):
                self._walk(node.body, conditional)
            elif isinstance(node, ast.Delete):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.found.pop(target.id, None)

    def _function(self, node):
        """
        Describe one definition.
        """
        signature = salt.interfaces.signature.of_tree(node, self.constants)
        return Function(node.name, signature, node, node.lineno)

    def _keep(self, name, function, conditional):
        """
        Keep a definition; of two under conditions the first one counts.
        """
        if conditional and name in self.found:
            return
        self.found[name] = function

    def _assign(self, name, node, conditional):
        """
        Follow an assignment at the top of the module.
        """
        value = node.value
        self.constants[name] = value
        if isinstance(value, ast.Call) and value.args:
            called = value.func
            called = getattr(called, "attr", getattr(called, "id", None))
            if called in COPIES:
                original = self._resolve(value.args[0])
                if original:
                    self.found[name] = original._replace(line=node.lineno)
        elif isinstance(value, ast.Name) and value.id in self.found:
            self.found[name] = self.found[value.id]

    def _resolve(self, node):
        """
        Find the function that an expression names, here or in another module.
        """
        if isinstance(node, ast.Name):
            if node.id in self.found:
                return self.found[node.id]
            module, name = self.imported.get(node.id, (None, None))
            return self._elsewhere(module, name)
        if isinstance(node, ast.Attribute):
            return self._elsewhere(ast.unparse(node.value), node.attr)
        return None

    def _file_of(self, module):
        """
        Find the file of a module of Salt's, or ``None``.
        """
        if not module or not module.startswith("salt."):
            return None
        path = self.root.joinpath(*module.split("."))
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
        return None

    def _elsewhere(self, module, name):
        """
        Find a function of another module of Salt's.
        """
        if module not in self._others:
            path = self._file_of(module)
            self._others[module] = Source(path, self.root).found if path else {}
        return self._others[module].get(name)

    def _declared_by_interface(self, node):
        """
        Find the virtual name that an interface gives: ``PkgInterface(__name__)()``.
        """
        while isinstance(node, ast.Call):
            node = node.func
        if isinstance(node, ast.Attribute):
            module, name = ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Name):
            module, name = self.imported.get(node.id, (None, None))
        else:
            return None
        path = self._file_of(module)
        if path is None:
            return None
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef) and statement.name == name:
                for part in statement.body:
                    if (
                        isinstance(part, ast.Assign)
                        and getattr(part.targets[0], "id", "") == "__modulename__"
                    ):
                        return self._value(part.value)
        return None

    def _returned_by_virtual(self):
        """
        Give the constants that ``__virtual__`` returns.
        """
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__virtual__":
                for part in ast.walk(node):
                    if isinstance(part, ast.Return) and isinstance(
                        part.value, ast.Constant
                    ):
                        yield part.value.value

    @staticmethod
    def _value(node):
        """
        Give the value of a literal, ``None`` for anything else.
        """
        if node is None:
            return None
        try:
            return ast.literal_eval(node)
        except ValueError:
            return None


def _first_sentence(doc):
    """
    Give the first sentence of a docstring, whatever directives stand before it.
    """
    for paragraph in doc.split("\n\n"):
        text = " ".join(paragraph.split())
        if text and not text.startswith((".. ", "|", "CLI Example")):
            return text.split(". ", 1)[0].rstrip(".:")
    return ""


def _never(test):
    """
    Whether a condition never holds where Salt runs: ``if TYPE_CHECKING``.
    """
    return getattr(test, "attr", getattr(test, "id", None)) == "TYPE_CHECKING"
