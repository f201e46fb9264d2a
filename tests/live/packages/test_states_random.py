"""Random package states on real apt, dnf and zypper: the verdicts of `status` are true, and the locks hold.

What is right is worked out here: from what the package manager lists, and the fixed order of the few versions.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from harness.database import sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import patched
from harness.saltprocess.process import SaltProcess
from tests.live.helpers.applied_states import COMPILER, TASKS
from tests.live.helpers.apt_root import AptRoot, Caller, roots
from tests.live.helpers.package_states import States
from tests.live.helpers.rpm_root import LOCKS, NOTES, RpmRoot, rpm_root
from tests.live.packages.test_states_kills import _kill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.needs_root, pytest.mark.timeout(3000)]
NAME, MACHINE = "web", "machine"
PINS = "/etc/apt/preferences.d/99-admin"
# the versions of each package, the oldest first
VERSIONS = {
    "sb-tool": ["1.0", "1.2", "1.10", "2.0~rc1", "2.0"],
    "sb-epoch": ["0.9", "1:0.5"],
    "sb-lib": ["1.0", "2.0"],
    "sb-app": ["1.0", "2.0"],
    "sb-unwanted": ["1.0", "2.0"],
    "sb-n10": ["1.0"],
    "sb-n11": ["1.0"],
}
# what pulls a package in
PULLERS = {"sb-lib": "sb-app", "sb-unwanted": "sb-puller"}
HOLDS = {
    "=": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
PATIENCE_S = 90


class Entry(NamedTuple):
    """What is wanted of a package; a condition is a list of operators and versions."""

    package: str
    wanted: str
    condition: list[tuple[str, str]]

    @property
    def version(self) -> str:
        """Return the condition as text."""
        return ",".join(operator + version for operator, version in self.condition)

    def meets(self, version: str) -> bool:
        """Return whether a version meets the condition."""
        known = VERSIONS[self.package]
        place = known.index(version)
        return all(HOLDS[operator](place - known.index(other)) for operator, other in self.condition)


class Machine:
    """A root with one package manager, Salt in it, and a master's database outside."""

    def __init__(self, root: AptRoot, manager: str, states: States) -> None:
        """Take all of them."""
        self.root = root
        self.manager = manager
        self.states = states

    def salt(self) -> Caller:
        """Return Salt in the root."""
        return self.root.caller_for(self.manager) if isinstance(self.root, RpmRoot) else self.root.caller()

    def sh(self, script: str) -> str:
        """Run a script in the root, and return what it prints."""
        done = self.root.run("sh", "-c", script, check=False)
        return done.stdout + done.stderr

    def begin(self, versions: dict[str, str]) -> None:
        """Leave these packages and no other one of the repository, and no lock."""
        if isinstance(self.root, RpmRoot):
            self.root.begin(**{name.replace("-", "_"): f"{self._file(one)}-1" for name, one in versions.items()})
            return
        self.sh(f"apt-mark unhold sb-*; rm -f {NOTES} /etc/apt/preferences.d/*; dpkg --configure -a")
        there = [name.removesuffix(":all") for name in self.root.states()]
        if there:
            self.root.run("dpkg", "--purge", "--force-all", *there)
        if versions:
            self.root.apt("install", "--allow-downgrades", *(f"{name}={one}" for name, one in versions.items()))

    @staticmethod
    def _file(version: str) -> str:
        return version.rpartition(":")[2]

    def there(self) -> dict[str, str]:
        """Return the versions of what is installed, as the manager itself says."""
        found = self.root.installed()
        return {name.partition(":")[0]: version.removesuffix("-1") for name, version in found.items()}

    def candidate(self, package: str) -> str:
        """Return the version that the manager would install."""
        if self.manager == "apt":
            found = self.sh(f"LC_ALL=C apt-cache policy {package} | sed -n 's/ *Candidate: //p'").strip()
            return "" if found == "(none)" else found
        # neither knows one of low priority
        return VERSIONS[package][-1]

    def hold(self, package: str) -> None:
        """Hold a package as an administrator would."""
        words = {"apt": "apt-mark hold", "dnf": "dnf -q versionlock add", "zypper": "zypper -q addlock"}
        self.sh(f"{words[self.manager]} {package}")

    def release(self) -> None:
        """End what an administrator has set up."""
        hide = "test -e /srv/rpms || { mv /srv/away /srv/rpms; createrepo_c -q /srv/rpms; }"
        if self.manager == "apt":
            hide = "if test -d /tmp/lists; then mv /tmp/lists/* /var/lib/apt/lists/; rmdir /tmp/lists; fi"
        self.sh(f"test -e /run/busy && kill $(cat /run/busy); rm -f /run/busy /run/zypp.pid {PINS}; {hide}")
        if self.manager != "apt":
            self.sh("sed -i /skip_if/d /etc/yum.repos.d/sb.repo; rm -rf /var/cache/dnf /var/cache/zypp/solv")
            self.sh("zypper -q -n refresh --force; dnf -q makecache")

    def hide(self) -> None:
        """Take the repository away."""
        if self.manager == "apt":
            self.sh("mkdir /tmp/lists; mv /var/lib/apt/lists/_srv* /tmp/lists/")
        else:
            self.sh("mv /srv/rpms /srv/away; echo skip_if_unavailable=1 >> /etc/yum.repos.d/sb.repo")
            self.sh("rm -rf /var/cache/dnf /var/cache/zypp/solv /var/cache/zypp/raw")

    def busy(self, seconds: int) -> None:
        """Let another program hold the lock of the manager for a while."""
        if self.manager == "zypper":
            self.sh(f"sleep {seconds} > /dev/null 2>&1 & echo $! | tee /run/busy > /run/zypp.pid")
            return
        lock = "/var/lib/dpkg/lock-frontend" if self.manager == "apt" else "/var/lib/rpm/.rpm.lock"
        hold = f"import fcntl, time; h = open('{lock}', 'w'); fcntl.lockf(h, fcntl.LOCK_EX); time.sleep({seconds})"
        self.sh(f'python3 -c "{hold}" > /dev/null 2>&1 & echo $! > /run/busy')

    def outside(self, rng: random.Random) -> None:
        """Change a package without Salt and past the manager."""
        package = rng.choice(list(VERSIONS))
        if package in self.there() and rng.random() < 0.5:
            self.sh(f"dpkg --remove --force-all {package} || true; rpm -e --nodeps {package} || true")
            return
        version = self._file(rng.choice(VERSIONS[package]))
        if self.manager == "apt":
            self.sh(f"dpkg -i --force-all /srv/saltbed/{package}_*{version}_a[lm]*.deb")
        else:
            self.sh(f"rpm -U --oldpackage --nodeps --force /srv/*/noarch/{package}-{version}-1.noarch.rpm")


@pytest.fixture(scope="module", params=["apt", "dnf", "zypper"])
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Yield a machine with each of the managers."""
    with (
        sources.served(tmp_path_factory.mktemp("server")) as server,
        patched(tmp_path_factory.mktemp("salt")) as salt,
    ):
        folder = tmp_path_factory.mktemp("master")
        (folder / "pki/minions").mkdir(parents=True)
        (folder / "pki/minions" / NAME).write_text("key")
        states = States(salt, sources.make(server, "random"), folder, "keys")
        states.do("setup")
        if request.param == "apt":
            for made in roots(root, tmp_path_factory):
                yield Machine(made, "apt", states)
        else:
            with rpm_root(root, tmp_path_factory) as made:
                yield Machine(made, request.param, states)


@pytest.fixture
def master() -> Iterator[SaltProcess]:
    """Yield what stores the answers of minions."""
    with SaltProcess("patched", COMPILER, {}, TASKS) as process:
        yield process


@pytest.fixture
def rng() -> random.Random:
    """Return the source of what is random, whose seed is printed."""
    seed = int(os.environ.get("SALTBED_SEED", "0")) or random.SystemRandom().randrange(10**6)
    print("SALTBED_SEED", seed)
    return random.Random(seed)  # noqa: S311 - a test's


def _entry(machine: Machine, rng: random.Random, package: str) -> Entry:
    """Return something that may be wanted of a package."""
    wanted = rng.choice(["installed", "installed", "present", "latest", "removed", "removed", "purged", "kept"])
    if wanted == "purged" and machine.manager != "apt":
        # refused at saving
        wanted = "removed"
    known = VERSIONS[package]
    if wanted == "kept":
        return Entry(package, wanted, [("=", rng.choice(known))])
    if wanted == "latest" or rng.random() < 0.3:
        return Entry(package, wanted, [])
    if len(known) > 2 and rng.random() < 0.3:
        low, high = sorted(rng.sample(range(len(known)), 2))
        return Entry(package, wanted, [(">=", known[low]), ("<", known[high])])
    return Entry(package, wanted, [(rng.choice(list(HOLDS)), rng.choice(known))])


def _write(machine: Machine, entries: list[Entry]) -> None:
    """Save the minion's own state, and put its file where Salt in the root finds it."""
    rows = [{"package": one.package, "wanted": one.wanted, "version": one.version} for one in entries]
    old = machine.states.do("show").get(NAME)
    if old and old["packages"]:
        machine.states.do("restore", name=NAME, revision=0)
    machine.states.do("set", name=NAME, package=rows)
    text = (machine.states.root / "susemanager" / f"packages-{NAME}.sls").read_text()
    machine.root.write("/srv/salt/susemanager/packages-web.sls", text)


def _apply(salt: Caller) -> dict[str, Any]:
    """Apply the file, and return the states by package."""
    found = salt.cmd("state.apply", f"susemanager.packages-{NAME}")
    assert isinstance(found, dict), found
    return {key.split("_|-")[1].removeprefix("package_states "): state for key, state in found.items()}


def _status(machine: Machine, salt: Caller, master: SaltProcess) -> dict[str, Any]:
    """Ask the minion as `refresh` does, and return its status."""
    options = {"postgres": machine.states.database.server.salt_options(), "package_states": {}}
    options["postgres"] = {**options["postgres"]}
    try:
        inventory = salt.cmd("package_state.inventory")
    except RuntimeError as error:
        master.run("mark", options, [NAME], str(error))
    else:
        answer = master.run("store", options, NAME, inventory)[1]
        assert "error" not in answer, answer
    found: dict[str, Any] = machine.states.do("status", minion=NAME, table=False)
    return found


def _right(machine: Machine, entry: Entry, there: dict[str, str], configured: set[str]) -> bool:
    """Return whether a package is as it is wanted, by what its manager says."""
    version = there.get(entry.package, "")
    if entry.wanted in ("removed", "purged"):
        left = entry.wanted == "purged" and not entry.condition and entry.package in configured
        return not left and not (version and entry.meets(version))
    if entry.wanted == "latest":
        newest = machine.candidate(entry.package)
        known = VERSIONS[entry.package]
        return bool(version) and (not newest or known.index(version) >= known.index(newest))
    return bool(version) and entry.meets(version)


def _own(salt: Caller, function: str, package: str) -> None:
    """Let Salt change a package, which a lock may forbid."""
    with contextlib.suppress(RuntimeError):
        salt.cmd(function, package)


def _disturb(machine: Machine, rng: random.Random, salt: Caller) -> tuple[str, Caller]:
    """Apply the file while or before something happens; return what, and Salt."""
    kinds = ["none", "hold", "hidden", "killed", "killed", "own", "own", "outside", "outside", "busy"]
    kind = rng.choice([*kinds, "pin"] if machine.manager == "apt" else kinds)
    package = rng.choice(list(VERSIONS))
    if kind == "hold":
        machine.hold(package)
    elif kind == "pin":
        version, priority = rng.choice(["*", *VERSIONS[package]]), rng.choice([-1, 600, 1002])
        machine.root.write(PINS, f"Package: {package}\nPin: version {version}\nPin-Priority: {priority}\n")
    elif kind == "busy":
        machine.busy(rng.choice([4, 4, 4, 4, 120] if machine.manager == "zypper" else [4]))
    if kind == "killed":
        salt.send("state.apply", f"susemanager.packages-{NAME}")
        # not a wait for anything: the moment of the kill
        time.sleep(rng.uniform(0, 1 if machine.manager == "apt" else 5))
        _kill(salt, rng.choice(["minion", "manager", "both"]))
        salt.__exit__(None, None, None)
        running = ("pgrep", "-x", "apt-get|dpkg|dnf|zypper|rpm")
        until(
            lambda: not machine.root.run(*running, check=False).stdout,
            Deadline(PATIENCE_S),
            lambda: machine.sh("ps ax"),
        )
        salt = machine.salt()
    else:
        _apply(salt)
    if kind == "hidden":
        machine.hide()
        if rng.random() < 0.5:
            _apply(salt)
    elif kind == "own":
        _own(salt, rng.choice(["pkg.install", "pkg.remove"]), package)
    elif kind == "outside":
        machine.outside(rng)
    return kind, salt


@pytest.mark.parametrize("count", [4, pytest.param(100, marks=pytest.mark.long)])
def test_the_status_is_true(machine: Machine, master: SaltProcess, rng: random.Random, count: int) -> None:
    """Whatever has happened, a verdict is what the package manager says, or the minion is pending."""
    tally: Counter[str] = Counter()
    wrong: list[Any] = []
    for number in range(count):
        some = rng.sample(list(VERSIONS), rng.randint(0, 4))
        machine.begin({name: rng.choice(VERSIONS[name]) for name in some if name != "sb-app"})
        entries = [_entry(machine, rng, name) for name in rng.sample(list(VERSIONS), rng.randint(1, 5))]
        _write(machine, entries)
        salt = machine.salt()
        try:
            kind, salt = _disturb(machine, rng, salt)
            status = _status(machine, salt, master)
        finally:
            salt.__exit__(None, None, None)
        there, configured = machine.there(), set()
        if machine.manager == "apt":
            states = machine.root.states().items()
            configured = {key.partition(":")[0] for key, (state, _) in states if state == "config-files"}
        right = {one.package: _right(machine, one, there, configured) for one in entries}
        machine.release()
        print(number, kind, [tuple(one) for one in entries], there, status["consistent"], flush=True)
        if status["consistent"] is None:
            tally["not known"] += 1
            continue
        said = {row["package"]: row["consistent"] for row in status["rows"]}
        tally["consistent" if status["consistent"] else "drifting"] += 1
        if said != right or status["consistent"] != all(right.values()):
            tally["false"] += 1
            wrong.append((number, kind, entries, there, right, status))
            print("FALSE", wrong[-1], flush=True)
    print(json.dumps({"manager": machine.manager, "scenarios": count, **tally}))
    assert wrong == []


def _change(machine: Machine, rng: random.Random, salt: Caller) -> str:
    """Change packages or locks in some way that the beacon is to see, or not at all; return how."""
    kind = rng.choice(["none", "own", "own", "manager", "manager", "hold", "state"])
    package = rng.choice(list(VERSIONS))
    if kind == "own":
        _own(salt, rng.choice(["pkg.install", "pkg.remove"]), package)
    elif kind == "state":
        salt.cmd("state.single", rng.choice(["pkg.installed", "pkg.removed"]), package)
    elif kind == "manager":
        words = {"apt": "apt-get -q -y", "dnf": "dnf -q -y", "zypper": "zypper -q -n"}[machine.manager]
        machine.sh(f"{words} {rng.choice(['install', 'remove'])} {package}")
    elif kind == "hold" and machine.manager == "apt":
        machine.hold(package)
    return kind


@pytest.mark.parametrize("count", [4, pytest.param(100, marks=pytest.mark.long)])
def test_a_change_makes_the_status_pending(
    machine: Machine, master: SaltProcess, rng: random.Random, count: int
) -> None:
    """Where the beacon tells nothing, what the master has stored before a change is still true."""
    tally: Counter[str] = Counter()
    wrong: list[Any] = []
    for number in range(count):
        some = rng.sample(list(VERSIONS), rng.randint(0, 4))
        machine.begin({name: rng.choice(VERSIONS[name]) for name in some if name != "sb-app"})
        entries = [_entry(machine, rng, name) for name in rng.sample(list(VERSIONS), rng.randint(1, 5))]
        _write(machine, entries)
        with machine.salt() as salt:
            salt.cmd("pkgset.install_plugin")
            _apply(salt)
            salt.cmd("beacon", "pkgset")
            status = _status(machine, salt, master)
            before = machine.there()
            # a second of its own, as the cookie has the time in seconds
            time.sleep(1.1)
            kind = _change(machine, rng, salt)
            events = salt.cmd("beacon", "pkgset")
        there = machine.there()
        print(number, kind, events, before, there, flush=True)
        if events:
            tally["told"] += 1
            tally["told of nothing"] += before == there and kind != "hold"
            continue
        states = machine.root.states().items() if machine.manager == "apt" else ()
        configured = {key.partition(":")[0] for key, (state, _) in states if state == "config-files"}
        right = {one.package: _right(machine, one, there, configured) for one in entries}
        said = {row["package"]: row["consistent"] for row in status["rows"]}
        tally["not told"] += 1
        if before != there or said != right:
            tally["false"] += 1
            wrong.append((number, kind, entries, before, there, right, said))
            print("FALSE", wrong[-1], flush=True)
    print(json.dumps({"manager": machine.manager, "changes": count, **tally}))
    assert wrong == []


def _upgrade(machine: Machine, entries: list[Entry]) -> None:
    """Let the manager upgrade everything, and install what is locked out, also as a dependency."""
    out = [one.package for one in entries if one.wanted in ("removed", "purged")]
    names = [*out, *(PULLERS[name] for name in out if name in PULLERS)]
    words = {"apt": "apt-get -q -y", "dnf": "dnf -q -y", "zypper": "zypper -q -n"}[machine.manager]
    upgrades = {"apt": ["upgrade", "dist-upgrade"], "dnf": ["upgrade"], "zypper": ["update", "dist-upgrade"]}
    for word in upgrades[machine.manager]:
        machine.sh(f"{words} {word}")
    for name in names:
        machine.sh(f"{words} install {name}")


@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.long)])
def test_locks_hold(machine: Machine, rng: random.Random, count: int) -> None:
    """After a state no upgrade and no installation moves what is locked."""
    tally: Counter[str] = Counter()
    wrong = []
    for number in range(count):
        some = rng.sample(list(VERSIONS), rng.randint(0, 4))
        machine.begin({name: rng.choice(VERSIONS[name]) for name in some if name != "sb-app"})
        entries = [_entry(machine, rng, name) for name in rng.sample(list(VERSIONS), rng.randint(1, 6))]
        _write(machine, entries)
        with machine.salt() as salt:
            found = _apply(salt)
        before = machine.there()
        _upgrade(machine, entries)
        after = machine.there()
        print(number, [tuple(one) for one in entries], before, after, flush=True)
        for entry in entries:
            if not found[entry.package]["result"] or not found["locks"]["result"]:
                tally["refused"] += 1
                continue
            old, new = before.get(entry.package, ""), after.get(entry.package, "")
            if entry.wanted in ("installed", "kept"):
                moved = old != new
            elif entry.wanted in ("removed", "purged"):
                moved = bool(new) and entry.meets(new)
            else:
                continue
            tally["moved" if moved else "held"] += 1
            if moved:
                wrong.append((number, entry, old, new, found, machine.sh(f"cat {LOCKS.get(machine.manager, PINS)}")))
                print("MOVED", wrong[-1], flush=True)
    print(json.dumps({"manager": machine.manager, "states": count, **tally}))
    assert wrong == []
