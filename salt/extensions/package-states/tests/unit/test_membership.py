from types import SimpleNamespace

import pytest
import saltext.package_states.compile.sweep as sweep
import saltext.package_states.store.roster as roster


@pytest.fixture
def notice(monkeypatch):
    """
    Return what notices who is there of three that were
    """
    gone, told = [], {}
    known = {name: ("", False) for name in ("app", "db", "web")}
    known["old"] = ("", True)
    monkeypatch.setattr(roster, "known_minions", lambda _: known)

    def know(_, joined, away):
        gone.extend(away)
        told.update(joined)

    monkeypatch.setattr(roster, "know", know)
    monkeypatch.setattr(roster, "strangers", lambda _: [])

    def look(there, ids=None):
        registry = SimpleNamespace(
            minions=lambda ids=None: sorted(
                set(there) if ids is None else set(there) & set(ids)
            ),
            identities=lambda ids: {one: look.keys.get(one, "") for one in ids},
        )
        return sweep.notice(None, registry, ids), gone

    look.known, look.keys, look.told = known, {}, told
    return look


@pytest.mark.parametrize("ids", (None, ["web"], ["app", "web"], ["web", "new"]))
def test_a_fleet_that_vanishes_is_not_gone(notice, ids):
    """
    Also if just one of them is looked at, as when it sent other grains while the keys are
    not mounted
    """
    moved, gone = notice([], ids)
    assert (moved.gone, moved.vanished, gone) == ([], 3, [])


def test_who_is_gone_is_gone_while_others_are_there(notice):
    moved, gone = notice(["app", "db"], ["web"])
    assert (moved.gone, moved.vanished, gone) == (["web"], 0, ["web"])


def test_the_last_one_may_go(notice):
    notice.known.update(app=("", True), db=("", True))
    moved, gone = notice([], ["web"])
    assert (moved.gone, moved.vanished, gone) == (["web"], 0, ["web"])


def test_who_was_gone_already_is_no_news(notice):
    for there in (["web"], []):
        moved, _ = notice(there, ["old", "never"])
        assert (moved.gone, moved.vanished) == ([], 0)


def test_who_has_another_key_is_known_by_that(notice, monkeypatch):
    """
    Its key was deleted, and another one accepted, before anybody looked; then it is renamed
    """
    monkeypatch.setattr(roster, "unsettled", lambda _, heirs: set(heirs))
    monkeypatch.setattr(roster, "collided", lambda _: {})
    monkeypatch.setattr(roster, "rename", lambda *_: True)
    notice.known["web"] = ("first", False)
    notice.keys.update(web="second")
    notice(["app", "db", "web"], ["web"])
    assert notice.told == {"web": "second"}
    notice.told.clear()
    # where all are looked at as well
    notice(["app", "db", "web"])
    assert notice.told == {"web": "second"}
    notice.known["web"] = ("second", False)
    notice.told.clear()
    notice(["app", "db", "web"], ["web"])
    assert notice.told == {}
    notice.keys.update(new="second")
    moved, _ = notice(["app", "db", "new"], ["new", "web"])
    assert moved.renamed == {"web": "new"}
