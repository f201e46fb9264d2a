"""
Write the first version of an interface from all modules that provide it

The signatures are what the providers have in common, the tiers come from how many of
them have a function and from what Salt's own code calls. A person edits the result:
what the platforms have by chance, or lack by mistake, no program knows.

.. versionadded:: 3009.0
"""

import keyword
import textwrap

import salt.interfaces.report.merge
import salt.interfaces.report.platforms
from salt.interfaces.report.calls import Uses

RETURNED = {"dict": "{}", "list": "[]", "str": '""', "bool": "False", "int": "0"}
# a method of such a name hides what schemas are written with
HIDING = ("bool", "bytes", "dict", "float", "format", "int", "list", "object", "str")

INDENT = " " * 8
# A function of this many platforms at most is said to be theirs
FEW = 3

HEAD = '''"""
The interface of the virtual module ``{name}``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


'''


class Planned:
    """
    A function as it goes into the interface.

    name
        The name that callers use.

    having
        The :py:class:`~salt.interfaces.report.providers.Provider` objects that have it.

    full
        All providers that promise more than a profile.

    uses
        A :py:class:`~salt.interfaces.report.calls.Uses` of the virtual name.
    """

    def __init__(self, name, having, full, uses):
        self.name = name
        self.functions = {
            provider.name: provider.functions[name] for provider in having
        }
        self.merged = salt.interfaces.report.merge.merge(
            name,
            {
                provider: function.signature
                for provider, function in self.functions.items()
            },
        )
        self.feature = None
        have = frozenset(provider.name for provider in having if provider in full)
        self.having = have
        paths = {
            f"salt/modules/{source.path.name}"
            for provider in having
            for source in provider.sources
        }
        self.core = len(have) == len(full)
        self.condition = {}
        if not self.core:
            names = [provider.name for provider in full]
            self.condition = salt.interfaces.report.platforms.condition(names, have)
            # what Salt calls without asking must be where most platforms have it
            if len(self.condition and next(iter(self.condition.values()))) > FEW:
                # not a function of some platforms, but one that others lack
                self.condition = {}
            self.core = bool(
                self.condition
                and uses.needed(name, paths)
                and len(have) * 2 >= len(full)
            )

    @property
    def doc(self):
        """
        The first sentence of the provider that has one.
        """
        for function in self.functions.values():
            if function.doc:
                return function.doc
        return f"The function {self.name}"

    @property
    def returns(self):
        """
        The types that all providers certainly return, sorted; nothing if in doubt.
        """
        types = frozenset().union(
            *(function.returns for function in self.functions.values())
        )
        return [] if "?" in types else sorted(types)

    def lines(self):
        """
        Write the method.
        """
        for sentence in self.merged.dropped:
            yield f"    # not promised: {sentence}"
        if not self.core and self.feature is None:
            yield "    @Interface.optional"
        if self.condition:
            (grain, values), *_ = self.condition.items()
            yield f"    @Interface.supported({grain}={values!r})"
        types = self.returns
        if types:
            schema = types[0] if len(types) == 1 else f"({', '.join(types)})"
            yield f"    @Interface.returns({schema})"
        signature = str(self.merged.signature)[1:]
        own = "self" if signature == ")" else "self, "
        yield f"    def {attribute_of(self.name)}({own}{signature}:"
        yield '        """'
        yield textwrap.fill(
            self.doc, 88, initial_indent=INDENT, subsequent_indent=INDENT
        )
        yield '        """'
        for kind in types:
            if kind in RETURNED:
                yield f"        return {RETURNED[kind]}"
                break


def attribute_of(name):
    """
    The name of the method for a function.
    """
    return f"{name}_" if keyword.iskeyword(name) or name in HIDING else name


def plan(virtualname, providers, calls):
    """
    Decide on the functions of an interface

    :param str virtualname: The virtual name
    :param list providers: Its :py:class:`~salt.interfaces.report.providers.Provider`
        objects
    :param calls: What :py:func:`salt.interfaces.report.calls.calls` found
    :return: The functions in their order, as :py:class:`Planned`
    :rtype: list
    """
    full = [provider for provider in providers if provider.profile is None]
    full = full or list(providers)
    uses = Uses(virtualname, calls)
    having = {}
    for provider in sorted(full, key=lambda one: -len(one.functions)):
        for name in provider.functions:
            having.setdefault(name, [])
    for provider in providers:
        for name in provider.functions:
            having.setdefault(name, []).append(provider)
    planned = [Planned(name, listed, full, uses) for name, listed in having.items()]
    _find_features(planned)
    return sorted(planned, key=lambda one: (not one.core, one.feature or "~"))


def _find_features(planned):
    """
    Group functions that the same providers have and whose names share a word.
    """
    groups = {}
    for function in planned:
        if function.core or len(function.having) < 2:
            continue
        for word in function.name.split("_"):
            stem = word[2:] if word.startswith("un") else word.rstrip("s")
            if len(stem) > 2 and stem not in ("get", "set", "list"):
                groups.setdefault((function.having, stem), []).append(function)
    taken = set()
    for (_, stem), functions in sorted(groups.items(), key=lambda item: -len(item[1])):
        free = [function for function in functions if function.feature is None]
        if len(free) > 1:
            title = _title(stem, free, taken)
            taken.add(title)
            for function in free:
                function.feature = title


def _title(stem, functions, taken):
    """
    Name a feature by the words that its functions share.
    """
    words = functions[0].name.split("_")
    for function in functions[1:]:
        words = [word for word in words if word in function.name.split("_")]
    title = " ".join(words) or stem
    return title if title not in taken else f"{title} of {functions[0].name}"


def write(virtualname, providers, calls):
    """
    Write the source text of an interface

    :return: The text, and the conflicts of all functions; see
        :py:class:`salt.interfaces.report.merge.Merged`
    :rtype: tuple
    """
    planned = plan(virtualname, providers, calls)
    lines = []
    minimal = [provider for provider in providers if provider.profile]
    if minimal:
        common = [
            function.name
            for function in planned
            if all(function.name in provider.functions for provider in minimal)
        ]
        lines.append(f'@Interface.profile("minimal", {common!r})')
    features = {}
    for function in planned:
        if function.feature is not None:
            features.setdefault(function.feature, []).append(function.name)
    for feature, names in features.items():
        lines.append(f"@Interface.feature({feature!r}, {names!r})")
    lines.append(f"class {virtualname.capitalize()}Interface(Interface):")
    lines += ['    """', f"    What every ``{virtualname}`` module has", '    """', ""]
    lines += [f'    __modulename__ = "{virtualname}"', '    __version__ = "1.0"']
    aliases = {
        attribute_of(function.name): function.name
        for function in planned
        if attribute_of(function.name) != function.name
    }
    if aliases:
        lines.append(f"    __func_alias__ = {aliases!r}")
    for function in planned:
        lines.append("")
        lines.extend(function.lines())
    conflicts = tuple(
        conflict for function in planned for conflict in function.merged.conflicts
    )
    return HEAD.format(name=virtualname) + "\n".join(lines) + "\n", conflicts
