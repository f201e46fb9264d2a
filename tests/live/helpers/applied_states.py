"""What the tests of package states share: a root, Salt in it, and the compiler's output applied there."""

from __future__ import annotations

import pprint
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.helpers.apt_root import AptRoot, Caller

# the compiler of the patched tree and its folder, see `SaltProcess`
COMPILER, TASKS = "state_packages", Path(__file__).with_name("tasks")

PREFERENCES = "/etc/apt/preferences.d/00salt-package-states"
# what tells whose a hold is when that file was cleaned
COPY = "/var/lib/salt/package_states.pins"
Row = tuple[str, ...]


@dataclass(frozen=True)
class Applied:
    """What a run of the states gave: the result, comment and changes of each package, and of the locks."""

    states: dict[str, dict[str, Any]]

    @property
    def changed(self) -> dict[str, Any]:
        """Return the changes that are not empty, the locks included."""
        return {name: state["changes"] for name, state in self.states.items() if state["changes"]}

    @property
    def failed(self) -> list[str]:
        """Return the packages whose state failed."""
        return [name for name, state in self.states.items() if state["result"] is False]

    def comment(self, package: str) -> str:
        """Return what the state of a package says."""
        return str(self.states[package]["comment"])


class Bench:
    """A root, Salt in it, and the compiler of the patched tree outside."""

    def __init__(self, root: AptRoot, salt: Caller, compiler: SaltProcess) -> None:
        """Take all three."""
        self.root = root
        self.salt = salt
        self.compiler = compiler

    def apply(self, *rows: Row, test: bool = False) -> Applied:
        """Compile entries (package, wanted, version, floor) and apply the file; what Salt refuses is an error."""
        text = self.compiler.run("render", rows)[1]
        self.root.write("/srv/salt/susemanager/packages-web.sls", text)
        return self.run(test=test)

    def run(self, *, test: bool = False) -> Applied:
        """Apply the file once more."""
        found = self.salt.cmd("state.apply", "susemanager.packages-web", test=test)
        assert isinstance(found, dict), found
        # pytest shows it with a test that fails
        pprint.pp({state["__id__"]: (state["result"], state["comment"], state["changes"]) for state in found.values()})
        return Applied({name.split("_|-")[1].removeprefix("package_states "): state for name, state in found.items()})

    def version(self, package: str) -> str:
        """Return the installed version of a package, or an empty string."""
        name, _, architecture = package.partition(":")
        found = self.root.installed(name)
        native = [key for key in found if key.split(":")[0] == name and not key.endswith(":i386")]
        key = f"{name}:{architecture}" if architecture else (native or [""])[0]
        return found.get(key, "")

    def begin(self, package: str, version: str) -> None:
        """Bring a package into a version, or away, whatever is locked."""
        self.root.run("rm", "-f", PREFERENCES, COPY)
        if version:
            self.root.apt("install", "--allow-downgrades", "--allow-change-held-packages", f"{package}={version}")
        else:
            self.root.apt("purge", "--allow-change-held-packages", package)


@contextmanager
def benched(root: AptRoot) -> Iterator[Bench]:
    """Start Salt in a root, and the compiler outside."""
    with root.caller() as salt, SaltProcess("patched", COMPILER, {}, TASKS) as compiler:
        yield Bench(root, salt, compiler)
