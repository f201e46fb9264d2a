"""
Where jobs are kept: in files of the local job cache, or behind a returner.
"""

import logging
import os
import re

import saltext.query.documents
from saltext.query.errors import QueryStoreError

import salt.loader
import salt.utils.jid

log = logging.getLogger(__name__)

_NO_MINIONS = frozenset(("jid", "nocache", "endtime"))
_SYNDIC_MINIONS = re.compile(r"\.minions\..+\.p")


def source(context):
    """
    Return where the master keeps its jobs.
    """
    opts = context.opts
    if opts.get("master_job_cache", "local_cache") == "local_cache":
        return LocalJobs(opts)
    return ReturnerJobs(opts)


def _content(path):
    try:
        return saltext.query.documents.read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise _failed("local_cache", exc) from exc


def _failed(name, exc):
    return QueryStoreError(
        f"The jobs can't be read: see what is wrong with the job cache {name} ({exc})."
    )


class LocalJobs:
    """
    The jobs of the returner ``local_cache``, each of which is a folder. What is not asked
    for is not read.
    """

    def __init__(self, opts):
        self.root = os.path.join(opts["cachedir"], "jobs")
        self.hash_type = opts.get("hash_type", "sha256")
        self._folders = {}

    def folder(self, jid):
        """
        Return the folder of a job. Its name is a hash, so no job id leads elsewhere.
        """
        found = self._folders.get(jid)
        return found or salt.utils.jid.jid_dir(jid, self.root, self.hash_type)

    def ids(self):
        """
        Return the ids of all jobs.
        """
        ret = []
        for top in _listed(self.root):
            for final in _listed(os.path.join(self.root, top)):
                folder = f"{self.root}/{top}/{final}"
                jid = _content(folder + "/jid")
                if not jid:
                    jid = (self._project(folder + "/.load.p", {"jid"}) or {}).get("jid")
                else:
                    jid = jid.decode("utf-8", "replace")
                if jid:
                    ret.append(str(jid))
                    self._folders[ret[-1]] = folder
        return ret

    def has(self, jid):
        """
        Return whether there is such a job.
        """
        try:
            return os.path.isdir(self.folder(jid))
        except UnicodeError:
            # no id has half of a surrogate pair
            return False

    @staticmethod
    def _project(path, wanted):
        packed = _content(path)
        if packed is None:
            return None
        try:
            return saltext.query.documents.project(packed, wanted)
        except ValueError as exc:
            log.debug("Could not read %s of the job cache: %s", path, exc)
            return None

    def load(self, jid, wanted):
        """
        Return what was published, as far as it is wanted, or None.
        """
        return self._project(self.folder(jid) + "/.load.p", wanted | {"jid"}) or None

    def minions(self, jid):
        """
        Return the minions that the job was for, or None.
        """
        folder = self.folder(jid)
        names = [".minions.p"]
        names += [one for one in _listed(folder) if _SYNDIC_MINIONS.fullmatch(one)]
        ret = None
        for name in names:
            packed = _content(f"{folder}/{name}")
            if packed is None:
                continue
            try:
                found = saltext.query.documents.unpack(packed)
            except ValueError:
                continue
            if isinstance(found, (list, tuple)):
                ret = (ret or set()).union(one for one in found if isinstance(one, str))
        return None if ret is None else sorted(ret)

    def returned(self, jid):
        """
        Return the minions that have returned.
        """
        folder = self.folder(jid)
        try:
            with os.scandir(folder) as entries:
                return sorted(
                    entry.name
                    for entry in entries
                    if entry.name[0] != "."
                    and entry.name not in _NO_MINIONS
                    and entry.is_dir(follow_symlinks=False)
                    # the folder is made first
                    and os.path.exists(f"{folder}/{entry.name}/return.p")
                )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise _failed("local_cache", exc) from exc

    def results(self, jid):
        """
        Return the return code and the success of each minion that has returned, or None
        where they can't be read.
        """
        folder = self.folder(jid)
        return {
            minion: self._project(f"{folder}/{minion}/return.p", {"retcode", "success"})
            for minion in self.returned(jid)
        }

    def ended(self, jid):
        """
        Return when the job ended as the master wrote it down, or None.
        """
        found = _content(self.folder(jid) + "/endtime")
        return None if found is None else found.decode("utf-8", "replace").strip()

    def is_batch(self, jid):
        """
        Return whether the job is run in batches.
        """
        return os.path.exists(self.folder(jid) + "/.batch.p")


class ReturnerJobs:
    """
    The jobs of any other returner that the master keeps its jobs in.
    """

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
            raise _failed(self.name, exc) from exc
        return found if isinstance(found, dict) else {}

    def ids(self):
        """
        Return the ids of all jobs.
        """
        return [str(jid) for jid in self._call("get_jids")]

    def has(self, jid):
        """
        Return whether there is such a job.
        """
        return bool(self._call("get_load", jid))

    def load(self, jid, wanted):
        """
        Return what was published, as far as it is wanted, or None.
        """
        found = self._call("get_load", jid)
        return {key: found[key] for key in wanted if key in found} if found else None

    def minions(self, jid):
        """
        Return the minions that the job was for, or None.
        """
        found = self._call("get_load", jid).get("Minions")
        return sorted(found) if isinstance(found, (list, tuple)) else None

    def returned(self, jid):
        """
        Return the minions that have returned.
        """
        return sorted(self._call("get_jid", jid))

    def results(self, jid):
        """
        Return the return code and the success of each minion that has returned, or None
        where there are none.
        """
        return {
            minion: found if isinstance(found, dict) else None
            for minion, found in self._call("get_jid", jid).items()
        }

    @staticmethod
    def ended(_jid):
        """
        Return None: only the local job cache can be asked for this.
        """
        return None

    @staticmethod
    def is_batch(_jid):
        """
        Return None: only the local job cache can be asked for this.
        """
        return None


def _listed(folder):
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise _failed("local_cache", exc) from exc
