"""
What administrators see, and say.
"""

import asyncio
import os
import socket
import sqlite3
import stat

import pytest

import salt.exceptions
import salt.job_handler.client
import salt.job_handler.config
import salt.job_handler.control
import salt.job_handler.handover
import salt.job_handler.policy
import salt.job_handler.store
import salt.runners.job_handler as runner
import salt.runners.jobs
from tests.pytests.functional.job_handler.conftest import MINIONS, sqlite_only
from tests.support.mock import MagicMock, patch


@pytest.fixture
def configure_loader_modules(master_opts):
    return {runner: {"__opts__": master_opts}}


async def ask(setup, name, /, *args, **kwargs):
    """
    Call a function of the runner in a thread, as the job handler has to answer.
    """
    return await asyncio.get_running_loop().run_in_executor(
        None, lambda: getattr(runner, name)(*args, **kwargs)
    )


async def queue(setup):
    """
    Start a job handler with one job that is out, and two that wait.
    """
    handler = await setup.start()
    await setup.publish("1", MINIONS[:10])
    await setup.publish("2", ["m20", "m21"])
    await setup.publish("3", ["m22"], fun="pkg.install", user="bob")
    return handler


def test_what_waits(setup):
    async def run():
        await queue(setup)
        await setup.tick(3)
        jobs = await ask(setup, "list_")
        assert await ask(setup, "list_", limit=1) == jobs[:1]
        return jobs

    first, second = asyncio.run(run())
    assert (first["jid"], first["waiting"], first["position"]) == ("2", 2, 1)
    assert (second["jid"], second["user"], second["fun"]) == ("3", "bob", "pkg.install")
    assert first["waited"] == 3
    assert "10 of 10 slots occupied" in first["reason"]


def test_when_a_job_starts(setup):
    """
    Five slots are free, and each job took a second.
    """

    async def run():
        await setup.start()
        for number in range(30):
            await setup.publish(str(number), MINIONS[:5])
        for _ in range(20):
            await setup.tick(1)
            jid = next(iter(setup.handler.leases.jobs))
            setup.returns(jid, *list(setup.handler.leases.jobs[jid])[:5])
        return await ask(setup, "list_")

    jobs = asyncio.run(run())
    assert [round(job["starts_in"]) for job in jobs[:3]] == [0, 1, 1]


def test_status(setup):
    async def run():
        await queue(setup)
        await ask(setup, "pause", seconds=600)
        return await ask(setup, "status")

    figures = asyncio.run(run())
    assert (figures["queued"], figures["capacity"]["used"]) == (2, 10)
    assert figures["paused_until"] == 1600


def test_one_job(setup):
    async def run():
        await queue(setup)
        return [await ask(setup, "show", jid) for jid in ("1", "2", "9")]

    out, waits, unknown = asyncio.run(run())
    assert (out["state"], out["running_on"]) == ("dispatched", MINIONS[:10])
    assert (waits["state"], waits["waiting"][0]["tgt"]) == ("queued", "*")
    assert unknown["state"] == "not here"


def test_cancel_and_history(setup):
    async def run():
        await queue(setup)
        counts = [await ask(setup, "cancel", jid) for jid in ("2", "2", "9")]
        return counts, await ask(setup, "history"), await ask(setup, "show", "2")

    counts, history, shown = asyncio.run(run())
    assert counts == [2, 0, 0]
    assert [(row["jid"], row["state"]) for row in history] == [("2", "cancelled")]
    assert shown["state"] == "cancelled"
    assert list(shown["left_out"]) == ["m20", "m21"]
    assert setup.bus.data("2", "discarded")[0]["reason"] == "cancelled"


def test_later_parts_of_a_batch_that_was_cancelled(setup):
    async def run():
        await queue(setup)
        await ask(setup, "cancel", "2")
        await setup.publish("2", ["m24"])
        await setup.tick()
        return len(setup.handler.queue)

    assert asyncio.run(run()) == 1
    assert setup.bus.data("2", "discarded")[-1]["targets"] == ["m24"]


def test_limit_of_a_rule_holds_over_a_restart(setup):
    setup.config(rules=[{"function": "pkg.*", "action": "limit", "limit": 3}])

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:3], fun="pkg.install")
        await setup.land()
        await setup.stop()
        await setup.start()
        await setup.publish("2", MINIONS[:3], fun="pkg.install")

    asyncio.run(run())
    assert [jid for jid, _ in setup.bus.jobs()] == ["1"]


def test_settings_hold_when_the_job_handler_alone_is_restarted(setup):
    async def run():
        await queue(setup)
        other = {"criteria": "capacity", "max_master_jobs": 20, "max_queue_size": 7}
        with patch(
            "salt.config.master_config",
            return_value={**setup.opts, "rate_limiting": other},
        ):
            await ask(setup, "reload")
        found = []
        for master in ("master", "another master"):
            await setup.stop()
            handler = await setup.start(master)
            found.append(
                (handler.queue.criteria.limit(), handler.section["max_queue_size"])
            )
        return found

    assert asyncio.run(run()) == [(20, 7), (10, 10000)]


def test_pause_survives_a_restart(setup):
    async def run():
        await queue(setup)
        await ask(setup, "pause", seconds=600)
        await ask(setup, "hold", "3")
        await ask(setup, "prioritize", "2", -5)
        await setup.stop()
        handler = await setup.start()
        setup.returns("1", *MINIONS[:10])
        await setup.tick(599)
        assert len(setup.bus.jobs()) == 1
        jobs = await ask(setup, "list_")
        await setup.tick(2)
        left = [job.jid for job in handler.queue]
        assert await ask(setup, "release", "3") == 1
        await setup.tick(1)
        return jobs, left, len(handler.queue)

    jobs, left, end = asyncio.run(run())
    assert [(job["jid"], job["priority"]) for job in jobs] == [("3", 0), ("2", -5)]
    assert jobs[0]["reason"].startswith("the queue is paused until")
    assert (left, end) == (["3"], 0)


def test_pause_of_a_user_and_of_a_function(setup):
    async def run():
        await queue(setup)
        await ask(setup, "pause", user="bob")
        await ask(setup, "pause", function="test.*")
        await setup.publish("4", ["m23"], fun="test.sleep")
        setup.returns("1", *MINIONS[:10])
        await setup.tick(1)
        paused = [job["jid"] for job in await ask(setup, "list_")]
        pauses = (await ask(setup, "status"))["pauses"]
        await ask(setup, "resume", user="bob")
        await setup.tick(1)
        await ask(setup, "resume")
        await setup.tick(1)
        return paused, pauses, [jid for jid, _ in setup.bus.jobs()]

    paused, pauses, sent = asyncio.run(run())
    assert paused == ["3", "4"]
    assert len(pauses) == 2
    assert sent == ["1", "2", "3", "4"]


def test_pause_of_a_function_ends(setup):
    async def run():
        await setup.start()
        await ask(setup, "pause", seconds=600, function="test.sleep")
        # in place of the one before
        await ask(setup, "pause", seconds=60, function="test.sleep")
        await ask(setup, "pause", seconds=0, user="bob")
        await setup.publish("1", ["m1"], fun="test.sleep")
        await setup.tick(1)
        (job,) = await ask(setup, "list_")
        await setup.tick(58)
        before = [jid for jid, _ in setup.bus.jobs()]
        await setup.tick(1)
        figures = await ask(setup, "status")
        return job["reason"], before, setup.bus.jobs(), figures["pauses"]

    reason, before, sent, pauses = asyncio.run(run())
    assert reason.startswith("a rule says pause for function test.sleep until 1970-")
    assert before == []
    assert [jid for jid, _ in sent] == ["1"]
    assert pauses == [{"user": "bob", "action": "pause"}]


def test_release_keeps_the_priority(setup):
    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        said = {"id": "1", "priority": 7}
        await setup.publish("2", ["m20"], request=said)
        await ask(setup, "hold", "2")
        await ask(setup, "release", "2")
        return [(job.priority, job.held) for job in setup.handler.queue]

    assert asyncio.run(run()) == [(7, False)]


def test_priority(setup):
    async def run():
        await queue(setup)
        assert await ask(setup, "prioritize", "3") == 1
        setup.returns("1", *MINIONS[:10])
        await setup.tick(1)

    asyncio.run(run())
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "3", "2"]


@pytest.mark.parametrize(
    "function, args, kwargs",
    [
        ("pause", (), {"seconds": "long"}),
        ("pause", (), {"seconds": -1}),
        ("pause", (), {"seconds": None}),
        ("prioritize", ("1", None), {}),
        ("pause", (), {"seconds": float("nan")}),
        ("prioritize", ("1", 1.5), {}),
        ("prioritize", ("1", 10**7), {}),
        ("list_", (), {"limit": 0}),
        ("list_", (), {"limit": "all"}),
    ],
)
def test_wrong_use(setup, function, args, kwargs):
    with pytest.raises(salt.exceptions.SaltInvocationError, match="^Give "):
        getattr(runner, function)(*args, **kwargs)


def test_off(setup):
    with patch.dict("salt.runners.job_handler.__opts__", rate_limiting={}):
        with pytest.raises(salt.exceptions.CommandExecutionError, match="is off: set"):
            runner.status()
    with pytest.raises(salt.exceptions.CommandExecutionError, match="see its log"):
        runner.status()


def test_settings_are_read_again(setup):
    """
    Without a restart, by the workers as well; wrong ones change nothing.
    """

    async def run():
        await queue(setup)
        wrong = {**setup.opts, "rate_limiting": {"criteria": "capacity", "fair": 5}}
        with patch("salt.config.master_config", return_value=wrong):
            with pytest.raises(salt.exceptions.CommandExecutionError, match="fair"):
                await ask(setup, "reload")
        right = {
            **setup.opts,
            "rate_limiting": {
                "criteria": "capacity",
                "max_master_jobs": 20,
                "exempt": ["pkg.*"],
            },
        }
        with patch("salt.config.master_config", return_value=right):
            assert await ask(setup, "reload") is True
        await setup.tick(1)
        return {jid for jid, _ in setup.bus.jobs()}, await setup.enter("pkg.install")

    assert asyncio.run(run()) == ({"1", "2", "3"}, None)
    # workers know them while the database does not answer
    handover = salt.job_handler.handover
    gone = salt.job_handler.store.StoreError("gone")
    with patch.object(handover, "_store", side_effect=gone):
        section = handover._section(setup.opts)  # pylint: disable=protected-access
    assert section["exempt"] == ["pkg.*"]


def test_settings_that_are_read_again_hold_for_jobs_that_wait(setup):
    """
    For how long they may wait, and their priority.
    """
    setup.config(max_master_jobs=10, max_queue_age=100)
    more = {"criteria": "capacity", "max_master_jobs": 10, "max_queue_age": 1000}
    more["rules"] = [{"user": "bob", "action": "queue", "priority": 5}]

    async def run():
        await queue(setup)
        new = {**setup.opts, "rate_limiting": more}
        with patch("salt.config.master_config", return_value=new):
            await ask(setup, "reload")
        for _ in range(10):
            await setup.tick(50)
            for minion in MINIONS[:10]:
                setup.handler.leases.renew("1", minion, setup.clock.now)
        waiting = await ask(setup, "list_")
        await setup.tick(600)
        return waiting, setup.bus.data("2", "discarded")

    waiting, ends = asyncio.run(run())
    assert [(job["jid"], job["priority"]) for job in waiting] == [("3", 5), ("2", 0)]
    assert [data["reason"] for data in ends] == ["age"]


@pytest.mark.parametrize("name", ["pause", "hold", "cancel", "reload"])
def test_what_can_not_be_written_down_does_not_hold(setup, name):
    """
    Its caller reads an error.
    """
    full = sqlite3.OperationalError("database or disk is full")
    other = {**setup.opts, "rate_limiting": {"criteria": "capacity", "fair": False}}

    async def run():
        handler = await queue(setup)
        args = ["2"] if name in ("hold", "cancel") else []
        with patch("salt.config.master_config", return_value=other):
            with patch.object(handler.store, "writing", side_effect=full):
                with pytest.raises(salt.exceptions.CommandExecutionError):
                    await ask(setup, name, *args)
        jobs = await ask(setup, "list_")
        return handler.queue.rules.paused_until, jobs, handler.section["fair"]

    setup.config(max_master_jobs=10, fair=True)
    paused, jobs, fair = asyncio.run(run())
    assert (paused, fair) == (None, True)
    assert [job["jid"] for job in jobs] == ["2", "3"]
    assert not any("administrator" in job["reason"] for job in jobs)


def test_minions_of_a_target_that_were_looked_up_before(setup):
    """
    What was found before a rule was added says nothing of its target.
    """

    async def run():
        handler = await setup.start()
        rules = handler.queue.rules
        rules.set([{"target": "old*", "action": "queue"}])
        rules.pause({"target": "web*"})
        rules.learn({"old*": frozenset(["old1"]), "web*": frozenset(["web1"])})
        rules.learn({"old*": frozenset(["old2"])})
        return [sorted(rule.minions) for rule in rules.rules]

    assert asyncio.run(run()) == [["web1"], ["old2"]]


def test_metrics_that_another_thread_reads(setup):
    """
    It does not walk through what changes meanwhile.
    """
    pytest.importorskip("opentelemetry.metrics")
    gauges = {}

    def gauge(name, callback, description):
        gauges[name.rpartition(".")[2]] = callback

    class Changing(dict):
        def items(self):
            raise RuntimeError("dictionary changed size during iteration")

    async def run():
        with patch("salt.utils.metrics.observable_gauge", gauge):
            handler = await queue(setup)
        observe = getattr(handler.report, "observe", lambda: None)
        observe()
        handler.leases.slots = Changing(handler.leases.slots)
        # a job handler that hangs does not observe any more
        setup.clock.now += 7
        return {name: callback(None) for name, callback in gauges.items()}

    seen = asyncio.run(run())
    assert {name: [one.value for one in found] for name, found in seen.items()} == {
        "depth": [2],
        "oldest": [7],
        "used": [10],
        "limit": [10],
        "full_minions": [0],
    }


def test_runner_jobs(setup):
    """
    ``list_job`` and ``lookup_jid`` know what waits, and who was left out.
    """

    async def run():
        await queue(setup)
        loop = asyncio.get_running_loop()
        about = salt.job_handler.client.about
        await ask(setup, "cancel", "2")
        return [
            await loop.run_in_executor(None, about, setup.opts, jid)
            for jid in ("2", "3")
        ]

    cancelled, queued = asyncio.run(run())
    assert cancelled["LeftOut"]["m20"] == (
        "Minion did not get the job. [It was taken out of the master's queue]"
    )
    assert queued["Queued"]["Minions"] == 1
    assert "10 of 10 slots occupied" in queued["Queued"]["Reason"]


# ----------------------------------------------------------------------
# The socket
# ----------------------------------------------------------------------


def test_socket_is_private(setup):
    asyncio.run(setup.start())
    mode = os.stat(salt.job_handler.control.path(setup.opts)).st_mode
    assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize("sent", [b"\x00", b"\xff" * 8, b"\x00\x00\x00\x01\xc1", b""])
def test_rubbish_on_the_socket(setup, sent):
    async def run():
        await setup.start()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(salt.job_handler.control.path(setup.opts))
            sock.send(sent)
        for cmd in ("no such", "__class__", None):
            with pytest.raises(salt.job_handler.control.JobHandlerUnavailable):
                await salt.job_handler.control.ask(setup.opts, {"cmd": cmd}, 30)
        return await salt.job_handler.control.ask(setup.opts, {"cmd": "list"}, 30)

    assert asyncio.run(run()) == {"jobs": []}


def test_heartbeat(master_opts, tmp_path, monkeypatch):
    """
    It goes by a clock that does not jump.
    """
    master_opts["sock_dir"] = str(tmp_path)
    assert not salt.job_handler.control.alive(master_opts)
    (tmp_path / "job_handler.ipc").touch()
    assert not salt.job_handler.control.alive(master_opts)
    salt.job_handler.control.beat(master_opts)
    assert salt.job_handler.control.alive(master_opts)
    monkeypatch.setattr("time.time", lambda: 0)
    assert salt.job_handler.control.alive(master_opts)
    now = __import__("time").monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now + 3)
    assert not salt.job_handler.control.alive(master_opts)
    # the machine was started again
    monkeypatch.setattr("time.monotonic", lambda: now - 1000)
    assert not salt.job_handler.control.alive(master_opts)


@pytest.mark.parametrize(
    "request_",
    [
        {"cmd": "order", "jid": ["1"], "priority": 1},
        {"cmd": "order", "jid": "1" * 101, "priority": 1},
        {"cmd": "order", "jid": "1", "held": "yes"},
        {"cmd": "pause", "paused": True, "seconds": None},
        {"cmd": "cancel", "jid": b"1"},
        {"cmd": "show", "jid": ""},
    ],
)
def test_requests_that_make_no_sense(setup, request_):
    """
    Nothing of them is kept.
    """

    async def run():
        handler = await setup.start()
        with pytest.raises(salt.exceptions.SaltInvocationError):
            await handler.commands.handle(request_)
        rows = handler.store.db.execute("SELECT * FROM orders").fetchall()
        return rows, handler.store.get_meta("pauses")

    assert asyncio.run(run()) == ([], None)


def test_rules_that_pause_have_a_limit(setup):
    async def run():
        handler = await setup.start()
        most = salt.job_handler.policy.MAX_PAUSES
        for number in range(most):
            rule = {"function": f"test.f{number}"}
            await handler.commands.handle(
                {"cmd": "pause", "paused": True, "rule": rule}
            )
        with pytest.raises(salt.exceptions.SaltInvocationError, match="Resume"):
            await handler.commands.handle(
                {"cmd": "pause", "paused": True, "rule": {"user": "bob"}}
            )
        # one that is there already, and that of all jobs, are no further rules
        for rule in ({"function": "test.f5"}, {}):
            await handler.commands.handle(
                {"cmd": "pause", "paused": True, "rule": rule}
            )
        return len(handler.queue.rules.pauses) - most, handler.queue.rules.paused_until

    assert asyncio.run(run()) == (1, float("inf"))


@pytest.mark.parametrize("key", ["function", "user", "target", "reason"])
def test_texts_of_rules_have_a_limit(setup, key):
    """
    Python keeps each glob that it has compiled, up to some ten thousands.
    """

    async def run():
        handler = await setup.start()
        rule = {"function": "test.*", key: "x" * 100001}
        request = {"cmd": "pause", "paused": True, "rule": rule}
        with pytest.raises(
            salt.exceptions.SaltInvocationError, match=f"^{key} .* at most 100"
        ):
            await handler.commands.handle(request)
        return handler.queue.rules.pauses

    assert asyncio.run(run()) == []


@sqlite_only
def test_settings_that_are_null(setup):
    """
    They have their defaults, and a rule matches whatever it does not name.
    """
    names = [*salt.job_handler.config.DEFAULTS, "max_master_jobs", "max_minion_jobs"]
    setup.config(**dict.fromkeys(names))
    rule = {"function": None, "user": None, "target": None, "cost": None}
    section = setup.opts["rate_limiting"]
    section["rules"] = [{**rule, "action": "reject", "function": "cmd.*"}]
    section["rules"].append({**rule, "action": "queue", "priority": 3, "reason": None})
    assert salt.job_handler.config.errors(setup.opts) == []

    async def run():
        await setup.start()
        taken = await setup.publish("1", MINIONS[:3])
        refused = await setup.publish("2", MINIONS[:3], fun="cmd.run", user="bob")
        await setup.tick(1)
        return taken, refused

    taken, refused = asyncio.run(run())
    assert taken["load"] == {"jid": "1", "minions": MINIONS[:3], "missing": []}
    assert "a rule says reject" in refused["error"]["message"]
    assert setup.bus.jobs() == [("1", "*")]


@pytest.mark.parametrize(
    "value",
    [
        ZeroDivisionError("failed"),
        None,
        "many",
        0,
        float("inf"),
        float("nan"),
        ["a"],
        {"limit": object()},
        {"limit": "x"},
    ],
    ids="raises None text 0 inf nan list object limit".split(),
)
@pytest.mark.parametrize("name", ["stats", "snapshot", "weight", "cost", "flow"])
def test_criteria_module_that_returns_what_can_not_be_used(
    setup, name, value, monkeypatch
):
    """
    It stops neither the queue, nor the next job handler, nor what people ask.
    """
    load = salt.job_handler.config.load_criteria

    def loaded(*args):
        criteria = load(*args)
        raises = isinstance(value, Exception)
        method = MagicMock(
            side_effect=value if raises else None,
            return_value=None if raises else value,
        )
        setattr(criteria, name, method)
        return criteria

    monkeypatch.setattr(salt.job_handler.config, "load_criteria", loaded)

    async def run():
        for minions in (MINIONS[:2], MINIONS[2:4]):
            handler = await setup.start()
            # so that it is known how long jobs take
            await setup.publish(f"before {minions[0]}", minions[:1])
            setup.returns(f"before {minions[0]}", minions[0])
            handler.queue.hold(setup.clock.now, 1)
            for minion in minions:
                await setup.publish(minion, [minion], user=minion)
            assert len(await ask(setup, "list_")) == 2
            assert (await ask(setup, "show", minions[0]))["state"] == "queued"
            await setup.tick(2)
            figures = await ask(setup, "status")
            await handler.clean()
            await setup.land()
            await setup.stop()
        return figures

    assert asyncio.run(run())["capacity"]["used"] == 4
    assert len(setup.bus.jobs()) == 6
