import os
import stat

import pytest

from salt.job_handler import claims


@pytest.fixture
def opts(tmp_path):
    return {"cachedir": str(tmp_path)}


def test_first_come_first_served(opts):
    assert claims.claim(opts, "s", claims.WORKER)
    assert not claims.claim(opts, "s", claims.HANDLER)
    assert claims.claim(opts, "s", claims.WORKER)


def test_the_folder_is_for_its_user_alone(opts, tmp_path):
    folder = tmp_path / "job_handler" / "claims"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    claims.prepare(opts)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(SystemExit, match=f"^Move {folder} away: "):
        claims.prepare(opts)
    folder.unlink()
    claims.prepare(opts)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_dropped_claim_is_free(opts):
    claims.claim(opts, "s", claims.WORKER)
    claims.drop(opts, "s")
    claims.drop(opts, "s")
    assert claims.claim(opts, "s", claims.HANDLER)


def test_clean(opts, tmp_path):
    claims.clean(opts)
    claims.claim(opts, "old", claims.WORKER)
    claims.claim(opts, "new", claims.WORKER)
    folder = tmp_path / "job_handler" / "claims"
    os.utime(folder / "old", (1, 1), follow_symlinks=False)
    claims.clean(opts)
    assert os.listdir(folder) == ["new"]
