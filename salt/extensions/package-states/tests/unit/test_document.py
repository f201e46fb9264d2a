"""
A whole set as YAML: out and in
"""

import random
import time

import pytest
import saltext.package_states.master.document as documents
import saltext.package_states.model.item as items
from saltext.package_states.errors import InvalidInput

import salt.utils.yaml

TEXT = """\
package_states: 1
states:
  front:
    packages:
      bar: removed
      foo: installed >=1.10,<2.0 from 1.11
    assigned:
    - grains: os:Debian
    - group: 'the web: servers'
      priority: -5
  web:
    packages: {}
"""


def test_the_same_text_comes_back():
    found = documents.load(TEXT)
    assert documents.dump(found) == TEXT
    front = found["front"]
    assert [entry.version for entry in front.packages] == ["", ">=1.10,<2.0"]
    assert front.packages[1].floor == "1.11"
    assert front.assigned[1] == ("group", "the web: servers", -5)
    assert found["web"] == documents.Entry((), None)


def test_a_version_is_never_a_number():
    text = "package_states: 1\nstates: {a: {packages: {foo: installed 1.10}}}"
    (entry,) = documents.load(text)["a"].packages
    assert entry.version == "=1.10"


def test_random_sets_come_back():
    rng = random.Random(7)
    names = [f"n{rng.randrange(10**6)}" for _ in range(40)]
    names += ["1.10", "null", "yes", "1e3", "0x10", "A", "on", "9"]
    for _ in range(200):
        states = {}
        for name in rng.sample(names, 5):
            packages = items.ordered(
                items.make(
                    one,
                    *rng.choice(
                        [
                            ("latest",),
                            ("removed",),
                            ("installed", ">=1.10"),
                            ("installed", "<2", "1.5"),
                            ("kept", "=1"),
                        ]
                    ),
                )
                for one in rng.sample(names, 6)
            )
            target = rng.choice(["a: b", "é #x", '"', "\\", "{x}", "- y", "&a *b !c"])
            assigned = (documents.Assigned("group", target, rng.randrange(9)),)
            states[name] = documents.Entry(packages, assigned)
        text = documents.dump(states)
        assert documents.load(text) == states
        # others read the same names and values
        data = salt.utils.yaml.safe_load(text)
        assert set(data["states"]) == set(states)


def _refused(text):
    with pytest.raises(InvalidInput) as told:
        documents.load(text)
    said = str(told.value)
    assert "\n" not in said and len(said) < 400
    return said


@pytest.mark.parametrize(
    "text, said",
    (
        ("package_states: 1\nstates: &a {b: *a}", "anchor"),
        ("package_states: 1\nstates: {a: *x}", "anchor"),
        ("package_states: 1\nstates: !!python/object:os.system {}", "tag"),
        ("package_states: !!int 1\nstates: {}", "tag"),
        ("package_states: 1\nstates: ! {}", "tag"),
        ("package_states: 1\nstates: {}\n--- \nx: 1", "one document"),
        ("package_states: 1\nstates: {a: {}, a: {}}", "twice"),
        ("package_states: 1\nstates: {[a]: {}}", "key"),
        ("package_states: 1\nstates: {{a: b}: {}}", "key"),
        ("package_states: 2\nstates: {}", "no set"),
        ("", "one document"),
        ("[]", "no set"),
        ("package_states: 1", "states"),
        ("package_states: 1\nstates: []", "states"),
        ("package_states: 1\nstates: {}\nmore: 1", "fields package_states, states, and no 'more'; "),
        ("package_states: 1\nstates: {a: []}", "fields"),
        ("package_states: 1\nstates: {a: {package: {}}}", "and no 'package'; "),
        ("package_states: 1\nstates: {a: {packages: [x]}}", "no names"),
        ("package_states: 1\nstates: {a: {packages: {x: [latest]}}}", "wanted"),
        ("package_states: 1\nstates: {a: {packages: {x: latest a b}}}", "wanted"),
        ("package_states: 1\nstates: {a: {packages: {x: ''}}}", "wanted"),
        ("package_states: 1\nstates: {a: {stages: {}}}", "fields"),
        ("package_states: 1\nstates: {a: {assigned: x}}", "list"),
        ("package_states: 1\nstates: {a: {assigned: [x]}}", "assigned to one of"),
        ("package_states: 1\nstates: {a: {assigned: [{group: x, minion: y}]}}", "one of"),
        ("package_states: 1\nstates: {a: {assigned: [{group: [x]}]}}", "one of"),
        ("package_states: 1\nstates: {a: {assigned: [{group: x, y: z}]}}", "and no 'y'; "),
        ("package_states: 1\nstates: {a: {assigned: [{group: x, priority: 1.5}]}}", "whole"),
        ("package_states: 1\nstates: {a: {assigned: [{group: x, priority: 9999999999}]}}", "whole"),
        ("package_states: 1\nstates: {a: {assigned: [{group: x}, {group: x}]}}", "twice"),
        ("package_states: 1\nstages: [a, b]\nstates: {}", "fields"),
        ("package_states: 1\nstates: {x: {packages: {foo: latest}", "no YAML"),
        ("package_states: 1\nstates: {\x00}", "no YAML"),
        ("package_states: 1\nstates: {\ud800: {}}", "no YAML"),
        (5, "text"),
        (None, "text"),
    ),
)  # fmt: skip
def test_what_is_refused(text, said):
    assert said in _refused(text)


def test_bombs_are_refused_at_once():
    laughs = "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
    )
    deep = "package_states: 1\nstates: " + "[" * 1000000
    # one more than there may be
    wide = "package_states: 1\nstates: [" + "a," * documents.NODES + "]"
    for text in (laughs, deep, "{" * 100000, "- " * 100000, "a" * (documents.MOST + 1)):
        begin = time.process_time()
        _refused(text)
        # not a measure, but a bound that an expansion would pass by far
        assert time.process_time() - begin < 30
    assert "smaller" in _refused(wide)


def test_no_message_shows_what_the_text_holds():
    for text in ("secret: [x", "secret\x00", "&secret x", "!secret x", "[secret]"):
        assert "secret" not in _refused(text)
