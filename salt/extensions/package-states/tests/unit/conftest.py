import pytest
import saltext.package_states.model.item as items
import saltext.package_states.model.resolver as resolver

import salt._logging
import salt.config


@pytest.fixture
def source():
    """
    Return what makes a source out of a state's name, level, priority and rows
    """

    def make(state, level, *rows, priority=0, target="t"):
        entries = items.ordered(items.make(*row) for row in rows)
        return resolver.Source(state, 1, level, target, priority, entries)

    return make


def _below(tmp_path, opts):
    opts["cachedir"] = str(tmp_path / "cache")
    opts["pki_dir"] = str(tmp_path / "pki")
    opts["sock_dir"] = str(tmp_path / "sock")
    opts["extension_modules"] = str(tmp_path / "extmods")
    opts["root_dir"] = str(tmp_path)
    return opts


@pytest.fixture
def master_opts(tmp_path):
    """
    Return the options of a master with folders of its own
    """
    return _below(tmp_path, {**salt.config.master_config(None), "__role": "master"})


@pytest.fixture
def minion_opts(tmp_path):
    """
    Return the options of a minion with folders of its own
    """
    opts = salt.config.minion_config(None, minion_id="web")
    return _below(tmp_path, {**opts, "grains": {}, "__role": "minion"})


@pytest.fixture
def configure_loader_modules():
    """
    Return what the loader would put into modules; test files have their own
    """
    return {}


@pytest.fixture(autouse=True)
def loaded(configure_loader_modules, monkeypatch):
    """
    Put into modules what the loader would
    """
    for module, names in configure_loader_modules.items():
        for name, value in names.items():
            monkeypatch.setattr(module, name, value, raising=False)


# what Salt keeps for a log that is never set up would be written at the end
salt._logging.shutdown_temp_handler()  # pylint: disable=protected-access
