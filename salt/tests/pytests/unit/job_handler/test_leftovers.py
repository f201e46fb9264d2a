"""
What an earlier job handler has left where it is off now.
"""

import logging

import pytest

import salt.job_handler.database
import salt.job_handler.leftovers


@pytest.mark.parametrize("what", ("folder", "file"))
def test_a_link_does_not_keep_the_master_from_starting(tmp_path, caplog, what):
    """
    Nothing is written there, and the log says what to do.
    """
    other = tmp_path / "other"
    other.mkdir()
    victim = other / salt.job_handler.database.NAME
    victim.write_text("x")
    folder = link = tmp_path / "job_handler"
    if what == "file":
        folder.mkdir()
        link = folder / salt.job_handler.database.NAME
        link.symlink_to(victim)
    else:
        folder.symlink_to(other)
    with caplog.at_level(logging.ERROR):
        assert salt.job_handler.leftovers.settle({"cachedir": str(tmp_path)}) == 0
    assert f"Move {link} away: " in caplog.text
    assert victim.read_text() == "x"
