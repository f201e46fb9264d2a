"""Repositories and security updates on real apt: told by digests, found whatever is pinned."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.helpers.applied_states import Bench, benched
from tests.live.helpers.apt_repository import Package, Repository
from tests.live.helpers.apt_root import AptRoot, roots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.needs_root, pytest.mark.timeout(600)]
PLACE = "/srv/security"
RELEASE = "Origin: Debian\nLabel: {label}\nSuite: {suite}\nCodename: {suite}\nSHA256:\n {digest} {size} Packages\n"


@pytest.fixture(scope="module")
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root."""
    yield from roots(root, tmp_path_factory)


@pytest.fixture
def bench(machine: AptRoot) -> Iterator[Bench]:
    """Yield Salt in the root."""
    with benched(machine) as found:
        yield found


def _publish(machine: AptRoot, folder: Path, label: str, suite: str) -> None:
    """Give the root a second repository, of which its `Release` file says what it is."""
    repository = Repository(folder)
    repository.add([Package("sb-tool", "1.10+deb1"), Package("sb-lib", "1.5", "i386", {"Multi-Arch": "same"})])
    text = (folder / "Packages").read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    (folder / "Release").write_text(RELEASE.format(label=label, suite=suite, digest=digest, size=len(text)))
    machine.run("mkdir", "-p", PLACE)
    for path in folder.iterdir():
        if path.is_file():
            (machine.path / PLACE.lstrip("/") / path.name).write_bytes(path.read_bytes())
    machine.write("/etc/apt/sources.list.d/security.list", f"deb [trusted=yes] file:{PLACE} ./\n")
    machine.run("apt-get", "-q", "update")


def _inventory(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.salt.cmd("package_state.inventory")
    return found


@pytest.mark.parametrize(
    ("label", "suite", "told"),
    [("Debian-Security", "stable", True), ("Ubuntu", "noble-security", True), ("Debian", "stable-updates", False)],
)
def test_a_freeze_does_not_hide_security_updates(
    bench: Bench, tmp_path: Path, label: str, suite: str, *, told: bool
) -> None:
    """What a security repository has that is newer is told, also of what is pinned; without one nothing is claimed."""
    assert "security" not in _inventory(bench)
    bench.begin("sb-tool", "1.2")
    before = bench.salt.cmd("package_state.inventory")["repositories"]
    _publish(bench.root, tmp_path, label, suite)
    try:
        bench.apply(("sb-tool", "installed", "=1.2"))
        found = _inventory(bench)
        assert found.get("security") == ({"sb-tool": ["1.10+deb1"]} if told else None)
        assert sorted(found["repositories"].values()) == ["file:/srv/saltbed/ ./", f"file:{PLACE}/ ./"]
        assert before.items() <= found["repositories"].items()
        (mine,) = [digest for digest, name in found["repositories"].items() if PLACE in name]
        (offer,) = bench.salt.cmd("package_state.offers", mine)
        assert offer["packages"] == {"sb-tool": ["1.10+deb1"], "sb-lib:i386": ["1.5"]}
        bench.apply(("sb-tool", "installed", ">=1.10+deb1"))
        assert _inventory(bench).get("security") == ({} if told else None)
    finally:
        bench.root.run("rm", "/etc/apt/sources.list.d/security.list")
        bench.root.run("apt-get", "-q", "update")
    bench.apply()
    bench.begin("sb-tool", "")


def test_what_the_repositories_have(bench: Bench) -> None:
    """All versions, also of other architectures; a new package is another digest, and the same again is the same."""
    first = _inventory(bench)["repositories"]
    (offer,) = bench.salt.cmd("package_state.offers")
    assert [offer["digest"]] == list(first)
    assert offer["packages"]["sb-tool"] == ["2.0", "2.0~rc1", "1.10", "1.2", "1.0"]
    assert offer["packages"]["sb-lib"] == ["2.0", "1.0"]
    assert offer["packages"]["sb-lib:i386"] == ["2.0", "1.0"]
    assert _inventory(bench)["repositories"] == first
    bench.root.repository.add([Package("sb-fresh", "1.0")])
    bench.root.update()
    second = _inventory(bench)["repositories"]
    assert second.keys() != first.keys()
    (offer,) = bench.salt.cmd("package_state.offers", *second)
    assert offer["packages"]["sb-fresh"] == ["1.0"]
