import itertools

import pytest
import saltext.package_states.model.resolver as resolver
from saltext.package_states.errors import Conflict


def only(*args):
    """
    Return the one verdict there is
    """
    verdicts = resolver.resolve(*args)
    assert len(verdicts) == 1
    return verdicts[0]


@pytest.mark.parametrize("low,high", itertools.combinations(resolver.LEVELS, 2))
@pytest.mark.parametrize("turned", (False, True))
def test_the_higher_level_wins_and_says_so(source, low, high, turned):
    # whatever the priorities are, and in whichever order the states come
    sources = [
        source("lower", low, ("foo", "removed"), priority=9),
        source("higher", high, ("foo", "installed", "=1.0"), priority=-9),
    ]
    verdict = only(reversed(sources) if turned else sources)
    assert verdict.item.wanted == "installed"
    assert verdict.source.state == "higher"
    assert verdict.overruled == (sources[0].label,)


@pytest.mark.parametrize("level", resolver.LEVELS)
def test_the_higher_priority_wins_within_a_level(source, level):
    verdict = only(
        [
            source("one", level, ("foo", "latest"), priority=2),
            source("two", level, ("foo", "removed"), priority=1),
        ]
    )
    assert verdict.source.state == "one"


@pytest.mark.parametrize("level", resolver.LEVELS)
def test_equals_that_disagree_are_a_conflict_that_names_both(source, level):
    with pytest.raises(
        Conflict, match="foo.*'.*one' says latest.*'.*two' says removed <2.0"
    ):
        resolver.resolve(
            [
                source("one", level, ("foo", "latest")),
                source("two", level, ("foo", "removed", "<2.0"), ("bar", "latest")),
            ]
        )


def test_equals_that_agree_are_none(source):
    verdict = only(
        [
            source("one", "group", ("foo", "installed", ">=1,<2")),
            source("two", "group", ("foo", "installed", "<2,>=1")),
        ]
    )
    assert len(verdict.overruled) == 1


def test_equals_below_the_one_that_wins_do_not_matter(source):
    verdict = only(
        [
            source("one", "group", ("foo", "latest")),
            source("two", "group", ("foo", "removed")),
            source("own", "own", ("foo", "purged")),
        ]
    )
    assert verdict.item.wanted == "purged"
    assert len(verdict.overruled) == 2


def test_every_conflict_is_named(source):
    with pytest.raises(Conflict) as found:
        resolver.resolve(
            [
                source("one", "own", ("foo", "latest"), ("bar", "latest")),
                source("two", "own", ("foo", "removed"), ("bar", "kept")),
            ]
        )
    assert "foo:" in str(found.value) and "bar:" in str(found.value)


def test_unmanaged_releases_what_is_lower(source):
    verdicts = resolver.resolve(
        [
            source("base", "organization", ("foo", "removed"), ("bar", "latest")),
            source("own", "own", ("foo", "unmanaged")),
        ]
    )
    assert [verdict.item.key for verdict in verdicts] == ["bar", "foo"]
    assert [verdict.item.key for verdict in resolver.managed(verdicts)] == ["bar"]


def test_the_minions_architecture_is_no_other_package(source):
    sources = [
        source("base", "organization", ("foo", "latest"), ("foo:i386", "latest")),
        source("own", "own", ("foo:amd64", "removed")),
    ]
    verdicts = resolver.resolve(sources, native="amd64")
    assert [(v.item.key, v.item.wanted) for v in verdicts] == [
        ("foo", "removed"),
        ("foo:i386", "latest"),
    ]
    assert len(resolver.resolve(sources, native="arm64")) == 3


@pytest.mark.parametrize("native", ("", "amd64", "x86_64"))
@pytest.mark.parametrize("architecture", ("all", "noarch"))
def test_a_package_for_all_architectures_is_the_plain_one(source, architecture, native):
    sources = [
        source("low", "group", (f"foo:{architecture}", "latest")),
        source("high", "minion", ("foo", "removed")),
    ]
    verdict = only(sources, native)
    assert verdict.item.key == "foo" and verdict.item.wanted == "removed"
    assert only(sources[:1], native).item.key == "foo"
    assert only([source("x", "own", ("foo:i386", "latest"))], native).item.architecture
