import random
import re

import pytest

import salt.loader
from salt.job_handler.interval import pattern, stretch
from salt.job_handler.job import Job
from salt.job_handler.target import narrow

#: As long as an alphabet is small, neighbours have much in common.
ALPHABETS = (
    "ab",
    "abc-.",
    "0123",
    "aZ9_",
    "a]^\\-|(",
    "äa\u4e2d\U0001f600",
    "\x00 a\x7f",
)


def _ids(rand, most=40):
    letters = rand.choice(ALPHABETS)
    return sorted(
        {
            "".join(rand.choice(letters) for _ in range(rand.randint(1, 6)))
            for _ in range(rand.randint(1, most))
        }
    )


@pytest.mark.parametrize("seed", range(300))
def test_pattern_fits_what_is_between(seed):
    """
    And nobody else, whoever else there is.
    """
    rand = random.Random(seed)
    ids, others = _ids(rand), _ids(rand)
    low, high = sorted((*_ids(rand, 1), *_ids(rand, 1)))
    low, high = rand.choice([(low, high), (None, high), (low, None)])
    between = [
        name
        for name in ids
        if (low is None or name >= low) and (high is None or name < high)
    ]
    if low == high or not between:
        return
    text = pattern(low, high, between, group=bool(seed % 2))
    assert not set(text) & set(" \t\n")
    assert seed % 2 or not set(text) & set("()")
    found = re.compile(text)
    assert [name for name in ids if found.match(name)] == between
    for name in others:
        if found.match(name):
            assert (low is None or name >= low) and (high is None or name < high)


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("tgt,tgt_type", [("*", "glob"), ("G@os:x", "compound")])
def test_each_minion_gets_each_job_once(minion_opts, tgt, tgt_type, seed):
    """
    Whatever is left out, has to wait or fails, those whom a wave was for have it and
    nobody has it twice, as the minions' own matcher says.
    """
    rand = random.Random(seed)
    ids = [name for name in _ids(rand) if not set(name) & set(" (,|\x00")]
    # numbers as fleets have them
    ids = sorted({*ids, *(f"web-{number:03}.example.com" for number in range(60))})
    minion_opts["grains"] = {"os": "x"}
    matchers = salt.loader.matchers(minion_opts)
    job = Job(1, "1", "f", len(ids), minions=list(ids))
    load = {"tgt": tgt, "tgt_type": tgt_type, "fun": "f"}
    went, out, short = [], set(), 0
    while job.minions:
        room = rand.randint(1, 25)
        wave, excluded = [], {}
        for name in job.minions:
            if len(wave) == room:
                break
            fate = rand.random()
            if fate < 0.05:
                excluded[name] = "full"
            elif fate > 0.1:
                wave.append(name)
        if not wave and not excluded:
            continue
        left = {*wave, *excluded}
        job.minions = [name for name in job.minions if name not in left]
        job.waves += 1
        found = stretch(job, wave, excluded)
        if rand.random() < 0.1:
            # it could not be published, or the job handler was started again
            job.minions = sorted([*job.minions, *wave])
            out.update(excluded)
            job.upto = rand.choice((job.upto, None))
            continue
        out.update(excluded)
        if not wave:
            continue
        part = narrow(load, wave, excluded, job.waves > 1 or bool(job.minions), found)
        short += part["tgt_type"] != "list"
        match = matchers[f"{part['tgt_type']}_match.match"]
        heard = [
            name
            for name in ids
            if match(part["tgt"], opts={**minion_opts, "id": name}, minion_id=name)
        ]
        assert heard == wave
        went += wave
    assert sorted(went) == sorted(set(ids) - out)
    assert len(went) == len(set(went))


def test_a_wave_of_many_is_short():
    ids = [f"minion-{number:05}.example.com" for number in range(10000)]
    job = Job(1, "1", "f", len(ids), minions=ids[2718:])
    job.waves = 1
    stretch(job, ids[:2718], {})
    job.minions, job.waves = ids[4321:], 2
    found = stretch(job, ids[2718:4321], {})
    load = narrow({"tgt": "*", "tgt_type": "glob"}, ids[2718:4321], {}, True, found)
    assert load["tgt_type"] == "pcre"
    assert len(load["tgt"]) < 100


def test_who_joins_meanwhile_gets_it_once():
    """
    As it would on a master without a queue, which publishes to all that are connected.
    """
    ids = [f"minion-{number:03}" for number in range(0, 300, 3)]
    joined = [f"minion-{number:03}x" for number in range(300)]
    job = Job(1, "1", "f", len(ids), minions=list(ids))
    heard = []
    for start in range(0, 100, 20):
        wave = ids[start : start + 20]
        job.minions, job.waves = ids[start + 20 :], job.waves + 1
        load = narrow(
            {"tgt": "*", "tgt_type": "glob"}, wave, {}, True, stretch(job, wave, {})
        )
        heard += [name for name in joined if re.match(load["tgt"], name)]
    assert len(heard) == len(set(heard))
