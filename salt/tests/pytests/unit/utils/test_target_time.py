"""
A regular expression of a target that nobody can wait for ends, and says so.
"""

# pylint: disable=protected-access

import asyncio
import signal

import pytest

import salt.cache
import salt.exceptions
import salt.master
import salt.utils.minions
from tests.support.mock import MagicMock, patch

# Not on Windows, where the time has no limit
resource = pytest.importorskip("resource")

EVIL = "(a+)+$"
ID = "a" * 40 + "b"
TEXT = "a" * 40 + "!"


@pytest.fixture(autouse=True)
def _little_time():
    with patch.object(salt.utils.minions, "PATTERN_SECONDS", 0.05):
        yield
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


@pytest.fixture
def opts(master_opts, tmp_path):
    for name in ("pki", "cache", "sock"):
        (tmp_path / name).mkdir()
        master_opts[f"{name}_dir"] = str(tmp_path / name)
    master_opts["cachedir"] = str(tmp_path / "cache")
    master_opts["peer"] = {".*": ["test.ping"]}
    cache = salt.cache.factory(master_opts)
    cache.store("grains", ID, {"text": TEXT, "os": "Debian"})
    cache.store("pillar", ID, {"text": TEXT})
    cache.store("mine", ID, {"x": 5})
    return master_opts


@pytest.fixture
def keys():
    with patch.object(
        salt.utils.minions.CkMinions, "_pki_minions", return_value={ID, "web1"}
    ):
        yield


TARGETS = [
    ("pcre", EVIL),
    ("grain_pcre", f"text:{EVIL}"),
    ("pillar_pcre", f"text:{EVIL}"),
    ("compound", f"web1 or P@text:{EVIL}"),
    ("compound", f"E@{EVIL}"),
]


@pytest.mark.parametrize("tgt_type, tgt", TARGETS)
def test_it_ends(opts, keys, tgt_type, tgt):
    handler = signal.getsignal(signal.SIGVTALRM)
    checker = salt.utils.minions.CkMinions(opts)
    with pytest.raises(
        salt.exceptions.SaltInvocationError, match="takes too long to match"
    ):
        checker.check_minions(tgt, tgt_type)
    assert signal.getsignal(signal.SIGVTALRM) is handler


def test_time_that_is_up_between_two_expressions(opts, keys):
    """
    The signal may come where the timer is about to be stopped. Going on without a
    handler, it would end the process.
    """
    handler = signal.getsignal(signal.SIGVTALRM)
    stop = signal.setitimer
    calls = []

    def late(which, *args):
        calls.append(args)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGVTALRM)
        return stop(which, *args)

    with patch("signal.setitimer", late), pytest.raises(
        salt.exceptions.SaltInvocationError
    ):
        salt.utils.minions.CkMinions(opts).check_minions("w.*", "pcre")
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) is handler


def test_all_expressions_of_a_target_share_the_time(opts, keys):
    """
    Each of these takes a tenth of it, so that many of them are as bad as one.
    """

    def used():
        return resource.getrusage(resource.RUSAGE_SELF).ru_utime

    def slow(text):
        # The timer does not count what the kernel does for the process
        end = used() + salt.utils.minions.PATTERN_SECONDS / 10
        while used() < end:
            sum(range(1000))

    checker = salt.utils.minions.CkMinions(opts)
    pcre = patch.object(
        checker, "_check_pcre_minions", wraps=checker._check_pcre_minions
    )
    compiled = patch("re.compile", return_value=MagicMock(match=slow))
    with compiled:
        with pcre as check:
            assert checker.check_minions("x", "pcre")["minions"] == []
            with pytest.raises(salt.exceptions.SaltInvocationError):
                checker.check_minions(" or ".join(["E@x"] * 100), "compound")
    assert check.call_count < 100


def test_a_timer_of_the_caller_is_kept(opts, keys):
    checker = salt.utils.minions.CkMinions(opts)
    signal.setitimer(signal.ITIMER_VIRTUAL, 500, 7)
    try:
        assert checker.check_minions("a+b", "pcre")["minions"] == [ID]
        left, interval = signal.getitimer(signal.ITIMER_VIRTUAL)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert 400 < left <= 501 and interval == pytest.approx(7, abs=0.1)


SOUND = [
    ("pcre", "a+b", [ID]),
    ("pcre", "web.", ["web1"]),
    ("pcre", "(", []),
    ("grain_pcre", "os:Deb.*", [ID]),
    ("grain_pcre", "os:(", []),
    ("compound", "P@os:Deb.* or E@web.", [ID, "web1"]),
    ("grain", "os:Deb*", [ID]),
]


@pytest.mark.parametrize("stoppable", [False, True])
@pytest.mark.parametrize("tgt_type, tgt, found", SOUND)
def test_others_match_as_before(opts, keys, tgt_type, tgt, found, stoppable):
    checker = salt.utils.minions.CkMinions(opts, stoppable=stoppable)
    assert sorted(checker.check_minions(tgt, tgt_type)["minions"]) == found


@pytest.mark.asyncio
async def test_in_a_thread(opts, keys):
    """
    Nothing can stop it there, so whoever can go elsewhere is told first.
    """

    async def minions(target, tgt_type, **kwargs):
        checker = salt.utils.minions.CkMinions(opts, **kwargs)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            None, checker.check_minions, target, tgt_type
        )
        return sorted(found["minions"])

    assert await minions("a+b", "pcre") == [ID]
    assert await minions("os:D.*", "grain_pcre") == [ID]
    assert await minions("os:D*", "grain", stoppable=True) == [ID]
    for tgt_type, target in [("pcre", "a+b"), ("grain_pcre", "os:D.*")]:
        with pytest.raises(salt.utils.minions.PatternInThread):
            await minions(target, tgt_type, stoppable=True)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def aes_funcs(request, opts, keys):
    opts["master_async_mworker"] = request.param
    made = salt.master.AESFuncs(opts)
    yield made
    made.destroy()


async def _handled(funcs, name, load):
    answer = funcs.run_func(name, {"id": "web1", **load})
    if hasattr(answer, "__await__"):
        answer = await answer
    return answer[0]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "tgt_type, tgt, found",
    [
        ("grain_pcre", "os:Deb.*", {ID: 5}),
        ("grain_pcre", f"text:{EVIL}", {}),
        ("pcre", EVIL, {}),
        ("compound", f"G@os:Debian and P@text:{EVIL}", {}),
    ],
)
async def test_mine_of_a_target(aes_funcs, caplog, tgt_type, tgt, found):
    load = {"tgt": tgt, "tgt_type": tgt_type, "fun": "x"}
    assert await _handled(aes_funcs, "_mine_get", load) == found
    assert ("takes too long to match" in caplog.text) is (not found)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.asyncio
@pytest.mark.parametrize("allowed, found", [("w.*", {ID: 5}), (EVIL, {})])
async def test_mine_that_says_who_may_have_it(aes_funcs, opts, allowed, found):
    entry = {
        salt.utils.mine.MINE_ITEM_ACL_ID: 1,
        salt.utils.mine.MINE_ITEM_ACL_DATA: 5,
        "allow_tgt": allowed,
        "allow_tgt_type": "pcre",
    }
    salt.cache.factory(opts).store("mine", ID, {"x": entry})
    load = {"tgt": "os:Debian", "tgt_type": "grain", "fun": "x"}
    assert await _handled(aes_funcs, "_mine_get", load) == found


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["minion_pub", "minion_publish"])
async def test_publish_of_a_minion(aes_funcs, caplog, name):
    aes_funcs.masterapi.local = MagicMock()
    load = {"fun": "test.ping", "arg": [], "tgt": EVIL, "tgt_type": "pcre", "ret": ""}
    assert await _handled(aes_funcs, name, load) == {}
    assert "takes too long to match" in caplog.text
    assert not aes_funcs.masterapi.local.mock_calls


@pytest.mark.asyncio
async def test_publish_of_a_user(opts, keys):
    clear = salt.master.ClearFuncs(opts, {"root": "key"})
    clear.event = MagicMock()
    clear._prep_pub = MagicMock()
    load = {
        "user": "root",
        "key": "key",
        "fun": "test.ping",
        "arg": [],
        "tgt": EVIL,
        "tgt_type": "pcre",
        "ret": "",
        "jid": "",
    }
    try:
        answer = await clear.publish(load)
    finally:
        clear.destroy()
    assert answer["error"]["name"] == "SaltInvocationError"
    assert "make its regular expressions simpler" in answer["error"]["message"]
    assert not clear._prep_pub.called
