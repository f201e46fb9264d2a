"""Stands between a master's event bus and its job handler, loses returns on the way, and cuts the connection.

It takes the place of the bus's socket, so whoever connects from then on comes through here; only what goes to the
process `lossy` is touched.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import msgpack

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

RETURN = re.compile(rb"salt/job/[0-9_]+/ret/")
PIECE = 2**16


class EventBusProxy:
    """A context manager; one return in `one_in` is lost, and `lost` counts them."""

    def __init__(self, path: Path, one_in: int) -> None:
        """Take the path of the bus's socket."""
        self._path = path
        self._real = path.with_name("real_event_pub.ipc")
        self._one_in = one_in
        self._peers: list[tuple[int, socket.socket, socket.socket]] = []
        self.lossy = 0
        self.returns = 0
        self.lost = 0

    def __enter__(self) -> Self:
        """Take the place of the socket."""
        self._path.rename(self._real)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the place back, and end all connections."""
        self._real.rename(self._path)
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for pid in {pid for pid, _, _ in self._peers}:
            self.cut(pid)

    def cut(self, pid: int) -> int:
        """Cut the connections of a process; return how many there were."""
        cut = [peer for peer in self._peers if peer[0] == pid]
        for peer in cut:
            self._peers.remove(peer)
            for end in peer[1:]:
                # the thread that reads from it closes it
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        return len(cut)

    def _accept(self) -> None:
        """Serve whoever connects."""
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            bus = socket.socket(socket.AF_UNIX)
            bus.connect(str(self._real))
            self._peers.append((pid, client, bus))
            threading.Thread(target=self._hand_on, args=(pid, bus, client), daemon=True).start()
            threading.Thread(target=self._watch, args=(client, bus), daemon=True).start()

    def _hand_on(self, pid: int, bus: socket.socket, client: socket.socket) -> None:
        """Hand the bus's messages on, one by one, and byte for byte."""
        unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
        kept = bytearray()
        done = 0
        with suppress(OSError), bus:
            while piece := bus.recv(PIECE):
                unpacker.feed(piece)
                kept += piece
                for message in unpacker:
                    size = unpacker.tell() - done
                    done += size
                    if not self._loses(pid, message[b"body"]):
                        client.sendall(kept[:size])
                    del kept[:size]
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _loses(self, pid: int, event: bytes) -> bool:
        """Return whether this event gets lost on the way to this process."""
        if pid != self.lossy or not RETURN.match(event):
            return False
        self.returns += 1
        lost = self.returns % self._one_in == 0
        self.lost += lost
        return lost

    @staticmethod
    def _watch(client: socket.socket, bus: socket.socket) -> None:
        """Let the bus know when the client hangs up; it never says anything."""
        with suppress(OSError), client:
            while client.recv(PIECE):
                pass
        with suppress(OSError):
            bus.shutdown(socket.SHUT_RDWR)
