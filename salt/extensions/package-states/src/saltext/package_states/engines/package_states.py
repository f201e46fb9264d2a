"""Engine to keep the files of package states up to date with who there is

It writes the file of a minion when its key is accepted, when it starts or has sent other grains,
and removes it when its key is deleted. What no event tells, such as a group in the database or
another ``nodegroups`` in the configuration, is found by a look at the members and by a sweep over
all files. ``nodegroups`` is read anew each time: the master needs no restart for it.

.. code-block:: yaml

    engines:
      - package_states:
          window: 1     # seconds in which events are collected before files are written
          look: 3       # between two looks at groups, with ``minions: database``
          sweep: 600    # between two sweeps over all minions; there is one at the start
"""

import logging
import os
import time

import saltext.package_states.compile.registry as registries
import saltext.package_states.master.returns as returns
import saltext.package_states.model.names as names
import saltext.package_states.store.tables as store
from saltext.package_states.errors import PackageStateError, Unwritten
from saltext.package_states.master.service import Service

import salt.config
import salt.utils.verify

log = logging.getLogger(__name__)

__virtualname__ = "package_states"

# how often a database that is away is asked for, in seconds
AGAIN = 10
# and until files are tried again that can't be written
LATER = 60
# for so many times as long as files were written because of events, none are written
PART = 3
KEYS = ("accept", "accepted", "delete", "deleted", "reject", "rejected")


def __virtual__():
    return __virtualname__


def groups(opts):
    """Return the nodegroups of the configuration as it is now, or those of the start"""
    before, path = opts.get("nodegroups") or {}, opts.get("conf_file") or ""
    if not os.path.isfile(path):
        return before
    try:
        found = salt.config.master_config(path)
    except (SystemExit, Exception) as exc:  # pylint: disable=broad-except
        # Salt ends the process for what is no YAML
        log.error("%s can't be read, so nodegroups stay as they were: %s", path, exc)
        return before
    return found.get("nodegroups") or {}


class Keeper:
    """What the engine does; the time in seconds is passed in, and ``clock`` tells how long it took"""

    def __init__(
        self, opts, service, window=1, look=3, sweep=600, clock=time.monotonic
    ):  # pylint: disable=too-many-arguments
        self.opts = opts
        self.service = service
        self.window = window
        self.look = look
        self.every = sweep
        self.clock = clock
        self.changed = set()
        self.since = None
        self.swept = None
        self.looked = 0
        self.wait = 0
        self.groups = opts.get("nodegroups") or {}
        self.members = None
        self.known = set()
        # who was looked at while there was nobody at all
        self.doubted = set()

    def event(self, tag, data, now):
        minion, named = None, data.get("id")
        if not isinstance(named, str):
            # a minion fires what it likes
            named = None
        if tag == "salt/key" and data.get("act") in KEYS:
            minion = named
            self.known.discard(minion)
        elif tag == "salt/auth" and data.get("act") == "accept":
            # a minion signs in again and again
            minion = named if named not in self.known else None
        elif tag.startswith("minion/refresh/"):
            minion = tag[len("minion/refresh/") :]
        elif tag.startswith("salt/minion/") and tag.endswith("/start"):
            minion = named
        if (
            minion is not None
            and names.is_line(minion, returns.LONGEST)
            and len(self.changed) < returns.HINTS
            and salt.utils.verify.valid_id(self.opts, minion)
        ):
            self.changed.add(minion)
            if self.since is None:
                self.since = now

    def tick(self, now):
        if now < self.wait:
            return
        try:
            if self.swept is None or now - self.swept >= self.every:
                if not self._settled():
                    return
                # of before: who changes meanwhile is found at the next look
                members = self._members()
                try:
                    self._tell(self.service.sweep())
                    self.swept = now
                except Unwritten as exc:
                    log.error("Some files of package states are not written: %s", exc)
                    # not at once, as to look at a whole fleet takes long
                    self.swept = now - max(0, self.every - LATER)
                self.members = members
                self.changed.clear()
                self.since = None
                return
            if now - self.looked >= self.look:
                self.looked = now
                self._look(now)
            if self.since is not None and now - self.since >= self.window:
                if not self._settled():
                    return
                ids = sorted(self.changed | self.doubted)
                begin = self.clock()
                found = self.service.sweep(ids)
                # a minion may fire in the name of all others, again and again
                self.wait = now + (self.clock() - begin) * (1 + PART)
                self.doubted = set(ids) if "*" in found["errors"] else set()
                self.known.update(ids)
                self._tell(found)
                # what came meanwhile is there for the next time
                self.changed.difference_update(ids)
                self.since = now if self.changed else None
        except PackageStateError as exc:
            log.error("The files of package states are not up to date: %s", exc)
            self.wait = now + AGAIN

    def _settled(self):
        """Take the nodegroups of now, and return whether they are those of a moment ago"""
        found, before = groups(self.opts), self.groups
        self.groups = found
        if found == before:
            # with others than commands have, each would undo what the other one did
            self.opts["nodegroups"] = found
        return found == before

    def _members(self):
        with store.reading(self.opts) as connection:
            return registries.get(self.opts, connection).members()

    def _look(self, now):
        members, before = self._members(), self.members or {}
        changed = {
            one for one in {*members, *before} if members.get(one) != before.get(one)
        }
        self.members = members
        if changed:
            self.changed |= changed
            if self.since is None:
                self.since = now - self.window

    def _tell(self, found):
        # whose key went without an event is news when it comes back
        self.known.difference_update(found["gone"])
        if found["files"] or found["removed"]:
            log.info(
                "Files of package states: %s written, %s removed",
                len(found["files"]),
                len(found["removed"]),
            )
        for old, new in found["renamed"].items():
            log.info("The minion %s is %s now, and has its package state", old, new)
        for minion, error in found["errors"].items():
            log.error("The package states of %s: %s", minion, error)


def start(window=1, look=3, sweep=600):
    opts = dict(__opts__)
    keeper = Keeper(opts, Service(opts), window, look, sweep)
    returns.serve(__opts__, keeper.event, keeper.tick)
