"""
Read what execution and state modules have and take, without loading any

A master has to know this of the modules of other platforms, which it cannot load.

.. versionadded:: 3009.0
"""

import ast
import functools
import pathlib
import re

import salt

FOLDER = pathlib.Path(salt.__file__).parent

# Which modules serve the names that have an interface, by grains. The first of init,
# os_family and kernel that has one of a name decides.
PLATFORMS = {
    "init": {
        "systemd": ["systemd_service"],
        "upstart": ["upstart_service"],
    },
    "os_family": {
        "Debian": [
            *("aptpkg", "dpkg_lowpkg", "kernelpkg_linux_apt", "debuild_pkgbuild"),
            *("debian_service", "debian_ip", "netplan_ip", "nm_ip"),
        ],
        "RedHat": [
            *("yumpkg", "rpm_lowpkg", "kernelpkg_linux_yum", "rpmbuild_pkgbuild"),
            *("rh_service", "rh_ip", "nm_ip"),
        ],
        "Suse": ["zypperpkg", "rpm_lowpkg", "rpmbuild_pkgbuild"],
        "Arch": ["pacmanpkg"],
        "Windows": [],
        "MacOS": [],
        "AIX": [],
        "NixOS": ["nixpkg"],
        "NetBSD": ["pkgin"],
        "FreeBSD": ["pkgng", "pw_group", "pw_user"],
        "Solaris": [
            *("solarisipspkg", "solarispkg", "solaris_group", "solaris_shadow"),
            *("solaris_user", "solaris_system", "smf_service", "at_solaris", "pkgin"),
        ],
    },
    "kernel": {
        "Linux": [
            *("at", "file", "groupadd", "linux_ip", "linux_service", "linux_shadow"),
            *("linux_sysctl", "network", "status", "system", "timezone", "useradd"),
        ],
        "Darwin": [
            *("mac_brew_pkg", "mac_portspkg", "mac_group", "mac_service", "mac_shadow"),
            *("mac_sysctl", "mac_system", "mac_timezone", "mac_user"),
            *("at", "file", "network", "status"),
        ],
        "Windows": [
            *("win_pkg", "win_file", "win_groupadd", "win_ip", "win_network"),
            *("win_service", "win_shadow", "win_status", "win_system"),
            *("win_timezone", "win_useradd"),
        ],
        "AIX": ["aixpkg", "aix_group", "aix_shadow", "useradd", "timezone"],
        "SunOS": ["file", "network", "status", "timezone"],
        "FreeBSD": ["at", "file", "network", "status", "system", "timezone"],
        "NetBSD": ["groupadd", "useradd", "at", "file", "network", "status"],
    },
}
_NAMES = re.compile(
    r"""^__virtualname__ = ["'](\w+)["']"""
    r"""|^__virtual_aliases__ = \(?([^)\n]*)"""
    r"""|^    return ["'](\w+)["']""",
    re.MULTILINE,
)
# what takes a dictionary of keyword arguments and asks for none by name
_NEUTRAL = {
    *("clean_kwargs", "invalid_kwargs", "_call_apt", "_call_yum", "AvailablePackages"),
}
# it copies what it does not know only for get_extra_options
_NAMES_ALL = {"_get_options"}


class Source:
    """
    The functions of one file
    """

    def __init__(self, path):
        self.path = path
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.definitions = {}
        aliases = {}
        others = set()
        imported = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                node.body = []
            elif isinstance(node, ast.FunctionDef):
                self.definitions.setdefault(node.name, node)
                node.inner = {id(one) for one in ast.walk(node)} - {id(node)}
            elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(
                "salt."
            ):
                for one in node.names:
                    imported[one.asname or one.name] = f"{node.module}.{one.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name == "__func_alias__":
                    aliases = ast.literal_eval(node.value)
                elif isinstance(node.value, (ast.Call, ast.Name)):
                    others.add((name, node))
        hidden = set().union(*(one.inner for one in self.definitions.values()))
        self.definitions = {
            name: node
            for name, node in self.definitions.items()
            if id(node) not in hidden
        }
        for name, node in others:
            # second names, and functions that another module lends
            first = (getattr(node.value, "args", None) or [node.value])[0]
            if isinstance(first, ast.Name) and (
                id(node) not in hidden or first.id in imported
            ):
                self.definitions.setdefault(
                    name, self.definitions.get(first.id) or imported.get(first.id)
                )
        self.functions = {
            aliases.get(name, name): name
            for name in self.definitions
            if not name.startswith("_")
        }


@functools.cache
def source(path):
    """
    Return the Source of a file
    """
    return Source(path)


@functools.cache
def index(kind, *folders):
    """
    Return the files of Salt and of more folders by the names that they serve

    :param str kind: ``modules`` or ``states``
    """
    found = {}
    for folder in (FOLDER / kind, *folders):
        for path in sorted(folder.glob("*.py")):
            names = {path.stem}
            for groups in _NAMES.findall(path.read_text(encoding="utf-8")):
                names.update(re.findall(r"\w+", " ".join(groups)))
            for name in names:
                found.setdefault(name, []).append(path)
    return found


class Functions:
    """
    The functions of minions with certain grains

    :param dict grains: ``init``, ``os_family`` and ``kernel``; without, the functions of
        all platforms
    :param folders: Folders of a site with the folders ``_modules`` and ``_states``
    """

    def __init__(self, grains=None, folders=()):
        self.modules = index("modules", *(one / "_modules" for one in folders))
        self.states = index("states", *(one / "_states" for one in folders))
        self._all = self.modules
        self._known = {}
        if grains is not None:
            self._choose(grains)

    def _choose(self, grains):
        rows = [
            choices.get(grains.get(grain), ()) for grain, choices in PLATFORMS.items()
        ]
        listed = {
            one for kind in PLATFORMS.values() for row in kind.values() for one in row
        }
        unknown = grains.get("os_family") not in PLATFORMS["os_family"]
        modules = dict(self.modules)
        for name, paths in modules.items():
            if not listed & {path.stem for path in paths}:
                continue
            found = [[path for path in paths if path.stem in row] for row in rows]
            chosen = next((row for row in found if row), paths if unknown else [])
            modules[name] = [p for p in paths if p in chosen or FOLDER not in p.parents]
        self.modules = modules

    def _find(self, key, kind="modules"):
        name, _, function = key.partition(".")
        for path in getattr(self, kind).get(name, ()):
            one = source(path)
            if function in one.functions:
                yield one, one.functions[function]

    def has(self, key, kind="modules"):
        """
        Return whether a module has a function, such as ``pkg.install``
        """
        return any(self._find(key, kind))

    def names(self):
        """
        Return the names of all functions of execution modules
        """
        return {
            f"{name}.{function}"
            for name, paths in self.modules.items()
            for path in paths
            for function in source(path).functions
        }

    def keywords(self, key, kind="modules"):
        """
        Return the names of the arguments that a function takes; None if it takes any
        """
        if (key, kind) not in self._known:
            found = []
            for one, name in self._find(key, kind):
                found.append(self._taken(one, name, frozenset()))
                if kind == "states" and "mod_watch" in one.functions:
                    # it gets the arguments of a state that watches others, and may pass
                    # them to that state's function
                    found.append(self._taken(one, "mod_watch", frozenset()) or set())
            self._known[key, kind] = None if None in found else set().union(*found)
        return self._known[key, kind]

    def _taken(self, one, name, seen):
        node = one.definitions.get(name)
        if isinstance(node, str):
            return self._imported(node, seen)
        if (one.path, name) in seen:
            return set()
        if node is None:
            return None
        seen = seen | {(one.path, name)}
        arguments = node.args
        names = {
            each.arg
            for each in arguments.posonlyargs + arguments.args + arguments.kwonlyargs
        }
        if arguments.kwarg is None:
            return names
        read = self._read(one, name, arguments.kwarg.arg, seen)
        return None if read is None else names | read

    def _read(self, one, name, rest, seen):
        """
        Return the names that a function reads from a dictionary; None if it may be all
        """
        names, passed, whole = _uses(one.definitions[name], rest)
        if whole and name not in _NAMES_ALL:
            return None
        for function, position in passed:
            if position is None:
                taken = self._passed(one, function, seen)
            else:
                other = one.definitions.get(ast.unparse(function))
                if name in _NAMES_ALL:
                    continue
                if (
                    not isinstance(other, ast.FunctionDef)
                    or (one.path, other.name) in seen
                ):
                    return None
                taken = self._read(
                    one,
                    other.name,
                    other.args.args[position].arg,
                    seen | {(one.path, other.name)},
                )
            if taken is None:
                return None
            names |= taken
        return names

    def _passed(self, one, function, seen):
        """
        Return what the function takes that gets all keyword arguments of its caller
        """
        text = ast.unparse(function)
        if text.rpartition(".")[2] in _NEUTRAL:
            return set()
        if text.startswith("salt."):
            return self._imported(text, seen)
        if isinstance(function, ast.Name):
            return self._taken(one, function.id, seen)
        if isinstance(function, ast.Subscript) and isinstance(
            function.slice, ast.Constant
        ):
            kind = {"__salt__": "modules", "__states__": "states"}.get(
                text.partition("[")[0]
            )
            if kind is None:
                return None
            # a caller may ask first whether this platform has the function
            found = list(self._find(function.slice.value, kind)) or list(
                self._find(function.slice.value, "_all")
            )
            taken = [self._taken(*each, seen) for each in found]
            return None if None in taken else set().union(*taken)
        return None

    def _imported(self, name, seen):
        module, _, function = name.rpartition(".")
        path = FOLDER.joinpath(*module.split(".")[1:]).with_suffix(".py")
        return self._taken(source(path), function, seen) if path.exists() else None


def _uses(node, rest):
    """
    Return what a function does with its keyword arguments: the names that it reads, the
    functions that it passes all to, and whether it goes through all of them
    """
    names, passed, known = set(), [], set()
    for one in ast.walk(node):
        keys = []
        if isinstance(one, ast.Call):
            function = one.func
            if isinstance(function, ast.Attribute) and _is(function.value, rest):
                if function.attr in ("get", "pop", "setdefault"):
                    known.add(id(function.value))
                    keys = one.args[:1]
            for keyword in one.keywords:
                if keyword.arg is None and _is(keyword.value, rest):
                    known.add(id(keyword.value))
                    passed.append((function, None))
            neutral = ast.unparse(function).rpartition(".")[2] in _NEUTRAL
            for position, argument in enumerate(one.args):
                if _is(argument, rest):
                    known.add(id(argument))
                    passed += [] if neutral else [(function, position)]
        elif isinstance(one, ast.Subscript):
            known.add(id(one.value))
            keys = [one.slice] if _is(one.value, rest) else []
        elif isinstance(one, ast.Compare) and _is(one.comparators[0], rest):
            known.add(id(one.comparators[0]))
            keys = [one.left]
        elif isinstance(one, (ast.If, ast.IfExp)):
            known.add(id(one.test))
        for key in keys:
            # a variable is one of the strings of the function
            names |= {
                each.value
                for each in ast.walk(key if isinstance(key, ast.Constant) else node)
                if isinstance(each, ast.Constant)
                and isinstance(each.value, str)
                and each.value.isidentifier()
            }
    whole = any(
        _is(one, rest) and isinstance(one.ctx, ast.Load) and id(one) not in known
        for one in ast.walk(node)
    )
    return names, passed, whole


def _is(node, name):
    return isinstance(node, ast.Name) and node.id == name
