import os
import sys

import pytest
import saltext.query.documents

import salt.payload
import salt.utils.files


class Master:
    """
    A master's folders, with minions in them.
    """

    def __init__(self, folder):
        self.opts = {
            "cachedir": str(folder / "cache"),
            "pki_dir": str(folder / "pki"),
            "sock_dir": str(folder / "sock"),
            "cache": "localfs",
            "keys.cache_driver": "localfs_key",
            "hash_type": "sha256",
            "master_job_cache": "local_cache",
            "minion_data_cache": True,
            "publish_port": 1,
            "extension_modules": str(folder / "ext"),
            "optimization_order": [0, 1, 2],
            "__role": "master",
        }

    def extend(self, kind, name, content):
        """
        Add a module to those of the site.

        :param str kind: its folder
        :param str content: its source
        """
        folder = os.path.join(self.opts["extension_modules"], kind)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{name}.py")
        with salt.utils.files.fopen(path, "w") as handle:
            handle.write(content)

    def put(self, bank, key, document):
        """
        Store a document as the master does, which before 3008 has a minion's grains
        beside its pillar.
        """
        if bank == "grains" and saltext.query.documents.BANK_FOR_EACH:
            document = {"pillar": {"grains": {"os": "secret"}}, "grains": document}
        bank, key = os.path.split(self.place(bank, key)[: -len(".p")])
        folder = os.path.join(self.opts["cachedir"], bank)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{key}.p")
        with salt.utils.files.fopen(path, "wb") as handle:
            handle.write(salt.payload.dumps(document))
        return path

    @staticmethod
    def place(bank, key):
        """
        Return where a document is, below the cache directory.
        """
        if bank in ("grains", "mine") and saltext.query.documents.BANK_FOR_EACH:
            return f"minions/{key}/{'data' if bank == 'grains' else bank}.p"
        return f"{bank}/{key}.p"

    def key(self, minion, state="accepted"):
        """
        Add a minion's key.
        """
        folder = {
            "accepted": "minions",
            "pending": "minions_pre",
            "rejected": "minions_rejected",
            "denied": "minions_denied",
        }[state]
        folder = os.path.join(self.opts["pki_dir"], folder)
        os.makedirs(folder, exist_ok=True)
        with salt.utils.files.fopen(os.path.join(folder, minion), "w") as handle:
            handle.write("key")

    def minion(self, minion, **grains):
        """
        Add a minion with an accepted key and grains.
        """
        self.key(minion)
        return self.put("grains", minion, {"id": minion, **grains})


@pytest.fixture(params=(False, True), ids=("3008", "3006"))
def master(tmp_path, monkeypatch, request):
    """
    A master with either order of its cache.
    """
    monkeypatch.setattr("saltext.query.documents.BANK_FOR_EACH", request.param)
    return Master(tmp_path)


_OPENED = []
_WATCHING = []


def _audit(event, args):
    if _WATCHING and event == "open" and isinstance(args[0], str):
        _OPENED.append(args[0])


@pytest.fixture
def opened():
    """
    A function that returns which of the files below a folder have been opened since the
    last time.
    """
    if _audit not in _AUDITS:
        # a hook can't be taken away again
        _AUDITS.append(_audit)
        sys.addaudithook(_audit)

    def since(folder):
        folder = str(folder)
        ret = sorted(
            os.path.relpath(path, folder)
            for path in _OPENED
            if path.startswith(folder + os.sep)
        )
        _OPENED.clear()
        return ret

    _WATCHING.append(True)
    _OPENED.clear()
    yield since
    _WATCHING.clear()


_AUDITS = []


@pytest.fixture(autouse=True)
def umask():
    """
    Folders of modules are those that nobody else may write, whatever the system's umask is
    """
    before = os.umask(0o022)
    yield
    os.umask(before)
