import pytest

import salt.job_handler.config

SHORTEST = """
import salt.job_criteria


class Calm(salt.job_criteria.Criteria):
    options = ("calm_jobs",)

    def decide(self, job, now):
        if len(self.leases.jobs) >= self.settings.get("calm_jobs", 1):
            return salt.job_criteria.requeue("enough jobs run")
        return salt.job_criteria.publish(job.minions)


def criteria(settings, leases):
    return Calm(settings, leases)
"""


def load(opts):
    section = salt.job_handler.config.settings(opts)
    return salt.job_handler.config.load_criteria(opts, section, None)


@pytest.fixture
def opts(master_opts, tmp_path):
    master_opts["extension_modules"] = str(tmp_path / "extmods")
    return master_opts


def test_off(opts):
    assert salt.job_handler.config.errors(opts) == []
    assert not salt.job_handler.enabled(opts)


@pytest.mark.parametrize("name", ["capacity", "capacity.py"])
def test_as_the_rfc_writes_it(opts, name):
    opts["rate_limiting"] = {
        "criteria": name,
        "max_master_jobs": 2000,
        "max_minion_jobs": 10,
    }
    assert salt.job_handler.config.errors(opts) == []
    criteria = load(opts)
    assert criteria.limit() == 2000


def test_all_errors_at_once(opts):
    opts["rate_limiting"] = {
        "criteria": "capacity",
        "max_master_jobs": -1,
        "max_queue_size": "many",
        "max_queue_age": -1,
        "long_running": 0,
        "sync_wait": "never",
        "fail_mode": "ajar",
        "exempt": "test.ping",
        "max_masters": 1,
    }
    errors = salt.job_handler.config.errors(opts)
    assert [error.split(":")[1].split()[0] for error in errors] == [
        "max_queue_size",
        "max_queue_age",
        "long_running",
        "sync_wait",
        "fail_mode",
        "exempt",
        "max_master_jobs",
        "max_masters",
    ]
    assert errors[4] == "rate_limiting: fail_mode is 'ajar': write one of open, closed."


@pytest.mark.parametrize(
    "section,expected",
    [
        (
            ["capacity"],
            "rate_limiting: write a mapping with at least the key criteria.",
        ),
        (
            {"max_master_jobs": 1},
            "rate_limiting: criteria is missing: write the name of a criteria module.",
        ),
        (
            {"criteria": "nonesuch"},
            "rate_limiting: criteria is 'nonesuch': 'nonesuch.criteria' is not available;"
            " there are ",
        ),
    ],
)
def test_no_criteria(opts, section, expected):
    opts["rate_limiting"] = section
    (error,) = salt.job_handler.config.errors(opts)
    # which modules there are is for others to say
    assert error.startswith(expected)


@pytest.mark.parametrize(
    "text,told",
    [
        ("import nonesuch_module\n", "No module named 'nonesuch_module'"),
        ("def criteria(:\n", "invalid syntax (broken.py, line 1)"),
        ("x = 1\n", "'broken.criteria' is not available"),
        (
            "def __virtual__():\n    return False, 'needs the package nonesuch'\n",
            "__virtual__ returned False: needs the package nonesuch",
        ),
    ],
)
def test_module_that_is_there_and_broken(opts, tmp_path, text, told):
    """
    One is told why.
    """
    folder = tmp_path / "extmods" / "job_criteria"
    folder.mkdir(parents=True)
    (folder / "broken.py").write_text(text)
    opts["rate_limiting"] = {"criteria": "broken"}
    (error,) = salt.job_handler.config.errors(opts)
    assert error.startswith("rate_limiting: criteria is 'broken': ")
    assert f"{told}; there are " in error


def test_module_of_ones_own(opts, tmp_path):
    """
    Dropped into the extension directory, it is used.
    """
    folder = tmp_path / "extmods" / "job_criteria"
    folder.mkdir(parents=True)
    (folder / "calm.py").write_text(SHORTEST)
    opts["rate_limiting"] = {"criteria": "calm", "calm_jobs": 2}
    assert salt.job_handler.config.errors(opts) == []
    assert load(opts).settings["calm_jobs"] == 2
    opts["rate_limiting"]["max_master_jobs"] = 5
    (error,) = salt.job_handler.config.errors(opts)
    assert "max_master_jobs is unknown: there are calm_jobs" in error


def test_directory_of_ones_own(opts, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "calm.py").write_text(SHORTEST)
    opts["job_criteria_dirs"] = [str(tmp_path / "mine")]
    opts["rate_limiting"] = {"criteria": "calm"}
    assert salt.job_handler.config.errors(opts) == []


def test_module_that_fails(opts, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bad.py").write_text(
        "def criteria(settings, leases):\n    return 1 / 0\n"
    )
    opts["job_criteria_dirs"] = [str(tmp_path / "mine")]
    opts["rate_limiting"] = {"criteria": "bad"}
    assert salt.job_handler.config.errors(opts) == [
        "rate_limiting: the criteria module bad does not take its settings: division by"
        " zero."
    ]
