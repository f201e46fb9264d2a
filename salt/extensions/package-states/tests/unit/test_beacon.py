import fcntl
import importlib.util
import os
import subprocess
import sys

import pytest
import saltext.package_states.beacons.pkgset as pkgset
import saltext.package_states.minion.pkgset

import salt.beacons

# what the topic package-change-detection brings, dictionaries as configuration too
tells = pytest.mark.skipif(
    importlib.util.find_spec("salt.utils.pkgset") is None,
    reason="This Salt does not tell what it changes itself",
)

CHANGED = "salt/beacon/web/pkgset/changed"


def write_before(path, text):
    """
    Write a file as one that was there before the minion was started
    """
    path.write_text(text)
    os.utime(path, (1000, 1000))


@pytest.fixture
def files(tmp_path):
    names = ["rpmdb.cookie", "dpkg.cookie", "status", "lock-frontend", "lock"]
    found = {name: tmp_path / name for name in names}
    write_before(found["status"], "Package: a\n")
    return found


@pytest.fixture
def config(files):
    return {
        "cookie": [str(files["rpmdb.cookie"]), str(files["dpkg.cookie"])],
        "database": str(files["status"]),
    }


@pytest.fixture
def opts(minion_opts, tmp_path):
    return {**minion_opts, "id": "web", "cachedir": str(tmp_path / "cache")}


@pytest.fixture
def configure_loader_modules(opts):
    return {pkgset: {"__opts__": opts, "__context__": {}}}


@pytest.fixture
def look(config):
    def _look(kind="changed"):
        tags = [event["tag"] for event in pkgset.beacon(config)]
        return [tag for tag in tags if tag == kind]

    assert not _look()
    return _look


def own(opts, files, text):
    with saltext.package_states.minion.pkgset.own_change(opts, str(files["status"])):
        files["status"].write_text(text)


@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        ["text"],
        {"cookie": 3},
        [{"cookie": [3]}],
        {"database": True},
        {"database": 3},
    ],
)
def test_validate_refuses(wrong):
    assert not pkgset.validate(wrong)[0]


@pytest.mark.parametrize(
    "right",
    [
        {},
        [],
        {"interval": 5},
        [{"interval": 5}, {"cookie": "/a"}, {"_beacon_name": "pkgset"}],
        {"cookie": ["/a", "/b"], "database": False},
    ],
)
def test_validate_takes_lists_and_dictionaries(right):
    assert pkgset.validate(right)[0]


@pytest.mark.parametrize(
    "form", [pytest.param(dict, marks=tells), lambda config: [config]]
)
def test_both_forms_run_in_the_beacon_system(opts, files, config, form):
    """
    and with both cookies there, no change is no event in a hundred ticks
    """
    for name in ("rpmdb.cookie", "dpkg.cookie"):
        write_before(files[name], f"{name} 1\n")
    beacons = salt.beacons.Beacon(opts, {})
    wanted = {"pkgset": form(config)}

    def tags(count):
        ticks = (beacons.process(wanted, {}) for _ in range(count))
        return [event["tag"] for events in ticks for event in events]

    assert tags(100) == []
    files["rpmdb.cookie"].write_text("other 2\n")
    assert tags(100) == [CHANGED]


@tells
def test_interval_of_the_dictionary_is_kept(opts, files, config):
    beacons = salt.beacons.Beacon(opts, {})
    wanted = {"pkgset": {**config, "interval": 5}}
    found = []
    for tick in range(20):
        found.append([event["tag"] for event in beacons.process(wanted, {})])
        if tick == 7:
            files["rpmdb.cookie"].write_text("other 2\n")
    ticks = [number for number, tags in enumerate(found) if tags]
    assert len(ticks) == 1
    assert ticks[0] - 7 <= 5 + 1


@pytest.mark.parametrize("name", ["rpmdb.cookie", "dpkg.cookie", "status"])
def test_change_is_one_event(look, files, name):
    files[name].write_text("other 2\n")
    assert look() == ["changed"]
    assert not look()


def test_cookie_that_goes_and_comes_back_is_no_event(look, files):
    files["dpkg.cookie"].write_text("other 2\n")
    assert look()
    files["dpkg.cookie"].unlink()
    assert not look()
    files["dpkg.cookie"].write_text("other 2\n")
    assert not look()


def test_cookie_may_come_after_the_status_file(look, files):
    """
    The plugin runs when dpkg is done: a look in between is not a second change
    """
    files["status"].write_text("Package: b\n")
    assert look() == ["changed"]
    digest, stat = saltext.package_states.minion.pkgset.digest(str(files["status"]))
    files["dpkg.cookie"].write_text(f"{digest} {int(stat.st_mtime)}\n")
    assert not look()


def test_change_that_was_undone_is_an_event_with_a_plugin(look, files):
    digest = saltext.package_states.minion.pkgset.digest(str(files["status"]))[0]
    files["dpkg.cookie"].write_text(f"{digest} 1\n")
    assert look() == ["changed"]


@tells
def test_salts_own_change_is_another_event(look, opts, files):
    own(opts, files, "Package: b\n")
    own(opts, files, "Package: c\n")
    assert look("own") == ["own"]
    assert not look() and not look("own")


@pytest.mark.parametrize("name", ["rpmdb.cookie", "dpkg.cookie"])
def test_the_cookie_of_salts_own_change(look, files, name):
    files[name].with_name(f"{name}.own").write_text("other 2\n")
    assert look("own") == ["own"]
    assert not look("own")
    files[name].with_name(f"{name}.own").write_text("other 3\n")
    files[name].write_text("other 4\n")
    assert look() == ["changed"]


@tells
def test_change_around_salts_own_is_an_event(look, opts, files):
    files["status"].write_text("Package: x\n")
    own(opts, files, "Package: b\n")
    assert look() == ["changed"]
    own(opts, files, "Package: c\n")
    files["status"].write_text("Package: x\n")
    assert look() == ["changed"]
    own(opts, files, "Package: d\n")
    assert not look()


@tells
def test_no_look_while_salt_changes_something(look, opts, files):
    with saltext.package_states.minion.pkgset.own_change(opts, str(files["status"])):
        files["status"].write_text("Package: b\n")
        assert not look()
    assert not look()


def test_no_look_while_dpkg_is_at_work(look, files):
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(); input()"
    argv = [sys.executable, "-c", code, str(files["lock-frontend"])]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        files["status"].write_text("Package: half\n")
        assert not look()
        process.stdin.close()
    assert look() == ["changed"]
    # and nothing that is asked of it locks it
    with files["lock-frontend"].open("w") as fh_:
        fcntl.lockf(fh_, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_change_while_the_minion_was_down_is_one_event(look, files):
    files["status"].write_text("Package: b\n")
    files["dpkg.cookie"].write_text("other 2\n")
    getattr(pkgset, "__context__").clear()
    assert look() == ["changed"]
    getattr(pkgset, "__context__").clear()
    assert not look()


def test_first_look_is_no_event(files, config):
    write_before(files["dpkg.cookie"], "other 2\n")
    assert not pkgset.beacon(config)


@pytest.mark.parametrize("name", ["rpmdb.cookie", "dpkg.cookie", "status"])
def test_change_between_start_and_first_look_is_one_event(files, config, name):
    """
    The master may have asked for the packages before it
    """
    files[name].write_text("other 2\n")
    assert pkgset.beacon(config) == [{"tag": "changed", "files": [str(files[name])]}]
    assert not pkgset.beacon(config)


def test_first_look_without_psutil_is_no_event(files, config, monkeypatch):
    monkeypatch.setattr(pkgset, "HAS_PSUTIL", False)
    files["status"].write_text("Package: b\n")
    assert not pkgset.beacon(config)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cookies": 3}', "\0"])
def test_what_was_seen_is_not_readable(look, opts, files, text):
    getattr(pkgset, "__context__").clear()
    place = os.path.join(saltext.package_states.minion.pkgset.folder(opts), "seen")
    with salt.utils.files.fopen(place, "w") as fh_:
        fh_.write(text)
    assert not look()
    files["status"].write_text("Package: b\n")
    assert look() == ["changed"]


def test_no_database(files, config, look):
    config["database"] = False
    assert not look()
    files["status"].write_text("Package: b\n")
    assert not look()


def test_no_package_manager_at_all(files, config):
    files["status"].unlink()
    for _ in range(3):
        assert not pkgset.beacon(config)
