"""
The modules of Salt's tree that declare an interface, without a loader
"""

import importlib
import inspect
import pathlib
import re

import salt.interfaces
import salt.modules

FOLDER = pathlib.Path(salt.modules.__file__).parent
# what a module takes over from another one, in __virtual__ on its platform
_BORROWS = re.compile(
    r"^\s*(\w+) = (?:salt\.utils\.functools\.)?_?namespaced_function\(\s*(\w+),",
    re.MULTILINE,
)
_DECLARES = re.compile(r"^__virtualname__ = \w+Interface\(", re.MULTILINE)


def providers():
    """
    Return the names of the files that declare an interface, sorted
    """
    return sorted(
        path.stem
        for path in FOLDER.glob("*.py")
        if _DECLARES.search(path.read_text(encoding="utf-8"))
    )


def others(name):
    """
    Return the names of the files that serve a virtual name and declare no interface
    """
    literal = re.compile(r"""^__virtualname__ = ["'](\w+)["']$""", re.MULTILINE)
    declaring = providers()
    return [
        path.stem
        for path in sorted(FOLDER.glob("*.py"))
        if path.stem not in declaring
        and name in (literal.findall(path.read_text(encoding="utf-8")) or [path.stem])
    ]


def load(name):
    """
    Return the virtual name of a module, which may be its declaration, and its public
    functions by name

    All modules can be imported on each platform: they find out in ``__virtual__``
    whether they are for it.
    """
    module = importlib.import_module(f"salt.modules.{name}")
    aliases = getattr(module, "__func_alias__", {})
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    borrowed = dict(_BORROWS.findall(source))
    functions = {}
    for attribute, value in {**vars(module), **borrowed}.items():
        if attribute in borrowed:
            value = getattr(module, borrowed[attribute])
        elif getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) and not attribute.startswith("_"):
            functions[aliases.get(attribute, attribute)] = value
    return getattr(module, "__virtualname__", name), functions


def differences(declaration, functions, grains=None):
    """
    Yield how the functions of a module differ from its interface: the name of the
    function, and a sentence without its subject

    Without grains, a function may be missing that is not applicable anywhere.
    """
    interface = declaration.interface
    methods = salt.interfaces.functions(interface)
    of_feature = {
        name: feature
        for feature, names in salt.interfaces.features(interface).items()
        for name in names
    }
    elsewhere = {
        name
        for name, method in methods.items()
        if grains is None and "not_applicable" in getattr(method, "__smi__", {})
    }
    if grains is not None:
        elsewhere.update(dict(salt.interfaces.stand_ins(declaration, grains)))
        elsewhere.update(
            name
            for name in methods
            if salt.interfaces.absent(declaration, name, grains)[0]
            is salt.interfaces.FunctionNotSupportedError
        )
    for name, method in methods.items():
        feature = of_feature.get(name)
        if name in functions:
            problem = salt.interfaces.difference(method, functions[name])
            if problem:
                yield name, f"{name} {problem}"
        elif name in declaration.lacks or name in elsewhere:
            continue
        elif feature is None:
            yield name, f"lacks {name}"
        elif functions.keys() & set(salt.interfaces.features(interface)[feature]):
            yield name, f"lacks {name} of {feature}"
    for name in functions:
        if (
            name not in methods
            and name not in declaration.own
            and name not in interface.__deprecated__
        ):
            yield name, (
                f"has {name}, which is neither in the interface nor its own: correct"
                " its name, add it to own=[...], or let it begin with '_'"
            )
    for name in declaration.own - functions.keys():
        yield name, f"has no {name}, which it names as its own"
    for name in declaration.lacks:
        names = salt.interfaces.features(interface).get(name, [name])
        for one in functions.keys() & set(names):
            yield one, f"has {one}, which it says that it lacks"
