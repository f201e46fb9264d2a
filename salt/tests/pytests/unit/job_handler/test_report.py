"""
What people are told of jobs that wait.
"""

import types

import pytest

import salt.job_handler.report


@pytest.fixture
def reasons(bench):
    """
    A job that runs, one that waits for it and one behind that, and a function that
    returns why each one waits: in the list, alone, and as its caller is told.
    """
    setup = bench(max_master_jobs=1)
    setup.submit(["a"], "runs")
    setup.advance()
    first, second = setup.submit(["b"], "first"), setup.submit(["c"], "second")
    setup.advance()
    report = salt.job_handler.report.Report(
        {},
        setup.manager,
        types.SimpleNamespace(
            load_of=lambda job: {"tgt": "*"}, left_out=lambda jid: {}
        ),
        lambda: setup.now,
    )

    def _reasons():
        listed = [line["reason"] for line in report.jobs(setup.now)]
        for job, reason in zip((first, second), listed):
            (shown,) = report.show(job.jid, setup.now)["waiting"]
            assert shown["reason"] == reason
            assert report.progress(job, setup.now)["reason"] == reason
        return listed

    return setup.manager, _reasons


def test_reason_of_a_job_is_that_of_its_criteria(reasons):
    _, listed = reasons
    first, second = listed()
    assert "1 of 1" in first
    assert second == "other jobs are before it"


def test_pause_is_the_reason_of_all_jobs(reasons):
    manager, listed = reasons
    before = listed()
    manager.orders.paused = True
    assert listed() == ["the queue is paused"] * 2
    manager.orders.paused = False
    assert listed() == before


def test_job_behind_nobody_waits_for_the_queue(reasons):
    manager, listed = reasons
    manager.held_until = 200.0
    first, second = listed()
    assert "1 of 1" in first
    assert "restarted" in second
