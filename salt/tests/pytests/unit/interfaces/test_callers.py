"""
Salt's own calls of functions that have an interface
"""

import ast
import inspect
import pathlib
import re

import pytest

import salt
import salt.interfaces
from tests.pytests.unit.interfaces.providers import load, providers
from tests.pytests.unit.interfaces.test_definitions import (
    ASKED_FOR,
    NAMES,
    interface_of,
)

TREE = pathlib.Path(salt.__file__).parent
ASKS = re.compile(rf"""__salt__\[\s*["'](?:{'|'.join(NAMES)})\.""")
FOLDERS = ("states", "modules", "utils", "beacons", "runners")


def calls(source):
    """
    Yield the calls of ``__salt__["name.function"](...)`` in a source
    """
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Subscript)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "__salt__"
            and isinstance(node.func.slice, ast.Constant)
        ):
            yield node.func.slice.value, node


def problems(nodes, methods, taken):
    """
    Yield what calls pass that not all modules take

    :param list nodes: The calls of a module
    :param dict methods: The functions of all interfaces, with their virtual names
    :param dict taken: By function, the arguments that some module takes
    """
    for key, node in nodes:
        method = methods.get(key)
        if method is None:
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        kinds = {one.kind for one in parameters}
        names = {one.name for one in parameters}
        positional = [
            one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD
        ]
        if (
            len(node.args) > len(positional)
            and inspect.Parameter.VAR_POSITIONAL not in kinds
            and not any(isinstance(one, ast.Starred) for one in node.args)
        ):
            yield f"{key} argument {len(positional) + 1}"
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in names:
                continue
            if (
                inspect.Parameter.VAR_KEYWORD not in kinds
                or keyword.arg not in taken[key]
            ):
                yield f"{key} {keyword.arg}"


PLATFORM = "the caller asks for the platform before"
KEYWORDS = "modules read it from their **kwargs"
# What Salt passes beyond the interface, with the reason why that works. A line whose
# call is gone fails.
KNOWN = {
    "beacons/pkg.py": {
        KEYWORDS: ["pkg.latest_version refresh", "pkg.version use_context"]
    },
    "modules/chocolatey.py": {PLATFORM: ["file.remove force"]},
    "modules/gpg.py": {
        "fails on Windows": ["file.mkdir group", "file.mkdir mode", "file.mkdir user"]
    },
    "modules/highstate_doc.py": {KEYWORDS: ["file.find type"]},
    "modules/minion.py": {PLATFORM: ["service.restart no_block"]},
    "modules/mount.py": {PLATFORM: ["file.mkdir user"]},
    "modules/win_servermanager.py": {PLATFORM: ["system.reboot in_seconds"]},
    "modules/win_shortcut.py": {PLATFORM: ["file.makedirs owner"]},
    "states/at.py": {KEYWORDS: ["at.at runas", "at.at tag", "at.jobcheck tag"]},
    "states/disk.py": {
        "Windows takes it for human_readable": ["status.diskusage argument 1"]
    },
    "states/file.py": {
        "win_file takes none of them": [
            "file.check_managed_changes gnupghome",
            "file.check_managed_changes keyring",
            "file.check_managed_changes sig_backend",
            "file.check_managed_changes signed_by_all",
            "file.check_managed_changes signed_by_any",
            "file.check_managed_changes source_hash_sig",
        ],
        PLATFORM: [
            "file.makedirs deny_perms",
            "file.makedirs grant_perms",
            "file.makedirs group",
            "file.makedirs inheritance",
            "file.makedirs mode",
            "file.makedirs owner",
            "file.makedirs user",
            "file.manage_file win_deny_perms",
            "file.manage_file win_inheritance",
            "file.manage_file win_owner",
            "file.manage_file win_perms",
            "file.manage_file win_perms_reset",
            "file.mkdir deny_perms",
            "file.mkdir grant_perms",
            "file.mkdir group",
            "file.mkdir inheritance",
            "file.mkdir mode",
            "file.mkdir owner",
            "file.mkdir path",
            "file.mkdir reset",
            "file.mkdir user",
            "file.remove force",
        ],
        "both modules take it third": ["file.stats argument 3"],
    },
    "states/group.py": {
        "groupadd takes no **kwargs, the others do": [
            "group.add gid",
            "group.add non_unique",
            "group.add system",
        ]
    },
    "states/mount.py": {PLATFORM: ["file.mkdir user"]},
    "states/pkg.py": {
        KEYWORDS: [
            "pkg.install advisory_ids",
            "pkg.install split_arch",
            "pkg.latest_version fromrepo",
            "pkg.latest_version refresh",
            "pkg.verify ignore_types",
            "pkg.verify verify_options",
        ]
    },
    "states/user.py": {PLATFORM: ["file.mkdir argument 2"]},
    "states/win_system.py": {
        PLATFORM: [
            "system.shutdown force_close",
            "system.shutdown in_seconds",
            "system.shutdown message",
            "system.shutdown only_on_pending_reboot",
            "system.shutdown reboot",
            "system.shutdown timeout",
        ]
    },
}


@pytest.fixture(scope="module")
def methods():
    return {
        f"{name}.{function}": method
        for name in NAMES
        for function, method in salt.interfaces.functions(interface_of(name)).items()
    }


@pytest.fixture(scope="module")
def taken():
    """
    The names of arguments of all modules
    """
    names = {}
    for provider in providers():
        declaration, functions = load(provider)
        for function, value in functions.items():
            names.setdefault(f"{declaration}.{function}", {"version"}).update(
                inspect.signature(value).parameters
            )
    return names


def test_calls(methods, taken):
    found = {}
    seen = 0
    nowhere = set()
    declaring = set(providers())
    for folder in FOLDERS:
        for path in sorted((TREE / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            # most files have nothing to parse for
            nodes = list(calls(source)) if ASKS.search(source) else []
            seen += sum(key in methods for key, _ in nodes)
            nowhere |= {
                key
                for key, _ in nodes
                if key.partition(".")[0] in NAMES and key not in {*methods, *taken}
            }
            # a module that declares an interface calls its own platform's functions
            if folder == "modules" and path.stem in declaring:
                continue
            for problem in problems(nodes, methods, taken):
                found.setdefault(str(path.relative_to(TREE)), set()).add(problem)
    assert seen > 400
    assert nowhere == ASKED_FOR
    assert found == {
        name: {problem for problems in known.values() for problem in problems}
        for name, known in KNOWN.items()
    }


@pytest.mark.parametrize(
    "call, problem",
    (
        ("group.chgid'](name, gid, non_unique=True)", "group.chgid non_unique"),
        ("group.chgid'](name, gid, True)", "group.chgid argument 3"),
        ("pkg.remove'](name, pkg=[])", "pkg.remove pkg"),
    ),
)
def test_mutants(methods, taken, call, problem):
    """
    The check sees arguments that an interface does not have
    """
    assert list(problems(calls(f"__salt__['{call}"), methods, taken)) == [problem]
    right = calls("__salt__['group.chgid'](name, 1)")
    assert not list(problems(right, methods, taken))
