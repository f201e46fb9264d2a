"""Puts the minions of a worker together: every part is made here, in the order in which one needs the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evil_minions.behaviour.director import Director
from evil_minions.fleet import keystates
from evil_minions.fleet.minionset import MinionSet
from evil_minions.fleet.ramp import Ramp
from evil_minions.fleet.settings import KEEP
from evil_minions.functions.tree import make_states
from evil_minions.inventory.grains import GrainsFactory, load_template, template_of
from evil_minions.inventory.inventory import Inventory
from evil_minions.inventory.population import load_population
from evil_minions.minion.joblog import JobLog
from evil_minions.minion.lifecycle import Lifecycle
from evil_minions.minion.publication import Publications
from evil_minions.minion.runtime import Runtime
from evil_minions.minion.shared import Answers, KeyRing, Shared
from evil_minions.minion.traffic import Traffic
from evil_minions.network.ports import Ports
from evil_minions.network.transports.transport import FILTERED, TRANSPORTS
from evil_minions.protocol.keys import MasterKey, load_pool
from evil_minions.recording.recording import load
from evil_minions.recording.replay import Pace, Replay
from evil_minions.rng import Draws
from evil_minions.samples.journal import Journal
from evil_minions.states.caches import Caches
from evil_minions.states.compiler import Compiler
from evil_minions.states.planner import Planner

if TYPE_CHECKING:
    import asyncio

    from evil_minions.fleet.settings import FleetSettings
    from evil_minions.inventory.grains import Template
    from evil_minions.recording.recording import Recording


def make(settings: FleetSettings, loop: asyncio.AbstractEventLoop) -> tuple[MinionSet, Ramp]:
    """Return a worker's set of minions, which is empty until `populate`, and the ramp that starts them.

    Raises:
        UsageError, SampleError: if a file can't be used.

    """
    runtime = Runtime(loop)
    keys = make_keys(settings)
    recording = load(settings.replies.recording) if settings.replies.recording else None
    answers = _answers(settings, recording)
    factory = GrainsFactory(
        _template(settings, recording), settings.seed, settings.master.name, settings.looks.connects_from
    )
    inventory = Inventory(settings.size.ids(), settings.size.first, factory)
    journal = Journal(settings.folder, settings.worker, runtime.fail)
    director = Director(settings.seed)
    ramp = Ramp(runtime, settings.start, director, journal)
    log = JobLog(ramp.minions, journal, settings.seed)
    publications = Publications(keys.master, inventory.targets, runtime.counters, log.new)
    ports = Ports(
        loop,
        settings.master.address,
        settings.master.request_port,
        FILTERED if settings.master.zmq_filtering else TRANSPORTS[settings.master.transport],
        runtime.counters,
    )
    draws = Draws(settings.seed)
    lifecycle = Lifecycle(director, runtime, draws, journal, ports.partition, ramp.restart)
    traffic = Traffic(runtime.spawn, settings.replies.beacon_interval, answers.replay)
    shared = Shared(
        runtime, ports, inventory, keys, journal, publications, answers, director, lifecycle, traffic, draws
    )
    return MinionSet(settings, shared, ramp), ramp


def make_keys(settings: FleetSettings) -> KeyRing:
    """Return the keys of the minions and of their master."""
    states = keystates.states(settings)
    denied = frozenset(number for number, state in states.items() if state == keystates.DENIED)
    grains = keystates.grains(settings.master.autosign) if settings.master.autosign else None
    return KeyRing(load_pool(settings.folder), MasterKey(settings.folder), denied, grains, frozenset(states) - denied)


def _answers(settings: FleetSettings, recording: Recording | None) -> Answers:
    """Return where the answers to jobs come from."""
    replies = settings.replies
    pace = Pace(replies.slowdown, replies.jitter)
    return Answers(
        Replay(recording, settings.seed, pace) if recording else None,
        None if replies.states is None else make_states(replies.states, settings.seed),
        Planner(Compiler(settings.folder), Caches(keep=replies.file_cache == KEEP)),
    )


def _template(settings: FleetSettings, recording: Recording | None) -> Template:
    """Return the template of the minions' grains."""
    if settings.looks.population:
        return load_population(settings.looks.population)
    if recording and settings.looks.grains is None:
        return template_of(recording.grains)
    return load_template(settings.looks.grains)
