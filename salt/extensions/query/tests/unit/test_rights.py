"""
What each caller sees of each item type, of fields that ask minions, and of pillars.
"""

import copy

import pytest
import saltext.query
import saltext.query.caller
from fleet import answering
from saltext.query.errors import QueryError, QueryRightsError
from saltext.query.runners import query
from test_sites import put_pillar

import salt.auth
import salt.config
import salt.version
from salt.exceptions import AuthenticationError, AuthorizationError

LIVE = ["test.ping", "status.meminfo"]

EAUTH = {
    "sharedsecret": {
        "both": [{"@runner": ["query.*"]}, *LIVE],
        "pinger": [{"@runner": ["query.*"]}, "test.ping"],
        "some": [{"@runner": ["query.*"]}, {"web*": LIVE}],
        "reader": [{"@runner": ["query.*"]}],
        "runner": ["@runner"],
        "pillars": [{"@runner": ["query.*", "cache.pillar"]}],
        # names that are no proof
        "root": [{"@runner": ["query.*"]}],
        "Reactor": [{"@runner": ["query.*"]}],
    },
}

SEES, REFUSED = "sees", "refused"

#: What each sees of alive, of mfree, of pillars.
TABLE = {
    # the command salt-run, by root
    ("salt-run", "root"): (SEES, SEES, SEES),
    ("salt-run", "sudo_ann"): (SEES, SEES, SEES),
    # a reactor
    ("salt-master", "Reactor-plain"): (SEES, SEES, SEES),
    # an orchestration: of salt-run, and of a reactor
    ("salt-run", "UNKNOWN"): (SEES, SEES, SEES),
    ("salt-master", "UNKNOWN"): (SEES, SEES, SEES),
    # peer_run: web1, which sees its own pillar
    ("salt-master", "minion"): (REFUSED, REFUSED, SEES),
    # publisher_acl, whose user has found a way to runners
    ("salt-master", "acl"): (SEES, REFUSED, REFUSED),
    # external_auth
    ("salt-master", "both"): (SEES, SEES, REFUSED),
    ("salt-master", "pinger"): (SEES, REFUSED, REFUSED),
    ("salt-master", "some"): (REFUSED, REFUSED, REFUSED),
    ("salt-master", "reader"): (REFUSED, REFUSED, REFUSED),
    ("salt-master", "runner"): (REFUSED, REFUSED, SEES),
    ("salt-master", "pillars"): (REFUSED, REFUSED, SEES),
    ("salt-master", "root"): (REFUSED, REFUSED, REFUSED),
    ("salt-master", "Reactor"): (REFUSED, REFUSED, REFUSED),
    ("salt-master", "nobody"): (REFUSED, REFUSED, REFUSED),
}


@pytest.fixture(autouse=True)
def _running_user(monkeypatch):
    """
    The tests may be run by anybody; the master of most of them is root's.
    """
    monkeypatch.setattr("salt.utils.user.get_user", lambda: "root")


@pytest.fixture
def opts(master):
    """
    The options of a master with three minions that its matchers find.
    """
    for name in ("web1", "web2", "db1"):
        master.minion(name, os="Debian", ipv4=["10.0.0.1"])
    return master.opts


@pytest.fixture
def ask(opts, monkeypatch):
    """
    A function that asks as a caller: its command and its name.
    """

    def run(command, name, what, fields, **more):
        found = copy.deepcopy(salt.config.DEFAULT_MASTER_OPTS)
        found.update(
            opts,
            external_auth=copy.deepcopy(EAUTH),
            publisher_acl={"acl": ["test.ping"]},
            user="root",
            id="master_master",
            __cli=command,
        )
        if name == "minion":
            # what minion_runner of Salt's master adds to the options of a worker
            found.update(fun="query.items", arg=[], id="web1")
            name = "root"
        if name == "Reactor-plain":
            name = "Reactor"
            del found["external_auth"]["sharedsecret"]["Reactor"]
        monkeypatch.setattr(query, "__opts__", found, raising=False)
        monkeypatch.setattr(query, "__user__", name, raising=False)
        return query.items(what, fields, **more)["data"]

    return run


@pytest.mark.parametrize("what", ("node", "instance", "job", "lock", "os", "package"))
@pytest.mark.parametrize("command,name", TABLE)
def test_what_the_cache_has(ask, command, name, what):
    """
    Who may run the runner sees all types; a minion sees its own node.
    """
    field = "id" if what == "job" else "name"
    if name == "minion" and what != "node":
        with pytest.raises(QueryRightsError, match="own node"):
            ask(command, name, what, [field])
        return
    rows = ask(command, name, what, [field])
    count = {"node": 3, "os": 1}.get(what, 0)
    assert len(rows) == (1 if name == "minion" else count)


@pytest.mark.parametrize("command,name", TABLE)
@pytest.mark.parametrize("place,field", ((0, "alive"), (1, "mfree"), (2, "pillar.x")))
@pytest.mark.parametrize("where", ("shown", "filter", "sort"))
def test_what_takes_a_right(ask, command, name, place, field, where):
    """
    Wherever a query names such a field, it is refused without the right, and nobody is
    asked.
    """
    request = {
        "shown": {"fields": ["name", field]},
        "filter": {"fields": ["name"], "filter": ["?", field]},
        "sort": {"fields": ["name"], "sort": field},
    }[where]
    answers = dict.fromkeys(
        ("web1", "web2", "db1"), {"status.meminfo": {"MemFree": {"value": 1024}}}
    )
    with answering(answers) as fleet:
        if TABLE[command, name][place] == SEES:
            rows = ask(command, name, "node", **request)
            if where == "shown" and place < 2:
                assert {row[1] for row in rows} == {(0, True if place == 0 else 1)}
            local = command == "salt-run" or name in ("Reactor-plain", "UNKNOWN")
            assert set(fleet.users) <= {"root" if local else name}
        else:
            with pytest.raises(QueryRightsError, match="may not|ask minions"):
                ask(command, name, "node", **request)
            assert not fleet.asked


def test_of_some_minions(ask):
    """
    Who may ask some minions asks these; together with others they are refused.
    """
    answers = dict.fromkeys(("web1", "web2", "db1"), {})
    with answering(answers) as fleet:
        rows = ask("salt-master", "some", "node", ["alive"], filter='name =* "web*"')
        assert rows == [[(0, True)]] * 2
        assert fleet.users == ["some"]
        with pytest.raises(QueryRightsError, match="test.ping"):
            ask("salt-master", "some", "node", ["alive"], filter="name == db1")


def test_what_was_asked_for_another_is_not_shown(ask):
    """
    Answers are used again only for whoever may ask.
    """
    with answering(dict.fromkeys(("web1", "web2", "db1"), {})):
        ask("salt-run", "root", "node", ["alive"])
        with pytest.raises(QueryRightsError):
            ask("salt-master", "reader", "node", ["alive"])


@pytest.mark.parametrize(
    "tgt,tgt_type,refused",
    (
        ("role:db", "pillar", True),
        ("I@role:db", "compound", True),
        ("I:@role:db", "compound", True),
        ("I|@role|db", "compound", True),
        ("I/@role/db", "compound", True),
        ("J|@role|d.*", "compound", True),
        ("web* or ( G@os:x and not I:@role:db )", "compound", True),
        ("G|@os|Debian", "compound", False),
        ("P/@os/Deb.*", "compound", False),
        ("N@x", "compound", True),
        ("x", "nodegroup", True),
        ("web*", "glob", False),
        ("G@os:Debian", "compound", False),
    ),
)
def test_targets_that_look_into_pillars(ask, tgt, tgt_type, refused):
    request = {"what": "node", "fields": ["name"], "tgt": tgt, "tgt_type": tgt_type}
    if refused:
        with pytest.raises(QueryRightsError, match="pillars"):
            ask("salt-master", "reader", **request)
    else:
        ask("salt-master", "reader", **request)


@pytest.mark.parametrize("word", ("X@a", "Z:@a", "not Q@web1"))
def test_matchers_that_salt_does_not_have(ask, word):
    """
    Salt would take them for names of minions.
    """
    for name in ("reader", "pillars"):
        with pytest.raises(QueryError, match="matchers of Salt"):
            ask("salt-master", name, "node", ["name"], tgt=word, tgt_type="compound")


@pytest.mark.parametrize(
    "tgt,tgt_type",
    (
        ("(w|we|b|e|[0-9])+(1|2)*$x", "pcre"),
        ("note:(a+)+$", "grain_pcre"),
        ("P@note:(a+)+$", "compound"),
    ),
)
def test_a_target_ends_in_limited_time(ask, master, monkeypatch, tgt, tgt_type):
    """
    However many minions have what it takes so long over.
    """
    monkeypatch.setattr("saltext.query.search.MAX_SECONDS", 0.02)
    # Salt's matchers know the order of their own release only
    older = salt.version.__saltstack_version__.info[0] < 3008
    monkeypatch.setattr("saltext.query.documents.BANK_FOR_EACH", older)
    for number in range(40):
        name = "we" * 30 + f"!{number}"
        master.minion(name, note="a" * 100 + "!", ipv4=["10.0.0.1"])
    with pytest.raises(QueryError, match="takes too much time"):
        ask("salt-master", "reader", "node", ["name"], tgt=tgt, tgt_type=tgt_type)


def test_counts_and_definitions_of_pillars_take_the_right(ask, opts):
    ask("salt-master", "reader", "node", ["name"])
    for more in (
        {"fields": "pillar.x"},
        {"fields": "os", "filter": "pillar.x"},
        {"fields": "os", "tgt": "x:y", "tgt_type": "pillar"},
        {"fields": "os", "tgt": "I:@x:y", "tgt_type": "compound"},
    ):
        with pytest.raises(QueryRightsError, match="pillars"):
            query.count("node", **more)
    with pytest.raises(QueryRightsError, match="pillars"):
        query.fields("node", "pillar.x")


def test_fields_of_pillars_are_listed_for_those_who_may_see_them(ask, opts, master):
    put_pillar(master, "web1", {"role": "db"})
    for name, sees in (("reader", False), ("pillars", True)):
        ask("salt-master", name, "node", ["name"])
        listed = [one["name"] for one in query.fields("node")["fields"]]
        assert ("pillar.role" in listed) is sees


def test_a_name_of_two_backends_has_what_both_give(opts):
    """
    How a name was proven is not known here.
    """
    found = copy.deepcopy(salt.config.DEFAULT_MASTER_OPTS)
    found.update(
        opts,
        user="root",
        id="master_master",
        external_auth={
            "sharedsecret": {"ann": [{"@runner": ["query.*"]}]},
            "auto": {"ann": [{"@runner": ["query.*"]}, "test.ping"]},
        },
    )
    caller = saltext.query.caller.of_runner(found, "ann")
    with pytest.raises(QueryRightsError):
        caller.check_run(["test.ping"], ["web1"])
    del found["external_auth"]["sharedsecret"]
    saltext.query.caller.of_runner(found, "ann").check_run(["test.ping"], ["web1"])


@pytest.mark.parametrize("rights", ("query.items", "query.count", "query.fields"))
@pytest.mark.parametrize("known", ("name", "*"))
@pytest.mark.parametrize("name", ("root", "Reactor", "UNKNOWN", "sudo_ann"))
def test_one_function_of_the_runner_makes_nobody_the_masters_user(
    opts, name, known, rights
):
    """
    Whichever function it is, and also if the name is one that Salt itself uses.
    """
    known = name if known == "name" else known
    eauth = {"sharedsecret": {known: [{"@runner": [rights]}]}}
    found, _ = caller_of(opts, "nobody", user="root")
    found["external_auth"] = eauth
    caller = saltext.query.caller.of_runner(found, name)
    with pytest.raises(QueryRightsError):
        caller.check_pillars()
    with pytest.raises(QueryRightsError):
        caller.check_run(["test.ping"], ["web1"])


def test_groups_that_cannot_be_asked_for_give_nothing(opts):
    """
    Not even to a name that is that of the master's user.
    """
    found = copy.deepcopy(salt.config.DEFAULT_MASTER_OPTS)
    found.update(opts, user="root", external_auth={"nope": {"admins%": ["@runner"]}})
    caller = saltext.query.caller.of_runner(found, "root")
    with pytest.raises(QueryRightsError):
        caller.check_run(["test.ping"], ["web1"])


def caller_of(opts, name, **more):
    """
    Return a caller of external_auth.
    """
    found = copy.deepcopy(salt.config.DEFAULT_MASTER_OPTS)
    found.update(opts, id="master_master", external_auth=copy.deepcopy(EAUTH), **more)
    return found, saltext.query.caller.of_runner(found, name)


@pytest.mark.parametrize("user", ("root", "salt", "bob"))
@pytest.mark.parametrize("name", ("pinger", "root", "bob"))
def test_the_master_takes_a_job_under_the_name_of_the_caller(
    opts, monkeypatch, user, name
):
    """
    Also where an ordinary user runs it: there his key is good for the names of others only
    as Salt notes them for sudo.
    """
    monkeypatch.setattr("salt.utils.user.get_user", lambda: user)
    eauth = {"sharedsecret": {name: EAUTH["sharedsecret"]["pinger"]}}
    found, caller = caller_of(opts, "nobody", user=user)
    found["external_auth"] = eauth
    caller = saltext.query.caller.of_runner(found, name)
    caller.check_run(["test.ping"], ["web1"])
    carried = caller.job_user()
    assert carried in (name, f"sudo_{name}")
    assert (carried == name) is (user != "bob" or name != "pinger")
    load = {"user": carried, "key": "secret"}
    ret = salt.auth.LoadAuth(found).check_authentication(
        load, "user", key={user: "secret"}
    )
    assert not ret["error"]


def test_a_job_of_an_ordinary_users_master(ask, monkeypatch):
    """
    It is refused to nobody who has the right, and carries his name.
    """
    monkeypatch.setattr("salt.utils.user.get_user", lambda: "bob")
    with answering(dict.fromkeys(("web1", "web2", "db1"), {})) as fleet:
        ask("salt-master", "pinger", "node", ["alive"])
    assert fleet.users == ["sudo_pinger"]


@pytest.mark.parametrize("error", (AuthenticationError, AuthorizationError))
def test_a_master_that_refuses_the_job(ask, error):
    """
    Its refusal is a sentence, not a traceback.
    """
    with answering(dict.fromkeys(("web1", "web2", "db1"), {})) as fleet:
        fleet.error = error("error occurred.")
        with pytest.raises(
            QueryRightsError, match="refuses to run test.ping for pinger"
        ):
            ask("salt-master", "pinger", "node", ["alive"])


@pytest.mark.parametrize(
    "blacklist,what",
    (
        ({"users": ["ping.*"]}, "take him out of publisher_acl_blacklist"),
        ({"modules": ["test.*"]}, "take it out of publisher_acl_blacklist"),
    ),
)
def test_the_blacklist_holds_for_whoever_asks(opts, blacklist, what):
    """
    Whatever stands before his name in the job.
    """
    _, caller = caller_of(opts, "pinger", publisher_acl_blacklist=blacklist)
    with pytest.raises(QueryRightsError, match=what):
        caller.check_run(["test.ping"], ["web1"])


@pytest.fixture
def ask_as_minion(opts, monkeypatch):
    """
    A function that asks as web1, which the master lets call the runner.
    """
    found = copy.deepcopy(salt.config.DEFAULT_MASTER_OPTS)
    # what minion_runner of Salt's master adds to the options of a worker
    found.update(opts, user="root", fun="query.items", arg=[], id="web1")
    found["__cli"] = "salt-master"
    monkeypatch.setattr(query, "__opts__", found, raising=False)
    monkeypatch.setattr(query, "__user__", "root", raising=False)
    return query.items


def names_of(response):
    return [row[0][1] for row in response["data"]]


@pytest.mark.parametrize(
    "more",
    (
        {},
        {"filter": "name == web2 or name == web1"},
        {"filter": ["|", ["=", "name", "web2"], ["=", "name", "web1"]]},
        {"sort": "-os"},
        {"limit": 10},
    ),
)
def test_a_minion_sees_its_own_node(ask_as_minion, more):
    found = ask_as_minion("node", ["name", "os"], **more)
    assert names_of(found) == ["web1"]
    assert found.get("total", 1) == 1
    assert not found.get("absent")


@pytest.mark.parametrize("name", ("web2", "gone"))
def test_a_minion_does_not_learn_which_others_there_are(ask_as_minion, name):
    found = ask_as_minion("node", ["name"], ["=", "name", name])
    assert (found["data"], found.get("absent")) == ([], None)


@pytest.mark.parametrize(
    "tgt,tgt_type",
    (("*", "glob"), ("(a+)+$", "pcre"), ("os:(a+)+$", "grain_pcre")),
)
def test_a_minion_gives_no_target(ask_as_minion, monkeypatch, tgt, tgt_type):
    """
    The worker of the master that answers it would search for as long as the minion wants.
    """
    monkeypatch.setattr("saltext.query.target.Target.minions", None)
    with pytest.raises(QueryRightsError, match="Leave out the target"):
        ask_as_minion("node", ["name"], tgt=tgt, tgt_type=tgt_type)
    with pytest.raises(QueryRightsError, match="Leave out the target"):
        query.count("node", "os", tgt=tgt, tgt_type=tgt_type)


def test_a_minion_sees_its_own_pillar_alone(ask_as_minion, master):
    put_pillar(master, "web1", {"db": {"password": "own"}})
    put_pillar(master, "web2", {"db": {"password": "secret"}})
    found = ask_as_minion("node", ["name", "pillar.db.password"])
    assert found["data"] == [[(0, "web1"), (0, "own")]]
    found = ask_as_minion("node", ["name"], filter='pillar.db.password == "secret"')
    assert not found["data"]
    counted = query.count("node", "pillar.db.password")
    assert counted["counted"] == 1


@pytest.mark.parametrize("what", ("instance", "job", "lock", "os", "package"))
def test_a_minion_sees_nothing_else(ask_as_minion, what):
    field = "id" if what == "job" else "name"
    with pytest.raises(QueryRightsError, match="own node"):
        ask_as_minion(what, [field])


@pytest.mark.parametrize("field", ("last_job", "highstate"))
def test_a_minion_sees_no_jobs(ask_as_minion, field):
    for more in ({"filter": f"{field} == x"}, {"sort": field}):
        with pytest.raises(QueryRightsError, match="own node"):
            ask_as_minion("node", ["name"], **more)
    with pytest.raises(QueryRightsError, match="own node"):
        ask_as_minion("node", ["name", field])


@pytest.mark.parametrize("field", ("alive", "uptime", "mfree"))
@pytest.mark.parametrize("tgt", ("web1", "web2"))
@pytest.mark.parametrize("where", ("shown", "filter", "sort", "count"))
def test_a_minion_has_nobody_asked(ask_as_minion, field, tgt, where):
    """
    Wherever the field is named, and also if no node is left that would be asked.
    """
    with (
        answering({"web1": {}}) as fleet,
        pytest.raises(QueryRightsError, match="ask minions"),
    ):
        if where == "count":
            query.count("node", [field], tgt=tgt)
        elif where == "shown":
            ask_as_minion("node", ["name", field], tgt=tgt)
        elif where == "sort":
            ask_as_minion("node", ["name"], sort=field, tgt=tgt)
        else:
            ask_as_minion("node", ["name"], ["?", field], tgt=tgt)
    assert not fleet.asked


def test_a_minion_does_not_learn_the_fields_of_others(ask_as_minion, master):
    master.minion("web2", os="Debian", secret_grain="x")
    listed = [one["name"] for one in query.fields("node")["fields"]]
    assert "name" in listed
    assert not any("secret_grain" in name for name in listed)
