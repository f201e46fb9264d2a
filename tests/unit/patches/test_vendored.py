"""Libraries of an extension's wheel: from the registry, by their hash, or not at all."""

from __future__ import annotations

import hashlib
import io
import tarfile
import urllib.error
from typing import TYPE_CHECKING, Any

import pytest

from patches import wheels
from patches.errors import FetchError
from patches.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path


def archive(text: bytes) -> bytes:
    """Return what a registry has: a package of one file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as packed:
        info = tarfile.TarInfo("package/dist/one.js")
        info.size = len(text)
        packed.addfile(info, io.BytesIO(text))
    return made.getvalue()


CONTENT = archive(b"export const one = 1;")


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """Make an extension with one library, and return its folder."""
    folder = tmp_path / "salt" / "extensions" / "page"
    folder.mkdir(parents=True)
    digest = hashlib.sha512(CONTENT).hexdigest()
    (folder / "vendor.toml").write_text(
        f'folder = "src/vendor"\n[[package]]\nname = "one"\nversion = "1.0"\npath = "one/-/one-1.0.tgz"\n'
        f'sha512 = "{digest}"\nfiles = {{ "dist/one.js" = "one.js" }}\n'
    )
    (folder / "pyproject.toml").write_text("")
    return folder


def registry(monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> list[str]:
    """Stand for the registry; without content it cannot be reached. Return the addresses that were asked for."""
    asked: list[str] = []

    def opened(url: str, timeout: float) -> Any:
        assert timeout > 0
        asked.append(url)
        if content is None:
            raise urllib.error.URLError("no route to host")
        return io.BytesIO(content)

    monkeypatch.setattr("urllib.request.urlopen", opened)
    return asked


def test_library_is_fetched_once(tmp_path: Path, extension: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second wheel takes it from the cache."""
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://registry.example/")
    asked = registry(monkeypatch, CONTENT)
    for name in ("first", "second"):
        wheels.add(Layout(tmp_path), extension, tmp_path / name)
        assert (tmp_path / name / "src" / "vendor" / "one.js").read_bytes() == b"export const one = 1;"
    assert asked == ["https://registry.example/one/-/one-1.0.tgz"]


def test_another_content_is_refused(tmp_path: Path, extension: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is kept."""
    registry(monkeypatch, archive(b"something else"))
    with pytest.raises(FetchError, match="SHA-512"):
        wheels.add(Layout(tmp_path), extension, tmp_path / "made")
    assert not list(tmp_path.rglob("*.tgz"))


def test_registry_that_can_not_be_reached(
    tmp_path: Path, extension: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is an error, unless the set-up asks: then the extension is left out, and others are built."""
    asked = registry(monkeypatch, None)
    with pytest.raises(FetchError, match="could not be downloaded"):
        wheels.add(Layout(tmp_path), extension, tmp_path / "made")
    assert len(asked) == wheels.ATTEMPTS
    layout = Layout(tmp_path)
    layout.python.parent.mkdir(parents=True)
    layout.python.touch()
    with pytest.raises(FetchError):
        wheels.build(layout)
    assert wheels.build(layout, offline=True) == ()
    assert "page is left out" in capsys.readouterr().err
