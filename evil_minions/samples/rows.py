"""The rows of the files of samples, a kind for each file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job when a worker first saw it; `targeted` counts its minions that match and are subscribed."""

    time: float
    jid: str
    fun: str
    targeted: int


@dataclass(frozen=True, slots=True)
class TallyRow:
    """What has become of a job on the minions of one worker, up to `time`; only the last row of a `number` counts.

    A worker that had forgotten a job, after some thousand others, counts later events of it under another number.

    `targeted` are the minions that the job is for and that have ever signed in, also if they are dead or cut off now:
    the master expects their returns. `reached` are those that took it, at once or later. `returns` have been handed to
    the connection; of these `acknowledged` and `given_up` are over. `ended` took the job and will never have a return:
    the minion died, was told to stop the job, or keeps silent. The rest of `reached` is at work.
    """

    time: float
    number: int
    jid: str
    fun: str
    targeted: int
    reached: int
    returns: int
    acknowledged: int
    given_up: int
    ended: int


@dataclass(frozen=True, slots=True)
class ReturnRow:
    """A return that is over: acknowledged, or given up after `attempts`; `seconds` since its first send.

    One of a minion that died before the return's turn has no attempt.
    """

    time: float
    jid: str
    fun: str
    minion: str
    attempts: int
    acknowledged: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class StartRow:
    """A minion that got ready: seconds from the start of its worker to signed in, pillar there, start events out."""

    minion: str
    auth_s: float
    pillar_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """What a minion with a behaviour decided on: before a job (`test.ping#2`), or before a round of a timer.

    Nothing in it depends on time, so that two runs can be compared.
    """

    minion: str
    what: str
    behaviour: str
    rule: str
    seconds: float
    returns: str
    next: str
