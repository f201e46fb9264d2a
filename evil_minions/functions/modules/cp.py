"""The module `cp`: files of the master, fetched for real and thrown away.

Source: salt/modules/cp.py and RemoteClient in salt/fileclient.py of Salt 3008.5, and requests recorded from a minion.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Final

import salt.utils.stringutils
import salt.utils.url

from evil_minions.functions import CURRENT, Function, ask_all, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping

_ORIGIN: Final = "salt.modules.cp"
_CACHE: Final = "/var/cache/salt/minion/files"
_PROTOCOL: Final = "salt://"


def _split(path: str, saltenv: str | None) -> tuple[str, str]:
    """Return the path on the file server and its environment."""
    path, named = salt.utils.url.split_env(path)
    return path.removeprefix(_PROTOCOL), named or saltenv or "base"


async def _content(path: str, saltenv: str | None) -> bytes | None:
    """Return a file of the master, asked for as by a minion that doesn't have it; None if there is none."""
    where, env = _split(path, saltenv)
    with CURRENT.get().host.asking() as ask:
        if not await ask({"path": where, "saltenv": env, "cmd": "_file_hash"}):
            return None
        return await fetch(ask, {"path": where, "saltenv": env})


async def _ask(load: Mapping[str, Any]) -> Any:
    return (await ask_all(CURRENT.get().host, [load]))[0]


async def cache_file(
    path: str, saltenv: str | None = None, source_hash: Any = None, verify_ssl: bool = True, use_etag: bool = False
) -> str | bool:
    """Fetch a file; return where a minion would keep it."""
    where, env = _split(path, saltenv)
    if not path.startswith(_PROTOCOL) or await _content(path, saltenv) is None:
        return False
    return posixpath.join(_CACHE, env, where)


async def cache_files(paths: Any, saltenv: str | None = None) -> list[str | bool]:
    """Fetch several files."""
    return [await cache_file(path, saltenv) for path in (paths.split(",") if isinstance(paths, str) else paths)]


async def get_file_str(path: str, saltenv: str | None = None) -> str | bool:
    """Fetch a file and return its text."""
    content = await _content(path, saltenv)
    return False if content is None else str(salt.utils.stringutils.to_unicode(content))


async def get_file(
    path: str,
    dest: str,
    saltenv: str | None = None,
    makedirs: bool = False,
    template: Any = None,
    gzip: Any = None,
    **kwargs: Any,
) -> str:
    """Fetch a file to a place of the minion, which doesn't get it: nothing of a master is written here."""
    where, env = _split(path, saltenv)
    # Salt asks once to know whether the file is there, then its file client does
    found = await _ask({"path": where, "saltenv": env, "cmd": "_file_hash"})
    if not found or await _content(path, saltenv) is None:
        return ""
    return posixpath.join(dest, posixpath.basename(where)) if dest.endswith("/") else dest


async def hash_file(path: str, saltenv: str | None = None) -> Any:
    """Return the hash of a file."""
    where, env = _split(path, saltenv)
    return await _ask({"path": where, "saltenv": env, "cmd": "_file_hash"})


async def list_master(saltenv: str | None = None, prefix: str = "") -> Any:
    """Return the files of the master."""
    return await _ask({"saltenv": saltenv or "base", "prefix": prefix, "cmd": "_file_list"})


async def list_master_dirs(saltenv: str | None = None, prefix: str = "") -> Any:
    """Return the folders of the master's file server."""
    return await _ask({"saltenv": saltenv or "base", "prefix": prefix, "cmd": "_dir_list"})


async def list_master_symlinks(saltenv: str | None = None, prefix: str = "") -> Any:
    """Return the links of the master's file server."""
    return await _ask({"saltenv": saltenv or "base", "prefix": prefix, "cmd": "_symlink_list"})


async def envs() -> Any:
    """Return the environments of the master's file server."""
    return await _ask({"cmd": "_file_envs"})


FUNCTIONS: Final = {
    f"cp.{call.__name__}": Function(call, f"{_ORIGIN}:{call.__name__}", seconds=0.05)
    for call in (
        cache_file,
        cache_files,
        get_file_str,
        get_file,
        hash_file,
        list_master,
        list_master_dirs,
        list_master_symlinks,
        envs,
    )
}
