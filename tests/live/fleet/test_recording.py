"""A real minion's highstate, recorded on the master and replayed by fifty simulated minions.

`SALTBED_REPLAY_MINIONS=1000` replays it on more, all at once.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

from evil_minions import recording
from evil_minions.inventory import GrainsFactory, template_of
from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.live.helpers import real_minion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evil_minions.recording import Recording
    from harness.bed.fleet import Fleet


REAL = "real-00000"
MINIONS = int(os.environ.get("SALTBED_REPLAY_MINIONS", "50"))
STATES = 24
# a master on two cores compiles about eight pillars a second, and each minion asks for two of them
WAIT_S = 120.0 + 0.5 * MINIONS
pytestmark = [pytest.mark.live, pytest.mark.timeout(480 + 3 * WAIT_S)]
# what a master writes into the states of a failed run before it keeps them, see fire_ret_load in salt/utils/event.py
ADDED = ("retcode", "_stamp", "jid", "id", "success", "return", "fun", "user")
SCRIPT = Path(__file__).parents[1] / "helpers" / "fleet_loads.py"
PEM = "\n".join(
    ["-----BEGIN PRIVATE KEY-----", *(f"MIIEvQIBADANBgkqhkiG9w0BAQ{n}" for n in range(4)), "-----END PRIVATE KEY-----"]
)
PILLAR = {
    "database": {"password": "hunter2!'x", "url": "postgresql://app:s3cr3t@db.example/app"},
    "api_key": "AKIA-0123456789",
    "pin": 482913,
    "key": PEM,
    "motd": "first line of the motd\nsecond line of the motd",
    "roles": ["webserver"],
}
# every form in which one of these could be told
SECRETS = [
    "hunter2",
    "s3cr3t",
    "AKIA-0123",
    "482913",
    "MIIEvQ",
    "BEGIN PRIVATE",
    "second line of",
    # base64 of the URL
    "cG9zdGdyZXNxbDov",
]


def states(folder: Path) -> dict[str, Any]:
    """Return a tree that tells its secrets in names, comments, diffs and output; `folder` is for its file."""
    found: dict[str, Any] = {
        "motd": {"file.managed": [{"name": str(folder / "motd")}, {"contents_pillar": "motd"}]},
        "url": {"cmd.run": [{"name": "printf %s '{{ pillar.database.url }}' | base64"}]},
        "who": {
            "cmd.run": [{"name": "echo {{ grains.id }} {{ grains.host }} 00000000-1111-4222-8333-{{ '%012d' % 7 }}"}]
        },
        "wait": {"cmd.run": [{"name": "sleep 0.5"}]},
        "deployed": {
            "event.send": [{"name": "saltbed/deployed/{{ grains.id }}"}, {"data": {"pin": "{{ pillar.pin }}"}}]
        },
        "password": {
            "test.configurable_test_state": [
                {"changes": True},
                {"result": True},
                {"comment": "set to {{ pillar.database.password | yaml_dquote }} and {{ pillar.api_key }}"},
            ]
        },
        "failing": {"test.fail_without_changes": [{"comment": "{{ pillar.key | json }}"}]},
    }
    found |= {f"step-{number:02d}": {"test.succeed_with_changes": []} for number in range(STATES - len(found))}
    return found


@pytest.fixture(scope="module")
def bed(stock: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Yield a bed with a real minion that has secrets."""
    folder = tmp_path_factory.mktemp("recording")
    for name in ("states", "pillar", "files"):
        (folder / name).mkdir()
    (folder / "states" / "top.sls").write_text("base: {'*': [site]}\n")
    text = yaml.safe_dump(states(folder / "files"), sort_keys=False, width=1000)
    (folder / "states" / "site.sls").write_text(text)
    (folder / "pillar" / "top.sls").write_text(f"base: {{'{REAL}': [secrets]}}\n")
    (folder / "pillar" / "secrets.sls").write_text(yaml.safe_dump(PILLAR))
    options = {
        "file_roots": {"base": [str(folder / "states")]},
        "pillar_roots": {"base": [str(folder / "pillar")]},
        "presence_events": True,
        "loop_interval": 1,
    }
    wanted = BedSettings(
        tree=stock, folder=folder, master_options=options, pillar="none", postgres="none", api=None, minions=MINIONS
    )
    with Bed(wanted) as found:
        real_minion.start(found, REAL)
        yield found


def publish(bed: Bed, tgt: str, fun: object, arg: list[object], **job: object) -> dict[str, Any]:
    """Run a job and return its id, and what each minion sent in return."""
    load = json.dumps({"tgt": tgt, "tgt_type": "glob", "fun": fun, "arg": arg, **job})
    argv = [sys.executable, str(SCRIPT), str(bed.master.config_dir / "master"), load]
    done = subprocess.run(argv, env=bed.environment, capture_output=True, text=True, timeout=WAIT_S + 60, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


# the first one is none of those that are recorded, and doesn't count
JOBS: list[tuple[object, list[object]]] = [
    ("pillar.items", [{"unmask": True, "__kwarg__": True}]),
    ("state.highstate", []),
    ("test.echo", ["the pin is 482913"]),
    ("event.send", ["saltbed/custom", {"from": REAL, "token": "t0k3n-of-event"}]),
    ("no.such", [1]),
    (["test.ping", "test.echo"], [[], ["both"]]),
]


@pytest.fixture(scope="module")
def path(bed: Bed) -> Path:
    """Record a highstate and more, and return the file."""
    path = bed.folder / "real.json"
    argv = ["record", "--minion", REAL, "--output", str(path), "--jobs", str(len(JOBS) - 1), "--seconds", "240"]
    argv += ["--config", str(bed.master.config_dir / "master")]
    recorder = bed.spawn("recorder", [sys.executable, "-m", "evil_minions", *argv])
    log = bed.logs / "recorder.out"

    def listens() -> bool:
        recorder.check()
        return log.exists() and "Recording" in log.read_text()

    until(listens, Deadline(WAIT_S), lambda: f"the recorder doesn't listen: {log.read_text()}")
    for fun, arg in JOBS:
        assert REAL in publish(bed, REAL, fun, arg)["loads"], fun
    until(path.exists, Deadline(WAIT_S), lambda: f"no recording: {log.read_text()}")
    return path


@pytest.fixture(scope="module")
def recorded(path: Path) -> Recording:
    """Return the recording."""
    return recording.load(path)


@pytest.fixture(scope="module")
def fleet(bed: Bed, path: Path) -> Iterator[Fleet]:
    """Start the minions that replay."""
    fleet = bed.start_fleet(MINIONS, extra=["--recording", str(path)])
    fleet.wait_ready(WAIT_S)
    yield fleet
    fleet.stop()


def test_recording_holds_no_secret(path: Path) -> None:
    """Neither pillar values nor keys, in whatever form they were told, are in the file."""
    text = path.read_text()
    assert [secret for secret in [*SECRETS, "t0k3n-of-event"] if secret in text] == []
    assert "<secret-" in text
    assert "<PEM>" in text


def test_recording_holds_the_states(recorded: Recording) -> None:
    """Every state is there with its time, the job took at least as long, and its event lies within."""
    (answer,) = [answer for answer in recorded.answers if answer.fun == "state.highstate"]
    assert len(answer.value) == STATES >= 20
    took = sum(entry["duration"] for entry in answer.value.values()) / 1000.0
    assert 0.5 < took < answer.seconds
    assert [event.tag for event in answer.events] == [f"saltbed/deployed/{REAL}"]
    assert 0 < answer.events[0].at < answer.seconds
    assert recorded.salt == recorded.grains["saltversion"]
    assert {answer.fun for answer in recorded.answers} == {
        "state.highstate", "test.echo", "event.send", "no.such", "test.ping"
    }  # fmt: skip


def plain(value: object, grains: dict[str, Any]) -> object:
    """Return a value without times, and with words in place of what identifies a minion."""
    if isinstance(value, dict):
        return {
            plain(name, grains): "*" if name in {"start_time", "duration"} else plain(child, grains)
            for name, child in value.items()
        }
    if isinstance(value, list):
        return [plain(child, grains) for child in value]
    if isinstance(value, str):
        for name in ("id", "host", "fqdn", "machine_id"):
            value = re.sub(rf"(?<![0-9A-Za-z]){re.escape(grains[name])}(?![0-9A-Za-z])", "<own>", value)
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", value)
    return value


def test_job_cache_holds_what_was_recorded(bed: Bed, fleet: Fleet, recorded: Recording) -> None:
    """The job cache's returns of a replayed highstate equal the recorded one but for adapted fields and times."""
    assert fleet.minions == MINIONS
    jid = publish(bed, "minion-*", "state.highstate", [], seconds=WAIT_S)["jid"]
    found = json.loads(bed.salt_run(["jobs.list_job", jid, "--out=json"]).stdout)["Result"]
    assert sorted(found) == bed.settings.minion_ids()
    (answer,) = [answer for answer in recorded.answers if answer.fun == "state.highstate"]
    factory = GrainsFactory(template_of(recorded.grains), 1, "127.0.0.1")
    for number, minion in enumerate(sorted(found)):
        returned = found[minion]["return"]
        for entry in returned.values():
            for name in ADDED:
                entry.pop(name, None)
        assert list(returned) != list(answer.value)
        assert plain(returned, factory.build(minion, number)) == plain(answer.value, recorded.grains)
    assert answer.retcode == 2
    # each has times and a UUID of its own
    outputs = {tuple(entry["duration"] for entry in each["return"].values()) for each in found.values()}
    assert len(outputs) == MINIONS
    uuids = {
        re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", json.dumps(each["return"])) for each in found.values()
    }
    assert len({match.group() for match in uuids if match}) == MINIONS


@pytest.mark.parametrize(
    ("fun", "arg", "value"),
    [
        ("test.echo", ["the pin is 482913"], "the pin is <secret-"),
        ("test.echo", ["not recorded"], "not recorded"),
        ("no.such", [1], "'no.such' is not available."),
    ],
)
def test_arguments_decide(bed: Bed, fleet: Fleet, fun: str, arg: list[object], value: str) -> None:
    """Recorded arguments get the recorded answer, masked ones too; others are answered by the simulated function."""
    assert fleet.minions == MINIONS
    loads = publish(bed, "minion-00007", fun, arg)["loads"]
    assert loads["minion-00007"]["return"].startswith(value)


def test_events_come_again(bed: Bed, fleet: Fleet, recorded: Recording) -> None:
    """An event that was fired during a recorded job is fired during the replayed one, by its minion."""
    assert fleet.minions == MINIONS
    before = fleet.control.status().counters.events_sent
    loads = publish(bed, "minion-0000[12]", "state.highstate", [], watch="saltbed/deployed/*")
    assert sorted(event["tag"] for event in loads["watched"]) == [
        "saltbed/deployed/minion-00001",
        "saltbed/deployed/minion-00002",
    ]
    (answer,) = [answer for answer in recorded.answers if answer.fun == "state.highstate"]
    assert loads["watched"][0]["data"]["data"] == answer.events[0].data
    assert fleet.control.status().counters.events_sent - before == 2


def test_presence_lists_the_minions(bed: Bed) -> None:
    """A master calls present whoever has an address that is connected to it: minions need to send nothing for that."""
    addresses = sorted(
        address.address
        for found in psutil.net_if_addrs().values()
        for address in found
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    )
    if not addresses:
        pytest.skip("a master takes local connections for those of the machine's own addresses, and this one has none")
    extra = ["--id-format", "here-{:05d}", "--connects-from", addresses[0]]
    fleet = bed.start_fleet(5, extra=extra, name="here")
    fleet.wait_ready(WAIT_S)
    wanted = {f"here-{number:05d}" for number in range(5)}

    def present() -> bool:
        watched = publish(bed, "here-00000", "test.sleep", [2], watch="salt/presence/present")["watched"]
        return any(set(event["data"]["present"]) >= wanted for event in watched)

    until(present, Deadline(WAIT_S), lambda: "the master doesn't list the minions as present")
    fleet.stop()
