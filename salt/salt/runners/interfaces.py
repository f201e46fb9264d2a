"""
Check state files against what minions have, and describe interfaces for other tools

Nothing is sent to minions: what they have is read from Salt's own modules, from those of
the site, and from the grains that the master has cached.
See :ref:`module-interfaces`.

.. versionadded:: 3009.0
"""

import ast
import logging
import pathlib
import re

import jinja2
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import yaml

import salt.cache
import salt.interfaces
import salt.state
import salt.utils.files
import salt.utils.minions
from salt.exceptions import CommandExecutionError
from salt.utils.modulesource import PLATFORMS, Functions

log = logging.getLogger(__name__)

_FOLDER = pathlib.Path(salt.interfaces.__file__).parent
_PLATFORM = (*PLATFORMS, "os", "osmajorrelease")
_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined
)
# what a condition may consist of whose value is looked for: anybody may have written it
_HARMLESS = {
    jinja2.nodes.And: (),
    jinja2.nodes.Compare: (),
    jinja2.nodes.Const: (),
    jinja2.nodes.Filter: ("int", "lower", "string", "upper"),
    jinja2.nodes.Getattr: (
        *_PLATFORM,
        "endswith",
        "get",
        "lower",
        "startswith",
        "upper",
    ),
    jinja2.nodes.Getitem: (),
    jinja2.nodes.List: (),
    jinja2.nodes.Name: ("grains",),
    jinja2.nodes.Not: (),
    jinja2.nodes.Operand: (),
    jinja2.nodes.Or: (),
    jinja2.nodes.Test: (),
    jinja2.nodes.Tuple: (),
}
_STATE_KEYWORDS = salt.state.STATE_INTERNAL_KEYWORDS | {"name", "names"}
# stands for what is known only when a template is rendered
_UNKNOWN = "\ue000"
_KEYWORD = re.compile(r"[^\W\d]\w*$")
_JSON_TYPES = {
    "bool": "boolean",
    "bytes": "string",
    "dict": "object",
    "float": "number",
    "int": "integer",
    "list": "array",
    "str": "string",
    "tuple": "array",
}


def __virtual__():
    # It reads and writes files of the master. For a minion that peer_run lets call a runner
    # the master adds "fun" and "doc" to its own options; those of salt-run have "async" too
    if "fun" in __opts__ and not (
        "async" in __opts__
        and (__opts__.get("__cli") == "salt-run" or "doc" not in __opts__)
    ):
        return False, "Minions may not call this runner: use it on the master."
    return True


def check(folder, minions="*", tgt_type="glob"):
    """
    Find calls of functions that do not exist, and arguments that they do not take, in the
    state files, templates and modules below a folder

    A branch of a template that asks for grains of the platform is checked for the
    minions that take it. A function that a template asks for, as in ``'pkg.hold' in
    salt``, may be missing.

    folder
        A folder of the master, such as ``/srv/salt``.

    minions
        The minions that get the states. Their grains must be in the master's cache.

    tgt_type
        How minions are chosen.

    The result has the ``faults`` with file, line and number of minions, the numbers of
    ``files`` and ``minions``, the files that are not ``read`` with the reason, and the
    minions that are ``unknown`` to the cache. The exit code is 1 if there are faults.

    CLI Example:

    .. code-block:: bash

        salt-run interfaces.check /srv/salt
        salt-run interfaces.check /srv/salt minions='web*'
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise CommandExecutionError(f"{folder} is not a folder of the master.")
    platforms, unknown = _platforms(minions, tgt_type)
    faults, skipped = {}, {}
    sites = sorted({path.parent for path in folder.rglob("_*") if path.is_dir()})
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and (
            path.suffix in (".sls", ".jinja", ".j2")
            or (path.suffix == ".py" and path.parent.name in ("_modules", "_states"))
        )
    ]
    texts = {}
    for path in paths:
        with salt.utils.files.fopen(path, encoding="utf-8", errors="replace") as handle:
            texts[path] = handle.read()
    for platform, count in platforms.items():
        grains = dict(zip(_PLATFORM, platform))
        functions = Functions(grains, sites)
        for path, text in texts.items():
            name = path.relative_to(folder)
            try:
                for line, fault in _faults(path, text, functions, grains):
                    faults.setdefault((str(name), line, fault), []).append(
                        (grains["os"] or grains["kernel"], count)
                    )
            except (
                RecursionError,
                SyntaxError,
                ValueError,
                jinja2.TemplateError,
                yaml.YAMLError,
            ) as exc:
                skipped[str(name)] = str(exc)
    if faults:
        __context__["retcode"] = 1
    return {
        "faults": [
            f"{name}:{line}: {fault} ({sum(count for _, count in rows)} minions: "
            f"{', '.join(sorted({str(one) for one, _ in rows}))})"
            for (name, line, fault), rows in sorted(faults.items())
        ],
        "files": len(paths) - len(skipped),
        "minions": sum(platforms.values()),
        "not read": skipped,
        "unknown": unknown,
    }


def stubs(folder, modules=None):
    """
    Write types of ``__salt__`` for checkers such as mypy, and return the file

    folder
        Where the package ``salt_stubs`` is written.

    modules
        A folder with the folder ``_modules`` of a site, whose functions are added.

    CLI Example:

    .. code-block:: bash

        salt-run interfaces.stubs /tmp/typings modules=/srv/salt

    A module uses it with

    .. code-block:: python

        if typing.TYPE_CHECKING:
            from salt_stubs import Salt

            __salt__: Salt
    """
    functions = Functions(folders=[pathlib.Path(modules)] if modules else ())
    lines = ["from typing import Any, Callable, Protocol, TypeAlias, TypedDict", ""]
    typed = {}
    for name, (definitions, methods) in sorted(_interfaces().items()):
        for key, node in definitions.items():
            if isinstance(node, ast.ClassDef):
                node.bases = [ast.Name("TypedDict")]
                lines.append(ast.unparse(node).replace("typing.", ""))
            else:
                lines.append(f"{key}: TypeAlias = {ast.unparse(node)}")
        for function, method in methods.items():
            key = f"{name}.{function}"
            typed[key] = key.replace(".", "_")
            returns = ast.unparse(method.returns).replace("typing.", "")
            lines += [
                f"class {typed[key]}(Protocol):",
                f"    def __call__({_parameters(method, functions.keywords(key))}) -> {returns}: ...",
            ]
    lines.append('Salt = TypedDict("Salt", {')
    lines += [
        f'    "{key}": {typed.get(key, "Callable[..., Any]")},'
        for key in sorted({*typed, *functions.names()})
    ]
    lines.append("})")
    path = pathlib.Path(folder) / "salt_stubs" / "__init__.pyi"
    path.parent.mkdir(parents=True, exist_ok=True)
    with salt.utils.files.fopen(path, "w", encoding="utf-8") as handle:
        handle.write("\n".join(lines) + "\n")
    return str(path)


def schema(name):
    """
    Return the JSON Schemas of the arguments and of the return of each function

    name
        A virtual name that has an interface, such as ``pkg``.

    CLI Example:

    .. code-block:: bash

        salt-run interfaces.schema pkg --out=json
    """
    interfaces = _interfaces()
    if name not in interfaces:
        raise CommandExecutionError(
            f"'{name}' has no interface; these have: {', '.join(sorted(interfaces))}."
        )
    definitions, methods = interfaces[name]
    functions = Functions()
    found = {}
    for function, method in methods.items():
        keywords = functions.keywords(f"{name}.{function}")
        given = {key: _kind(default) for key, default in _defaults(method).items()}
        extra = method.args.kwarg is not None
        properties = {
            key: {"type": _JSON_TYPES[kind]} if kind else {}
            for key, kind in given.items()
        }
        if extra and keywords is not None:
            properties.update({key: {} for key in sorted(keywords - given.keys())})
        found[function] = {
            "arguments": {
                "type": "object",
                "properties": properties,
                "required": [
                    key for key, default in _defaults(method).items() if default is None
                ],
                "additionalProperties": extra and keywords is None,
            },
            "returns": _schema(method.returns, definitions),
        }
    return found


def _platforms(minions, tgt_type):
    """
    Return how many minions there are of each platform, and those without known grains
    """
    found = salt.utils.minions.CkMinions(__opts__).check_minions(minions, tgt_type)
    cache = salt.cache.factory(__opts__)
    platforms, unknown = {}, []
    for minion in found["minions"]:
        grains = cache.fetch("grains", minion)
        if not grains:
            unknown.append(minion)
            continue
        platform = tuple(grains.get(name) for name in _PLATFORM)
        platforms[platform] = platforms.get(platform, 0) + 1
    if not platforms:
        raise CommandExecutionError(
            f"The master knows the grains of no minion that matches '{minions}'."
        )
    return platforms, unknown


def _faults(path, text, functions, grains):
    """
    Yield line and text of each fault in a file
    """
    if path.suffix == ".py":
        calls = list(_python_calls(text))
    elif text.startswith("#!") and not re.match(r"#!\s*(jinja|yaml|\|)+\s", text):
        raise ValueError(f"its renderer is {text.splitlines()[0][2:]}")
    else:
        text, expressions = _active(text, grains)
        calls = [call for one in expressions for call in _jinja_calls(*one)]
        if path.suffix == ".sls":
            for kind, *call in _state_calls(yaml.compose(text, yaml.SafeLoader)):
                # what does not exist is one fault, its arguments are none
                if functions.has(call[1], kind) or not call[2]:
                    yield from _problems(functions, kind, *call)
    # what somebody asks for may be missing
    asked = {key for _, key, keywords in calls if keywords is None}
    for line, key, keywords in calls:
        if keywords is not None and key not in asked:
            yield from _problems(functions, "modules", line, key, keywords)


def _problems(functions, kind, line, key, keywords):
    if not functions.has(key, kind):
        what = "state" if kind == "states" else "function"
        yield line, f"the {what} '{key}' does not exist"
        return
    known = functions.keywords(key, kind)
    for keyword in keywords if known is not None else ():
        internal = kind == "states" and keyword in _STATE_KEYWORDS
        if keyword not in known and not internal and not keyword.startswith("__"):
            yield line, f"'{key}' takes no argument '{keyword}'"


class _Grains(dict):
    """
    Grains of a platform: nobody knows the others
    """

    def get(self, key, default=None):
        return self[key]


def _active(text, grains):
    """
    Return a template with blanks for its tags and for the branches that a platform does
    not take, and the expressions of the rest with their lines
    """
    parts, expressions, frames = [], [], []
    position = 0

    def add(start, end, filler):
        parts.append(re.sub(r"[^\n]", filler, text[start:end]))

    def active():
        return all(frame["on"] for frame in frames)

    for tag in _TAG.finditer(text):
        if active():
            parts.append(text[position : tag.start()])
        else:
            add(position, tag.start(), " ")
        position = tag.end()
        line = text.count("\n", 0, tag.start()) + 1
        body = tag.group()[2:-2].strip("-+").strip()
        if tag.group().startswith("{{") and active():
            expressions.append((line, body))
            add(tag.start(), tag.end(), _UNKNOWN)
            continue
        add(tag.start(), tag.end(), " ")
        if not tag.group().startswith("{%"):
            continue
        word, _, rest = body.partition(" ")
        if word.startswith("end"):
            if frames and word[3:] in (frames[-1]["word"], frames[-1]["word"][:4]):
                frames.pop()
            continue
        if word in ("elif", "else") and frames:
            frame = frames[-1]
            frame["on"] = True
            reached = not frame["done"] and active()
            value = _truth(rest, grains) if word == "elif" else None
            frame["on"] = not frame["done"] and value is not False
            frame["done"] = frame["done"] or value is True
            if reached and rest:
                expressions.append((line, rest))
            continue
        if active():
            rest = {
                "set": rest.partition("=")[2],
                "for": rest.partition(" in ")[2],
            }.get(word, rest if word in ("if", "do") else "")
            if rest:
                expressions.append((line, rest.strip()))
        if word == "if":
            value = _truth(rest, grains)
            frames.append(
                {"word": word, "on": value is not False, "done": value is True}
            )
        elif word == "raw" or word.startswith("load_"):
            frames.append({"word": word, "on": False, "done": False})
        elif word == "for":
            frames.append({"word": word, "on": True, "done": False})
    parts.append(text[position:])
    # what stands alone in its line, such as the call of a macro, is whole states
    blank = re.sub(f"(?m)^[ {_UNKNOWN}]+$", "", "".join(parts))
    return blank, expressions


def _truth(expression, grains):
    """
    Return whether a condition holds on a platform; None if that depends on more
    """
    known = _Grains({key: value for key, value in grains.items() if value is not None})
    try:
        parser = jinja2.parser.Parser(_ENVIRONMENT, expression, state="variable")
        tree = parser.parse_expression()
        if not all(map(_harmless, [tree, *tree.find_all(jinja2.nodes.Node)])):
            return None
        compiled = _ENVIRONMENT.compile_expression(expression, undefined_to_none=False)
        return bool(compiled(grains=known))
    except Exception:  # pylint: disable=broad-except
        return None


def _harmless(node):
    """
    Return whether a part of a condition does nothing but look at grains
    """
    if isinstance(node, jinja2.nodes.Call):
        return isinstance(node.node, jinja2.nodes.Getattr)
    names = _HARMLESS.get(type(node))
    if names is None:
        return False
    name = getattr(node, "attr", getattr(node, "name", None))
    return not names or name in names


def _jinja_calls(line, expression):
    """
    Yield line, function and keywords of calls through ``salt``; the keywords are None
    where an expression only asks for a function
    """
    try:
        tree = _ENVIRONMENT.parse("{{ %s }}" % expression)
    except jinja2.TemplateSyntaxError as exc:
        raise ValueError(f"line {line}: {exc}") from exc
    for call in tree.find_all(jinja2.nodes.Call):
        key = _jinja_name(call.node)
        if key:
            keywords = [one.key for one in call.kwargs]
            yield line + call.lineno - 1, key, keywords
    for one in tree.find_all((jinja2.nodes.Compare, jinja2.nodes.Test)):
        if isinstance(one, jinja2.nodes.Test):
            key = _jinja_name(one.node)
        else:
            key = getattr(one.expr, "value", None)
        if isinstance(key, str):
            yield line, key, None


def _jinja_name(node):
    """
    Return the function that ``salt['pkg.version']`` or ``salt.pkg.version`` names
    """
    names = []
    while isinstance(node, (jinja2.nodes.Getattr, jinja2.nodes.Getitem)):
        if isinstance(node, jinja2.nodes.Getattr):
            names.insert(0, node.attr)
        else:
            names.insert(0, getattr(node.arg, "value", None))
        node = node.node
    if getattr(node, "name", None) != "salt" or None in names:
        return None
    key = ".".join(map(str, names))
    return key if key.count(".") == 1 else None


def _python_calls(source):
    """
    Yield the same of ``__salt__`` in a module
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            place, key = node.func.value, node.func.slice
            if getattr(place, "id", None) == "__salt__" and isinstance(
                key, ast.Constant
            ):
                keywords = [one.arg for one in node.keywords if one.arg]
                yield node.lineno, key.value, keywords
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant):
            yield node.lineno, node.left.value, None


def _state_calls(document):
    """
    Yield kind, line, function and keywords of the states of a file, and of the functions
    that they run
    """
    for name, body in _pairs(document):
        if name.value in ("include", "exclude"):
            continue
        if name.value == "extend":
            yield from _state_calls(body)
            continue
        if isinstance(body, yaml.ScalarNode) and _is_name(body.value):
            yield "states", body.start_mark.line + 1, body.value, []
        for state, arguments in _pairs(body):
            yield from _state_call(state, arguments)


def _state_call(state, arguments):
    key, line = state.value, state.start_mark.line + 1
    items = arguments.value if isinstance(arguments, yaml.SequenceNode) else []
    if "." not in key:
        short = [one for one in items if isinstance(one, yaml.ScalarNode)]
        key = f"{key}.{short[0].value}" if short else ""
    if not _is_name(key):
        return
    runs = key in ("module.run", "module.wait")
    yield "states", line, key, []
    given = [pair for item in items for pair in _pairs(item)]
    for name, value in given:
        line = name.start_mark.line + 1
        if runs:
            if _is_name(name.value):
                keywords = [one for item in _items(value) for one, _ in _pairs(item)]
                yield "modules", line, name.value, []
                for one in keywords:
                    line = one.start_mark.line + 1
                    if _KEYWORD.match(one.value):
                        yield "modules", line, name.value, [one.value]
            elif name.value == "name" and _is_name(value.value):
                yield "modules", line, value.value, []
        elif _KEYWORD.match(name.value):
            yield "states", line, key, [name.value]
        if name.value in ("onlyif", "unless", "check_cmd"):
            for item in _items(value):
                for one, function in _pairs(item):
                    if one.value == "fun" and _is_name(function.value):
                        yield "modules", one.start_mark.line + 1, function.value, []


def _pairs(node):
    """
    Return keys and values of a mapping, of anything else none
    """
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return [pair for pair in pairs if isinstance(pair[0], yaml.ScalarNode)]


def _items(node):
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _is_name(value):
    return isinstance(value, str) and re.match(r"[a-z_]\w*\.[a-z_]\w*$", value, re.I)


def _interfaces():
    """
    Return what the files of interfaces define, and their methods, by virtual name
    """
    found = {}
    for path in sorted(_FOLDER.glob("*_module.py")):
        with salt.utils.files.fopen(path, encoding="utf-8") as handle:
            tree = ast.parse(handle.read())
        definitions, methods = {}, {}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                value = node.value
                if isinstance(value, ast.Constant):
                    value = ast.parse(value.value, mode="eval").body
                definitions[node.targets[0].id] = value
            elif isinstance(node, ast.ClassDef) and node.name.endswith("Interface"):
                for one in ast.walk(node):
                    if isinstance(one, ast.FunctionDef):
                        methods[one.name] = one
            elif isinstance(node, ast.ClassDef):
                definitions[node.name] = node
        found[path.stem[: -len("_module")]] = definitions, methods
    return found


def _defaults(method):
    """
    Return the parameters of a method with their defaults, None for those without one
    """
    named = method.args.args[1:]
    defaults = [None] * (len(named) - len(method.args.defaults)) + method.args.defaults
    rows = [
        *zip(named, defaults),
        *zip(method.args.kwonlyargs, method.args.kw_defaults),
    ]
    return {one.arg: default for one, default in rows}


def _kind(default):
    """
    Return the type of a parameter that is a switch; others take more than their default
    """
    value = getattr(default, "value", None)
    return "bool" if isinstance(value, bool) else None


def _parameters(method, keywords):
    """
    Return the parameters of a method as a stub has them, with the keyword arguments that
    a module of some platform takes
    """
    given = _defaults(method)
    positional = [one.arg for one in method.args.args[1:]]
    parts = ["self"]
    for name in positional:
        parts.append(_parameter(name, given[name]))
    extra = [_parameter(one.arg, given[one.arg]) for one in method.args.kwonlyargs]
    if method.args.kwarg and keywords is not None:
        extra += [
            f"{name}: Any = ..."
            for name in sorted(
                keywords - {*given, "self", getattr(method.args.vararg, "arg", None)}
            )
        ]
    if method.args.vararg:
        parts.append(f"*{method.args.vararg.arg}: Any")
    elif extra:
        parts.append("*")
    parts += extra
    if method.args.kwarg and keywords is None:
        parts.append(f"**{method.args.kwarg.arg}: Any")
    return ", ".join(parts)


def _parameter(name, default):
    return f"{name}: {_kind(default) or 'Any'}" + ("" if default is None else " = ...")


def _schema(node, definitions):
    """
    Return the JSON Schema of an annotation
    """
    if isinstance(node, ast.BinOp):
        return {"anyOf": [_schema(one, definitions) for one in (node.left, node.right)]}
    if isinstance(node, ast.ClassDef):
        rows = [one for one in node.body if isinstance(one, ast.AnnAssign)]
        fields = {one.target.id: _schema(one.annotation, definitions) for one in rows}
        return {"type": "object", "properties": fields, "required": list(fields)}
    if isinstance(node, ast.Constant):
        return {"type": "null"}
    if isinstance(node, ast.Subscript):
        kind = node.value.id
        if kind == "list":
            return {"type": "array", "items": _schema(node.slice, definitions)}
        value = _schema(node.slice.elts[1], definitions)
        return {"type": "object", "additionalProperties": value}
    if isinstance(node, ast.Name) and node.id in definitions:
        return _schema(definitions[node.id], definitions)
    return {"type": _JSON_TYPES[node.id]} if isinstance(node, ast.Name) else {}
