import pytest
import saltext.package_states.engines.package_states as engine
from saltext.package_states.errors import PackageStateError, Unwritten


class Service:
    """
    Writes down what it is asked for
    """

    def __init__(self):
        self.asked = []
        self.gone = []
        self.errors = {}
        self.error = None

    def sweep(self, ids=None):
        if self.error:
            raise self.error  # pylint: disable=raising-bad-type
        self.asked.append(ids)
        return {
            "files": [],
            "removed": [],
            "gone": list(self.gone),
            "renamed": {},
            "errors": dict(self.errors),
        }


@pytest.fixture
def keeper(monkeypatch, tmp_path):
    members = {}
    monkeypatch.setattr(engine.Keeper, "_members", lambda _: dict(members))
    found = engine.Keeper(
        {"pki_dir": str(tmp_path)}, Service(), window=1, look=3, sweep=100
    )
    found.fleet = members
    found.tick(0)
    assert found.service.asked == [None]
    found.service.asked.clear()
    return found


@pytest.mark.parametrize(
    "tag,data",
    (
        ("salt/key", {"act": "accept", "id": "web", "result": True}),
        ("salt/key", {"act": "delete", "id": "web", "result": True}),
        ("salt/auth", {"act": "accept", "id": "web"}),
        ("minion/refresh/web", {}),
        ("salt/minion/web/start", {"id": "web"}),
    ),
)
def test_events_of_one_window_are_one_job(keeper, tag, data):
    keeper.event(tag, data, 10)
    keeper.event("minion/refresh/db", {}, 10.9)
    keeper.tick(10.5)
    assert keeper.service.asked == []
    keeper.tick(11)
    keeper.tick(13)
    assert keeper.service.asked == [["db", "web"]]


def test_who_signs_in_again_is_no_news_and_who_was_deleted_is(keeper):
    sign_in = ("salt/auth", {"act": "accept", "id": "web"})
    for now, asked in ((1, 1), (3, 1), (5, 1)):
        keeper.event(*sign_in, now)
        keeper.tick(now + 1)
        assert len(keeper.service.asked) == asked
    keeper.event("salt/key", {"act": "delete", "id": "web"}, 7)
    keeper.event(*sign_in, 7.5)
    keeper.tick(9)
    assert len(keeper.service.asked) == 2


def test_who_was_removed_by_a_sweep_is_news(keeper):
    """
    Somebody removed the file of its key, of which there is no event
    """
    sign_in = ("salt/auth", {"act": "accept", "id": "web"})
    keeper.event(*sign_in, 1)
    keeper.tick(2)
    keeper.service.gone.append("web")
    keeper.tick(100)
    keeper.event(*sign_in, 101)
    keeper.tick(102)
    assert keeper.service.asked == [["web"], None, ["web"]]


def test_who_is_gone_when_it_is_looked_at_is_news(keeper):
    """
    It has had no file, or it was removed right now
    """
    sign_in = ("salt/auth", {"act": "accept", "id": "web"})
    keeper.service.gone.append("web")
    keeper.event("salt/key", {"act": "delete", "id": "web"}, 1)
    keeper.tick(2)
    keeper.service.gone.clear()
    keeper.event(*sign_in, 3)
    keeper.tick(4)
    assert keeper.service.asked == [["web"], ["web"]]


def test_who_was_looked_at_while_there_was_nobody_is_looked_at_again(keeper):
    """
    All keys were deleted, and accepted under other ids later
    """
    keeper.service.errors["*"] = "There is no minion at all"
    for name, now in (("web", 1), ("db", 3)):
        keeper.event("salt/key", {"act": "delete", "id": name}, now)
        keeper.tick(now + 1)
    keeper.service.errors.clear()
    keeper.event("salt/key", {"act": "accept", "id": "web2"}, 5)
    keeper.tick(6)
    keeper.event("salt/key", {"act": "accept", "id": "db2"}, 7)
    keeper.tick(8)
    assert keeper.service.asked == [
        ["web"],
        ["db", "web"],
        ["db", "web", "web2"],
        ["db2"],
    ]


def test_a_file_that_can_not_be_written_is_tried_again_later(keeper):
    """
    Each try is a look at all minions
    """
    keeper.service.error = Unwritten("is a folder")
    sweep, tries = keeper.service.sweep, []

    def count(ids=None):
        tries.append(ids)
        return sweep(ids)

    keeper.service.sweep = count
    keeper.every = 600
    for now in range(600, 721):
        keeper.tick(now)
    assert tries == [None, None, None]
    keeper.service.error = None
    for now in range(721, 1200):
        keeper.tick(now)
    assert tries == [None] * 4


def test_what_is_no_id_is_left_alone(keeper):
    for minion in (
        "../x", "a/b", "a\0", "\ud800", "x" * 10**6, 7, None, ["web"], {}, [[[]]]
    ):  # fmt: skip
        keeper.event("salt/minion/x/start", {"id": minion}, 1)
        keeper.event("salt/key", {"act": minion, "id": "web"}, 1)
        keeper.event("salt/key", {"act": "accept", "id": minion}, 1)
        keeper.event("salt/auth", {"act": "accept", "id": minion}, 1)
    keeper.event("minion/refresh/../x", {}, 1)
    keeper.event("salt/job/1/ret/web", {"id": "web"}, 1)
    keeper.tick(5)
    assert keeper.service.asked == []


def test_members_of_the_database_are_looked_at(keeper):
    keeper.fleet.update(web=("1", frozenset("a")))
    keeper.tick(2)
    assert keeper.service.asked == []
    keeper.tick(4)
    keeper.tick(8)
    assert keeper.service.asked == [["web"]]
    keeper.fleet.clear()
    keeper.tick(12)
    assert keeper.service.asked == [["web"], ["web"]]


def test_who_changes_group_during_a_sweep_is_not_forgotten(keeper):
    """
    A sweep of all reads who there is, and takes seconds then
    """

    def sweep(ids=None):
        keeper.service.asked.append(ids)
        keeper.fleet.update(web=("1", frozenset("a")))
        return {"files": [], "removed": [], "gone": [], "renamed": {}, "errors": {}}

    keeper.service.sweep = sweep
    keeper.tick(100)
    assert keeper.service.asked == [None]
    keeper.tick(104)
    keeper.tick(108)
    assert keeper.service.asked == [None, ["web"]]


def test_a_database_that_is_away_is_asked_again_and_nothing_is_forgotten(keeper):
    keeper.event("minion/refresh/web", {}, 1)
    keeper.service.error = PackageStateError("away")
    keeper.tick(2.5)
    keeper.service.error = None
    keeper.tick(5)
    assert keeper.service.asked == []
    keeper.tick(13)
    assert keeper.service.asked == [["web"]]


def test_all_is_swept_from_time_to_time(keeper):
    keeper.tick(99)
    keeper.tick(100)
    keeper.tick(150)
    assert keeper.service.asked == [None]


def _groups(path, text):
    path.write_text(f"nodegroups: {text}\n")


def test_nodegroups_are_read_anew(tmp_path, monkeypatch):
    """
    As commands do, and not from a file that is just being written
    """
    path = tmp_path / "master"
    _groups(path, "{a: L@web}")
    monkeypatch.setattr(engine.Keeper, "_members", lambda _: {})
    opts = {"conf_file": str(path), "nodegroups": {"a": "L@web"}}
    found = engine.Keeper(opts, Service(), window=1, look=3, sweep=100)
    found.tick(0)
    assert found.service.asked == [None]
    path.write_text("")
    found.tick(100)
    assert found.service.asked == [None]
    _groups(path, "{a: L@db}")
    found.tick(101)
    assert (found.service.asked, opts["nodegroups"]) == ([None], {"a": "L@web"})
    found.tick(102)
    assert (found.service.asked, opts["nodegroups"]) == ([None, None], {"a": "L@db"})


def test_nodegroups_stay_where_the_configuration_can_not_be_read(tmp_path, caplog):
    opts = {"nodegroups": {"a": "L@web"}}
    assert engine.groups(opts) == {"a": "L@web"}
    opts["conf_file"] = str(tmp_path / "master")
    assert engine.groups(opts) == {"a": "L@web"}
    for text in ("nodegroups: {", "- no document"):
        (tmp_path / "master").write_text(text)
        assert engine.groups(opts) == {"a": "L@web"}
        assert "nodegroups stay as they were" in caplog.text
        caplog.clear()


def test_events_in_the_name_of_all_minions_take_a_part_of_the_time(keeper, monkeypatch):
    """
    To write the files of a fleet takes ten seconds, and one minion fires again and again
    """
    spent = 0
    sweep = keeper.service.sweep

    def slow(ids=None):
        nonlocal spent
        spent += 10
        return sweep(ids)

    keeper.service.sweep = slow
    keeper.every = 10**6
    monkeypatch.setattr(keeper, "clock", lambda: spent)
    for now in range(1, 1000):
        for number in range(10):
            keeper.event(f"minion/refresh/m{number}", {}, now)
        keeper.tick(now)
    assert 1000 / 60 <= len(keeper.service.asked) <= 1000 / 40


def test_ids_that_a_minion_makes_up_are_not_kept_without_end(keeper, monkeypatch):
    monkeypatch.setattr(engine.returns, "HINTS", 100)
    for number in range(1000):
        keeper.event(f"minion/refresh/m{number}", {}, 1)
    assert len(keeper.changed) == 100
