"""The same commands to a stock master and to a patched one, with usual and odd configurations: the same answers.

Compared are what each command prints and its exit code, the job cache, the names of all other files, and the events.
What differs on purpose is listed in `EXCUSES`, each with the topic whose row in docs/operate.md tells of it.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.bed import Bed, BedSettings
from harness.bed.settings import Tree
from harness.processes.command import Command
from tests.live.helpers import observed, real_minion
from tests.live.helpers.fleet_bus import Bus
from tests.live.helpers.observed import JID, Difference, Normal, Observed
from tests.live.helpers.salt_release import release

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from evil_minions import Transport
    from harness.processes.processes import Process

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

MINIONS = 5
REAL = "real"
READY_S = 120.0
COMMAND_S = 300.0
AT_ONCE = 3
CLIENT = "3006.30"
RETURNER = Path(__file__).parents[1] / "helpers" / "noted_returner.py"
PAGE = "docs/operate.md"
CHAPTER = "## What changes without any setting"
PILLAR = "app: {port: 80}\n"
BROKEN = "app: {port: {{ nothing.there }}}\n"
FUNCTION = "def there():\n    return {!r}\n"
EXT_PILLAR = "def ext_pillar(minion_id, pillar):\n    return {'dropped': 'pillar'}\n"


class Setting:
    """A master with its minions, the files that it serves, and what was seen of it so far."""

    def __init__(self, bed: Bed, files: Path, real: Process, bus: Bus, clients: Tree | None) -> None:
        """Take the parts; `clients` is a Salt whose commands are typed instead of the master's own."""
        self.bed = bed
        self.files = files
        self.real = real
        self.bus = bus
        self.clients = clients
        self.normal = Normal.of(bed, files, *([clients.path.absolute()] if clients else []))
        self.seen = Observed()
        self.asynchronous = ""
        self._numbers = itertools.count()

    def type(self, command: str) -> None:
        """Run a command to its end, and note what it said."""
        assert command not in self.seen.says, f"{command} is typed twice"
        name, *arguments = shlex.split(command.replace("JID", self.asynchronous))
        tree = self.bed.tree if name == "salt-call" else self.clients or self.bed.tree
        config = self.bed.temporary / f"minion-{REAL}" / "etc" if name == "salt-call" else self.bed.master.config_dir
        environment = self.bed.environment if tree is self.bed.tree else tree.environment(self.bed.environment)
        number = next(self._numbers)
        typed = Command(
            role="cli",
            argv=[*tree.command(name, config), *arguments],
            environment=environment,
            output=self.bed.temporary / f"typed-{number}.out",
            errors=self.bed.temporary / f"typed-{number}.err",
            cwd=self.bed.temporary,
        )
        done = self.bed._processes.run(name, typed, COMMAND_S)
        self.seen.says[command] = {
            "stdout": self.normal.printed(done.stdout),
            "stderr": self.normal.printed(done.stderr),
            "code": str(done.returncode),
        }
        if "--async" in arguments:
            self.returned(command, done.stdout)

    def returned(self, command: str, printed: str) -> None:
        """Wait for all minions' returns of a job, and for the end of a batch."""
        found = JID.search(printed)
        if not found:
            # it was refused, which both masters have to do in the same words
            return
        jid = found[0]
        self.bus.returned(jid, MINIONS + 1)
        if "--batch" in command:
            self.bus.wait(lambda: bool(self.bus.events(tag=f"salt/batch/{jid}/complete")), "the batch does not end")
        else:
            self.asynchronous = jid

    def write(self, name: str, text: str) -> None:
        """Write a file that the master serves."""
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the real minion."""
        first = psutil.Process(self.real.pid)
        for process in (first, *first.children(recursive=True)):
            process.send_signal(number)


def drop_modules(setting: Setting) -> None:
    """Put new modules into the master's files while it runs."""
    setting.write("states/_modules/dropped.py", FUNCTION.format("first"))
    setting.write("states/_runners/droprun.py", FUNCTION.format("runner"))
    setting.write("states/_pillar/dropped.py", EXT_PILLAR)


def change_modules(setting: Setting) -> None:
    """Change one of them, and take another one away."""
    setting.write("states/_modules/dropped.py", FUNCTION.format("second, longer"))
    (setting.files / "states/_runners/droprun.py").unlink()


def pip_install(setting: Setting) -> None:
    """Install a package with a Salt extension, where master and minion look for packages."""
    wheel = setting.files / "saltpipped-1.0-py3-none-any.whl"
    info = "saltpipped-1.0.dist-info"
    contents = {
        "saltpipped/__init__.py": "",
        "saltpipped/modules/pipped.py": FUNCTION.format("from pip"),
        "saltpipped/runners/piprun.py": FUNCTION.format("runner from pip"),
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: saltpipped\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: none\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[salt.loader]\nsaltpipped = saltpipped\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*contents, f"{info}/RECORD")))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", str(site(setting.files)), str(wheel)], check=True)


def break_pillar(setting: Setting) -> None:
    """Make the pillar one that can't be compiled."""
    setting.write("pillar/app.sls", BROKEN)


def mend_pillar(setting: Setting) -> None:
    """Make it a good one again."""
    setting.write("pillar/app.sls", PILLAR)


def freeze(setting: Setting) -> None:
    """Stop the real minion, which then has connections and does not answer."""
    setting.signal(signal.SIGSTOP)


def thaw(setting: Setting) -> None:
    """Let the real minion go on, and wait until it has answered what it was asked meanwhile."""
    setting.signal(signal.SIGCONT)
    (jid,) = {event["jid"] for event in setting.bus.events(fun="cmd.run", id="minion-00001")}
    setting.bus.returned(jid, 2)


def nothing(_setting: Setting) -> None:
    """Leave all as it is."""


@dataclass(frozen=True)
class Stage:
    """Commands that are typed at once, after something has happened; JID is the job of `salt --async`."""

    name: str
    happens: Callable[[Setting], None]
    commands: Sequence[str]


STAGES = (
    Stage("asked", nothing, ("salt --async '*' test.echo later",)),
    Stage(
        "jobs",
        nothing,
        (
            "salt --async --batch-size=2 '*' test.sleep 2",
            "salt '*' test.ping --out=json --static",
            "salt '*' test.ping",
            "salt --batch-size=1 '*' test.ping --out=json",
            "salt -L real,minion-00000,nobody test.ping --out=json",
            "salt real no.such_function",
            "salt real cmd.run 'exit 3' --out=json",
        ),
    ),
    Stage(
        "cached",
        nothing,
        (
            "salt-run jobs.lookup_jid JID --out=json",
            "salt-run jobs.list_job JID --out=json",
            "salt-run jobs.print_job JID",
            "salt-run jobs.list_jobs search_function=test.echo --out=json",
            "salt-run jobs.lookup_jid 20200101000000000000",
            "salt-run cache.pillar tgt=real --out=json",
            "salt-key --list-all --out=json",
            "salt-call pillar.items --out=json",
            "salt-call publish.publish 'minion-0000[01]' test.ping --out=json",
        ),
    ),
    Stage("active", nothing, ("salt-run jobs.active --out=json",)),
    Stage(
        "odd",
        nothing,
        (
            "salt '*' test.ping --summary",
            "salt --batch-size=50% -L real,minion-00001 test.ping --static --out=json",
            "salt nobody test.ping",
            "salt -G no:such test.ping --out=json",
            "salt -C '* and (' test.ping",
            "salt -E 'real(' test.ping",
            "salt -C 'real or G@id:minion-00003' test.ping --out=json",
            "salt --preview-target '*'",
            "salt real test.ping,test.echo , two --out=json",
            "salt real test.ping one too many",
            "salt real test.raise_exception ValueError wrong",
            "salt real --no-such-option test.ping",
            "salt-run jobs.exit_success JID",
            "salt-run jobs.lookup_jid",
            "salt-run jobs.lookup_jid JID nonsense=1",
            "salt-run git_pillar.update",
            "salt-run queue.list_queues backend=none",
            "salt-run no.such",
            "salt-run manage.status --out=json",
            "salt-run manage.up",
            "salt-run cache.mine tgt=real --out=json",
            "salt-run fileserver.file_list --out=json",
            "salt-run pillar.show_pillar real --out=json",
            "salt-key --yes --accept=nobody",
            "salt-call no.such",
            "salt-call event.send myorg/event",
            "salt-call event.send salt/run/event",
        ),
    ),
    Stage(
        "dropped",
        nothing,
        (
            "salt real dropped.there --out=txt",
            "salt-run droprun.there --out=txt",
            "salt-run pillar.show_pillar real --out=json",
        ),
    ),
    Stage(
        "dropped",
        drop_modules,
        ("salt real saltutil.sync_all --out=json", "salt-run saltutil.sync_all --out=json"),
    ),
    Stage(
        "dropped",
        nothing,
        (
            "salt real dropped.there --out=json",
            "salt-run droprun.there",
            "salt-call dropped.there --out=json --local",
            "salt-call pillar.get dropped --out=json",
        ),
    ),
    Stage(
        "dropped",
        change_modules,
        ("salt real saltutil.sync_modules --out=json", "salt-run saltutil.sync_runners --out=json"),
    ),
    Stage("dropped", nothing, ("salt real dropped.there", "salt-run droprun.there --out=json")),
    Stage(
        "pip",
        pip_install,
        ("salt-run piprun.there", "salt-call pipped.there", "salt real saltutil.refresh_modules async=False"),
    ),
    Stage("pip", nothing, ("salt real pipped.there --out=json",)),
    Stage("pillar", break_pillar, ("salt real saltutil.refresh_pillar clean_cache=True wait=True",)),
    Stage(
        "pillar",
        nothing,
        (
            "salt real pillar.items",
            "salt real pillar.get app --out=json",
            "salt real state.single test.nop name=x --out=json",
            "salt real state.apply",
            "salt-call state.single test.nop name=x --out=json",
            "salt-run pillar.show_pillar real",
            "salt-run cache.pillar tgt=real",
        ),
    ),
    Stage("pillar", mend_pillar, ("salt real saltutil.refresh_pillar clean_cache=True wait=True --out=json",)),
    Stage("pillar", nothing, ("salt real pillar.items --out=json", "salt-call pillar.get app")),
    Stage("frozen", freeze, ("salt -L real,minion-00001 cmd.run 'echo frozen' --timeout=5 --out=json",)),
    Stage(
        "frozen",
        thaw,
        ("salt real test.ping", "salt-run jobs.list_jobs search_function=cmd.run --out=json"),
    ),
    # a minion whose key was deleted signs in again as soon as it is asked anything
    Stage("keys", nothing, ("salt-key --yes --delete=minion-00004",)),
    Stage("keys", nothing, ("salt-key --list-all", "salt minion-00003 test.ping")),
)


@dataclass(frozen=True)
class Configuration:
    """What a master has besides, and the stages that its commands are of."""

    options: Mapping[str, Any] = field(default_factory=dict)
    stages: Sequence[str] = ("asked", "jobs", "cached", "active")
    transport: Transport = "zeromq"
    # a release whose commands are typed
    clients: str | None = None


CONFIGURATIONS = {
    "default": Configuration(),
    "odd commands": Configuration(stages=("asked", "jobs", "odd", "keys")),
    "while it runs": Configuration({"ext_pillar": [{"dropped": {}}]}, ("dropped", "pip", "pillar", "frozen")),
    "no job cache": Configuration({"job_cache": False}),
    "other job cache": Configuration({"master_job_cache": "noted"}),
    "external job cache": Configuration({"ext_job_cache": "noted"}),
    "pillar cache": Configuration({"pillar_cache": True}, ("pillar",)),
    "tcp bus": Configuration({"ipc_mode": "tcp"}),
    "tcp": Configuration({}, ("asked", "jobs", "frozen"), transport="tcp"),
    # 3006 waits for ever for a return on the bus of a stock 3008 too: none of these commands waits for one
    "3006 clients": Configuration(stages=("asked", "cached"), clients=CLIENT),
}


@dataclass(frozen=True)
class Excuse:
    """A difference that is there on purpose: what stock says there, and what ours does; both are regular expressions.

    topic: its row in docs/operate.md tells of the difference
    only: the configurations that have it
    """

    where: str
    part: str
    stock: str
    patched: str
    topic: str
    only: Sequence[str]

    def fits(self, difference: Difference) -> bool:
        """Say whether it is about this difference."""
        return (
            (self.where, self.part) == (difference.where, difference.part)
            and bool(re.search(self.stock, difference.stock))
            and bool(re.search(self.patched, difference.patched))
        )


ODD = ("odd commands",)
RUNNING = ("while it runs",)
UNAVAILABLE = "The ext_pillar dropped is not available"
REFUSED = 'Function "none.list_queues" is not available'
EXCUSES = (
    # what a runner raises to say something is its answer, an error in the log and an exit code
    Excuse("salt-run git_pillar.update", "stdout", "Traceback", "^No git_pillar remotes", "runner-errors", ODD),
    Excuse("salt-run git_pillar.update", "stderr", "^unclosed", r"^\[ERROR   \] Problem", "runner-errors", ODD),
    Excuse("salt-run queue.list_queues backend=none", "stdout", "Usage:", f"^{REFUSED}$", "runner-errors", ODD),
    Excuse("salt-run queue.list_queues backend=none", "stderr", "^unclosed", "ERROR", "runner-errors", ODD),
    Excuse("salt-run queue.list_queues backend=none", "code", "^0$", "^1$", "runner-errors", ODD),
    Excuse("jobs", "runner.git_pillar.update", "Traceback", '"return": "No git_pillar', "runner-errors", ODD),
    Excuse("jobs", "runner.queue.list_queues", '"success": true', '"success": false', "runner-errors", ODD),
    Excuse("events", "salt/run/JID/ret", "^1 x .*list_queues", '"retcode".*list_queues', "runner-errors", ODD),
    # a minion can't fire an event of the master's
    Excuse("events", "salt/run/event", "^1 x", "^$", "minion-event-check", ODD),
    # before it is there
    Excuse("salt-run pillar.show_pillar real --out=json", "stdout", "app", UNAVAILABLE, "sql-pillar-failures", RUNNING),
    Excuse(
        "salt-run pillar.show_pillar real --out=json",
        "stderr",
        "interface named dropped is unavailable",
        f"{UNAVAILABLE}(.|\n)*interface named dropped is unavailable",
        "sql-pillar-failures",
        RUNNING,
    ),
    Excuse("jobs", "runner.pillar.show_pillar", "app", UNAVAILABLE, "sql-pillar-failures", RUNNING),
)


def unexplained(configuration: str, found: Sequence[Difference]) -> tuple[list[Difference], list[Excuse]]:
    """Return the differences without an excuse, and the excuses without a difference."""
    excuses = [excuse for excuse in EXCUSES if configuration in excuse.only]
    left = [difference for difference in found if not any(excuse.fits(difference) for excuse in excuses)]
    unused = [excuse for excuse in excuses if not any(excuse.fits(difference) for difference in found)]
    return left, unused


def test_excuses_are_in_the_page(root: Path) -> None:
    """The page tells operators of every difference that is excused here."""
    chapter = (root / PAGE).read_text(encoding="utf-8").split(f"\n{CHAPTER}\n")[1].split("\n## ")[0]
    topics = {topic for line in chapter.splitlines() for topic in re.findall("`([a-z-]+)`", line.split(" | ")[0])}
    assert {excuse.topic for excuse in EXCUSES} <= topics


def test_what_counts_as_a_difference() -> None:
    """Ids, times, folders and the order of minions do not count; an answer, an exit code, a file and an event do."""
    normal = Normal({"/tmp/one": "BED"})  # noqa: S108 - nothing is there
    shown = "b:\n    True\na:\n    /tmp/one 20261130083705732400\n"
    assert normal.printed(shown) == "a:\n    BED JID\nb:\n    True"
    assert normal.printed('{"b": 1}\n{"a": {"_stamp": "2026"}}') == '{"a": {"_stamp": "..."}}\n{"b": 1}'
    both = [Observed({"salt": {"stdout": "a", "code": "0"}}, {"events": Counter({("tag", "x"): 2})}) for _ in range(2)]
    assert observed.differences(*both) == []
    both[1].says["salt"]["code"] = "1"
    both[1].rows["events"] = Counter({("tag", "x"): 1, ("other", "y"): 1})
    assert observed.differences(*both) == [
        Difference("salt", "code", "0", "1"),
        Difference("events", "other", "", "1 x y"),
        Difference("events", "tag", "1 x x", ""),
    ]


def site(files: Path) -> Path:
    """Return where packages are installed beside a bed."""
    return files / "site"


def observe(tree: Path, folder: Path, wanted: Configuration, clients: Tree | None) -> Observed:
    """Run a master of this tree, type the commands, and return what was seen."""
    files = folder / "files"
    for name in ("states", "pillar", "modules", "site"):
        (files / name).mkdir(parents=True)
    shutil.copy(RETURNER, files / "modules" / "noted.py")
    (files / "pillar" / "top.sls").write_text("base: {real: [app]}\n")
    (files / "pillar" / "app.sls").write_text(PILLAR)
    options = {
        "file_roots": {"base": [str(files / "states")]},
        "pillar_roots": {"base": [str(files / "pillar")]},
        "returner_dirs": [str(files / "modules")],
        "peer": {".*": ["test.*"]},
        # so that a busy machine does not make a minion late
        "timeout": 30,
        "gather_job_timeout": 5,
        # a new key lets a minion whose key was removed sign in again, within a minute
        "rotate_aes_key": False,
        **wanted.options,
    }
    settings = BedSettings(
        tree=tree,
        folder=folder / "bed",
        minions=MINIONS,
        transport=wanted.transport,
        master_options=options,
        pillar="none",
        postgres="none",
        api=None,
    )
    bed = Bed(settings)
    bed.environment["PYTHONPATH"] += f":{site(files)}"
    with bed:
        bed.start_fleet().wait_ready(READY_S)
        real = real_minion.start(bed, REAL)
        bus = Bus(bed, folder / "events")
        setting = Setting(bed, files, real, bus, clients)
        for stage in STAGES:
            if stage.name in wanted.stages:
                stage.happens(setting)
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(setting.type, stage.commands))
        setting.seen.rows["jobs"] = observed.jobs(bed, setting.normal)
        setting.seen.rows["files"] = observed.files([bed.master.cache_dir, bed.master.pki_dir], setting.normal)
        bus.close()
        setting.seen.rows["events"] = observed.events(bus, setting.normal)
    return setting.seen


@pytest.mark.parametrize(
    "name", [name if name == "default" else pytest.param(name, marks=pytest.mark.long) for name in CONFIGURATIONS]
)
def test_same_commands(root: Path, stock: Path, tmp_path: Path, name: str) -> None:
    """Both masters print, keep and tell the same, but for what is listed."""
    wanted = CONFIGURATIONS[name]
    clients = Tree(release(root, wanted.clients)) if wanted.clients else None
    seen = [observe(tree, tmp_path / tree.name, wanted, clients) for tree in (stock, root / "salt")]
    found = observed.differences(*seen)
    left, unused = unexplained(name, found)
    assert not left
    assert not unused
