"""
The check of state files, and what is generated from interfaces
"""

import ast
import random
import textwrap
import time

import pytest

import salt.cache
import salt.interfaces
import salt.runners.interfaces as interfaces
import salt.utils.files
import salt.utils.minions
from salt.exceptions import CommandExecutionError
from salt.utils.modulesource import PLATFORMS, Functions, source
from tests.pytests.unit.interfaces.providers import providers
from tests.pytests.unit.interfaces.test_definitions import NAMES, interface_of
from tests.support.mock import patch

DEBIAN = {
    "init": "systemd",
    "os_family": "Debian",
    "kernel": "Linux",
    "os": "Debian",
    "osmajorrelease": 12,
}
SUSE = {**DEBIAN, "os_family": "Suse", "os": "SLES", "osmajorrelease": 15}
FAULTS = 200


@pytest.fixture
def configure_loader_modules(master_opts):
    return {interfaces: {"__opts__": master_opts, "__context__": {}}}


@pytest.fixture
def check(tmp_path, master_opts):
    """
    Return a function that checks files for a minion of each platform
    """

    def check(files, *platforms):
        folder = tmp_path / "srv"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        cache = salt.cache.factory(master_opts)
        names = [f"web{number}" for number, _ in enumerate(platforms)]
        for name, grains in zip(names, platforms):
            cache.store("grains", name, grains)
        found = {"minions": [*names, "lost"]}
        with patch.object(
            salt.utils.minions.CkMinions, "check_minions", return_value=found
        ):
            return interfaces.check(str(folder), "*")

    return check


@pytest.mark.parametrize(
    "condition",
    [
        "cycler.__init__.__globals__.os.mkdir('{0}')",
        "grains['__class__'].__mro__[1].__subclasses__()",
        "grains.get.__self__.clear()",
        "9 ** 9 ** 9 ** 9",
        "'x' * 10 ** 12",
        "'x' | center(10 ** 12)",
        "'{{:999999999999}}'.format(1)",
        "range(10 ** 12) | list",
        "lipsum(10 ** 9)",
        "(" * 5000,
    ],
)
def test_a_condition_does_nothing(check, tmp_path, condition):
    """
    Whoever wrote the files that are checked runs nothing, and the check ends
    """
    made = tmp_path / "made"
    text = (
        "{% if "
        + condition.format(made)
        + " %}\n{% endif %}\nweb:\n  pkg.frobbed: []\n"
    )
    result = check({"web.sls": text}, DEBIAN)
    assert not made.exists()
    assert len(result["faults"]) + len(result["not read"]) == 1


def test_what_is_no_file(check, tmp_path):
    """
    It is not read
    """
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv" / "zero.sls").symlink_to("/dev/zero")
    result = check({"deep.sls": "[" * 5000}, DEBIAN)
    assert list(result["not read"]) == ["deep.sls"]
    assert result["files"] == 0


def test_check(check):
    text = """\
    {% if grains['os_family'] == 'Debian' %}
    {% set x = salt['pkg.list_repos'](frob=1) %}
    {% elif grains.os_family == 'Suse' %}
    {% set x = salt.pkg.list_frobs('a') %}
    {% endif %}
    {% if salt['pkg.nosuch'] is defined %}{{ salt['pkg.nosuch']() }}{% endif %}
    web:
      pkg.installed:
        - pkgs: [a, b]
        - only_upgrade: True
        - require:
          - pkg: {{ x }}
      service:
        - running
        - reload: True
        - enabl: True
      module.run:
        - pkg.refresh_db:
          - frob: 1
    {{ x }}:
      user.presnt:
        - shell: /bin/sh
    """
    found = check({"a/web.sls": text, "py.sls": "#!py\n"}, DEBIAN, SUSE)
    assert found == {
        "faults": [
            "a/web.sls:2: 'pkg.list_repos' takes no argument 'frob' (1 minions: Debian)",
            "a/web.sls:4: the function 'pkg.list_frobs' does not exist "
            "(1 minions: SLES)",
            "a/web.sls:10: 'pkg.installed' takes no argument 'only_upgrade' "
            "(1 minions: SLES)",
            "a/web.sls:16: 'service.running' takes no argument 'enabl' "
            "(2 minions: Debian, SLES)",
            "a/web.sls:19: 'pkg.refresh_db' takes no argument 'frob' "
            "(2 minions: Debian, SLES)",
            "a/web.sls:21: the state 'user.presnt' does not exist "
            "(2 minions: Debian, SLES)",
        ],
        "files": 1,
        "minions": 2,
        "not read": {"py.sls": "its renderer is py"},
        "unknown": ["lost"],
    }
    # pylint: disable-next=no-member
    assert interfaces.__context__["retcode"] == 1


def test_modules_of_a_site(check):
    files = {
        "_modules/door.py": """\
        def lock(name, key=None):
            return __salt__["file.frob"](name)
        """,
        "a.sls": "{{ salt['door.lock']('a', kee=1) }}{{ salt['door.lock']('a', key=1) }}",
    }
    everywhere = "(1 minions: Debian)"
    assert check(files, DEBIAN)["faults"] == [
        f"_modules/door.py:2: the function 'file.frob' does not exist {everywhere}",
        f"a.sls:1: 'door.lock' takes no argument 'kee' {everywhere}",
    ]


def test_nothing_to_check(check, tmp_path):
    with pytest.raises(CommandExecutionError, match="knows the grains of no minion"):
        check({"a.sls": ""})
    with pytest.raises(CommandExecutionError, match="is not a folder"):
        interfaces.check(str(tmp_path / "nosuch"))


# a file with one call each; %s is a function, an argument, or both
FORMS = {
    "state": ("states", "clean:\n  test.nop\nweb:\n  {}:\n    - {}: x\n", 4, 5),
    "subscript": (
        "modules",
        "# a comment\nweb_{{{{ salt['{}']({}=1) }}}}:\n  test.nop\n",
        2,
        2,
    ),
    "attribute": ("modules", "{{% set a = salt.{}({}=1) %}}\nweb:\n  test.nop\n", 1, 1),
    "condition": (
        "modules",
        "web:\n  test.nop\n{{% if salt['{}']({}=1) %}}{{% endif %}}\n",
        3,
        3,
    ),
    "module.run": ("modules", "web:\n  module.run:\n    - {}:\n      - {}: 1\n", 3, 4),
    "onlyif": (
        "modules",
        "web:\n  test.nop:\n    - onlyif:\n      - fun: {}\n        {}: 1\n",
        4,
        None,
    ),
    "python": ("modules", 'def run():\n    return __salt__["{}"]({}=1)\n', 2, 2),
}


def seeded():
    """
    Yield path, text, the right text, and the line of a fault
    """
    rand = random.Random(44)
    functions = Functions(DEBIAN)
    known = {
        "modules": [
            f"{name}.{one}"
            for name in NAMES
            for one in salt.interfaces.functions(interface_of(name))
        ],
        "states": [
            f"{name}.{one}"
            for name in ("cron", "file", "group", "pkg", "service", "sysctl", "user")
            for path in functions.states[name]
            for one in source(path).functions
        ],
    }
    for number in range(FAULTS):
        form, (kind, text, first, second) = rand.choice(sorted(FORMS.items()))
        keys = [
            key
            for key in known[kind]
            if functions.has(key, kind)
            and functions.keywords(key, kind)
            and "mod_" not in key
        ]
        key = rand.choice(keys)
        argument = rand.choice(sorted(functions.keywords(key, kind)))
        suffix = ".py" if form == "python" else ".sls"
        path = f"{'_modules/' if suffix == '.py' else ''}m{number}{suffix}"
        place = rand.randrange(1, 3)
        if second is None or rand.random() < 0.5:
            elsewhere = [one for one in known[kind] if not functions.has(one, kind)]
            wrong = key[:-place] + "x" + key[-place:]
            if elsewhere and rand.random() < 0.3:
                wrong = rand.choice(elsewhere)
            yield path, text.format(wrong, argument), text.format(key, argument), first
        else:
            wrong = argument[:-place] + "zq" + argument[-place:]
            yield path, text.format(key, wrong), text.format(key, argument), second


def test_seeded_faults(check):
    """
    Each fault is found in its line, and nothing else is
    """
    rows = list(seeded())
    assert len(rows) == FAULTS
    assert check({path: right for path, _, right, _ in rows}, DEBIAN)["faults"] == []
    found = check({path: wrong for path, wrong, _, _ in rows}, DEBIAN)
    assert found["not read"] == {}
    assert sorted(one.split(" ")[0] for one in found["faults"]) == sorted(
        f"{path}:{line}:" for path, _, _, line in rows
    )


def test_ten_thousand_minions(check):
    """
    The grains of minions are read once, and each platform is checked once
    """
    rows = list(seeded())
    files = {path: wrong for path, wrong, _, _ in rows}
    start = time.process_time()
    found = check(files, *[DEBIAN, SUSE] * 5000)
    assert time.process_time() - start < 30
    assert found["minions"] == 10_000
    assert len(found["faults"]) >= FAULTS


def test_all_providers_have_a_platform():
    listed = {
        one for kind in PLATFORMS.values() for row in kind.values() for one in row
    }
    assert listed == set(providers())


def test_stubs(tmp_path):
    (tmp_path / "_modules").mkdir()
    (tmp_path / "_modules" / "door.py").write_text("def lock(name):\n    pass\n")
    path = interfaces.stubs(str(tmp_path), str(tmp_path))
    with salt.utils.files.fopen(path) as handle:
        text = handle.read()
    ast.parse(text)
    for name in NAMES:
        for function in salt.interfaces.functions(interface_of(name)):
            assert f'"{name}.{function}": {name}_{function},' in text
    assert '"cmd.run": Callable[..., Any],' in text
    assert '"door.lock": Callable[..., Any],' in text


@pytest.mark.parametrize("name", NAMES)
def test_schema(name):
    """
    All functions have schemas, and arguments without a default are required
    """
    found = interfaces.schema(name)
    assert set(found) == set(salt.interfaces.functions(interface_of(name)))
    for one in found.values():
        arguments = one["arguments"]
        assert set(arguments["required"]) <= set(arguments["properties"])


def test_schema_of_pkg():
    found = interfaces.schema("pkg")
    string = {"type": "string"}
    assert found["owner"]["returns"] == {
        "anyOf": [string, {"type": "object", "additionalProperties": string}]
    }
    assert found["version_cmp"]["arguments"]["required"] == ["pkg1", "pkg2"]
    change = found["remove"]["returns"]["additionalProperties"]
    assert change["required"] == ["old", "new"]
    with pytest.raises(CommandExecutionError, match="'test' has no interface"):
        interfaces.schema("test")


@pytest.mark.parametrize(
    "opts, loaded",
    [
        ({}, True),
        ({"fun": "interfaces.check", "doc": False}, False),
        ({"fun": "interfaces.check", "doc": False, "__cli": "salt-run"}, False),
        ({"fun": "interfaces.check", "async": False}, True),
        (
            {
                "fun": "interfaces.check",
                "doc": False,
                "async": False,
                "__cli": "salt-run",
            },
            True,
        ),
    ],
)
def test_a_minion_reads_no_files_of_the_master(opts, loaded):
    """
    A runner that peer_run allows is run with options that the master makes for a minion
    """
    with patch.object(interfaces, "__opts__", opts, create=True):
        found = interfaces.__virtual__()
    assert (found is True) is loaded
