"""
The modules of Salt's tree that declare an interface, without a loader
"""

import importlib
import inspect
import pathlib
import re

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
