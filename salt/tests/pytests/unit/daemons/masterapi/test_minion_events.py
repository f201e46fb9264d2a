"""
Which events and returns of a minion are believed
"""

# pylint: disable=protected-access

import pytest

import salt.cache
import salt.daemons.masterapi
import salt.master
import salt.utils.event
import salt.utils.jid
from tests.support.mock import MagicMock, patch

JID = "20261126074550123456"


@pytest.fixture
def opts(master_opts, tmp_path):
    """
    Options of a master that has accepted the keys of two minions
    """
    master_opts["pki_dir"] = str(tmp_path / "pki")
    master_opts["cachedir"] = str(tmp_path / "cache")
    master_opts["sock_dir"] = str(tmp_path / "sock")
    for folder in ("pki", "cache", "sock"):
        (tmp_path / folder).mkdir()
    keys = salt.cache.Cache(master_opts, driver=master_opts["keys.cache_driver"])
    for minion in ("web1", "web2"):
        keys.store("keys", minion, {"pub": "a key", "state": "accepted"})
    return master_opts


@pytest.fixture
def remote(opts):
    """
    What fires events of minions, with a bus that only notes them
    """
    made = salt.daemons.masterapi.RemoteFuncs.__new__(
        salt.daemons.masterapi.RemoteFuncs
    )
    made.opts = opts
    made.event = MagicMock()
    return made


def _fired(remote):
    return [call.args[1] for call in remote.event.fire_event.call_args_list]


def _both_forms(remote, tag, data, **top):
    """
    Let web1 send an event in both forms, and return the tags that were fired
    """
    remote._minion_event({"id": "web1", "tag": tag, "data": data, **top})
    remote._minion_event({"id": "web1", "events": [{"tag": tag, "data": data}], **top})
    return _fired(remote)


@pytest.mark.parametrize(
    "tag",
    [
        f"salt/job/{JID}/publish",
        f"salt/job/{JID}/new",
        f"salt/job/{JID}/ret/web1",
        f"salt/job/{JID}/ret/web2",
        "salt/jobs/publish",
        "salt/jobs/x/new/y",
        "salt/jobs/x/ret/y",
        "salt/key",
        "salt/key/x",
        "salt/auth",
        f"salt/run/{JID}/ret",
        f"salt/wheel/{JID}/ret",
        f"salt/batch/{JID}/start",
        "salt/presence/change",
        "salt/reactors/manage/add",
        "x/salt/reactors/manage/add",
        "cluster/runner/delegate_write",
        "rotate_cluster_aes_key",
        "salt/minion/web2/start",
        "salt/beacon/web2/pkgset/",
        f"salt/job/{JID}/start/web2",
        f"salt/job/{JID}/prog/web2/0",
        "salt/minion//web2/start",
        "salt/beacon//web2/x/",
        f"salt/job/{JID}/1/start/web2",
        f"salt/job/{JID}/1/start/web1",
        f"salt/job/{JID}/error",
        f"salt/job/{JID}/custom",
        f"salt/job/{JID}",
        "salt/fileserver/gitfs/update",
        "salt/netapi/hook/deploy",
        "salt/stats/MWorker-0",
        "minion/refresh/web1",
        "resource/refresh/web1",
        f"custom\n\nsalt/job/{JID}/ret/web2",
        pytest.param("custom\ud800", id="surrogate"),
        pytest.param(b"custom\xff", id="bytes"),
        ["salt/key"],
        None,
    ],
)
def test_tags_of_the_master_and_of_others_are_dropped(remote, tag):
    assert _both_forms(remote, tag, {"fun": "test.ping"}) == []


@pytest.mark.parametrize(
    "tag",
    [
        "custom/tag",
        "salt/custom",
        "salt/minion/web1/start",
        "minion_start",
        "salt/beacon/web1/pkgset/",
        "salt/beacon/web1/inotify//etc/passwd",
        f"salt/job/{JID}/start/web1",
        f"salt/job/{JID}/prog/web1/0",
    ],
)
def test_own_events_are_fired(remote, tag):
    assert _both_forms(remote, tag, {"fun": "test.ping"}) == [tag, tag]


@pytest.mark.parametrize("claimed, fired", [("web1", 1), ("disk1", 1), ("web2", 0)])
@pytest.mark.parametrize("tag", ["salt/beacon/web1/x/", "salt/minion/web1/start"])
def test_the_id_in_the_data_is_no_other_minions(remote, tag, claimed, fired):
    events = [{"tag": tag, "data": {"id": claimed}}]
    remote._minion_event({"id": "web1", "events": events})
    assert _fired(remote) == [tag] * fired


@pytest.mark.parametrize("kind", ["start", "prog"])
def test_no_client_takes_an_event_of_a_job_for_the_masters_word(remote, kind):
    word = {"error": 1, "minions": 5, "missing": ["web2"], "syndic": "web1", "ret": {}}
    tag = f"salt/job/{JID}/{kind}/web1"
    assert _both_forms(remote, tag, dict(word), **word) == [tag, tag]
    for call in remote.event.fire_event.call_args_list:
        assert set(call.args[0]) & set(word) == {"ret"}


def test_no_event_comes_from_a_peer(remote):
    _both_forms(remote, "custom", {"__peer_id": "m2", "x": 1}, __peer_id="m2")
    for call in remote.event.fire_event.call_args_list:
        assert "__peer_id" not in call.args[0]


@pytest.mark.parametrize(
    "event", [None, 5, "x", [], {}, {"data": {}}, {"tag": "x", "data": []}]
)
def test_malformed_events_do_not_stop_the_others(remote, event):
    good = {"tag": "custom", "data": {}}
    remote._minion_event({"id": "web1", "events": [event, good]})
    assert _fired(remote) == ["custom"]


def test_no_events_are_none(remote):
    assert remote._minion_event({"id": "web1", "events": None}) is True
    assert not _fired(remote)


@pytest.mark.parametrize("pretag", ["salt/job", "syndic/web2", "", ["x"], None])
def test_a_prefix_is_that_of_the_syndic_itself(remote, pretag):
    load = {"id": "web1", "pretag": pretag, "events": [{"tag": "new", "data": {}}]}
    remote._minion_event(load)
    assert _fired(remote) == ["new"]


def test_a_syndic_forwards_events_of_minions_behind_it(remote):
    remote.opts["order_masters"] = True
    tags = [f"salt/job/{JID}/new", "salt/minion/behind/start", "salt/minion/web2/start"]
    load = {
        "id": "web1",
        "pretag": "syndic/web1",
        "events": [{"tag": tag, "data": {}} for tag in tags],
    }
    remote._minion_event(load)
    below = [f"syndic/web1/{tag}" for tag in tags]
    assert _fired(remote) == [below[0], below[1], tags[1], below[2]]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def aes_funcs(request, opts):
    """
    What handles requests of minions that have been authenticated
    """
    opts["master_async_mworker"] = request.param
    made = salt.master.AESFuncs(opts)
    yield made
    made.destroy()


async def _run(funcs, name, load):
    """
    Handle a request, and return the ids and job ids whose returns were believed
    """
    with patch("salt.utils.job.store_job") as store:
        answer = getattr(funcs, name)(load)
        if hasattr(answer, "__await__"):
            await answer
    return [(call.args[1]["id"], call.args[1]["jid"]) for call in store.call_args_list]


RETURN = {"cmd": "_return", "id": "web1", "jid": JID, "return": True, "fun": "x.y"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "change, believed",
    [
        ({}, [("web1", JID)]),
        ({"resource_id": "disk1"}, [("disk1", JID)]),
        ({"resource_id": "web2"}, []),
        ({"jid": f"{JID}/ret/web2"}, []),
        ({"jid": f"{JID}\n\nx"}, []),
        ({"jid": "req"}, [("web1", "req")]),
    ],
)
async def test_a_minion_returns_for_itself_and_its_resources(
    aes_funcs, change, believed
):
    assert await _run(aes_funcs, "_return", {**RETURN, **change}) == believed


@pytest.mark.asyncio
async def test_a_syndic_returns_for_minions_behind_it(aes_funcs):
    loads = [
        # Neither the id of a load nor what is in a return says who sent it
        {"id": "web2", "jid": JID, "return": {"web2": {"return": 1}}},
        {
            "id": "web1",
            "jid": JID,
            "return": {"web1": {"return": 1}, "behind": {"return": 1, "id": "web2"}},
        },
    ]
    believed = await _run(aes_funcs, "_syndic_return", {"id": "web1", "load": loads})
    assert believed == [("web1", JID), ("behind", JID)]


@pytest.mark.asyncio
@pytest.mark.parametrize("order_masters", [False, True])
async def test_only_a_syndic_changes_the_load_of_a_job(aes_funcs, order_masters):
    aes_funcs.opts["order_masters"] = order_masters
    saved = MagicMock()
    aes_funcs.mminion.returners = {"local_cache.save_load": saved}
    load = {"id": "web1", "jid": JID, "load": {"fun": "x"}, "return": {}}
    await _run(aes_funcs, "_syndic_return", load)
    assert saved.called is order_masters


@pytest.mark.parametrize(
    "name, fired",
    [
        ("pkg_|-nginx_|-nginx_|-installed", ["pkg.installed"]),
        ("salt/minion/web_|-example.com/start", []),
        ("salt/job/1/publish_|-x", []),
        ("salt_|-/key", []),
        ("any\nsalt_|-x", []),
    ],
)
def test_a_failed_state_names_no_tag_of_the_master(opts, name, fired):
    """
    The name of a state, which a minion chooses, becomes a tag
    """
    load = {"id": "web1", "jid": JID, "fun": "state.sls", "retcode": 2}
    data = {"result": False, "__peer_id": "master2", "fun": "cmd.run", "tgt": "*"}
    with salt.utils.event.SaltEvent(
        "master", opts=opts, listen=False, sock_dir=opts["sock_dir"]
    ) as event, patch.object(event, "fire_event") as fire:
        event.fire_ret_load({**load, "return": {name: data}})
    tags = [call.args[1] for call in fire.call_args_list]
    assert tags == [*fired, f"salt/job/{JID}/sub/web1/error/state.sls"]
    assert not any("__peer_id" in call.args[0] for call in fire.call_args_list)


@pytest.mark.parametrize(
    "more",
    [
        {"fun": ["state.sls"], "retcode": 1, "return": {}},
        {"fun": [["state.sls"]], "retcode": {"state.sls": 1}, "return": {}},
        {"fun": "state.sls", "retcode": 1, "return": [1, 2]},
    ],
)
def test_returns_that_do_not_fit_together(opts, more):
    """
    They cause no exception
    """
    with salt.utils.event.SaltEvent(
        "master", opts=opts, listen=False, sock_dir=opts["sock_dir"]
    ) as event, patch.object(event, "fire_event") as fire:
        event.fire_ret_load({"id": "web1", "jid": JID, **more})
    fire.assert_not_called()


@pytest.mark.parametrize("order_masters", [False, True])
def test_only_a_syndic_adds_minions_to_a_job(aes_funcs, order_masters):
    aes_funcs.opts["order_masters"] = order_masters
    event = {"tag": "x", "data": {"jid": JID, "minions": ["web9"]}}
    with patch("salt.utils.job.store_minions") as store:
        aes_funcs._handle_minion_event({"id": "web1", "events": [None, event]})
    assert store.called is order_masters


@pytest.mark.parametrize(
    "jid", ["../x", f"{JID}/ret/web2", "a\nb", "a\\b", "a\0b", ["a/b"]]
)
def test_a_job_id_of_a_client_is_no_path_and_no_tag(opts, jid):
    funcs = salt.master.ClearFuncs.__new__(salt.master.ClearFuncs)
    funcs.opts = opts
    funcs.mminion = MagicMock()
    assert "error" in funcs._prep_jid({"jid": jid}, {})
    assert not salt.utils.jid.is_safe(jid)


@pytest.mark.asyncio
@pytest.mark.parametrize("jid", [JID, f"{JID}/ret/web2", [f"{JID}/ret/web2"]])
async def test_a_job_id_without_rights_is_no_tag(opts, jid):
    funcs = salt.master.ClearFuncs.__new__(salt.master.ClearFuncs)
    funcs.opts, funcs.key, funcs.event = opts, {}, MagicMock()
    funcs.ckminions, funcs.loadauth = MagicMock(), MagicMock()
    funcs.ckminions.auth_check.return_value = False
    funcs.loadauth.check_authentication.return_value = {"auth_list": ["x"]}
    load = {"user": "a", "fun": "test.ping", "arg": [], "tgt": "*", "jid": jid}
    assert "error" in await funcs.publish(load)
    assert funcs.event.fire_event.called is (jid == JID)


@pytest.mark.parametrize("jid", [JID, f"{JID}_0", "a-job", None, 5])
def test_other_job_ids_are_taken(jid):
    assert salt.utils.jid.is_safe(jid)


@pytest.fixture
def keys(opts):
    """
    The cache of keys
    """
    return salt.cache.Cache(opts, driver=opts["keys.cache_driver"])


@pytest.mark.parametrize(
    "name",
    ["web2", "../x", "a/b", "*", "web[12]", "?", "a\nb", "", "..", 5, None, ["x"]],
)
def test_a_resource_has_a_name_of_its_own(opts, keys, name):
    load = {
        "id": "web1",
        "resources": {"ssh": ["box", name, "box"]},
        "resource_grains": {
            "ssh:box": {"role": "db"},
            f"ssh:{name}": {"role": "db"},
            "ssh:other": {},
            "../tokens/ab": {"name": "admin"},
        },
    }
    found = salt.daemons.masterapi.valid_resources(opts, load, keys)
    assert found["resources"] == {"ssh": ["box"]}
    assert found["resource_grains"] == {"ssh:box": {"role": "db"}}


@pytest.mark.parametrize("kind", ["a:b", "../x", "*", "", "a\nb", 5])
def test_a_kind_of_resources_is_a_name(opts, keys, kind):
    load = {"id": "web1", "resources": {kind: ["box"], "ssh": ["web1", "b:c"]}}
    found = salt.daemons.masterapi.valid_resources(opts, load, keys)
    assert found["resources"] == {"ssh": ["web1", "b:c"]}


@pytest.mark.parametrize(
    "more", [{"resources": None}, {"resources": ["x"]}, {"resource_grains": [1]}]
)
def test_what_are_no_resources(opts, keys, more):
    load = {"id": "web1", "resources": {}, **more}
    assert salt.daemons.masterapi.valid_resources(opts, load, keys) is False


@pytest.mark.parametrize("ids", ["box", 5, None, {"a": 1}])
def test_ids_of_resources_are_a_list(opts, keys, ids):
    load = {"id": "web1", "resources": {"ssh": ids}}
    found = salt.daemons.masterapi.valid_resources(opts, load, keys)
    assert found["resources"] == {}


@pytest.mark.asyncio
async def test_a_minion_registers_no_other_minion(aes_funcs):
    load = {"id": "web1", "resources": {"ssh": ["web2", "box"]}}
    aes_funcs.opts["minion_data_cache"] = False
    with patch("salt.utils.minions.update_resource_index", return_value=(1, 0)) as put:
        answer = aes_funcs._register_resources(load)
        if hasattr(answer, "__await__"):
            answer = await answer
    assert answer is True
    assert put.call_args.args[1:] == ("web1", {"ssh": ["box"]})


@pytest.fixture
def mine(remote):
    """
    The same, with the cache of two minions
    """
    remote.opts["minion_data_cache"] = True
    remote.cache = salt.cache.factory(remote.opts)
    for minion in ("web1", "web2"):
        remote.cache.store("grains", minion, {"id": minion})
        remote.cache.store("mine", minion, {"test.ping": True})
        remote.cache.store("pillar", minion, {"password": f"secret-{minion}"})
    return remote


@pytest.mark.parametrize(
    "tgt_type, tgt, found",
    [
        ("pillar_pcre", "password:^secret-.*", []),
        ("Pillar_PCRE", "password:^secret-.*", []),
        ("pillar", "password:secret*", []),
        ("pillar_pcre", "password:secret-web2", ["web2"]),
        ("compound", "J@password:^secret-.*", []),
        ("glob", "*", ["web1", "web2"]),
    ],
)
def test_a_pattern_finds_no_pillars_of_others(mine, tgt_type, tgt, found):
    load = {"id": "web1", "tgt": tgt, "tgt_type": tgt_type, "fun": "test.ping"}
    assert sorted(mine._mine_get(load)) == found


@pytest.mark.parametrize("clear, kept", [(False, True), (True, False)])
def test_a_mine_is_cleared(mine, clear, kept):
    assert mine._mine({"id": "web1", "data": {"a": 1}, "clear": clear})
    found = mine.cache.fetch("mine", "web1")
    assert found == ({"test.ping": True, "a": 1} if kept else {"a": 1})


@pytest.mark.parametrize("opts_", [{"id": "web2"}, {"id": "web2", "grains": {}}, {}])
def test_a_minion_asks_for_its_own_tops(remote, opts_):
    asked = MagicMock(return_value={})
    remote.tops = {"ext_nodes": asked}
    remote.opts["master_tops"] = {"ext_nodes": "x"}
    remote._master_tops({"id": "web1", "opts": opts_}, skip_verify=True)
    assert asked.call_args.kwargs["opts"]["id"] == "web1"


@pytest.mark.parametrize("opts_", [None, 5, "x", b"x", ["id"]])
def test_what_are_no_options(remote, opts_):
    asked = MagicMock(return_value={})
    remote.tops = {"ext_nodes": asked}
    remote.opts["master_tops"] = {"ext_nodes": "x"}
    remote._master_tops({"id": "web1", "opts": opts_}, skip_verify=True)
    assert asked.call_args.kwargs == {"opts": {}, "grains": {}}


@pytest.mark.parametrize("jid", [".", ".."])
def test_a_job_id_is_no_folder(jid):
    assert not salt.utils.jid.is_safe(jid)


@pytest.mark.parametrize("form", ["full", "clean"])
@pytest.mark.parametrize("answered", [True, False])
def test_minions_that_do_not_answer_a_peer(remote, form, answered):
    remote.opts["peer"] = {"web1": ["test.ping"]}
    remote.ckminions, remote.local = MagicMock(), MagicMock()
    returns = [{"id": "web3", "failed": True}]
    if answered:
        returns.append({"id": "web2", "jid": JID, "return": True})
    remote.local.cmd_iter.return_value = returns
    remote.local.get_cache_returns.return_value = {}
    load = {"id": "web1", "fun": "test.ping", "arg": [], "tgt": "*", "ret": ""}
    found = remote.minion_publish({**load, "form": form})
    assert ("web2" in found) is answered
    assert "web3" not in found
