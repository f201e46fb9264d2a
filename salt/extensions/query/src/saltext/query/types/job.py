"""Jobs: what has been published, what waits to be, and what has come back."""

import datetime
import functools
import operator

from saltext.query.field import read
from saltext.query.item import Item, ItemType, grain, named
from saltext.query.kinds import MISSING_NODATA, MISSING_UNAVAIL
from saltext.query.sources.job_cache import has_failed, is_internal, started


class Job(Item):
    """What it takes to know of a job is read once for all of its fields.

    :ivar str name: the job id
    """

    def __init__(self, context, name):
        super().__init__(context, name)
        self.source = context.source("job_cache")
        self.queue = context.source("queue")

    @functools.cached_property
    def load(self):
        """What the query needs of what was published; empty if there is nothing."""
        return self.source.load(self.name, self.context.wanted["load"]) or {}

    @functools.cached_property
    def minions(self):
        """The minions that the job was for, or None."""
        return self.source.minions(self.name)

    @functools.cached_property
    def returned(self):
        """The minions that have returned."""
        return self.source.returned(self.name)

    @functools.cached_property
    def results(self):
        """The results of the minions that have returned, None for what can't be read."""
        return self.source.results(self.name)

    @property
    def missing(self):
        """The minions that have not returned; None if that is not known."""
        if self.minions is None:
            return None
        returned = set(self.returned)
        return [minion for minion in self.minions if minion not in returned]

    def line(self):
        """Return what the job handler knows of it while it waits, or why nothing."""
        if self.queue.waiting is None:
            return self.queue.nothing
        return self.queue.waiting.get(self.name, MISSING_UNAVAIL)

    def part(self, key):
        """Return a value of this."""
        line = self.line()
        return grain(line, key) if isinstance(line, dict) else line

    def fun(self):
        found = grain(self.load, "fun")
        return ",".join(map(str, found)) if isinstance(found, list) else found

    def metadata(self):
        args = self.load.get("arg")
        args = args if isinstance(args, list) else []
        for one in (self.load, self.load.get("kwargs"), *args):
            if isinstance(one, dict) and isinstance(one.get("metadata"), dict):
                return one["metadata"]
        return None

    def end_ts(self):
        found = datetime.datetime.strptime(
            self.source.ended(self.name), "%Y, %b %d %H:%M:%S.%f"
        )
        return found.replace(tzinfo=datetime.timezone.utc).timestamp()

    def ret_list(self):
        """Return those of the minions that the job was for that have returned."""
        if self.minions is None:
            return self.returned
        return sorted(set(self.returned).intersection(self.minions))

    def fail_cnt(self):
        return sum(one is not None and has_failed(one) for one in self.results.values())

    def retcodes(self):
        found = self.results.items()
        return {minion: one.get("retcode") for minion, one in found if one is not None}

    def success(self):
        if self.minions is None:
            return None
        if self.fail_cnt():
            return False
        return MISSING_NODATA if self.missing or None in self.results.values() else True

    def status(self):
        """Return how far a job is. Only the job handler knows which minions run a job;
        without it, a job that has not come back whole is just published.
        """
        line = self.line()
        if isinstance(line, dict):
            return "publishing" if line["sent"] else "queued"
        if self.missing:
            state = self.queue.ask("show", self.name)
            return "running" if state and state["running_on"] else "published"
        ret = self.success()
        return {True: "success", False: "failed"}.get(ret, ret)

    def running_list(self):
        state = self.queue.ask("show", self.name)
        return self.queue.nothing if state is None else state["running_on"]


def _items(context, names):
    jobs = context.source("job_cache")
    if names is None:
        found = dict.fromkeys(jobs.ids())
    else:
        found = {name for name in names if jobs.has(name)}
    for name in named(found):
        yield Job(context, name)


_FIELDS = """
id,name,jid   ID           text      -             Job identifier
status        Status       text      returns       State of the job: queued, publishing, running, published, success or failed
fun           Function     text      load:fun      Function
args          Arguments    other     load:arg      Arguments
tgt           Target       other     load:tgt      Target
tgt_type      TargetType   text      load:tgt_type Type of target
user          User         text      load:user     User who started the job
ret           Returner     text      load:ret      Further returners
metadata      Metadata     other     load:metadata,load:kwargs,load:arg Metadata that the user gave the job
internal      Internal     bool      load:fun,load:kwargs Whether a runner, a query or Salt itself started the job
start_ts      Start        timestamp -             Time at which the job got its identifier
end_ts        End          timestamp endtime       Time at which the job ended, if job_cache_store_endtime is on
exp_cnt       Expected     number    minions       Number of minions that the job was for
exp_list      ExpectedList other     minions       Minions that the job was for
ret_cnt       Returned     number    returned      Number of these minions that have returned
ret_list      ReturnedList other     returned      Those of these minions that have returned
extra_list    ExtraList    other     returned      Minions that have returned and that the job was not for
missing_list  MissingList  other     returned      Minions that have not returned
fail_cnt      Failed       number    returns       Number of minions that returned a failure
retcodes      RetCodes     other     returns       Return code of each minion that has returned
success       Success      bool      returns       Whether all minions have returned without a failure
batch         Batch        bool      batch         Whether the job is run in batches
queue_place   QueuePlace   number    line:position Place in the job handler's queue
queue_reason  QueueReason  text      line:reason   Why the job waits in the job handler's queue
wait_cnt      Waiting      number    line:waiting  Number of minions that the job handler has yet to send the job to
sent_cnt      Sent         number    line:sent     Number of minions that the job handler has sent the waiting job to
waited        Waited       float     line:waited   Seconds for which the job has waited in the job handler's queue
running_list  RunningList  other     queue         Minions that run the job as the job handler knows
"""
_KNOWN = read(
    _FIELDS,
    Job,
    {
        "id": lambda job: job.name,
        "internal": lambda job: is_internal(job.load),
        "start_ts": lambda job: started(job.name),
        "exp_cnt": lambda job: None if job.minions is None else len(job.minions),
        "exp_list": operator.attrgetter("minions"),
        "ret_cnt": lambda job: len(job.ret_list()),
        "extra_list": lambda job: (
            sorted(set(job.returned).difference(job.minions or job.returned))
        ),
        "missing_list": operator.attrgetter("missing"),
        "batch": lambda job: job.source.is_batch(job.name),
        "load:": lambda key: lambda job: grain(job.load, key),
        "line:": lambda key: lambda job: job.part(key),
    },
    waited={"span": True},
)


def item_type():
    return ItemType(
        "job",
        "Jobs of the master's job cache",
        _KNOWN,
        _items,
        usual=("id", "fun", "user", "tgt", "exp_cnt", "start_ts"),
        usual_sort="-id",
        usual_limit=50,
        usual_filter=["!", ["?", "internal"]],
    )
