"""
A server that knows as much of PostgreSQL's protocol as one query needs
"""

import socket
import struct
import threading

BOOL = 16
JSONB = 3802
# of the first question of a connection
FIRST = (701, 23, 25, 1009)


def message(kind, *fields):
    """
    Return a message of the server
    """
    body = b"".join(fields)
    return kind + struct.pack("!i", len(body) + 4) + body


READY = message(b"Z", b"I")


def error(code, text, position=None):
    """
    Return an error as the server reports it, and where in the query it is
    """
    fields = f"C{code}\0M{text}\0"
    if position is not None:
        fields += f"P{position}\0"
    return message(b"E", b"SERROR\0VERROR\0", fields.encode(), b"\0")


def row(values, kinds):
    """
    Return a result of one row
    """
    count = struct.pack("!h", len(values))
    fields = (
        b"pillar\0" + struct.pack("!ihihih", 0, 0, kind, -1, -1, 0) for kind in kinds
    )
    parts = (struct.pack("!i", len(value)) + value for value in values)
    return (
        message(b"T", count, *fields)
        + message(b"D", count, *parts)
        + message(b"C", b"SELECT 1\0")
        + READY
    )


def result(value, kind=JSONB):
    """
    Return a result of one row with one field
    """
    return row([value], [kind])


class Server:
    """
    A server whose sessions answer each query with what ``answer`` gives for it
    """

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sessions = []
        # all that was sent, but what a client asks for itself and the end of a use
        self.messages = []
        # the last statement of each message, and what stands before it
        self.queries = []
        self.before = []
        # what clients reset their sessions with
        self.resets = []
        self.startups = []
        self.greet = True
        self.statuses = {
            "server_version": "15.0",
            "client_encoding": "UTF8",
            "DateStyle": "ISO, MDY",
            "standard_conforming_strings": "on",
            "integer_datetimes": "on",
        }
        self.answers = {"BEGIN": message(b"C", b"BEGIN\0") + READY}
        self.reset = result(b"t", BOOL)
        # the limit of the server itself, and routines that may set something
        self.limit = b"0"
        self.sources = b"{}"
        # whether a pooler is between: then sessions are of other processes
        self.is_pooled = False
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                session, _ = self.listener.accept()
            except OSError:
                return
            if self.greet:
                threading.Thread(
                    target=self._serve, args=(session,), daemon=True
                ).start()
            else:
                self.sessions.append(session)

    def _read(self, session, count):
        data = b""
        while len(data) < count:
            part = session.recv(count - len(data))
            if not part:
                raise ConnectionError
            data += part
        return data

    def _startup(self, session):
        while True:
            (length,) = struct.unpack("!i", self._read(session, 4))
            body = self._read(session, length - 4)
            if struct.unpack("!i", body[:4])[0] == 196608:
                break
            # neither TLS nor GSSAPI
            session.sendall(b"N")
        parts = body[4:].rstrip(b"\0").decode().split("\0")
        self.startups.append(dict(zip(parts[::2], parts[1::2])))
        session.sendall(
            message(b"R", struct.pack("!i", 0))
            + b"".join(
                message(b"S", f"{name}\0{value}\0".encode())
                for name, value in self.statuses.items()
            )
            + message(b"K", struct.pack("!ii", len(self.startups), 1))
            + READY
        )
        self.sessions.append(session)

    def _serve(self, session):
        try:
            self._startup(session)
            backend = str(len(self.startups) + 100 * self.is_pooled).encode()
            # not in a transaction
            status = b"I"
            while True:
                kind = self._read(session, 1)
                (length,) = struct.unpack("!i", self._read(session, 4))
                body = self._read(session, length - 4)
                if kind == b"X":
                    session.close()
                    return
                text = body.rstrip(b"\0").decode()
                if "BEGIN" in text:
                    status = b"T"
                elif text.startswith(("ROLLBACK", "COMMIT", "DISCARD ALL")):
                    status = b"I"
                before, _, query = text.rpartition("; ")
                if text.startswith("SELECT extract(epoch"):
                    answer = self.limit
                    if not callable(answer):
                        answer = row([answer, backend, b"1 1", self.sources], FIRST)
                elif text.startswith("ROLLBACK; "):
                    self.resets.append(text)
                    answer = self.reset
                else:
                    self.messages.append(text)
                    self.before.append(before)
                    self.queries.append(query)
                    answer = self.answers.get(query, result(b'{"a": 1}'))
                if callable(answer):
                    answer(session)
                else:
                    if answer.endswith(READY):
                        answer = answer[: -len(READY)] + message(b"Z", status)
                    session.sendall(answer)
        except OSError:
            pass

    def end_sessions(self):
        """
        Say goodbye to all clients, as a server does that is restarted
        """
        for session in self.sessions:
            try:
                session.sendall(error("57P01", "terminating connection"))
                session.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        # accept() of another thread ends by a shutdown, not by a close
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for session in self.sessions:
            session.close()
