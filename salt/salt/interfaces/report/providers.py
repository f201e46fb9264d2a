"""
Which files of the source tree provide which virtual module

.. versionadded:: 3009.0
"""

import collections
import pathlib
import re

from salt.interfaces.report.source import Source

DECLARED = re.compile(r"^__virtualname__ = .*", re.MULTILINE)

# Files that the loader always loads together, under one name: each has one half of
# the functions, so alone neither could conform.
TOGETHER = {"nxos_upgrade": "nxos"}


class Provider:
    """
    An implementation of a virtual module: one file, or files that load together.

    sources
        The :py:class:`~salt.interfaces.report.source.Source` of each file; the first
        one gives its name.
    """

    def __init__(self, sources):
        self.sources = tuple(sources)
        self.name = self.sources[0].name
        self.virtualname = self.sources[0].virtualname
        self.functions = {}
        for source in self.sources:
            for name, function in source.functions.items():
                self.functions.setdefault(name, function)

    @property
    def signatures(self):
        """
        The signatures of its functions, by their names.
        """
        return {name: function.signature for name, function in self.functions.items()}

    @property
    def profile(self):
        """
        The profile that it promises: what it declares, ``minimal`` if it says nothing
        and works on a certain type of proxy minions only, else None
        """
        declared = self.sources[0].profile
        return declared or ("minimal" if self.sources[0].only_proxy else None)


def root_of_salt():
    """
    The folder that holds the package ``salt`` which runs.
    """
    return pathlib.Path(__file__).resolve().parents[3]


def sources(root, mentioned=None):
    """
    Read the execution modules of a source tree

    :param root: The folder that holds the package ``salt``
    :param mentioned: Leave out files that don't mention any of these words, for speed.
        All by default
    """
    folder = pathlib.Path(root) / "salt" / "modules"
    for path in sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")]):
        if path == folder / "__init__.py":
            continue
        if mentioned is not None:
            name = path.parent.name if path.name == "__init__.py" else path.stem
            declared = DECLARED.search(path.read_text(encoding="utf-8"))
            text = declared.group().lower() if declared else name
            if not any(word.lower() in text for word in mentioned):
                continue
        yield Source(path, root)


def providers(root, virtualnames=None):
    """
    Read all execution modules, and give the providers of each virtual name in a
    dictionary of lists

    :param root: The folder that holds the package ``salt``
    :param virtualnames: Leave out all other virtual names, without reading their files
        if that can be seen. All by default
    """
    read = {
        source.name: source
        for source in sources(root, virtualnames)
        if virtualnames is None or source.virtualname in virtualnames
    }
    parts = collections.defaultdict(list)
    for name, source in read.items():
        parts[TOGETHER.get(name, name)].append(source)
    found = collections.defaultdict(list)
    for name, files in sorted(parts.items()):
        files.sort(key=lambda source, name=name: source.name != name)
        provider = Provider(files)
        found[provider.virtualname].append(provider)
    return dict(found)


def shared(root):
    """
    The virtual names that several files provide, with their providers
    """
    return {
        name: listed
        for name, listed in sorted(providers(root).items())
        if sum(len(provider.sources) for provider in listed) > 1
    }
