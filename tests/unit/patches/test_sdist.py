"""What is unpacked from a source distribution: its files, on every Python, and nothing that could harm."""

from __future__ import annotations

import io
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest

from patches.base import Base, digest, write_base

if TYPE_CHECKING:
    from tests.unit.patches.conftest import Project


@pytest.fixture(params=["filter", "no filter"])
def unfiltered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the standard library's filter away, as it is before Python 3.11.4; or leave it."""
    if request.param == "no filter":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


def repack(project: Project, member: tarfile.TarInfo, data: bytes = b"") -> None:
    """Put one more member at the end of the pinned release."""
    path = project.layout.sdists / "salt-1.0.tar.gz"
    with tarfile.open(path) as old:
        held = [(info, old.extractfile(info)) for info in old.getmembers()]
        members = [(info, stream.read() if stream else b"") for info, stream in held]
    member.size = len(data)
    with tarfile.open(path, "w:gz") as new:
        for info, text in (*members, (member, data)):
            new.addfile(info, io.BytesIO(text))
    write_base(project.layout, Base("1.0", digest(path)))


def made_member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Return a member of an archive."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, 0o644
    return member


@pytest.mark.usefixtures("unfiltered")
@pytest.mark.parametrize(
    "member",
    [
        made_member("salt-1.0/../../../escaped"),
        made_member("/escaped"),
        made_member("salt-1.0/link", tarfile.SYMTYPE, "/etc/passwd"),
        made_member("salt-1.0/link", tarfile.SYMTYPE, "salt/one.py"),
        made_member("salt-1.0/hard", tarfile.LNKTYPE, "salt-1.0/salt/one.py"),
        made_member("salt-1.0/pipe", tarfile.FIFOTYPE),
        made_member("salt-1.0/device", tarfile.CHRTYPE),
    ],
    ids=lambda member: f"{member.name} {member.linkname}",
)
def test_harmful_member_is_refused(project: Project, member: tarfile.TarInfo) -> None:
    """A member that is no file or folder, or lies elsewhere, is named, and no tree appears."""
    repack(project, member)
    ended = project.run("apply")
    assert ended.code == 5
    assert member.name in ended.err
    assert not project.layout.stock.exists()
    assert not list(project.root.parent.rglob("escaped"))


@pytest.mark.usefixtures("unfiltered")
def test_files_are_unpacked_alike(project: Project) -> None:
    """With the standard library's filter or without: contents, rights and owner are the same."""
    member = made_member("salt-1.0/run.sh")
    member.mode, member.uid, member.uname = 0o6777, 4321, "somebody"
    repack(project, member, b"#!/bin/sh\n")
    assert project.run("apply").code == 0
    made = project.layout.stock / "run.sh"
    assert made.read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE(made.stat().st_mode) == 0o755
    assert made.stat().st_uid == project.root.stat().st_uid
    assert stat.S_IMODE((project.layout.stock / "salt" / "one.py").stat().st_mode) == 0o644
