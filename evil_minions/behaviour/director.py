"""Behaviours carried out: what the minions of a worker do otherwise than a healthy one does.

A worker whose minions all behave has no director, and pays nothing for it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from evil_minions.behaviour import library
from evil_minions.behaviour.reply import NORMAL, NOTHING
from evil_minions.functions import job
from evil_minions.minion.execution import Execution
from evil_minions.minion.jobqueue import JobQueue
from evil_minions.minion.phase import Stage
from evil_minions.rng import lot
from evil_minions.samples.files import DecisionRow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from evil_minions.behaviour.behaviour import Behaviour
    from evil_minions.behaviour.rule import Stage as Scene
    from evil_minions.minion.context import Context
    from evil_minions.minion.minion import Minion
    from evil_minions.minion.publication import Publication
    from evil_minions.protocol.envelope import Load

# what is drawn about a job beside what every minion draws (evil_minions.minion.minion)
_CHOICE, _DELAY, _APART, _NEXT = 16, 17, 18, 19


class Staged(Execution):
    """A job that a stage was found for."""

    __slots__ = ("_director", "_minion", "scene")

    def __init__(self, director: Director, minion: Minion, publication: Publication, scene: Scene) -> None:
        """Stand for a process that starts."""
        super().__init__(minion, publication, minion.context.next_pid())
        self._director = director
        self._minion = minion
        self.scene = scene

    def run(self) -> Any:  # noqa: ANN401 - a coroutine or nothing
        """Return what the stage says; a coroutine comes back if that takes time."""
        reply = self.scene.reply
        if reply.kind == NOTHING:
            self._director.over(self._minion, self)
            return None
        outcome = reply.outcome(self._minion.id)
        if outcome is None:
            return super().run()
        self.finish(job.literal_return(self.publication.load, self._minion.id, outcome))
        return None

    def finish(self, load: Load) -> None:
        """Send the return as often as the stage says, then go on."""
        retcode = self.scene.reply.retcode
        if retcode is not None and self.scene.reply.kind == NORMAL and isinstance(load["retcode"], int):
            load = {**load, "retcode": retcode, "success": retcode == 0}
        self._director.answer(self._minion, self, load)


class Director:
    """Has each minion of a worker behave as it was told to."""

    def __init__(self, context: Context) -> None:
        """Have everybody do what healthy minions do."""
        self._context = context
        self._behaviours: dict[Path, Behaviour] = {}
        self._roles: dict[int, Path] = {}
        self._queues: dict[int, JobQueue] = {}
        # counts the rounds of each timer of a minion, which its chance goes by
        self._rounds: dict[tuple[int, str], int] = {}
        # grows with every change of role: what a timer of an earlier role finds out by it
        self._scenes: dict[int, int] = {}

    def assign(self, minions: Iterable[Minion], name: str | Path) -> None:
        """Have some minions behave as a preset or file says, from now on.

        Raises:
            UsageError: if it can't be read.

        """
        family = library.family(name)
        path = next(iter(family))
        self._behaviours.update(family)
        for minion in minions:
            self._cast(minion, path)

    def _cast(self, minion: Minion, path: Path) -> None:
        """Give a minion its role."""
        index = minion.index
        self._roles[index] = path
        self._scenes[index] = self._scenes.get(index, 0) + 1
        most = self._behaviours[path].process_count_max
        if index in self._queues:
            # jobs that wait still do, and start soon if there is no bound any longer
            self._queues[index].most = most or math.inf
        elif most:
            self._queues[index] = JobQueue(minion, most, self._perform)
        if minion.stage == Stage.READY:
            self.on_ready(minion)

    def is_paced(self, minion: Minion) -> bool:
        """Return whether a minion starts in its turn, rather than at once."""
        path = self._roles.get(minion.index)
        return path is None or self._behaviours[path].paced

    def queued(self, index: int) -> list[dict[str, Any]]:
        """Return the data of the jobs that wait on a minion."""
        queue = self._queues.get(index)
        return queue.data() if queue else []

    # jobs

    def takes(self, minion: Minion, publication: Publication) -> bool:
        """See to a job if the minion has a role; return whether that is so."""
        if minion.index not in self._roles:
            return False
        queue = self._queues.get(minion.index)
        if queue is None:
            self._perform(minion, publication)
        else:
            queue.take(publication)
        return True

    def _perform(self, minion: Minion, publication: Publication) -> None:
        """Begin a job as the minion's role says."""
        behaviour = self._behaviours[self._roles[minion.index]]
        load, place = publication.load, publication.lot
        functions = [load["fun"]] if isinstance(load["fun"], str) else load["fun"]
        seed = self._context.settings.seed
        scene = behaviour.decide(minion, functions, load["arg"], seed, place + _CHOICE)
        if scene is None:
            execution, seconds = (
                Execution(minion, publication, self._context.next_pid()),
                minion.start_delay(publication),
            )
        else:
            execution = Staged(self, minion, publication, scene)
            delay = scene.delay
            seconds = delay.draw(minion.chance_of(publication, _DELAY)) if delay else minion.start_delay(publication)
        self._note(minion, behaviour, scene, f"{publication.fun}#{publication.nth}", seconds)
        minion.begin(execution, seconds)

    def answer(self, minion: Minion, execution: Staged, load: Load) -> None:
        """Send a return and its copies; what comes next waits until the master has it, or never will."""
        scene, life = execution.scene, minion.life
        rng = minion.chance_of(execution.publication, _APART)
        waits = [scene.reply.apart.draw(rng) for _ in range(scene.reply.copies - 1)]
        if not minion.finished(execution, load, partial(self._next, minion, life, execution)):
            return
        at = 0.0
        for wait in waits:
            at += wait
            self._context.loop.call_later(at, minion.repeat, load, life)

    def over(self, minion: Minion, execution: Staged) -> None:
        """End a job that has no return."""
        if minion.end(execution):
            self._next(minion, minion.life, execution)

    def _next(self, minion: Minion, life: int, execution: Staged) -> None:
        """Do what comes after a job."""
        if minion.life == life:
            self._follow(minion, execution.scene, execution.publication.lot + _NEXT)

    # what comes by itself

    def on_ready(self, minion: Minion) -> None:
        """Start the timers of a minion that is ready."""
        path = self._roles.get(minion.index)
        if path is None:
            return
        for scene in self._behaviours[path].timers:
            if self._behaviours[path].concerns(scene, minion, self._context.settings.seed):
                self._wait(minion, path, scene, minion.life, self._scenes[minion.index])

    def _wait(self, minion: Minion, path: Path, scene: Scene, life: int, act: int) -> None:
        """Wait for a timer's next round."""
        behaviour = self._behaviours[path]
        key = (minion.index, scene.name)
        self._rounds[key] = nth = self._rounds.get(key, 0) + 1
        place = lot(self._context.settings.seed, "timer", behaviour.name, scene.name, nth)
        assert scene.every is not None  # noqa: S101 - what makes it a timer, for the type checker
        seconds = scene.every.draw(self._context.dice.at(minion.number, place))
        self._note(minion, behaviour, scene, f"timer#{nth}", seconds)
        self._context.loop.call_later(seconds, self._round, minion, path, scene, life, act, place)

    def _round(self, minion: Minion, path: Path, scene: Scene, life: int, act: int, place: int) -> None:
        """Do what a timer says, unless its minion has ended or changed since."""
        if minion.life != life or self._scenes[minion.index] != act:
            return
        if scene.events is not None:
            tag = scene.events.tag.replace("{id}", minion.id)
            for _ in range(scene.events.copies):
                minion.fire(tag, scene.events.data)
        if "pillar" in scene.asks:
            minion.refresh_pillar(clean_cache=False)
        if "auth" in scene.asks:
            minion.reauthenticate(lambda _success: None)
        self._follow(minion, scene, place + _NEXT)
        if minion.life == life and self._scenes[minion.index] == act:
            self._wait(minion, path, scene, life, act)

    def _follow(self, minion: Minion, scene: Scene, place: int) -> None:
        """Do what a stage says comes next."""
        sequel = scene.sequel
        seconds = sequel.seconds.draw(self._context.dice.at(minion.number, place))
        match sequel.kind:
            case "die":
                minion.close(Stage.DEAD)
            case "restart":
                self._context.restart(minion.index, seconds, Stage.IDLE)
            case "disconnect":
                self._context.partition.drop(minion.index, minion.links, seconds)
            case "behaviour":
                path = library.find(sequel.behaviour, self._roles[minion.index].parent)
                self._cast(minion, path)

    def _note(self, minion: Minion, behaviour: Behaviour, scene: Scene | None, what: str, seconds: float) -> None:
        """Write a decision down."""
        after = str(scene.sequel) if scene else ""
        returns = str(scene.reply) if scene and scene.every is None else ""
        row = DecisionRow(minion.id, what, behaviour.name, scene.name if scene else "", seconds, returns, after)
        if self._context.decisions is not None:
            self._context.sample(self._context.decisions, row)
