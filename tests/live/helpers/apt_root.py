"""A real Debian root to change packages in: an overlay over this machine's own, which nothing of it leaves.

The overlay's upper layer lies in memory, in a mount and a process namespace of its own: when the holder of the two
ends, all that ran in the root ends with it and no mount stays. The network is the machine's, so a minion in the root
reaches a master outside, unless the root wants one of its own, where every port is free. The only source of packages is
the repository of `apt_repository.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import yaml

from tests.live.helpers.apt_repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from harness.bed.master import Master

RUN_S, READY_S = 300.0, 120.0
REPOSITORY = "/srv/saltbed"
CALLER = Path(__file__).with_name("apt_caller.py")
COMMANDS = ("setpriv", "unshare", "nsenter", "apt-get", "dpkg-deb", "dpkg-scanpackages")
# $1: a folder, $2: the repository, $3: "own" for a network of its own, $4: "machine" to keep the machine's sources of
# packages, the rest: folders of other file systems that the root has to see
HOLDER = """set -e
top=$1 repository=$2 network=$3 sources=$4; shift 4
test "$network" != own || ip link set lo up
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
cd "$top/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
for folder do mkdir -p ".$folder"; mount --bind "$folder" ".$folder"; done
mkdir -p srv/saltbed
mount --bind "$repository" srv/saltbed
rm -rf var/cache/salt etc/salt
if test "$sources" != machine; then
rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/preferences.d/* etc/apt/apt.conf.d/*
rm -rf var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/saltbed ./' > etc/apt/sources.list.d/saltbed.list
# no other user need read the repository, and an index that can't be read is an error
cat > etc/apt/apt.conf.d/saltbed << END
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
END
fi
# what the machine holds is its own business, what it may start too
printf '#!/bin/sh\\nexit 101\\n' > usr/sbin/policy-rc.d
chmod 755 usr/sbin/policy-rc.d
# the first process of the namespace has to take leave of what daemons leave behind; bash does, sleep does not
exec chroot . bash -c 'echo ready; while :; do sleep infinity & wait $!; done'
"""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


def skip_unless_possible() -> None:
    """Skip the test, with the command that would run it, on a machine that has no apt or lets us mount nothing."""
    again = f"sudo {sys.executable} -m pytest tests/live/packages"
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: on Debian or Ubuntu, `apt-get install dpkg-dev`, then `{again}`")
    assert os.geteuid() == 0, "only root may mount an overlay: mark the test with `needs_root`"


class AptRoot:
    """A root of its own; a context manager.

    `path` is where the test finds the root's files while it runs.
    """

    def __init__(
        self, root: Path, folder: Path, repository: Repository, *, own_network: bool = False, sources: bool = False
    ) -> None:
        """Take the project's folder, an empty folder to mount on, and the packages.

        With `sources`, the root keeps the machine's own sources of packages.
        """
        self.project = root
        self._sources = sources
        self._spaces = ["--mount", "--pid", *(["--net"] if own_network else [])]
        self.repository = repository
        self._folder = folder
        self._holder: subprocess.Popen[str] | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        """Make the root and read the repository's index."""
        machine = Path("/").stat().st_dev
        needed = dict.fromkeys((self.project, Path(sys.prefix), Path(sys.base_prefix)))
        others = [str(path) for path in needed if path.stat().st_dev != machine]
        # a test run that is killed leaves nothing behind
        space = ["setpriv", "--pdeathsig", "KILL"]
        space += ["unshare", *self._spaces, "--propagation", "private", "--fork", "--kill-child"]
        network = "own" if "--net" in self._spaces else "shared"
        sources = "machine" if self._sources else "local"
        script = ["sh", "-c", HOLDER, "sh", str(self._folder), str(self.repository.folder), network, sources, *others]
        pipe = subprocess.PIPE
        self._holder = subprocess.Popen([*space, *script], stdout=pipe, stderr=subprocess.STDOUT, text=True)
        assert self._holder.stdout
        said = self._holder.stdout.readline()
        if said != "ready\n":
            said += self._holder.stdout.read()
            self._holder.wait()
            pytest.skip(f"this machine can't mount an overlay root ({said.strip()}): run it in a virtual machine")
        pid = self._holder.pid
        self._pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        # never change the machine's own packages
        assert not self.path.samefile("/"), "the holder is not in its root"
        if not self._sources:
            self.run("apt-get", "-q", "update")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the holder, and with it everything in the root."""
        if self._holder:
            with self._holder:
                self._holder.kill()

    @property
    def path(self) -> Path:
        """Return the root as seen from outside."""
        return Path(f"/proc/{self._pid}/root")

    def argv(self, *command: str) -> list[str]:
        """Return the command line that runs a command in the root."""
        assert self._pid, "the root isn't there"
        return ["nsenter", f"--target={self._pid}", *self._spaces, "--root", "--wd", *command]

    def spawn(
        self,
        *command: str,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start a command in the root; it ends with the root at the latest."""
        return subprocess.Popen(self.argv(*command), env={**ENVIRONMENT, **(env or {})}, text=True, **options)

    def run(
        self, *command: str, check: bool = True, env: Mapping[str, str] | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the root; one that fails is an AssertionError with what it said unless not `check`."""
        argv, env = self.argv(*command), {**ENVIRONMENT, **(env or {})}
        done = subprocess.run(argv, env=env, input=stdin, capture_output=True, text=True, timeout=RUN_S, check=False)
        assert done.returncode == 0 or not check, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def apt(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `apt-get -y` in the root, as a person would."""
        return self.run("apt-get", "-q", "-y", *arguments, check=check)

    def update(self) -> None:
        """Let the root see what was added to the repository since."""
        self.repository.index()
        self.run("apt-get", "-q", "update")

    def installed(self, prefix: str = "sb-") -> dict[str, str]:
        """Return the versions of the installed packages whose name begins with `prefix`, by `name:architecture`."""
        return {name: version for name, (state, version) in self.states(prefix).items() if state == "installed"}

    def states(self, prefix: str = "sb-") -> dict[str, tuple[str, str]]:
        """Return dpkg's state (installed, config-files, half-configured, ...) and version of each package."""
        form = "${Package}:${Architecture} ${db:Status-Status} ${Version}\n"
        lines = self.run("dpkg-query", "-W", f"-f={form}").stdout.splitlines()
        rows = [line.split(" ") for line in lines if line.startswith(prefix)]
        return {name: (state, version) for name, state, version in rows if state != "not-installed"}

    def holds(self) -> list[str]:
        """Return the packages that are on hold."""
        return self.run("apt-mark", "showhold").stdout.split()

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the root; its folders are made."""
        place = self.path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod(mode)

    def read(self, path: str) -> str:
        """Return a file of the root, empty if there is none."""
        place = self.path / path.lstrip("/")
        return place.read_text(encoding="utf-8") if place.exists() else ""

    def caller(self, **options: Any) -> Caller:
        """Return Salt in the root, without a master: `with root.caller() as salt: salt.cmd("pkg.version", "sb-tool")`.

        State files are read from `/srv/salt`, pillars from `/srv/pillar`, see `write`.
        """
        return Caller(self, {"file_client": "local", "id": "apt-root", **options})

    def start_minion(
        self,
        name: str,
        master: Master,
        transport: str = "zeromq",
        *,
        python: str = sys.executable,
        **options: Any,
    ) -> Minion:
        """Start a real salt-minion in the root, of the Salt that this Python has; see `Minion.wait_ready`."""
        settings = {"id": name, "master": "127.0.0.1", "master_port": master.request_port, "transport": transport}
        known = master.minion_options()
        grains = {**options.pop("grains", {}), **known.pop("grains")}
        return Minion(self, {**settings, **known, "grains": grains, **options}, python)


class Caller:
    """A `salt.client.Caller` in a process in the root; a context manager."""

    def __init__(self, root: AptRoot, options: Mapping[str, Any]) -> None:
        """Start it."""
        root.write("/etc/salt/minion", yaml.safe_dump({"log_level": "error", **options}))
        pipe = subprocess.PIPE
        self._errors = root.path / "var/log/caller.err"
        with self._errors.open("w") as errors:
            self._process = root.spawn(sys.executable, str(CALLER), stdin=pipe, stdout=pipe, stderr=errors)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        with self._process:
            if self._process.stdin:
                self._process.stdin.close()

    def cmd(self, function: str, *arguments: object, **keywords: object) -> Any:
        """Return what an execution function does; what it raises is a RuntimeError."""
        self.send(function, *arguments, **keywords)
        return self.receive()

    @property
    def pid(self) -> int:
        """Return the process whose child Salt is."""
        return self._process.pid

    def send(self, function: str, *arguments: object, **keywords: object) -> None:
        """Let Salt begin with an execution function."""
        assert self._process.stdin
        print(json.dumps([function, arguments, keywords]), file=self._process.stdin, flush=True)

    def receive(self) -> Any:
        """Return what comes out of the function; what it raises is a RuntimeError."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Salt in the root ended:\n{self._errors.read_text()}")
        found = json.loads(line)
        if "raised" in found:
            raise RuntimeError(found["raised"])
        return found["answer"]


class Minion:
    """A real salt-minion in the root."""

    LOG = "/var/log/salt/minion"

    def __init__(self, root: AptRoot, options: Mapping[str, Any], python: str) -> None:
        """Start it."""
        self._root = root
        # readiness is read from the log
        options = {"log_level_logfile": "info", "log_file": self.LOG, "log_level": "error", **options}
        root.write("/etc/salt/minion", yaml.safe_dump(options))
        root.write(self.LOG, "")
        script = Path(python).with_name("salt-minion")
        keep = 'echo $$ > /run/saltbed-minion.pid; exec "$@" > /var/log/salt/minion.out 2>&1'
        self._process = root.spawn("sh", "-c", keep, "sh", python, str(script), stdin=subprocess.DEVNULL)

    @property
    def log(self) -> str:
        """Return what it has logged since it started."""
        return self._root.read(self.LOG)

    def wait_ready(self) -> None:
        """Wait until the master has accepted it and it takes jobs."""
        end = time.monotonic() + READY_S
        while "Minion is ready to receive requests!" not in self.log:
            said = self._root.read("/var/log/salt/minion.out")
            assert self._process.poll() is None, f"the minion ended:\n{said}\n{self.log[-4000:]}"
            assert time.monotonic() < end, f"the minion is not ready:\n{said}\n{self.log[-4000:]}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it and all that it started, as a crash of its machine would: at once, and /run is empty afterwards."""
        first = self._root.read("/run/saltbed-minion.pid").strip()
        script = 'list() { echo $1; for p in $(cat /proc/$1/task/*/children); do list $p; done; }; kill -9 $(list "$1")'
        self._root.run("sh", "-c", script, "sh", first, check=False)
        self._process.wait()
        # nobody reaps it, and Salt takes a zombie for a minion that runs
        self._root.run("sh", "-c", "rm -f /var/run/*salt-minion.pid")


def roots(root: Path, factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield one root with the standard packages, or skip the test: all of a fixture, with `yield from`."""
    skip_unless_possible()
    repository = Repository.standard(factory.mktemp("repository"))
    with AptRoot(root, factory.mktemp("root"), repository) as made:
        yield made
