import os
import random
import string

import pytest
import saltext.package_states.compile.files as files
import saltext.package_states.compile.sls as sls
import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.platforms as platforms
import saltext.package_states.model.resolver as resolver
from saltext.package_states.errors import InvalidInput, PackageStateError

import salt.config
import salt.state
import salt.template

ROWS = {
    "apt": [
        ("foo", "installed", ">=1.0,<2.0", "1.2"),
        ("yes", "installed", "1.10"),
        ("foo:i386", "latest"),
        ("bar", "removed", "!=1:0.5~rc1"),
        ("baz", "kept", "=0.5-1"),
        ("null", "purged"),
    ],
    "zypper": [
        ("Foo_1", "installed", ">=1.0,<2.0^git"),
        ("foo:i686", "latest"),
        ("bar", "removed"),
        ("baz", "kept"),
    ],
    "dnf": [
        ("Foo_1", "installed", "!=1.0-1.el9_2"),
        ("foo:i686", "latest"),
        ("bar", "removed"),
        ("baz", "kept"),
    ],
}


def render(source, platform, rows, protected=platforms.PROTECTED):
    one = source("web", "own", *rows)
    return sls.render(
        "web", platform, [one], resolver.managed(resolver.resolve([one])), protected
    )


def load(text, tmp_path, renderer="jinja|yaml"):
    """
    Return the high data that Salt makes of an SLS, and its low chunks
    """
    opts = salt.config.minion_config(None)
    opts.update(
        file_client="local",
        id="web",
        cachedir=str(tmp_path / "cache"),
        extension_modules=str(tmp_path / "extmods"),
        file_roots={"base": [str(tmp_path)]},
        pillar_roots={"base": []},
        grains={"id": "web", "os_family": "Debian"},
    )
    state = salt.state.HighState(opts)
    place = tmp_path / "x.sls"
    place.write_text(text)
    high = salt.template.compile_template(
        str(place), state.state.rend, renderer, [], [], saltenv="base", sls="x"
    )
    full, errors = state.render_highstate({"base": ["x"]}) if high else ({}, [])
    chunks = state.state.compile_high_data(full)
    # since 3008 with errors
    return high, chunks[0] if isinstance(chunks, tuple) else chunks, errors


@pytest.mark.parametrize("platform", platforms.FAMILIES.values())
def test_salt_reads_what_is_written(source, platform, tmp_path):
    rows = ROWS[platform]
    text = render(source, platform, rows)
    high, chunks, errors = load(text, tmp_path)
    assert errors == []
    found = {chunk["name"]: chunk for chunk in chunks if chunk["fun"] != "locks"}
    assert all(chunk["state"] == "package_state" for chunk in chunks)
    assert len(high) == len(rows) + 1
    for row in rows:
        name, wanted, version, floor = (*row, None, None)[:4]
        chunk = found[name]
        assert chunk["fun"] == wanted
        made = items.make(name, wanted, chunk.get("version"), chunk.get("floor"))
        assert made == items.make(name, wanted, version, floor)
    (locks,) = (chunk for chunk in chunks if chunk["fun"] == "locks")
    assert chunks[0] is locks
    assert [items.make(*row) for row in locks["packages"]] == list(
        items.ordered(items.make(*row) for row in rows)
    )


def test_the_file_is_stable_and_says_its_revision(source):
    rows = ROWS["apt"]
    text = render(source, "apt", rows)
    assert render(source, "apt", reversed(rows)) == text
    assert "# revision: web@1\n" in text
    assert text.index("package_state.removed") < text.index("package_state.installed")


def test_more_protected_packages_are_passed_on(source):
    assert "- protected" not in render(source, "apt", [])
    text = render(source, "apt", [], platforms.PROTECTED | {"nginx"})
    assert '- protected: ["nginx"]' in text


@pytest.mark.parametrize(
    "platform,row",
    [
        ("apt", ("Foo", "latest")),
        ("apt", ("foo", "installed", "1.0_1")),
        ("apt", ("foo", "installed", "1.0^git")),
        ("apt", ("foo:x86_64", "latest")),
        ("zypper", ("foo", "purged")),
        ("zypper", ("foo:amd64", "latest")),
        ("dnf", ("foo", "purged")),
        ("transactional", ("foo", "latest")),
        ("dnf5", ("foo", "latest")),
        ("pacman", ("foo", "latest")),
    ],
)
def test_what_a_platform_cannot_do_is_an_error(platform, row):
    item = items.make(*row)
    problem = platforms.problem(platform, item)
    assert item.name in problem or platform[:3] in problem
    # which platform a minion has may not be known yet
    assert platforms.problem(None, item) is None


@pytest.mark.parametrize(
    "grains,platform",
    [
        ({"os_family": "RedHat", "os": "Fedora", "osmajorrelease": 40}, "dnf"),
        ({"os_family": "RedHat", "os": "Fedora", "osmajorrelease": 41}, "dnf5"),
        ({"os_family": "RedHat", "os": "RedHat", "osmajorrelease": 41}, "dnf"),
        ({"os_family": "Suse", "transactional": True}, "transactional"),
        ({"os_family": "Suse", "transactional": False}, "zypper"),
        ({"os_family": "RedHat", "os": "CentOS", "osmajorrelease": 7}, "yum"),
        ({"os_family": "RedHat", "os": "Amazon", "osmajorrelease": 2023}, "dnf"),
        ({"os_family": "RedHat"}, "dnf"),
        ({"os_family": "Arch"}, "other"),
        ({"os_family": "FreeBSD"}, "other"),
        ({"os_family": "Windows"}, "other"),
        ({"os_family": ["Debian"]}, None),
        ({"os_family": {}}, None),
        ({}, None),
    ],
)
def test_the_platform_of_grains(grains, platform):
    assert platforms.manager(grains) == platform


@pytest.mark.parametrize("wanted", ("removed", "purged"))
def test_protected_packages_stay(wanted):
    with pytest.raises(PackageStateError, match="libc6"):
        platforms.guard([items.make("libc6", wanted)])
    platforms.guard(
        [items.make("libc6", "latest"), items.make("libc6:i386", "installed")]
    )
    with pytest.raises(PackageStateError, match="nginx"):
        platforms.guard([items.make("nginx", wanted)], {"nginx"})


def test_files_are_replaced_as_a_whole(tmp_path):
    root = str(tmp_path)
    assert files.write(root, "web1.example.com", "one\n")
    place = tmp_path / "susemanager" / "packages-web1.example.com.sls"
    assert place.read_text() == "one\n"
    before = place.stat()
    assert not files.write(root, "web1.example.com", "one\n")
    assert place.stat().st_ino == before.st_ino
    assert files.write(root, "web1.example.com", "two\n")
    assert place.stat().st_ino != before.st_ino
    assert os.listdir(tmp_path / "susemanager") == [place.name]


HOSTILE = [
    "{{ 7*7 }}",
    "{% raw %}",
    "{# x #}",
    "foo\nbar: baz",
    "foo: bar",
    "foo #",
    "- foo",
    "!!python/object/apply:os.system [id]",
    "&a",
    "*a",
    "'; DROP TABLE susePackageState; --",
    '"',
    "\\",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    " ",
    "foo ",
    "foo\n",
    "foo\0",
    "foo\u2028bar",
    "\u0661",
    "fo\u00f6",
    "$(id)",
    "`id`",
    "foo;id",
    "-o=APT::x",
    "--root=/",
    "foo/stable",
    "foo=1.0",
    "foo+",
    "@pattern",
    "%s",
    "a" * 200,
    "[foo]",
    "{foo}",
    "<foo>",
    "foo|id",
    "foo,bar",
]


def hostile(count=300):
    """
    Yield names that people should not write, and pieces of them put together
    """
    chance = random.Random(7)
    yield from HOSTILE
    marks = string.punctuation + string.whitespace + "ab1\0\u00e9"
    for _ in range(count):
        size = chance.randint(1, 12)
        yield "".join(chance.choice(marks) for _ in range(size))
        yield chance.choice(("foo", "1.0")) + chance.choice(HOSTILE)


def test_hostile_input_is_refused_or_inert(source, tmp_path):
    tried = refused = 0
    rows = []
    for number, text in enumerate(hostile()):
        for row in (
            (text, "latest"),
            (f"a{number}", "installed", text),
            (f"b{number}:{text}", "latest"),
            (f"c{number}", "installed", None, text),
        ):
            tried += 1
            try:
                rows.append(items.make(*row))
            except InvalidInput:
                refused += 1
        try:
            place = files.path(str(tmp_path), text)
        except InvalidInput:
            continue
        assert os.path.dirname(os.path.abspath(place)) == str(tmp_path / "susemanager")
    assert tried > 1000
    # what is left is as harmless as a name can be, and arrives as it was written
    rows = list({row[:2]: row for row in rows}.values())
    one = resolver.Source(
        "web", 1, "group", "{{ 7*7 }}\n- x: 'y\"", 0, items.ordered(rows)
    )
    text = sls.render("web", "apt", [one], resolver.managed(resolver.resolve([one])))
    high, _, errors = load(text, tmp_path)
    assert errors == []
    assert len(high) == len(rows) + 1
    assert refused > tried / 2
    for row in rows:
        body = high[f"package_states {row.key}"][f"package_state.{row.wanted}"]
        assert {"name": row.key} in body
        version = [
            part["version"]
            for part in body
            if isinstance(part, dict) and "version" in part
        ]
        assert version == ([row.version] if row.version else [])


@pytest.mark.parametrize(
    "text", ["..", "a/b", "a\\b", "a\n", "a\0", ".a", "-a", "a" * 129, 1, None]
)
def test_state_names_are_no_paths(text):
    with pytest.raises(InvalidInput):
        names.state(text)


@pytest.mark.parametrize("text", ["a\nb", "a\0b", "x" * 1001, "a\u2028b"])
def test_comments_are_one_line(text):
    with pytest.raises(InvalidInput):
        names.text(text, "comment")
    assert names.text(None, "comment") == ""
