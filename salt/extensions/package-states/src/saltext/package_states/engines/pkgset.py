"""
Engine to bring the stored package lists up to date when the beacon pkgset fires
================================================================================

It collects the minions whose beacon :py:mod:`pkgset <saltext.package_states.beacons.pkgset>` has
fired ``salt/beacon/<minion id>/pkgset/changed`` and asks them for their packages,
many at once and one batch after the other: when ten thousand minions change at
the same time, the master has one small job at a time and not ten thousand. A
minion that fires again while it waits is asked once; one that fires after it was
asked is asked again.

.. code-block:: yaml

    engines:
      - pkgset:
          window: 5
          batch: 200
          timeout: 60
          retries: 3

window
    Seconds that the first minion of a batch waits for others

batch
    How many minions are asked at once

timeout
    Seconds after which a minion that hasn't answered is asked again later

retries
    How many times a minion is asked again, each time after twice as long a wait,
    the first time after ``timeout``

With ``package_states`` in the master's configuration the answers go to its
database and the status of the minions is made anew; otherwise they are lists of
packages in the bank ``packages`` of the master's cache, see the runner
:py:mod:`pkgset <saltext.package_states.runners.pkgset>`. What repositories have that
nobody has told of yet is asked of one minion that has them.

Minions that wait are kept in the master's ``cachedir``, so none is forgotten when
the master stops.
"""

import fnmatch
import logging
import os
import time

import saltext.package_states.names as plain
import saltext.package_states.pkgset
from saltext.package_states.errors import InvalidInput
from saltext.package_states.lacking import FUNCTION, Lacking

import salt.client
import salt.utils.atomicfile
import salt.utils.event
import salt.utils.files
import salt.utils.json
import salt.utils.verify
from salt.exceptions import SaltException

log = logging.getLogger(__name__)

__virtualname__ = "pkgset"

TAG = "salt/beacon/*/pkgset/changed"
# seconds between two looks at the clock when no event comes
TICK = 0.5


def __virtual__():
    return __virtualname__


class Waiting:
    """
    The minions that are to be asked, and those that were; no I/O, and the time in
    seconds is passed in
    """

    def __init__(self, window, batch, timeout, retries):
        self.window = window
        self.batch = batch
        self.timeout = timeout
        self.retries = retries
        # when it may be asked, and how many times it was asked in vain
        self.due = {}
        self.tries = {}
        self.asked = set()
        self.until = 0

    def changed(self, minion, now):
        """
        A minion has reported a change
        """
        self.tries.pop(minion, None)
        due = self.due.get(minion)
        self.due[minion] = (
            now + self.window if due is None else min(due, now + self.window)
        )

    def take(self, now):
        """
        Return the minions to ask now, none while others have still to answer
        """
        if self.asked or not any(due <= now for due in self.due.values()):
            return []
        # whoever waits for its window to pass may come along, whoever waits to be asked again may not
        ready = [
            one for one, due in self.due.items() if due <= now or one not in self.tries
        ]
        taken = sorted(ready, key=self.due.get)[: self.batch]
        for minion in taken:
            del self.due[minion]
        self.asked = set(taken)
        self.until = now + self.timeout
        return taken

    def answered(self, minion):
        """
        A minion has answered
        """
        self.asked.discard(minion)
        self.tries.pop(minion, None)

    def failed(self, minion, now):
        """
        A minion has not answered, or nothing of use; return whether it is asked again
        """
        self.asked.discard(minion)
        if minion in self.due:
            # it has changed since and is asked anyway
            return True
        tries = self.tries.pop(minion, 0)
        if tries >= self.retries:
            return False
        self.tries[minion] = tries + 1
        self.due[minion] = now + self.timeout * 2**tries
        return True

    def late(self, now):
        """
        Return the minions whose time to answer is over
        """
        return sorted(self.asked) if now >= self.until else []

    def names(self):
        """
        Return all that must not be forgotten
        """
        return sorted({*self.due, *self.asked})


class Refresher:
    """
    Asks minions, and stores what they answer
    """

    def __init__(self, opts, waiting, client, clock=time.monotonic):
        self.opts = opts
        self.waiting = waiting
        self.client = client
        self.clock = clock
        self.jid = None
        # what repositories have is asked for beside the packages, of one minion at a time
        self.lacking = Lacking(waiting.timeout)
        self.offers_jid = None
        self.place = os.path.join(saltext.package_states.pkgset.folder(opts), "waiting")
        self.saved = []

    def load(self):
        """
        Take up the minions that waited when the engine ended
        """
        try:
            with salt.utils.files.fopen(self.place, "r") as fh_:
                self.saved = [
                    one for one in salt.utils.json.load(fh_) if isinstance(one, str)
                ]
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError) as exc:
            log.warning(
                "%s is not readable, so its minions are not asked: %s", self.place, exc
            )
            return
        for minion in self.saved:
            self.waiting.changed(minion, self.clock())

    def save(self):
        """
        Keep the minions that wait, if they are others than before
        """
        names = self.waiting.names()
        if names != self.saved:
            os.makedirs(os.path.dirname(self.place), mode=0o700, exist_ok=True)
            with salt.utils.atomicfile.atomic_open(self.place, "w") as fh_:
                salt.utils.json.dump(names, fh_)
            self.saved = names

    def event(self, tag, data):
        """
        Look at an event of the master's
        """
        if fnmatch.fnmatchcase(tag, TAG):
            # a minion chooses its tags, so this may be any text
            minion = tag.split("/")[2]
            if salt.utils.verify.valid_id(self.opts, minion):
                self.waiting.changed(minion, self.clock())
        elif self.jid and tag.startswith(f"salt/job/{self.jid}/ret/"):
            self.answer(data.get("id"), data)
        elif self.offers_jid and tag.startswith(f"salt/job/{self.offers_jid}/ret/"):
            self.answer_offers(data.get("id"), data)

    def answer(self, minion, data):
        """
        Store an answer
        """
        if minion not in self.waiting.asked:
            return
        packages = data.get("return")
        if data.get("retcode") or not isinstance(packages, dict):
            self.fail(minion, f"it returned {plain.line(str(packages)[:200])}")
            return
        try:
            digests = saltext.package_states.pkgset.store(self.opts, minion, packages)
            self.lacking.add(minion, digests)
        except InvalidInput as exc:
            # what is wrong with this minion will be wrong again; a database that is
            # away will be back
            log.error("The packages of %s are not stored: %s", minion, exc)
        except Exception as exc:  # pylint: disable=broad-except
            log.debug("Storing the packages of %s", minion, exc_info=True)
            self.fail(minion, plain.line(exc, 500))
            return
        self.waiting.answered(minion)

    def answer_offers(self, minion, data):
        """
        Store what a minion has said of its repositories
        """
        if minion != self.lacking.asked:
            return
        told = ()
        try:
            told = saltext.package_states.pkgset.store_offers(
                self.opts, minion, data.get("return")
            )
        except Exception as exc:  # pylint: disable=broad-except
            # the next minion that has the same is asked
            log.warning(
                "What the repositories of %s have is not stored: %s",
                minion,
                plain.line(exc, 500),
            )
        self.lacking.answered(told)

    def fail(self, minion, why):
        """
        Ask a minion again, or tell that it was asked often enough
        """
        if not self.waiting.failed(minion, self.clock()):
            log.warning(
                "The packages of %s have changed, but are not known: %s. Run "
                "`salt-run pkgset.refresh %s` when it is reachable.",
                minion,
                why,
                minion,
            )

    def tick(self):
        """
        Do what is due
        """
        now = self.clock()
        for minion in self.waiting.late(now):
            self.fail(minion, "it has not answered")
        minions = self.waiting.take(now)
        if minions:
            self.publish(minions)
        taken = self.lacking.take(now)
        if taken:
            self.publish_offers(*taken)
        self.save()

    def publish(self, minions):
        """
        Ask minions for their packages
        """
        try:
            found = self.client.run_job(
                minions,
                saltext.package_states.pkgset.function(self.opts),
                tgt_type="list",
                listen=False,
                timeout=self.waiting.timeout,
            )
        except SaltException as exc:
            for minion in minions:
                self.fail(minion, f"the master could not ask: {exc}")
            return
        self.jid = found.get("jid")
        for minion in set(minions).difference(found.get("minions", ())):
            # minions choose their tags, so it may never have been there
            log.info("No key of %s is accepted, so it is not asked", minion)
            self.waiting.answered(minion)

    def publish_offers(self, minion, digests):
        """
        Ask a minion for what its repositories have
        """
        try:
            found = self.client.run_job(
                [minion],
                FUNCTION,
                arg=digests,
                tgt_type="list",
                listen=False,
                timeout=self.lacking.timeout,
            )
        except SaltException as exc:
            log.warning("%s can't be asked for its repositories: %s", minion, exc)
            return
        self.offers_jid = found.get("jid")


def start(window=5, batch=200, timeout=60, retries=3):
    """
    Collect, ask and store until the master ends
    """
    waiting = Waiting(window, batch, timeout, retries)
    with salt.client.LocalClient(
        mopts=__opts__
    ) as client, salt.utils.event.get_master_event(
        __opts__, __opts__["sock_dir"], listen=True
    ) as bus:
        refresher = Refresher(__opts__, waiting, client)
        refresher.load()
        looked = 0
        while True:
            event = bus.get_event(wait=TICK, full=True, auto_reconnect=True)
            if event:
                refresher.event(event["tag"], event["data"])
            if not event or time.monotonic() - looked >= TICK:
                refresher.tick()
                looked = time.monotonic()
