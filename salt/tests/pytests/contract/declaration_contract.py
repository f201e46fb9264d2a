"""
What a module declares and what it has, for an interface of Salt's or of a site

It calls no function, so it changes nothing:

.. code-block:: bash

    pytest -c /dev/null --confcutdir tests/pytests/contract \\
        -p no:cacheprovider --show-capture=no \\
        tests/pytests/contract/declaration_contract.py --module my_pkg.py
"""

import ast
import inspect
import pathlib
import traceback

import pytest

import salt.config
import salt.interfaces
import salt.loader
import salt.loader.lazy
from tests.pytests.unit.interfaces.providers import differences


def load(file, opts):
    """
    Return what the module of a file declares, and its functions by name

    :raises AssertionError: if it does not load, or declares nothing
    """
    loader = salt.loader.lazy.LazyLoader(
        [str(file.parent)],
        {**opts, "smi": False},
        tag="module",
        pack={"__salt__": {}, "__grains__": opts.get("grains", {})},
        loaded_base_name=f"salt.loaded.{file.parent.name}",
        whitelist=[file.stem],
        virtual_enable=False,
    )
    keys = [one for one in loader if one.partition(".")[0] == file.stem]
    error = loader.missing_modules.get(file.stem)
    said = f"{type(error).__name__}: {error}"
    assert error is None, f"{_raised(file, error)}: it does not load: {said}"
    assert keys, f"{file}: it has no public function"
    declaration = loader.interfaces.get(file.stem)
    assert declaration is not None, (
        f"{file}:{_line(file)}: it declares no interface: set __virtualname__ to the"
        " call of one, such as PkgInterface(__name__)()"
    )
    functions = {one.partition(".")[2]: inspect.unwrap(loader[one]) for one in keys}
    return declaration, functions


def _raised(file, error):
    """
    Return the place in a module where an error was raised
    """
    for frame in reversed(traceback.extract_tb(getattr(error, "__traceback__", None))):
        if frame.filename == str(file):
            return f"{file}:{frame.lineno}"
    return f"{file}:{getattr(error, 'lineno', 1)}"


def problems(file, declaration, functions, grains):
    """
    Return the differences between a module and its interface, each with the line of the
    module, and with the signature and the line of the interface
    """
    interface = declaration.interface
    methods = salt.interfaces.functions(interface)
    found = [
        *differences(declaration, functions, grains),
        *_unread(file, methods, functions),
        *_returns(methods, functions),
    ]
    lines = [
        *_not_called(file, interface),
        *_renames(file, declaration, functions),
        *_interface_problems(interface, methods),
    ]
    for name, text in found:
        here = _place(functions[name]) if name in functions else f"{file}:{_line(file)}"
        line = f"{here}: {text}"
        if name in methods:
            signature = inspect.signature(methods[name])
            line += f"; {interface.__name__} has {name}{signature}"
            line += f" at {_place(methods[name])}"
        lines.append(line)
    return lines


def _interface_problems(interface, methods):
    """
    Yield what is wrong with an interface itself
    """
    for name, value in inspect.getmembers(interface, inspect.isclass):
        if not name.startswith("_") and not issubclass(value, salt.interfaces.Feature):
            yield (
                f"{inspect.getsourcefile(value)}: {interface.__name__}.{name} is"
                " ignored: let it inherit from salt.interfaces.Feature"
            )
    for name, method in methods.items():
        if next(iter(inspect.signature(method).parameters), None) != "self":
            yield (
                f"{_place(method)}: the first parameter of {interface.__name__}.{name}"
                " is not 'self', which is no part of the signature: add it"
            )
    groups = {**salt.interfaces.features(interface), "the core": vars(interface)}
    for name in methods:
        twice = [group for group, names in groups.items() if name in names]
        if len(twice) > 1:
            yield (
                f"{_place(methods[name])}: {interface.__name__} has {name} in"
                f" {' and '.join(twice)}: keep one"
            )


def _not_called(file, interface):
    """
    Yield that a module declares an interface itself, which leaves out what is its own
    """
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        targets = getattr(node, "targets", [])
        named = any(getattr(one, "id", None) == "__virtualname__" for one in targets)
        if named and isinstance(node.value, (ast.Name, ast.Attribute)):
            yield (
                f"{file}:{node.lineno}: __virtualname__ is the interface itself: call"
                f" it, {interface.__name__}(__name__)()"
            )


def _returns(methods, functions):
    """
    Yield functions whose annotation names another type of return than the interface's;
    they need none
    """
    for name in methods.keys() & functions.keys():
        mine, wanted = (
            _outer(inspect.signature(one).return_annotation)
            for one in (functions[name], methods[name])
        )
        if None not in (mine, wanted) and mine != wanted:
            yield name, f"{name} returns '{mine}' by its annotation"


def _outer(annotation):
    """
    Return the outer type of an annotation, as text, or None
    """
    if annotation is inspect.Signature.empty:
        return None
    if not isinstance(annotation, str):
        annotation = inspect.formatannotation(annotation)
    return annotation.partition("[")[0]


def _renames(file, declaration, functions):
    """
    Yield where ``__virtual__`` returns another name than the declared one
    """
    constants = {}
    for function in functions.values():
        constants.update(function.__globals__)
    for function in ast.parse(file.read_text(encoding="utf-8")).body:
        if getattr(function, "name", None) != "__virtual__":
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Return):
                continue
            for value in _strings(node.value, constants):
                if value != declaration:
                    yield (
                        f"{file}:{node.lineno}: __virtual__ returns '{value}', and the"
                        f" module declares '{declaration}': return __virtualname__"
                    )


def _strings(node, constants):
    """
    Yield the strings that an expression may be; a tuple is no name but a refusal
    """
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, ast.Name):
        if isinstance(constants.get(node.id), str):
            yield constants[node.id]
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body, constants)
        yield from _strings(node.orelse, constants)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _strings(value, constants)


def _unread(file, methods, functions):
    """
    Yield optional arguments that a function takes with its ``**kwargs`` and never uses
    """
    body = ast.parse(file.read_text(encoding="utf-8")).body
    nodes = {one.name: one for one in body if isinstance(one, ast.FunctionDef)}
    for name in methods.keys() & functions.keys():
        node = nodes.get(functions[name].__name__)
        given = inspect.signature(functions[name]).parameters
        if node is None or node.args.kwarg is None:
            continue
        parts = list(ast.walk(node))
        words = {one.value for one in parts if isinstance(one, ast.Constant)}
        if any(
            isinstance(one, ast.Name) and one.id == node.args.kwarg.arg
            for call in parts
            if isinstance(call, ast.Call)
            for one in [*call.args, *(key.value for key in call.keywords)]
        ):
            # it hands them on
            continue
        for one in list(inspect.signature(methods[name]).parameters.values())[1:]:
            if (
                one.kind is one.POSITIONAL_OR_KEYWORD
                and one.default is not one.empty
                and one.name not in given
                and one.name not in words
            ):
                yield name, f"{name} never uses '{one.name}' of its **kwargs"


def _place(func):
    code = inspect.unwrap(func).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _line(file):
    """
    Return the line of a module that declares its virtual name
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    starts = [n for n, one in enumerate(lines, 1) if one.startswith("__virtualname__")]
    return starts[0] if starts else 1


def test_declaration(request):
    """
    The module has what it declares
    """
    name = request.config.getoption("--module", None)
    if not name:
        pytest.skip("name the file of a module with --module")
    file = pathlib.Path(name).resolve()
    assert file.is_file(), f"there is no file {file}"
    opts = salt.config.minion_config(request.config.getoption("--minion-config", ""))
    opts["grains"] = salt.loader.grains(opts)
    found = problems(file, *load(file, opts), opts["grains"])
    assert not found, "\n" + "\n".join(found)
