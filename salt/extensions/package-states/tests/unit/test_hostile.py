"""
Thousands of hostile names, versions, groups and files: refused, or without any effect
"""

import itertools
import json

import pytest
import saltext.package_states.compile.fleet as fleet
import saltext.package_states.compile.sls as sls
import saltext.package_states.managers.lockfile as lockfile
import saltext.package_states.managers.pins as pins
import saltext.package_states.master.document as documents
import saltext.package_states.model.condition as condition
import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.platforms as platforms
import saltext.package_states.model.resolver as resolver
import saltext.package_states.store.offers as offers
import saltext.package_states.store.refresh as refresh
from saltext.package_states.errors import InvalidInput

import salt.utils.yaml

PARTS = (
    "{{ 1 }}", "{% raw %}", "{# x #}", "${x}", "$(id)", "`id`", "; rm -rf /", "| sh",
    "&& x", "> /etc/passwd", "\n- x", "\r", "\t", "\0", "\x1b[2J", "'", '"', "\\", "#",
    ": ", "!!python/object:x", "*x", "&x", "@x", "%x", "--help", "-x", "../x", "/x",
    "~/x", "x y", "", " ", "é", "\u202e", "\ufeff", "＝", "a" * 200, "!x", "!!x", "x=1",
    "x>1", "x<1", "x,y", "[x]", "?", "x:any", "x:", ":x", "null", "1e3", "0x10", "\u2028",
    "run\nremove x", "solvable_name: y", "Pin-Priority: 1",
)  # fmt: skip
PATTERNS = ("{}", "foo{}", "{}foo", "foo{}bar", "1.0{}", "1:{}", "1.0-{}")
HOSTILE = sorted(
    {
        pattern.format(one + two)
        for pattern in PATTERNS
        for one, two in itertools.product(PARTS, ("", "1", "}}"))
    }
    | {one + two for one, two in itertools.product(PARTS, PARTS)}
)
# what none of them may bring into a line of a file, a script or a command
MARKS = set("{}$`;|&\n\r\t\0\x1b'\"\\#()[] %,")


def test_how_many_there_are():
    assert len(HOSTILE) >= 2500


def _accepted(make):
    found = []
    for text in HOSTILE:
        try:
            found.append((text, make(text)))
        except InvalidInput as exc:
            assert "\n" not in str(exc) and len(str(exc)) < 500
    return found


def test_names_of_packages_and_states():
    for text, entry in _accepted(lambda one: items.make(one, "latest")):
        assert entry.key == text
        assert not set(text) & (MARKS | set("/=<>*?!"))
        assert text.isascii() and text[0].isalnum()
    for text, _ in _accepted(names.state):
        assert not set(text) & (MARKS | set("/:=<>*?!")) and not text.startswith(".")


def test_versions_do_nothing_in_any_file():
    """
    What is accepted is the same in the SLS, in the pins, in the locks and in a command
    """
    found = _accepted(lambda one: items.make("foo", "installed", f"={one}"))
    assert found
    for _, entry in found:
        for _, version in entry.condition:
            assert not set(version) & MARKS
            assert version[0].isalnum() or version[0] in "*?"
            text = pins.text([pins.Pin("foo", version, 1001, "installed")])
            assert len(text.splitlines()) == 4
            for file in (lockfile.ZyppLocks("x"), lockfile.DnfLocks("x")):
                joined = {lockfile.ZyppLocks: f"foo={version}"}
                ident = joined.get(type(file), f"!foo-{version}")
                back = [lock.id for lock in file.parse(file.text([], [ident]))]
                assert back == [ident]


def test_what_is_wanted():
    for wanted in HOSTILE:
        with pytest.raises(InvalidInput):
            items.make("foo", wanted)


def test_groups_and_trouble_are_text_in_the_file():
    entry = items.make("foo", "latest")
    for start in range(0, len(HOSTILE), 25):
        some = HOSTILE[start : start + 25]
        sources = [
            resolver.Source("web", 1, resolver.GROUP, text, 0, (entry,))
            for text in some
        ]
        for source, text in zip(sources, some):
            verdicts = [resolver.Verdict(entry, source, ())]
            out = sls.render("web", "apt", [source], verdicts, trouble={"foo": text})
            assert not set("{}%") & set(out)
            data = salt.utils.yaml.safe_load(out)
            assert set(data) == {"package_states locks", "package_states foo"}
            state, (name, origin) = next(iter(data["package_states foo"].items()))
            assert (state, name) == ("package_state.latest", {"name": "foo"})
            assert isinstance(origin["source"], str)


def test_comments_are_one_line():
    for text in HOSTILE:
        try:
            assert names.text(text, "comment") == text
        except InvalidInput:
            assert not text.isprintable()


def test_conditions():
    for text in HOSTILE:
        try:
            parts = condition.parse(text)
        except InvalidInput:
            continue
        assert condition.parse(condition.show(parts)) == parts


# a minion sends these where a name or a version is
SENT = (
    "1\x1b[2J", "a\n\nall is consistent.", "9" * 5000, "\ud800", "\0", "\u202e", 1, None, [], {},
)  # fmt: skip


@pytest.mark.parametrize("text", SENT, ids=range(len(SENT)))
def test_what_minions_send_is_checked_at_the_door(text):
    """
    A version that is no line of text, at each place where there is one
    """
    good = {"platform": "apt", "digest": "x", "packages": {"foo": {"versions": ["1"]}}}
    refresh.check(
        {**good, "repositories": {"a" * 64: "main"}, "security": {"b": ["1"]}}
    )
    key = text if not isinstance(text, (list, dict)) else ()
    for changed in (
        {"digest": text},
        {"packages": {key: {}}},
        {"packages": {"foo": {"versions": [text]}}},
        {"packages": {"foo": {"available": ["1", text]}}},
        {"packages": {"foo": {"candidate": text}}},
        {"packages": {"foo": {"kept": text}}},
        {"repositories": {"a" * 64: text}},
        {"repositories": {key: "main"}},
        {"security": {key: ["1"]}},
        {"security": {"foo": [text]}},
        {"security": {"foo": []}},
    ):
        with pytest.raises(InvalidInput):
            refresh.check({**good, **changed})
    for packages in ({key: ["1"]}, {"foo": [text]}, {"foo": text or 5}):
        assert not offers._are_packages(packages)  # pylint: disable=protected-access


def _deep(levels):
    found = []
    for _ in range(levels):
        found = [found]
    return found


def test_more_than_a_minion_can_have_is_refused():
    """
    A million packages, and what is deep or no JSON
    """
    good = {"platform": "apt", "digest": "x", "packages": {}}
    million = dict.fromkeys(map(str, range(10**6)), {"versions": ["1"]})
    for bad in (
        {"packages": million},
        {"packages": dict.fromkeys(map(str, range(99999)), {"versions": ["1" * 250]})},
        {"packages": {"a" * 10**6: {}}},
        {"packages": {"a": {"versions": ["1" * 10**6]}}},
        {"packages": {"a": {"versions": _deep(5000)}}},
        {"packages": {"a": {"versions": ["1"] * 10**6}}},
        {"packages": _deep(5000)},
        {"packages": {"a": {"more": 1}}},
        {"security": dict.fromkeys(map(str, range(10**6)), ["1"])},
        {"repositories": dict.fromkeys(map(str, range(2000)), "x")},
        {"platform": []},
        {"platform": {}},
    ):
        with pytest.raises(InvalidInput):
            refresh.check({**good, **bad})
    # an item that nobody keeps
    for more in (_deep(5000), b"\xff", object()):
        refresh.check({**good, "more": more})


@pytest.mark.parametrize("value", ([], {}, None, 1, b"x", "\ud800", "x" * 10**6))
@pytest.mark.parametrize(
    "grain", ("os_family", "os", "osmajorrelease", "transactional", "osarch")
)
def test_grains_that_a_minion_makes_up(grain, value):
    refused = (platforms.TRANSACTIONAL, platforms.OTHER)
    assert platforms.manager({grain: value}) in (None, *refused)
    lone = fleet.Fleet.__new__(fleet.Fleet)
    lone._grains = {"web": {grain: value}}  # pylint: disable=protected-access
    assert isinstance(lone.architecture("web"), str)
    assignment = fleet.Assignment(1, "a", resolver.GRAINS, "os:Debian:x", "", 0)
    assert not lone.applies(assignment, fleet.Minion("web", None))


def test_what_is_shown_of_a_minion_is_one_line():
    for text in HOSTILE:
        assert names.line(text).isprintable()


def _documents():
    """
    Yield each hostile text at each place of a set
    """
    for text in HOSTILE:
        quoted = json.dumps(text, ensure_ascii=False)
        for place in (
            "{%s: {}}",
            "{a: {packages: {%s: latest}}}",
            "{a: {packages: {foo: %s}}}",
            '{a: {packages: {foo: "installed =" %s}}}',
            "{a: {assigned: [{%s: x}]}}",
            "{a: {assigned: [{group: %s}]}}",
            "{a: {assigned: [{group: x, priority: %s}]}}",
        ):
            yield f"package_states: 1\nstates: {place % quoted}"
            yield f"package_states: 1\nstates: {place % text}"


def test_hostile_texts_are_refused_or_inert():
    """
    What is accepted has names that were accepted one by one, and is the same when it comes
    back; nothing else happens
    """
    count = refused = 0
    for text in _documents():
        count += 1
        try:
            found = documents.load(text)
        except InvalidInput as exc:
            refused += 1
            assert "\n" not in str(exc) and len(str(exc)) < 500
            continue
        assert documents.load(documents.dump(found)) == found
        for entry in found.values():
            for one in entry.packages or ():
                assert items.make(one.key, one.wanted, one.version, one.floor) == one
    assert count > 1900 and refused > 1900
