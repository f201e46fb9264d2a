"""Engine to bring the stored package lists up to date when the beacon pkgset fires

It collects the minions whose beacon :py:mod:`pkgset <saltext.package_states.beacons.pkgset>` has
fired ``salt/beacon/<minion id>/pkgset/changed``, or ``own`` for what Salt itself changed, and asks
them for their packages, one batch after the other. A minion that fires again while it waits is
asked once; one that fires after it was asked is asked again. What repositories have that nobody has
told of is asked of one minion that has them.

An event is only a hint to ask, as a minion may fire it in the name of others. Answers are read
from the master's job cache.

.. code-block:: yaml

    engines:
      - pkgset:
          window: 5     # seconds that a batch waits for others, and between two batches
          batch: 200    # how many minions are asked at once
          timeout: 60   # seconds after which a minion is silent, and asked again later
          retries: 3    # how often, first after ``timeout``, then after twice as long
          rest: 60      # seconds until a minion that was asked is asked again
"""

import logging
import os
import time

import saltext.package_states.model.names as plain
import saltext.package_states.store.offers as offers
from saltext.package_states.errors import InvalidInput, PackageStateError
from saltext.package_states.master import lists, returns
from saltext.package_states.minion import pkgset, replace

import salt.client
import salt.utils.files
import salt.utils.json
from salt.exceptions import SaltException

log = logging.getLogger(__name__)

__virtualname__ = "pkgset"

# around the id of a minion: what somebody else changed, and what Salt did
TAGS = (("salt", "beacon", "pkgset", "changed"), ("salt", "beacon", "pkgset", "own"))


def __virtual__():
    return __virtualname__


class Waiting:
    """The minions that are to be asked, and those that were; no I/O, times in seconds are passed in"""

    def __init__(self, window, batch, timeout, retries, rest=60):
        self.window = window
        self.batch = batch
        self.timeout = timeout
        self.retries = retries
        self.rest = rest
        # when minions were asked whose rest is not over, the oldest first
        self.rested = {}
        self.begun = None
        # when it may be asked, and how many times it was asked in vain
        self.due = {}
        self.tries = {}
        self.asked = set()

    def changed(self, minion, now):
        """A minion has reported a change"""
        self.tries.pop(minion, None)
        wanted = now + self.window
        if minion in self.rested:
            wanted = max(wanted, self.rested[minion] + self.rest)
        self.due[minion] = min(wanted, self.due.get(minion, wanted))

    def take(self, now):
        """Return the minions to ask now, none while others have still to answer"""
        if self.asked or not any(due <= now for due in self.due.values()):
            return []
        if self.begun is not None and now < self.begun + self.window:
            return []
        self.rested = {
            one: then for one, then in self.rested.items() if now < then + self.rest
        }
        # whoever waits for its window to pass may come along, whoever waits for more may not
        ready = [one for one, due in self.due.items() if due <= now + self.window]
        ready = [one for one in ready if self.due[one] <= now or self._is_new(one)]
        taken = sorted(ready, key=self.due.get)[: self.batch]
        for minion in taken:
            del self.due[minion]
        self.asked = set(taken)
        self.rested.update(dict.fromkeys(taken, now))
        self.begun = now
        return taken

    def _is_new(self, minion):
        return minion not in self.tries and minion not in self.rested

    def answered(self, minion):
        self.asked.discard(minion)
        self.tries.pop(minion, None)

    def failed(self, minion, now):
        """A minion has not answered, or nothing of use; return whether it is asked again"""
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

    def names(self):
        """Return all that must not be forgotten"""
        return sorted({*self.due, *self.asked})


class Refresher:
    def __init__(self, opts, waiting, client, clock=time.monotonic):
        self.opts = opts
        self.waiting = waiting
        self.client = client
        self.clock = clock
        self.job = None
        # what repositories have is asked for beside the packages, of one minion at a time
        self.lacking = offers.Lacking(waiting.timeout)
        self.offers_job = None
        # ids of events, and when the next ones are looked at
        self.hints = set()
        self.sort_at = 0
        self.place = os.path.join(pkgset.folder(opts), "waiting")
        self.saved = []

    def load(self):
        """Take up the minions that waited when the engine ended"""
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
        names = self.waiting.names()
        if names != self.saved:
            os.makedirs(os.path.dirname(self.place), mode=0o700, exist_ok=True)
            replace.put(self.place, salt.utils.json.dumps(names))
            self.saved = names

    def event(self, tag):
        """Look at the tag of an event of the master's; a minion may have fired any"""
        parts = tag.split("/", 5)
        if (*parts[:2], *parts[3:]) in TAGS:
            minion = parts[2]
            if (
                plain.is_line(minion, returns.LONGEST)
                and len(self.hints) < returns.HINTS
            ):
                self.hints.add(minion)

    def sort(self, now):
        """Take the minions out of what events named"""
        if not self.hints or now < self.sort_at:
            return
        hints, self.hints = self.hints, set()
        try:
            minions = hints.intersection(self.client.gather_minions("*", "glob"))
        except SaltException as exc:
            log.warning(
                "The keys of the master can't be read: %s", plain.line(exc, 500)
            )
            self.hints = hints
            minions = ()
        for minion in sorted(minions):
            self.waiting.changed(minion, now)
        lists.mark(self.opts, minions, "its packages have changed since")
        # keys may be many, and events as well
        end = self.clock()
        self.sort_at = end + max(returns.TICK, (end - now) * returns.PART)

    def look(self, job):
        """Return what minions have returned to a job since, nothing where that can't be read"""
        try:
            return job.look()
        except PackageStateError as exc:
            log.error("%s", exc)
            return {}

    def answers(self):
        if self.job is None:
            return
        for minion, answer in self.look(self.job).items():
            self.answer(minion, answer)
        if self.job.is_over():
            for minion in sorted(self.waiting.asked):
                self.fail(minion, "it has not answered")
            self.job = None

    def answer(self, minion, answer):
        try:
            self.lacking.add(minion, lists.take(self.opts, minion, answer))
        except InvalidInput as exc:
            # what is wrong with this minion will be wrong again; a database that is
            # away will be back
            log.error("The packages of %s are not stored: %s", minion, exc)
            lists.mark(self.opts, [minion], plain.line(exc, 500))
        except Exception as exc:  # pylint: disable=broad-except
            log.debug("Storing the packages of %s", minion, exc_info=True)
            self.fail(minion, plain.line(exc, 500))
            return
        self.waiting.answered(minion)

    def answer_offers(self):
        """Store what a minion has said of its repositories"""
        if self.offers_job is None:
            return
        for minion, answer in self.look(self.offers_job).items():
            told = ()
            try:
                told = offers.store(self.opts, minion, answer["return"])
            except Exception as exc:  # pylint: disable=broad-except
                # the next minion that has the same is asked
                log.warning(
                    "What the repositories of %s have is not stored: %s",
                    minion,
                    plain.line(exc, 500),
                )
            self.lacking.answered(told)
        if self.offers_job.is_over():
            self.offers_job = None

    def fail(self, minion, why):
        """Ask a minion again, or tell that it was asked often enough"""
        if not self.waiting.failed(minion, self.clock()):
            lists.mark(self.opts, [minion], f"it was asked in vain: {why}")
            log.warning(
                "The packages of %s have changed, but are not known: %s. Run "
                "`salt-run pkgset.refresh %s` when it is reachable.",
                minion,
                why,
                minion,
            )

    def tick(self):
        self.answers()
        self.answer_offers()
        now = self.clock()
        self.sort(now)
        minions = self.waiting.take(now)
        if minions:
            self.publish(minions)
        taken = self.lacking.take(now)
        if taken:
            self.publish_offers(*taken)
        self.save()

    def publish(self, minions):
        function, timeout = lists.function(self.opts), self.waiting.timeout
        try:
            self.job = returns.Job(
                self.client, minions, function, (), timeout, self.clock
            )
        except SaltException as exc:
            for minion in minions:
                self.fail(minion, f"the master could not ask: {exc}")
            return
        for minion in set(minions) - self.job.asked:
            log.info("No key of %s is accepted any more, so it is not asked", minion)
            self.waiting.answered(minion)

    def publish_offers(self, minion, digests):
        timeout = self.lacking.timeout
        try:
            self.offers_job = returns.Job(
                self.client, [minion], offers.FUNCTION, digests, timeout, self.clock
            )
        except SaltException as exc:
            log.warning("%s can't be asked for its repositories: %s", minion, exc)


def start(window=5, batch=200, timeout=60, retries=3, rest=60):
    waiting = Waiting(window, batch, timeout, retries, rest)
    with salt.client.LocalClient(mopts=__opts__) as client:
        refresher = Refresher(__opts__, waiting, client)
        refresher.load()
        returns.serve(
            __opts__, lambda tag, *_: refresher.event(tag), lambda _: refresher.tick()
        )
