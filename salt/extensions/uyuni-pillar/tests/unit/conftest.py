import pytest

import salt.config


@pytest.fixture
def opts(tmp_path):
    """
    The options of a minion or a master whose folders are empty.
    """
    ret = salt.config.minion_config(None)
    for name in ("cachedir", "pki_dir", "sock_dir", "extension_modules"):
        ret[name] = str(tmp_path / "salt" / name)
    (tmp_path / "salt").mkdir()
    return ret
