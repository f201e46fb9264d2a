"""
The name of an environment, which a minion chooses, leaves no folder
"""

import pytest

import salt.fileserver
import salt.pillar


@pytest.fixture
def fileserver(master_opts, tmp_path):
    """
    The file server of a master whose environments are folders
    """
    (tmp_path / "roots" / "dev" / "web").mkdir(parents=True)
    (tmp_path / "roots" / "dev" / "web" / "a.sls").write_text("a")
    (tmp_path / "secret").write_text("s")
    master_opts["cachedir"] = str(tmp_path / "cache")
    master_opts["file_roots"] = {"__env__": [str(tmp_path / "roots" / "__env__")]}
    master_opts["fileserver_backend"] = ["roots"]
    return salt.fileserver.Fileserver(master_opts)


def _seen(fileserver, path, saltenv):
    load = {"path": path, "saltenv": saltenv, "loc": 0, "prefix": ""}
    return [
        fileserver.serve_file(dict(load))["data"],
        fileserver._find_file(dict(load))["path"],  # pylint: disable=protected-access
        fileserver.file_hash(dict(load)),
        fileserver.file_list(dict(load)),
        fileserver.dir_list(dict(load)),
        fileserver.symlink_list(dict(load)),
    ]


@pytest.mark.parametrize("saltenv", ["../..", "..", "dev/../../..", "../../", "dev/.."])
@pytest.mark.parametrize("path", ["secret", "roots/dev/web/a.sls", "dev/web/a.sls"])
def test_an_environment_is_below_the_roots(fileserver, path, saltenv):
    assert not any(_seen(fileserver, path, saltenv))
    assert not any(_seen(fileserver, f"{path}?saltenv={saltenv}", "base"))


@pytest.mark.parametrize(
    "saltenv, path", [("dev", "web/a.sls"), ("dev/web", "a.sls"), ("..dev", None)]
)
def test_other_environments(fileserver, saltenv, path):
    data, *_, files, _, _ = _seen(fileserver, path or "a.sls", saltenv)
    assert data == (b"a" if path else "")
    assert files == ([path] if path else [])


@pytest.mark.parametrize("env", ["..", "../..", "dev/../.."])
@pytest.mark.parametrize("option", ["pillarenv", "saltenv"])
def test_an_environment_of_pillars_is_below_the_roots(
    master_opts, tmp_path, env, option
):
    master_opts["cachedir"] = str(tmp_path / "cache")
    master_opts["pillar_roots"] = {"__env__": [str(tmp_path / "pillar" / "__env__")]}
    (tmp_path / "top.sls").write_text(f"'{env}': {{'*': [evil]}}")
    (tmp_path / "evil.sls").write_text("evil: True")
    args = {"saltenv": "base", option: env}
    made = salt.pillar.Pillar(master_opts, {}, "web1", **args)
    assert made.opts["pillar_roots"] == {}
    assert "evil" not in made.compile_pillar()


def test_other_environments_of_pillars(master_opts, tmp_path):
    master_opts["cachedir"] = str(tmp_path / "cache")
    master_opts["pillar_roots"] = {"__env__": [str(tmp_path / "pillar" / "__env__")]}
    made = salt.pillar.Pillar(master_opts, {}, "web1", "base", pillarenv="dev")
    assert made.opts["pillar_roots"] == {"dev": [str(tmp_path / "pillar" / "dev")]}
