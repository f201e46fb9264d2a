"""Where jobs are kept: in files of the local job cache, or behind a returner."""

import datetime
import logging
import os
import re

from saltext.query.errors import QueryStoreError
from saltext.query.files import Files, unpack

import salt.loader
import salt.utils.jid

log = logging.getLogger(__name__)

_NO_MINIONS = frozenset(("jid", "nocache", "endtime"))
_MINIONS = re.compile(r"\.minions(\..+)?\.p")
_UTC = datetime.timezone.utc

# jobs of runners and of the wheel, and Salt's questions about other jobs
_INTERNAL = re.compile(r"(runner|wheel)\..*|saltutil\.(find_job|running)")

#: The metadata of the jobs of fields that ask minions, and what these run.
LIVE = {"query": "live"}
_ASKED = re.compile(r"test\.ping|status\.\w+|disk\.usage|saltutil\.running")

# where year, month, day, hour, minute, second and microsecond are in a job id
_PARTS = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14), (14, 20))


def source(context):
    """Return where the master keeps its jobs."""
    if context.opts.get("master_job_cache", "local_cache") == "local_cache":
        return LocalJobs(context.opts, context.documents.files)
    return ReturnerJobs(context.opts)


def started(jid):
    """Return when a job was started, as its id says, or None."""
    try:
        # strptime() takes ten times as long
        parts = [int(jid[start:end]) for start, end in _PARTS]
        return datetime.datetime(*parts, tzinfo=_UTC).timestamp()
    except ValueError:
        return None


def is_internal(load):
    """Return whether a job is of a runner, the wheel, a query or Salt itself."""
    kwargs, found = load.get("kwargs"), load.get("fun")
    is_live = isinstance(kwargs, dict) and kwargs.get("metadata") == LIVE
    known = _ASKED if is_live else _INTERNAL
    functions = found if isinstance(found, list) else [found]
    return bool(found) and all(known.fullmatch(str(one)) for one in functions)


def has_failed(result):
    """Return whether a minion's result is a failure. A job of several functions has a
    dictionary with the outcome of each.
    """
    return any(one is False for one in _each(result.get("success"))) or any(
        one not in (None, 0) for one in _each(result.get("retcode"))
    )


def _each(outcome):
    return outcome.values() if isinstance(outcome, dict) else (outcome,)


class LocalJobs:
    """The jobs of the returner ``local_cache``, each of which is a folder."""

    def __init__(self, opts, parent):
        self.root = os.path.join(opts["cachedir"], "jobs")
        self.hash_type = opts.get("hash_type", "sha256")
        self.files = Files(
            "The jobs can't be read: see what is wrong with the job cache local_cache",
            parent,
        )
        self._folders = {}

    def folder(self, jid):
        """Return the folder of a job. Its name is a hash, so no job id leads elsewhere."""
        found = self._folders.get(jid)
        return found or salt.utils.jid.jid_dir(jid, self.root, self.hash_type)

    def ids(self):
        """Return the ids of all jobs."""
        for top in self.files.entries(self.root):
            for final in self.files.entries(top.path) if top.is_dir() else ():
                jid = self.files.read(final.path + "/jid", bytes.decode)
                if not jid:
                    load = self.files.project(final.path + "/.load.p", {"jid"})
                    jid = (load or {}).get("jid")
                if jid:
                    self._folders[str(jid)] = final.path
        return list(self._folders)

    def has(self, jid):
        """Return whether there is such a job."""
        try:
            return os.path.isdir(self.folder(jid))
        except UnicodeError:
            # no id has half of a surrogate pair
            return False

    def load(self, jid, wanted):
        """Return what was published, as far as it is wanted, or None."""
        path = self.folder(jid) + "/.load.p"
        return self.files.project(path, wanted | {"jid"}) or None

    def minions(self, jid):
        """Return the minions that the job was for, or None."""
        ret = None
        for entry in self.files.entries(self.folder(jid)):
            if _MINIONS.fullmatch(entry.name):
                found = self.files.read(entry.path, unpack)
                if isinstance(found, (list, tuple)):
                    ret = (ret or set()).union(map(str, found))
        return None if ret is None else sorted(ret)

    def returned(self, jid):
        """Return the minions that have returned."""
        return sorted(
            entry.name
            for entry in self.files.entries(self.folder(jid))
            if entry.name[0] != "."
            and entry.name not in _NO_MINIONS
            and entry.is_dir(follow_symlinks=False)
            # the folder is made first
            and os.path.exists(entry.path + "/return.p")
        )

    def result(self, jid, minion):
        """Return the return code and the success of a minion's return, or None."""
        path = f"{self.folder(jid)}/{minion}/return.p"
        return self.files.project(path, {"retcode", "success"})

    def results(self, jid):
        """Return the result of each minion that has returned, None if it is damaged."""
        return {minion: self.result(jid, minion) for minion in self.returned(jid)}

    def ended(self, jid):
        """Return when the job ended as the master wrote it down, or None."""
        found = self.files.read(self.folder(jid) + "/endtime", bytes.decode)
        return found and found.strip()

    def is_batch(self, jid):
        """Return whether the job is run in batches."""
        return os.path.exists(self.folder(jid) + "/.batch.p")


class ReturnerJobs:
    """The jobs of any other returner, with the methods of :class:`LocalJobs`."""

    def __init__(self, opts):
        self.name = opts["master_job_cache"]
        self.returners = salt.loader.returners(opts, salt.loader.minion_mods(opts))

    def _call(self, function, *args):
        if f"{self.name}.{function}" not in self.returners:
            raise QueryStoreError(
                f"Correct master_job_cache in the master's configuration: the returner"
                f" {self.name} is not there, or has no {function}."
            )
        try:
            found = self.returners[f"{self.name}.{function}"](*args)
        except Exception as exc:  # pylint: disable=broad-except
            # each returner has errors of its own
            log.debug("The returner %s failed", self.name, exc_info=True)
            raise QueryStoreError(
                "The jobs can't be read: see what is wrong with the job cache"
                f" {self.name} ({exc})."
            ) from exc
        return found if isinstance(found, dict) else {}

    def ids(self):
        return [str(jid) for jid in self._call("get_jids")]

    def has(self, jid):
        return bool(self._call("get_load", jid))

    def load(self, jid, wanted):
        found = self._call("get_load", jid)
        return {key: found[key] for key in wanted if key in found} if found else None

    def minions(self, jid):
        found = self._call("get_load", jid).get("Minions")
        return sorted(found) if isinstance(found, (list, tuple)) else None

    def returned(self, jid):
        return sorted(self._call("get_jid", jid))

    def result(self, jid, minion):
        return self.results(jid).get(minion)

    def results(self, jid):
        return {
            minion: found if isinstance(found, dict) else None
            for minion, found in self._call("get_jid", jid).items()
        }

    @staticmethod
    def ended(_jid):
        # only the local job cache can be asked for this
        return None

    is_batch = ended
