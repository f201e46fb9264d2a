"""The file client of the compiler: Salt's own, whose requests a simulated minion makes."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import salt.fileclient
import salt.payload
import salt.utils.url
from salt.exceptions import SaltRenderError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

_LENGTH: Final = struct.Struct(">I")


class Line:
    """A connection to the worker; `work` adds up the milliseconds of simulated work since the last question."""

    def __init__(self, sock: socket.socket) -> None:
        """Use a connected socket."""
        self._file = sock.makefile("rwb")
        self.work = 0.0

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end."""
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
        return dict(salt.payload.loads(self._file.read(length), encoding="utf-8"))

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        data = salt.payload.dumps(message, use_bin_type=True)
        self._file.write(_LENGTH.pack(len(data)) + data)
        self._file.flush()

    def ask(self, **message: Any) -> Any:
        """Ask something, and return the answer.

        Raises:
            EOFError: if the worker has gone.
        """
        self.send({**message, "pause": self.pause()})
        answer = self.receive()
        if answer is None:
            raise EOFError("The worker has gone.")
        return answer["answer"]

    def pause(self) -> float:
        """Return the seconds of work since the last question, and begin to count from zero."""
        pause, self.work = self.work / 1000.0, 0.0
        return pause


class FileClient(salt.fileclient.RemoteClient):  # type: ignore[misc] # Salt has no types
    """A file client with the cache of the process; whether the minion has a file is known to the worker."""

    def __init__(self, opts: dict[str, Any], line: Line) -> None:  # pylint: disable=super-init-not-called
        """Use a line to the worker; no channel is opened."""
        self.opts = opts
        self.utils: dict[str, Any] = {}
        self._closing = False
        self._line = line
        # what this process has been given to read, for who wants to know
        self.taken: list[str] = []
        self._hashes: dict[tuple[str, str], str] = {}

    def _channel_send(self, load: dict[str, Any], raw: bool = False) -> Any:
        """Have the minion ask."""
        if load["cmd"] == "_master_tops":
            load = {"cmd": "_master_tops"}
        return self._line.ask(ask=load)

    def master_opts(self) -> Any:
        """Return what the minion has asked for before."""
        return self.opts["__master_opts__"]

    def deliver(self, url: str, saltenv: str, dest: str = "", *, wanted: bool = False) -> str:
        """Have the minion fetch a file unless it has it, as Salt's get_file does.

        Return where this process keeps it if its content is `wanted`, else its hash; nothing if the master has none.
        """
        url, named = salt.utils.url.split_env(url)
        saltenv = named or saltenv
        found = self.hash_file(url, saltenv)
        if not found:
            return ""
        path = self._check_proto(url)
        hsum = str(found["hsum"])
        held = ["file", dest, hsum] if dest else ["cache", saltenv, path, hsum]
        kept = Path(self.opts["cachedir"]) / "files" / saltenv / path
        missing = wanted and (self._hashes.get((saltenv, path)) != hsum or not kept.is_file())
        content = self._line.ask(load={"path": path, "saltenv": saltenv}, held=held, wanted=missing)
        if not wanted:
            return hsum
        if missing:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(content or b"")
            self._hashes[saltenv, path] = hsum
        self.taken.append(str(kept))
        return str(kept)

    def get_file(
        self,
        path: str,
        dest: str = "",
        makedirs: bool = False,
        saltenv: str = "base",
        gzip: Any = None,
        cachedir: str | None = None,
    ) -> Any:
        """Have the minion fetch a file, and return where this process has it."""
        return self.deliver(path, saltenv, dest or "", wanted=True) or False

    def get_url(self, url: str, dest: Any, makedirs: bool = False, saltenv: str = "base", **more: Any) -> Any:
        """Fetch from the master; nothing else is fetched from here.

        Raises:
            SaltRenderError: for another URL than one of the master.
        """
        if not url.startswith("salt://"):
            raise SaltRenderError(f"A simulated minion fetches nothing from {url}: put the file on the master.")
        return self.get_file(url, dest, makedirs, saltenv, cachedir=more.get("cachedir"))

    def destroy(self) -> None:
        """Keep everything for the next run."""


def prepare(folder: Path) -> Path:
    """Return the folder for what is cached, made."""
    cache = folder / "cache"
    os.makedirs(cache, exist_ok=True)  # noqa: PTH103 - with the process's umask
    return cache
