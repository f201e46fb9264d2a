"""
What waits for another person: changes of what the last stage has.

.. code-block:: text

    promote into, assign to, unassign or release from the last stage
        |
      open ---- approve, by another person ---> approved: it is done
        |
        `------ reject, by any person -------> rejected: nothing is done

A request and the decision on it are written once and stay. The database takes no approval
by the person who asked, and none of a revision by an author of what is new in it.
"""

from typing import NamedTuple

import saltext.package_states.names as names
import saltext.package_states.store as store
from saltext.package_states.errors import NotThere, Unapproved

PROMOTE, ASSIGN, UNASSIGN = "promote", "assign", "unassign"
RELEASE = "release"


class Request(NamedTuple):
    """
    A change that somebody asks for

    id
        Its number, None for one that is not written down yet.

    state, name
        The id and the name of the state, None and empty with ``release``.

    action
        ``promote``, ``assign``, ``unassign`` or ``release``.

    stage
        Into which a revision is to come, or which an assignment is to follow.

    revision
        The number of the revision, with ``promote``.

    kind, target, priority
        Of the assignment.

    author, comment, created
        Who asks, why, and when.
    """

    id: int
    state: int
    name: str
    action: str
    stage: str
    revision: int = None
    kind: str = None
    target: str = None
    priority: int = None
    author: str = ""
    comment: str = ""
    created: str = ""

    @property
    def label(self):
        """
        What is asked for, for people
        """
        if self.action == PROMOTE:
            return f"promote {self.name} revision {self.revision} to {self.stage}"
        if self.action == RELEASE:
            return f"release {self.target} from {self.stage}"
        to = f"{self.kind} {self.target}"
        if self.action == UNASSIGN:
            return f"unassign {self.name} from {to}"
        follows = f", stage {self.stage}" if self.stage else ""
        return f"assign {self.name} to {to} (priority {self.priority}{follows})"


_FIELDS = (
    "q.id, q.state_id, COALESCE(s.name, ''), q.action, q.stage, q.revision, q.kind, q.target,"
    " q.priority, q.author, q.comment, q.created::text"
)


def ask(connection, request):
    """
    Write a request down, and return its number; that of an open one in which the same
    person asks for the same

    :param connection: see :func:`saltext.package_states.store.writing`
    :param Request request: what is asked for
    :raises Unapproved: if nobody asks for it whom Salt has authenticated
    """
    who = names.person(request.author)
    if who in names.NOBODY:
        raise Unapproved(
            "What the last stage has is asked for by persons whom Salt has authenticated;"
            f" {request.label} as one of them."
        )
    same = request._replace(id=None, author="", comment="", created="")
    for one in waiting(connection):
        if (
            one._replace(id=None, author="", comment="", created="") == same
            and names.person(one.author) == who
        ):
            return one.id
    rows = store.ask(
        connection,
        "INSERT INTO package_states.request (state_id, action, stage, revision, kind,"
        " target, priority, author, comment)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id",
        request.state,
        *request[3:9],
        names.author(request.author),
        names.text(request.comment, "comment"),
    )
    return rows[0][0]


def waiting(connection, ids=None):
    """
    Return the open requests, the oldest first

    :param ids: the numbers of some of them, None for all
    """
    rows = store.ask(
        connection,
        f"SELECT {_FIELDS} FROM package_states.request AS q"
        " LEFT JOIN package_states.state AS s ON s.id = q.state_id"
        " LEFT JOIN package_states.decision AS d ON d.request_id = q.id"
        " WHERE d.request_id IS NULL AND (%s OR q.id = ANY(%s)) ORDER BY q.id",
        ids is None,
        list(ids or ()),
    )
    return [Request(*row) for row in rows]


def one(connection, number):
    """
    Return an open request

    :param number: what somebody wrote
    :raises NotThere: if there is no open one of this number
    """
    text = str(number)
    good = text.isascii() and text.isdigit() and len(text) < 10
    found = waiting(connection, [int(text)]) if good else []
    if not found:
        raise NotThere(
            f"No request {names.shown(number)} waits; see package_states.requests."
        )
    return found[0]


def decide(connection, request, approved, author, comment):
    """
    Write down what became of a request

    :param Request request: the request
    :param bool approved: whether it is approved, or else rejected
    :param str author: who decides
    :param str comment: why
    :raises PackageStateError: if this person can't approve it
    """
    store.ask(
        connection,
        "INSERT INTO package_states.decision (request_id, approved, author, comment)"
        " VALUES (%s, %s, %s, %s) RETURNING request_id",
        request.id,
        approved,
        names.author(author),
        names.text(comment, "comment"),
    )


def history(connection, where):
    """
    Return all requests of a state with what became of them, the oldest first: rows of a
    request, whether it was approved (None if it is open), and by whom, why and when

    :param State where: the state
    """
    rows = store.ask(
        connection,
        f"SELECT {_FIELDS}, d.approved, d.author, d.comment, d.created::text"
        " FROM package_states.request AS q"
        " JOIN package_states.state AS s ON s.id = q.state_id"
        " LEFT JOIN package_states.decision AS d ON d.request_id = q.id"
        " WHERE q.state_id = %s ORDER BY q.id",
        where.id,
    )
    return [(Request(*row[:12]), *row[12:]) for row in rows]
