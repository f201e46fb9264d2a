import functools
import os

import pytest

import salt.modules.aptpkg as aptpkg
import salt.modules.dpkg_lowpkg as dpkg_lowpkg
import salt.modules.yumpkg as yumpkg
import salt.modules.zypperpkg as zypperpkg
import salt.utils.pkgset
from tests.support.mock import MagicMock, patch


@pytest.fixture
def seen():
    return []


@pytest.fixture
def configure_loader_modules(tmp_path, seen):
    def run(*args, **kwargs):
        seen.append(os.environ.get("SALT_RUNNING"))
        return {"retcode": 0, "stdout": "", "stderr": "", "pid": 1}

    common = {
        "__opts__": {"cachedir": str(tmp_path), "test": False},
        "__context__": {},
        "__grains__": {"os": "x", "os_family": "x", "osarch": "amd64"},
        "__salt__": {
            "cmd.run_all": run,
            "cmd.run": run,
            "config.get": MagicMock(return_value=False),
            "pkg.list_pkgs": MagicMock(return_value={}),
            "pkg_resource.parse_targets": MagicMock(
                return_value=({"foo": None}, "repository")
            ),
        },
    }
    return {module: common for module in (aptpkg, dpkg_lowpkg, yumpkg, zypperpkg)}


@pytest.fixture
def own(tmp_path):
    """
    Look as a beacon does, and return what was written since
    """
    place = tmp_path / "pkgset" / "own"
    place.parent.mkdir()
    place.touch()
    return lambda: [line.split() for line in place.read_text().splitlines()]


@pytest.fixture(autouse=True)
def installed():
    with patch.object(aptpkg, "list_pkgs", MagicMock(return_value={"foo": "1"})), patch(
        "salt.utils.systemd.has_scope", MagicMock(return_value=False)
    ):
        yield


@pytest.mark.parametrize(
    "call",
    [
        lambda: aptpkg.remove("foo"),
        lambda: aptpkg.purge("foo"),
        lambda: aptpkg.upgrade(refresh=False),
        aptpkg.autoremove,
        lambda: dpkg_lowpkg.unpurge("foo"),
        # pylint: disable-next=protected-access
        lambda: yumpkg._call_yum(["remove", "foo"], env={"A": "b"}),
        lambda: zypperpkg.__zypper__.noraise.call("remove", "foo"),
    ],
    ids=["remove", "purge", "upgrade", "autoremove", "unpurge", "yum", "zypper"],
)
def test_plugins_are_told_that_it_is_salt(call, seen):
    call()
    assert set(seen) == {"1"}
    assert "SALT_RUNNING" not in os.environ


@pytest.mark.parametrize(
    "args, changes",
    [
        (["apt-get", "-q", "-y", "install", "foo=1"], True),
        (["apt-get", "-q", "-y", "-o", "A=b", "dist-upgrade"], True),
        (["apt-get", "--assume-yes", "--purge", "autoremove"], True),
        (["apt-get", "-y", "full-upgrade"], True),
        (["apt-get", "-y", "build-dep", "foo"], True),
        (["apt-mark", "unhold", "foo"], True),
        (["dpkg", "--set-selections"], True),
        (["dpkg", "--clear-selections"], True),
        (["dpkg", "-i", "/foo.deb"], True),
        (["apt-get", "-q", "update"], False),
        (["apt-get", "-q", "clean"], False),
        (["apt-get", "--just-print", "upgrade"], False),
        (["apt-get", "--assume-no", "autoremove"], False),
        (["apt-get", "-y", "install", "--download-only", "foo"], False),
        (["apt-cache", "-q", "policy", "install"], False),
        (["apt-key", "del", "install"], False),
        (["dpkg", "-S", "/foo"], False),
    ],
)
def test_change_of_someone_else_during_a_command_of_apt(tmp_path, own, args, changes):
    status = tmp_path / "status"
    status.write_text("before")
    run = MagicMock(
        side_effect=lambda *args, **kwargs: status.write_text(
            os.environ["SALT_RUNNING"]
        )
        and {"retcode": 0, "stdout": "", "stderr": ""}
    )
    own_change = functools.partial(salt.utils.pkgset.own_change, path=str(status))
    before = salt.utils.pkgset.digest(str(status))[0]
    salts = vars(aptpkg)["__salt__"]
    with patch.dict(salts, {"cmd.run_all": run}), patch(
        "salt.utils.pkgset.own_change", own_change
    ):
        aptpkg._call_apt(args)  # pylint: disable=protected-access
    run.assert_called_once()
    after = salt.utils.pkgset.digest(str(status))[0]
    assert own() == ([[before, after]] if changes else [])


def test_environment_is_as_before_with_changes_in_changes(tmp_path):
    opts = {"cachedir": str(tmp_path)}
    with salt.utils.pkgset.own_change(opts):
        with salt.utils.pkgset.own_change(opts):
            pass
        assert os.environ["SALT_RUNNING"] == "1"
    assert "SALT_RUNNING" not in os.environ
    with patch.dict(os.environ, {"SALT_RUNNING": "yes"}):
        with salt.utils.pkgset.own_change(opts):
            pass
        assert os.environ["SALT_RUNNING"]


def test_nothing_is_written_where_no_beacon_looks(tmp_path):
    with salt.utils.pkgset.own_change({"cachedir": str(tmp_path)}):
        pass
    assert not list(tmp_path.iterdir())


def test_what_fails_is_an_own_change_too(tmp_path, own):
    opts = {"cachedir": str(tmp_path)}
    status = tmp_path / "status"
    status.write_text("a")
    before = salt.utils.pkgset.digest(str(status))[0]
    with pytest.raises(ValueError), salt.utils.pkgset.own_change(opts, str(status)):
        status.write_text("b")
        raise ValueError
    after = salt.utils.pkgset.digest(str(status))[0]
    assert own() == [[before, after]]
