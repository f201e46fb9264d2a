"""What states fetch: some kinds as measured on a real minion, others every file of the master that they name.

A state takes effect once: applied again with the same content it finds everything in place.
Source: salt/states/file.py, cmd.py, archive.py, module.py of Salt 3008.5, and requests recorded from a minion.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import salt.states.test
import salt.utils.hashutils
import salt.utils.stringutils
import salt.utils.url
from salt.exceptions import SaltRenderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from evil_minions.states.compile.client import FileClient
    from evil_minions.states.compile.templates import Templates

_SALT: Final = "salt://"
_INTERNAL: Final = frozenset({"state", "fun", "order", "name", "require", "watch", "onchanges", "prereq", "listen"})


class Failure(Exception):  # noqa: N818 - a state's own end, not an error of the program
    """A state that fails; the text is its comment."""


@dataclass(slots=True)
class World:
    """What states of one run find: the minion's files by way of the client, and what it has applied before."""

    client: FileClient
    templates: Templates
    functions: Mapping[str, Callable[..., Any]]
    held: frozenset[tuple[str, ...]]
    test: bool
    lists: set[tuple[str, ...]] = field(default_factory=set)
    effects: list[tuple[str, ...]] = field(default_factory=list)
    leaves: list[tuple[str, ...]] = field(default_factory=list)


def fetch(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Fetch the files of a state; return a fingerprint of what it wants to have in place, and what it changes.

    Raises:
        Failure: if the master has not got one of them.
    """
    return _KINDS.get(f"{low['state']}.{low['fun']}", _general)(world, low)


def _print(*parts: object) -> str:
    """Return a fingerprint of what a state wants to have in place."""
    return hashlib.blake2b(json.dumps(parts, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()


def _wishes(low: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a state was given, without what only orders states."""
    return {key: value for key, value in low.items() if not key.startswith("__") and key not in _INTERNAL}


def _saltenv(low: Mapping[str, Any]) -> str:
    return str(low.get("saltenv") or low.get("__env__") or "base")


def _first(world: World, sources: Any, saltenv: str) -> str:
    """Return the first of several sources that the master has, as file.source_list does.

    Raises:
        Failure: if it has none.
    """
    if isinstance(sources, str):
        return sources
    names = [str(next(iter(each)) if isinstance(each, dict) else each) for each in sources]
    files = world.client.file_list(saltenv)
    folders = world.client.dir_list(saltenv)
    for name in names:
        if not name.startswith(_SALT) or salt.utils.url.parse(name)[0] in (*files, *folders):
            return name
    raise Failure("Unable to manage file: none of the specified sources were found")


def _managed(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Fetch the source of a file and render it; return its fingerprint and the changes."""
    saltenv = _saltenv(low)
    changes = {"diff": "New file", "mode": "0644"}
    if not low.get("source"):
        return _print(_wishes(low)), {"diff": "New file"}
    source = _first(world, low["source"], saltenv)
    if not source.startswith(_SALT):
        return _print(_wishes(low)), changes
    found = world.client.hash_file(source, saltenv)
    if not found:
        raise Failure(f"Unable to manage file: Source file {source} not found in saltenv '{saltenv}'")
    if low.get("template"):
        return _print(_wishes(low), found["hsum"], _render(world, low, source, saltenv)), changes
    if not world.test:
        world.client.deliver(source, saltenv)
    return _print(_wishes(low), found["hsum"]), changes


def _render(world: World, low: Mapping[str, Any], source: str, saltenv: str) -> str:
    """Have everything fetched that a template needs; return its hash.

    Raises:
        Failure: if there is no such file.
    """
    path = world.client.deliver(source, saltenv, wanted=True)
    if not path:
        raise Failure(f"Unable to manage file: Source file {source} not found in saltenv '{saltenv}'")
    if low.get("template", "jinja") != "jinja":
        raise SaltRenderError(f"A fleet does not render the template engine {low['template']}, only jinja")
    context = {**(low.get("defaults") or {}), **(low.get("context") or {})}
    world.templates.content(path, saltenv, name=low["name"], source=source, context=context)
    return str(salt.utils.hashutils.get_hash(path))


def _recurse(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    saltenv = _saltenv(low)
    sources = low["source"] if isinstance(low["source"], list) else [low["source"]]
    names = [str(next(iter(each)) if isinstance(each, dict) else each).rstrip("/") for each in sources]
    if ("recurse", saltenv, *names) not in world.lists:
        world.lists.add(("recurse", saltenv, *names))
        folders = world.client.dir_list(saltenv)
        if not any(salt.utils.url.parse(name)[0] in folders for name in names):
            first = salt.utils.url.parse(names[0])[0]
            raise Failure(
                f"Recurse failed: The directory '{first}' does not exist on the salt fileserver in saltenv '{saltenv}'"
            )
    prefix = salt.utils.url.parse(names[0])[0].rstrip("/") + "/"
    if low.get("keep_symlinks"):
        world.client.symlink_list(saltenv, prefix)
    changes: dict[str, Any] = {}
    prints = []
    for path in world.client.file_list(saltenv, prefix):
        if not path.startswith(prefix) or not salt.utils.stringutils.check_include_exclude(
            path[len(prefix) :], low.get("include_pat"), low.get("exclude_pat")
        ):
            continue
        dest = os.path.join(str(low["name"]), path[len(prefix) :])  # noqa: PTH118 - a path of the minion's
        each = {**low, "name": dest, "source": salt.utils.url.create(path)}
        print_, changes[dest] = _managed(world, each)
        prints.append(print_)
    if low.get("include_empty"):
        world.client.dir_list(saltenv, prefix)
    return _print(_wishes(low), prints), changes


def _script(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    source = str(low.get("source") or low["name"])
    if not world.test and source.startswith(_SALT):
        if low.get("template"):
            _render(world, low, source, _saltenv(low))
        elif not world.client.deliver(source, _saltenv(low)):
            raise Failure(f"Unable to cache script {source} from saltenv '{_saltenv(low)}'")
    return "", {"pid": 4711, "retcode": 0, "stdout": "", "stderr": ""}


def _text(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Fetch what is added to a file: each source as a template."""
    sources = low.get("sources") or ([low["source"]] if low.get("source") else [])
    texts = []
    for source in sources:
        name = str(next(iter(source)) if isinstance(source, dict) else source)
        if name.startswith(_SALT):
            texts.append(_render(world, {**low, "template": low.get("template") or "jinja"}, name, _saltenv(low)))
    return _print(_wishes(low), texts), {"diff": "New text"}


def _patch(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Fetch a patch: its hash is asked for before."""
    source = _first(world, low["source"], _saltenv(low))
    found = world.client.hash_file(source, _saltenv(low)) if source.startswith(_SALT) else {"hsum": ""}
    if not found or (source.startswith(_SALT) and not world.client.deliver(source, _saltenv(low))):
        raise Failure(f"Unable to cache {source} from saltenv '{_saltenv(low)}'")
    return _print(_wishes(low), found["hsum"]), {}


def _module(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    for name, value in low.items():
        if name == "cp.get_file" and isinstance(value, list) and not world.test:
            given: dict[str, Any] = {}
            for each in value:
                given |= each if isinstance(each, dict) else {}
            path, dest = str(given.get("path", "")), str(given.get("dest", ""))
            if path.startswith(_SALT) and world.client.hash_file(path, _saltenv(low)):
                world.client.deliver(path, _saltenv(low), dest)
        elif name.startswith("cp.") and not world.test:
            _fetch_named(world, value, _saltenv(low))
    return "", {str(low["name"]): "ran"}


def _general(world: World, low: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Fetch every file of the master that a state names."""
    hashes = [] if world.test else _fetch_named(world, _wishes(low) | {"name": low["name"]}, _saltenv(low))
    return _print(_wishes(low), hashes), {}


def _fetch_named(world: World, value: Any, saltenv: str) -> list[str]:
    """Fetch what is named within a value; return the hashes.

    Raises:
        Failure: if the master doesn't have it.
    """
    if isinstance(value, dict):
        return [each for child in value.values() for each in _fetch_named(world, child, saltenv)]
    if isinstance(value, list | tuple):
        return [each for child in value for each in _fetch_named(world, child, saltenv)]
    if not isinstance(value, str) or not value.startswith(_SALT):
        return []
    found = world.client.deliver(value, saltenv)
    if not found:
        raise Failure(f"Source file {value} not found in saltenv '{saltenv}'")
    return [found]


_KINDS: Final[dict[str, Callable[[World, Mapping[str, Any]], tuple[str, dict[str, Any]]]]] = {
    "file.managed": _managed,
    "file.recurse": _recurse,
    "file.append": _text,
    "file.prepend": _text,
    "file.blockreplace": _text,
    "file.patch": _patch,
    "cmd.script": _script,
    "cmd.wait_script": _script,
    "module.run": _module,
}


# states that change something each time, those that only look, and milliseconds that some kinds take
_ALWAYS: Final = ("cmd.run", "cmd.script", "cmd.wait", "cmd.call", "module.run", "module.wait", "event.send")
_LOOKS: Final = ("file.exists", "file.missing", "file.not_cached", "file.accumulated", "cmd.wait_script")
_MILLISECONDS: Final = {"pkg": 120.0, "service": 60.0, "cmd": 15.0, "file": 12.0, "user": 20.0, "test": 0.5}


def milliseconds(low: Mapping[str, Any]) -> float:
    """Return what a state takes on average."""
    return _MILLISECONDS.get(str(low["state"]), 20.0)


def apply(world: World, low: Mapping[str, Any], tag: str) -> dict[str, Any]:
    """Return the result of a state, once its files are fetched."""
    if low["state"] == "test" and hasattr(salt.states.test, low["fun"]):
        return _real_test(world, low)
    full = f"{low['state']}.{low['fun']}"
    try:
        print_, changes = fetch(world, low)
    except Failure as failure:
        return _result(low, str(failure), result=False)
    except SaltRenderError as error:
        return _result(low, f"Unable to manage file: {error}", result=False)
    if full in _LOOKS:
        return _result(low, f"{low['name']} is as it should be")
    always = full in _ALWAYS or low["fun"] == "mod_watch"
    return _changed(world, low, None if always else ("state", tag, print_), changes)


def _result(
    low: Mapping[str, Any], comment: str, changes: Mapping[str, Any] | None = None, *, result: bool | None = True
) -> dict[str, Any]:
    return {"name": str(low["name"]), "changes": dict(changes or {}), "result": result, "comment": comment}


def _changed(
    world: World, low: Mapping[str, Any], key: tuple[str, ...] | None, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of a state that leaves `key` behind, or changes something each time if it is None."""
    changes = changes or {str(low["name"]): "done" if key is None else {"old": "", "new": "in place"}}
    if key is not None:
        world.effects.append(key)
        if key in world.held:
            return _result(low, _comment(_IN_PLACE, low))
    if world.test:
        return _result(low, _comment(_PLANNED, low), changes, result=None)
    if key is not None:
        world.leaves.append(key)
    return _result(low, _comment(_DONE, low), changes)


# what a state says that finds everything in place, that has done something, and in a dry run; "" is for all others
_IN_PLACE: Final = {
    "file.absent": "File {} is not present",
    "file.managed": "File {} is in the correct state",
    "file.directory": "The directory {} is in the correct state",
    "file.recurse": "The directory {} is in the correct state",
    "file": "The file {} is in the correct state",
    "pkg": "All specified packages are already installed",
    "service": "The service {} is already running",
    "": "{} is already in the correct state",
}
_DONE: Final = {
    "file.managed": "File {} updated",
    "file.recurse": "Recursively updated {}",
    "file.directory": "",
    "file.absent": "Removed file {}",
    "cmd.run": 'Command "{}" run',
    "cmd.script": "Command '{}' run",
    "pkg.installed": "The following packages were installed/updated: {}",
    "service.running": "Service {} has been enabled, and is running",
    "": "{} updated",
}
_PLANNED: Final = {
    "file.managed": "The file {} is set to be changed\nNote: No changes made, actual changes may\n"
    "be different due to other states.",
    "cmd.run": 'Command "{}" would have been executed',
    "": "{} is set to be changed",
}


def _comment(texts: Mapping[str, str], low: Mapping[str, Any]) -> str:
    words = (f"{low['state']}.{low['fun']}", str(low["state"]), "")
    return next(texts[word] for word in words if word in texts).format(low["name"])


def _real_test(world: World, low: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Salt's own test states return: they do nothing."""
    module = salt.states.test
    module.__opts__ = {"test": world.test}
    module.__salt__ = world.functions
    module.__low__ = dict(low)
    known = module.__dict__[str(low["fun"])]
    names = known.__code__.co_varnames[: known.__code__.co_argcount]
    found = known(**{name: low[name] for name in names if name in low})
    return dict(found)
