"""A root with real rpm, dnf and zypper to change packages in: an overlay over this machine, which nothing of it leaves.

It is an `AptRoot` whose packages come from a local repository of rpms; Debian's packages of the two managers are
installed into it. Both managers share rpm's database and read the same repositories.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.live.helpers.apt_repository import Repository
from tests.live.helpers.apt_root import AptRoot, Caller, skip_unless_possible

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

#: Real managers, and packages for them
MANAGERS = Path(__file__).with_name("rpm_managers.sh")
PACKAGES = Path(__file__).with_name("rpm_packages.sh")
GRAINS = {
    "dnf": {"os": "CentOS Stream", "os_family": "RedHat", "osrelease": "9", "osmajorrelease": 9, "osarch": "x86_64"},
    "zypper": {"os": "Leap", "os_family": "Suse", "osrelease": "15.6", "osmajorrelease": 15, "osarch": "x86_64"},
}
#: What Salt has written down of its locks, and the locks of both managers.
RECORD = "/var/lib/salt/package_states.json"
NOTES = "/var/lib/salt/package_states.run.json"
LOCKS = {"dnf": "/etc/dnf/plugins/versionlock.list", "zypper": "/etc/zypp/locks"}


class RpmRoot(AptRoot):
    """A root of its own with rpm, dnf and zypper; a context manager."""

    def installed(self, prefix: str = "sb-") -> dict[str, str]:
        """Return the versions of the installed packages whose name begins with `prefix`, with their epoch."""
        form = "%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\n"
        rows = [line.split(" ") for line in self.run("rpm", "-qa", "--qf", form).stdout.splitlines()]
        found: dict[str, str] = {}
        for name, version in rows:
            if name.startswith(prefix):
                found[name] = f"{found[name]} {version}" if name in found else version
        return found

    def begin(self, **versions: str) -> None:
        """Leave these packages and no other one of the repository; `_` stands for `-` in their names."""
        names = " ".join(self.installed())
        wanted = " ".join(
            f"/srv/rpms/noarch/{name.replace('_', '-')}-{version}.noarch.rpm" for name, version in versions.items()
        )
        script = f"rm -f {' '.join(LOCKS.values())} {RECORD} {NOTES}; touch {LOCKS['dnf']}\n"
        script += f"rpm -e --nodeps --allmatches {names}\n" if names else ""
        script += f"rpm -i --nodeps {wanted}\n" if wanted else ""
        self.run("sh", "-c", script)

    def publish(self, command: str) -> None:
        """Change the repository with a command, and let both managers read it anew."""
        refresh = "dnf -q clean expire-cache; zypper -q -n refresh --force; dnf -q makecache"
        self.run("sh", "-c", f"({command}) && createrepo_c -q /srv/rpms && {refresh}")

    def caller_for(self, manager: str) -> Caller:
        """Return Salt in the root, which takes it for a system of `dnf` or `zypper`."""
        return self.caller(id=f"{manager}-root", grains=GRAINS[manager])


@contextmanager
def rpm_root(root: Path, factory: pytest.TempPathFactory) -> Iterator[RpmRoot]:
    """Yield one root with the packages of `rpm_packages.sh`, or skip the test."""
    skip_unless_possible()
    with RpmRoot(root, factory.mktemp("root"), Repository(factory.mktemp("none")), sources=True) as made:
        for script in (MANAGERS, PACKAGES):
            made.write(f"/tmp/{script.name}", script.read_text())  # noqa: S108 - in the root
        made.run("bash", "/tmp/rpm_packages.sh")  # noqa: S108 - in the root
        yield made


def rows(found: Any) -> dict[str, Any]:
    """Return the states of a run by the names of their packages."""
    assert isinstance(found, dict), found
    return {name.split("_|-")[1].removeprefix("package_states "): state for name, state in found.items()}
