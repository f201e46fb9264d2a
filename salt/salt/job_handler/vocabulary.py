"""
The words that the parts of the job handler, the master's workers and clients share, each
with its one meaning.

A *submission* is one try of handing a job over; both sides claim it by its name. The
*idempotency key* names what the client asked for: a second try has the same one.
"""

# ----------------------------------------------------------------------
# Names
# ----------------------------------------------------------------------

#: The end of the job ids of questions. In other job ids the number of a process is there.
QUESTION = "_0"

#: The minion that stands for those that only syndics know.
UNKNOWN = "*"

#: The functions that end a job on minions: what waits of it for these minions ends too.
KILLS = ("saltutil.kill_job", "saltutil.term_job")

#: The name of the error that refuses a job.
REFUSED = "JobQueueFullError"

# ----------------------------------------------------------------------
# Replies to a worker
# ----------------------------------------------------------------------

#: To ``reserve``: there is a place; the key has been answered, and how; another try of
#: it is on its way; there is no place.
RESERVED = "reserved"
ANSWERED = "answered"
TWIN = "twin"
FULL = "full"

#: To ``submit``: the job is taken; it was before; the worker has published it meanwhile;
#: it can't be written down.
ACCEPTED = "accepted"
KNOWN = "known"
LATE = "late"
UNKEPT = "unkept"

# ----------------------------------------------------------------------
# Words to the client, in the answer to a publish request and in events
# ``salt/job/<jid>/<word>``
# ----------------------------------------------------------------------

#: Minions of the job wait. The job, or a wave of it, has been published. Minions are
#: left out. Nothing more of the job is published.
QUEUED = "queued"
DISPATCHED = "dispatched"
EXCLUDED = "excluded"
DISCARDED = "discarded"

#: Nothing heard of a queued job for so many seconds means that the job handler is gone
#: or the events are lost. The client then goes on as if there was no queue. A client on
#: a master under load hears of things late.
LEASE_SECONDS = 60

# ----------------------------------------------------------------------
# Why a job is discarded
# ----------------------------------------------------------------------

TIMEOUT = "timeout"
AGE = "age"
GONE = "gone"
CANCELLED = "cancelled"
OFF = "off"

SENTENCES = {
    TIMEOUT: "It waited in the master's queue for longer than its caller did",
    AGE: "It waited in the master's queue for longer than max_queue_age",
    GONE: "It waited in the master's queue when its caller ended",
    CANCELLED: "It was taken out of the master's queue",
    OFF: "It waited in the master's queue when the job handler was turned off",
}

# ----------------------------------------------------------------------
# States of a wave in the journal. A job that waits is a row of its own; what a minion of
# a wave has given back is a row of the table ``returns``
# ----------------------------------------------------------------------

#: It may have been published. It has been.
WRITTEN = 0
SENT = 1
