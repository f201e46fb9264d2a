"""A highstate on the master's own files: what simulated minions ask for beside a real one, and what comes of it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.live.helpers import real_minion, states_tree, tapped_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.helpers.tapped_tree import Request, Tap

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

REAL = "real-00000"
# the first of its kind has its run compiled, the others follow it
LEADER, FOLLOWER, OTHER = "minion-00000", "minion-00001", "minion-00002"
MINIONS = (LEADER, FOLLOWER, OTHER)
READY_S = 120.0
QUIET_S = 60.0


class Place:
    """A bed with a real and three simulated minions, and the master's own list of what they asked for."""

    def __init__(self, bed: Bed, tap: Tap, states: Path) -> None:
        """Take what has been started."""
        self.bed = bed
        self.tap = tap
        self.states = states

    def run(self, target: str, *words: str, count: int) -> tuple[dict[str, Any], list[Request]]:
        """Run a job; return what each minion returned, and all requests until the last one has returned."""
        mark = self.tap.mark()
        shown = self.bed.salt([target, *words, "--out=json", "--static", "--timeout=90"], timeout=180)

        def returned() -> bool:
            return len([each for each in self.tap.since(mark) if each.cmd == "_return"]) >= count

        until(returned, Deadline(QUIET_S), lambda: "a minion hasn't returned")
        return json.loads(shown.stdout), self.tap.since(mark)

    def both(self, *words: str) -> tuple[dict[str, Any], list[Request]]:
        """Run a job on the real minion, then on the simulated ones, who would wait for the same processors."""
        real, first = self.run(REAL, *words, count=1)
        simulated, second = self.run("minion-*", *words, count=len(MINIONS))
        return {**real, **simulated}, [*first, *second]


@pytest.fixture(scope="module")
def place(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Start everything."""
    folder = tmp_path_factory.mktemp("highstate")
    states_tree.make(folder / "states", folder / "out")
    tap = tapped_tree.make(folder / "tree", stock)
    wanted = BedSettings(
        tree=folder / "tree",
        folder=folder / "bed",
        master_options={"file_roots": {"base": [str(folder / "states")]}},
        pillar="none",
        postgres="none",
        api=None,
        minions=len(MINIONS),
    )
    with Bed(wanted) as bed:
        real_minion.start(bed, REAL)
        grains = json.loads(bed.salt([REAL, "grains.items", "--out=json"]).stdout)[REAL]
        (folder / "grains.json").write_text(json.dumps({"local": grains}))
        fleet = bed.start_fleet(extra=["--grains", str(folder / "grains.json")])
        fleet.wait_ready(READY_S)
        yield Place(bed, tap, folder / "states")
        assert fleet.status().counters.errors == 0
        fleet.stop()


def served(requests: list[Request], minion: str) -> int:
    """Return the bytes of files that a minion was sent."""
    return sum(request.bytes for request in requests if request.id == minion)


def verdicts(results: dict[str, Any]) -> dict[str, Any]:
    """Return of each state whether it went well, and which others it names in its order."""
    return {tag: (result["result"], result["__run_num__"], result["__sls__"]) for tag, result in results.items()}


@pytest.fixture(scope="module", autouse=True)
def first(place: Place) -> tuple[dict[str, Any], list[Request]]:
    """Return what the first highstate of all gave, before anybody has any file."""
    return place.both("state.highstate")


def test_highstate_asks_for_what_a_real_one_asks_for(first: tuple[dict[str, Any], list[Request]]) -> None:
    """The first highstate: the same requests as often, the same bytes served, and states that end alike."""
    returned, requests = first
    assert len(returned[REAL]) == states_tree.STATES
    real = tapped_tree.kinds(requests, REAL)
    files = {request.path for request in requests if request.id == REAL and request.cmd == "_serve_file"}
    assert len(files) >= 40
    for minion in MINIONS:
        assert tapped_tree.kinds(requests, minion) == real
        assert served(requests, minion) == served(requests, REAL) > 1_000_000
        assert verdicts(returned[minion]) == verdicts(returned[REAL])


def test_second_highstate_has_its_files(place: Place) -> None:
    """The second highstate: hashes only, as both have what they were sent; what is in place shows no changes."""
    returned, requests = place.both("state.highstate")
    real = tapped_tree.kinds(requests, REAL)
    assert not [request for request in requests if request.cmd == "_serve_file"]
    for minion in MINIONS:
        assert tapped_tree.kinds(requests, minion) == real
        assert verdicts(returned[minion]) == verdicts(returned[REAL])
        # the real one's append and patch find what the other states have changed since
        assert returned[minion][f"file_|-site_|-{place.states.parent}/out/site_|-recurse"]["changes"] == {}
    assert returned[REAL][f"file_|-site_|-{place.states.parent}/out/site_|-recurse"]["changes"] == {}


@pytest.mark.parametrize(
    "words",
    [
        ("state.apply", "common.users"),
        ("state.apply", "common"),
        ("state.apply", "common,web"),
        ("state.apply", "no_such"),
    ],
    ids=" ".join,
)
def test_state_files_by_name(place: Place, words: tuple[str, ...]) -> None:
    """State files that are named: the same requests, and the same words about one that isn't there."""
    returned, requests = place.both(*words)
    real = tapped_tree.kinds(requests, REAL)
    for minion in MINIONS:
        assert tapped_tree.kinds(requests, minion) == real
        if isinstance(returned[REAL], list):
            assert returned[minion] == returned[REAL]
        else:
            assert verdicts(returned[minion]) == verdicts(returned[REAL])


def test_file_that_changes_on_the_master(place: Place) -> None:
    """A file that has changed is fetched by everybody, once, and its state has changed something again."""
    (place.states / "common" / "files" / "two").write_text("3\n")
    # the master's list of hashes lives for some seconds
    until(lambda: _hash_is_new(place), Deadline(QUIET_S), lambda: "the master still knows the old file")
    returned, requests = place.both("state.apply", "common")
    for minion in (REAL, *MINIONS):
        fetched = Counter(each.path for each in requests if each.id == minion and each.cmd == "_serve_file")
        assert fetched == {"common/files/two": 2}
        tag = f"file_|-two_|-{place.states.parent}/out/etc/two_|-managed"
        assert (returned[minion][tag]["result"], bool(returned[minion][tag]["changes"])) == (True, True)


def _hash_is_new(place: Place) -> bool:
    """Return whether the master has seen the new file."""
    shown = place.bed.salt([OTHER, "cp.hash_file", "salt://common/files/two", "--out=json"]).stdout
    return bool(json.loads(shown)[OTHER]["hsum"] == hashlib.sha256(b"3\n").hexdigest())


def test_state_file_that_needs_what_a_fleet_lacks(place: Place) -> None:
    """What a simulated minion can't render is refused with a sentence, not passed over."""
    (place.states / "python.sls").write_text("#!py\ndef run():\n    return {}\n")
    (place.states / "calls.sls").write_text("a:\n  test.nop:\n    - name: {{ salt['no.such']() }}\n")
    returned, _ = place.run(FOLLOWER, "state.apply", "python", count=1)
    assert "A fleet does not run the renderer py" in returned[FOLLOWER][0]
    returned, _ = place.run(FOLLOWER, "state.apply", "calls", count=1)
    assert "A simulated minion does not know the function no.such" in returned[FOLLOWER][0]


def test_states_that_name_the_minion(place: Place) -> None:
    """State files that look at a minion's id are compiled for each, and each gets its own."""
    (place.states / "named.sls").write_text(
        "{% if grains['id'].endswith('1') %}\none:\n{% else %}\n{{ grains['id'] }}:\n{% endif %}\n  test.nop: []\n"
    )
    returned, _ = place.run("minion-*", "state.apply", "named", count=len(MINIONS))
    names = {minion: next(iter(results.values()))["__id__"] for minion, results in returned.items()}
    assert names == {LEADER: LEADER, FOLLOWER: "one", OTHER: OTHER}


SETTING = [
    ("grains.setval", "sb", "1"),
    ("grains.setval", "sb", "1"),
    ("grains.get", "sb"),
    ("grains.append", "sl", "x"),
    ("grains.append", "sl", "x"),
    ("grains.append", "sb", "y"),
    ("grains.append", "sb", "y", "convert=True"),
    ("grains.remove", "sl", "x"),
    ("grains.set", "deep:er", "value"),
    ("grains.get", "deep"),
    ("grains.delval", "sb", "force=True"),
    ("grains.delkey", "sl"),
    ("grains.delkey", "deep", "force=True"),
    ("grains.delval", "no_such"),
    ("grains.setvals", "{'sf': 1, 'sg': [1, 2]}"),
    ("grains.items",),
    ("saltutil.refresh_grains",),
    ("saltutil.refresh_grains", "refresh_pillar=False"),
    ("saltutil.refresh_grains", "bad=1"),
    ("saltutil.refresh_pillar",),
    ("saltutil.refresh_resources",),
    ("saltutil.refresh_modules",),
    ("saltutil.refresh_beacons",),
    ("saltutil.sync_all",),
    ("saltutil.sync_grains",),
    ("saltutil.sync_modules",),
    ("saltutil.sync_states", "refresh=False"),
    ("saltutil.sync_resources",),
    ("saltutil.sync_pillar",),
    ("cmd.retcode", "exit 3"),
    ("cmd.run_stdout", "echo hi"),
    ("test.version",),
    ("test.retcode", "3"),
]


@pytest.mark.long
def test_functions_with_their_traffic(place: Place) -> None:
    """Functions that set grains and refresh what a minion has: the return and the requests of a real one."""
    for words in SETTING:
        _compare(place, words)


def _compare(place: Place, words: tuple[str, ...]) -> None:
    """Run a function on the real minion and on a simulated one."""
    mark = place.tap.mark()
    returned, _ = place.run(REAL, *words, count=1)
    # what a job starts in the background comes before the return of one that sleeps
    place.run(REAL, "test.sleep", "2", count=1)
    expected = tapped_tree.kinds(place.tap.since(mark), REAL)
    mark = place.tap.mark()
    returned |= place.run(FOLLOWER, *words, count=1)[0]

    def asked() -> Counter[str]:
        return tapped_tree.kinds(place.tap.since(mark), FOLLOWER)

    until(lambda: asked() == expected, Deadline(QUIET_S), lambda: f"{words}: {asked()} is not {expected}")
    if words == ("grains.items",):
        names = [name for name in returned[REAL] if name not in returned[FOLLOWER]]
        assert (names, returned[FOLLOWER]["sg"]) == ([], [1, 2])
    else:
        assert returned[FOLLOWER] == returned[REAL], words


def test_grains_that_are_set_are_targets(place: Place) -> None:
    """A grain that was set targets the minion that has it, and no other; after a kill it is still there."""
    place.run(FOLLOWER, "grains.setval", "colour", "red", count=1)

    def found() -> bool:
        shown = place.bed.salt(["-G", "colour:red", "test.ping", "--out=json", "--static", "--timeout=10"])
        return bool(shown.stdout.strip()) and json.loads(shown.stdout) == {FOLLOWER: True}

    until(found, Deadline(QUIET_S), lambda: "the grain targets nobody")


def test_nothing_is_left_behind(place: Place) -> None:
    """What was compiled lies below the fleet's folder while it runs; nothing of a state was done on this machine."""
    assert list((place.bed.folder / "samples" / "fleet").glob("compile-*")) != []
    shutil.rmtree(place.states.parent / "out")
    place.run(OTHER, "state.highstate", count=1)
    assert not (place.states.parent / "out").exists()
    # as it was
    place.run(REAL, "state.highstate", count=1)
