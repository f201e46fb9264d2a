"""What each tree of Salt in a run really was: a hash of its files, and which of them somebody had edited.

The project's git knows nothing of upstream's files, so a commit alone does not say what ran.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil

from harness.choices import kind
from harness.paths import ROOT
from harness.scenarios.scenario import TREES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.scenarios.scenario import Scenario

ENVIRONMENT = "environment.json"
# the tree that the patches are applied to, and the command that tells its edits
PATCHED = ROOT / "salt"
STATUS = (sys.executable, "-m", "patches", "status", "--json")
# only for a command that hangs
STATUS_S = 600.0
# of its answer: files of upstream's that were edited, and those of ours that are new, gone or changed
DIFFERENT = ("edits", "new_files", "missing_files", "changed_files")
# of a tree: the package and its commands; of an environment: the package
_CORE = ("salt", "scripts", "lib/python*/site-packages/salt")
_PARTS = (*_CORE, "extensions/*/src")


def facts(trees: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Return the hashes of each tree (label: folder) and its `edited` files, None where nobody keeps count of edits."""
    known = {
        folder: {**hashes(folder), "edited": edits() if folder == PATCHED else None}
        for folder in dict.fromkeys(trees.values())
    }
    # the folder of another tree, as its label does not tell which it is
    places = {name: {} if kind(name) in TREES else {"folder": str(folder)} for name, folder in trees.items()}
    return {name: {**known[folder], **places[name]} for name, folder in trees.items()}


def environment(folder: Path) -> dict[str, Any]:
    """Return what the run in `folder` recorded of its machine and its trees, nothing if it has no such file."""
    try:
        found: dict[str, Any] = json.loads((folder / ENVIRONMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def same(labels: Sequence[str], facts: Mapping[str, Mapping[str, Any]], scenario: Scenario) -> list[tuple[str, ...]]:
    """Return the labels of a run by what they stand for: the same files with the same options of the master.

    Without facts, as for a run of an older version, the trees' names decide.
    """

    def identity(label: str) -> tuple[str, str]:
        name, found = kind(label), str(facts.get(label, {}).get("hash") or "")
        known = found or (name if name in TREES else label)
        return known, json.dumps(scenario.master_options(label), sort_keys=True)

    found: dict[tuple[str, str], list[str]] = {}
    for label in labels:
        found.setdefault(identity(label), []).append(label)
    return [tuple(group) for group in found.values()]


def hashes(folder: Path) -> dict[str, Any]:
    """Return the `hash` of a tree, that of Salt alone (`core`), and those of its `extensions` by name."""
    extensions = {path.name: content_hash(path, ("src",)) for path in sorted(folder.glob("extensions/*"))}
    return {"hash": content_hash(folder), "core": content_hash(folder, _CORE), "extensions": extensions}


def content_hash(folder: Path, parts: Sequence[str] = _PARTS) -> str:
    """Return the SHA-256 of the names and contents of all files of `parts` (globs); "" if there are none."""
    total = hashlib.sha256()
    names = sorted(_files(folder, parts))
    for name in names:
        total.update(f"{name}\0{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest() if names else ""


def edits() -> list[str] | None:
    """Return the files of the patched tree that differ from what its patches make, None if that can't be told."""
    answered = _run(*STATUS)
    ours = _run("git", "status", "--porcelain", "--untracked-files=all", "--", "salt")
    if answered is None or ours is None:
        return None
    try:
        answer = json.loads(answered)
        found = {path for key in DIFFERENT if key in answer for path in answer[key]}
    except (ValueError, TypeError):
        return None
    if "edits" not in answer:
        return None
    return sorted(found | {line[3:].removeprefix("salt/") for line in ours.splitlines()})


def describe(name: str, facts: Mapping[str, Any]) -> str:
    """Return the facts of one tree in words."""
    edited = facts.get("edited")
    words = "edits unknown" if edited is None else f"edited: {', '.join(edited)}" if edited else "not edited"
    return f"{name}: tree {str(facts.get('hash') or 'unknown')[:12]}, {words}"


def _files(folder: Path, parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        for top in folder.glob(part):
            for path in top.rglob("*"):
                made = "__pycache__" in path.parts or path.parent.suffix == ".egg-info" or path.suffix == ".pyc"
                if path.is_file() and not made:
                    yield path.relative_to(folder).as_posix()


def _run(*command: str) -> str | None:
    """Return what a command prints, None if it fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=STATUS_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


FORMAT = 1
_LIBRARIES = ("locust", "pyzmq", "msgpack", "psycopg2-binary")


def machine_facts(trees: Mapping[str, Path]) -> dict[str, Any]:
    """Return the facts of this machine, of the libraries and of `trees` (name: folder), and the project's commit."""
    content = facts(trees)
    edited = any(tree["edited"] for tree in content.values())
    return {
        "format": FORMAT,
        "machine": {
            "processor": _processor(),
            "cores": psutil.cpu_count() or 1,
            "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
            "distribution": _distribution(),
            "load_average_at_start": round(os.getloadavg()[0], 2),
        },
        "versions": {
            "python": platform.python_version(),
            **{f"salt_{name}": salt_version(folder) for name, folder in trees.items()},
            **{name: _version(name) for name in _LIBRARIES},
        },
        # git ignores upstream's files, so edits of the patched tree are asked for
        "git": {
            "commit": _git("rev-parse", "HEAD"),
            "uncommitted_changes": edited or bool(_git("status", "--porcelain")),
        },
        "trees": content,
    }


def cores(folder: Path) -> int:
    """Return the cores of the machine of the run in `folder`, 1 if nobody noted them."""
    return int(environment(folder).get("machine", {}).get("cores", 1))


def salt_version(folder: Path) -> str:
    """Return the version of the Salt in `folder`, a source distribution or an environment, "unknown" if none says."""
    installed = folder.glob("lib/python*/site-packages/salt-*.dist-info/METADATA")
    try:
        text = next(installed, folder / "PKG-INFO").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    found = re.search(r"^Version: (\S+)$", text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123  # no path that anybody would change
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _git(*arguments: str) -> str:
    """Return what git says of the project, "" where there is no git or no repository."""
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
