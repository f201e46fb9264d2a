"""Settings: what can't work is said before anything starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions import TRANSPORTS
from harness.bed import settings
from harness.bed.master import PINGS
from harness.bed.settings import ApiSettings, BedSettings
from harness.errors import DiskError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture
def good(tmp_path: Path) -> BedSettings:
    """Return settings that pass, with something like a Salt tree."""
    (tmp_path / "tree" / "scripts").mkdir(parents=True)
    (tmp_path / "tree" / "scripts" / "salt-master").touch()
    return BedSettings(tree=tmp_path / "tree", folder=tmp_path / "run")


def test_good_settings_pass(good: BedSettings) -> None:
    """The defaults work."""
    settings.check(good)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"transport": "udp"}, r"^'udp' is no choice for transport: take one of zeromq, tcp, ws\.$"),
        (
            {"master_options": {"transport": "tcp"}},
            r"^The fleet has to know the transport too: set `transport` itself, ",
        ),
        ({"transport": "ws"}, r"^salt-api does not work over ws: set `api` to None, or take another\.$"),
        ({"tree": Path("/nowhere")}, r"^/nowhere holds no Salt: make the trees first with `nox -s apply`\.$"),
        ({"pillar": "files"}, r"^'files' is no choice for pillar: take one of sql, none\.$"),
        (
            {"postgres": "mysql"},
            r"^'mysql' is no choice for postgres: take one of auto, dsn, docker, local, wheel, none\.$",
        ),
        ({"postgres": "none"}, r"^Pillars from SQL need a PostgreSQL: "),
        ({"minions": -1}, r"^The number of minions can't be negative\.$"),
        ({"api": ApiSettings(processes=0)}, r"^salt-api needs at least one process: "),
        (
            {"temporary": Path("/no/such/place")},
            r"^The temporary folder's place /no/such/place does not exist: ",
        ),
        (
            {"temporary": Path("/" + "/".join(["sys"] + ["kernel", ".."] * 9))},
            r" is too long a path ",
        ),
    ],
)
def test_wrong_setting_is_one_sentence(good: BedSettings, change: Mapping[str, Any], sentence: str) -> None:
    """Each setting that can't work is named in one sentence."""
    with pytest.raises(SettingsError, match=sentence):
        settings.check(dataclasses.replace(good, **change))


def test_bed_without_database(good: BedSettings) -> None:
    """A bed without PostgreSQL is one without pillars from SQL."""
    settings.check(dataclasses.replace(good, postgres="none", pillar="none"))


def test_descriptor_limit() -> None:
    """More minions than the hard limit of open files carries is one sentence that names a number that it does carry."""
    with pytest.raises(SettingsError) as caught:
        settings.check_files(10_000, limit=4_096)
    assert str(caught.value) == (
        "10,000 minions need 10,500 open files in one process of the master, but the hard limit is 4,096: raise it as "
        "root (`ulimit -Hn 10500`), or take at most 3,596."
    )


def test_no_descriptor_limit() -> None:
    """Without a hard limit any number passes."""
    settings.check_files(1_000_000, limit=-1)


def test_nearly_full_disk() -> None:
    """A disk without room for the bed is one sentence that says how much it needs."""
    with pytest.raises(DiskError) as caught:
        settings.check_room(Path("/var"), 180, free=20 * 2**20)
    assert str(caught.value) == (
        "The disk that holds /var has 20 MB left and the bed needs about 180 MB there: free some space, "
        "or set TMPDIR or --folder to a folder on a larger disk."
    )


def test_long_tmpdir_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TMPDIR too long for sockets is replaced by /tmp."""
    monkeypatch.setattr("tempfile.tempdir", "/var" + "/long" * 10)
    assert settings.temporary_parent() == Path("/tmp")  # noqa: S108 - the name alone


def test_minion_ids(good: BedSettings) -> None:
    """The bed's minions are numbered from 0 on."""
    assert dataclasses.replace(good, minions=2).minion_ids() == ["minion-00000", "minion-00001"]


def test_every_transport_can_be_asked() -> None:
    """The list of transports is the one for which the bed knows how to ask a master."""
    assert tuple(PINGS) == TRANSPORTS
