"""
Locks for queries of the extension saltext-query
"""

import contextlib
import types

import pytest
import saltext.package_states.model.item as items
import saltext.package_states.model.resolver as resolver
import saltext.package_states.query_locks.package_state as package_state
from saltext.package_states.errors import PackageStateError


class Fleet:
    """
    Two minions with package states, of which one is in trouble
    """

    def __init__(self, *_):
        pass

    def minions(self, ids):
        return {name: name for name in ids if name != "new"}

    def sources(self, minions):
        return dict.fromkeys(minions, ())

    def possible(self, minion, _):
        if minion == "web2":
            return (), {"foo": PackageStateError("a conflict")}
        rows = (
            ("telnet", "removed"),
            ("vim", "installed", "=9.1"),
            ("nano", "kept"),
            ("curl", "latest"),
            ("bash", "present", ">=5"),
        )
        base = types.SimpleNamespace(label="base")
        return [resolver.Verdict(items.make(*row), base, ()) for row in rows], {}


@pytest.fixture
def found(monkeypatch):
    """
    Return what locks a query finds, with or without package states on the master
    """
    query = types.SimpleNamespace(
        of_minion=lambda minion, name, **more: {"name": f"{minion}/{name}", **more},
    )
    monkeypatch.setattr(package_state, "query", query)
    monkeypatch.setattr(package_state, "Fleet", Fleet)

    def reading(opts):
        if opts["package_states"] == "broken":
            raise PackageStateError("PostgreSQL says: no")
        return contextlib.nullcontext()

    monkeypatch.setattr(package_state.store, "reading", reading)

    def locks(**opts):
        context = types.SimpleNamespace(
            opts=opts, accepted=lambda: ["web1", "web2", "new"]
        )
        return list(package_state.locks(context))

    return locks


def test_locks(found):
    """
    A package that is kept away, at a version or as it is, is locked; others are not, and
    one minion in trouble takes nothing from the others
    """
    assert [
        (one["name"], one["mode"], one["version"], one["owner"])
        for one in found(package_states={})
    ] == [
        ("web1/telnet", "absent", None, ["base"]),
        ("web1/vim", "version", "9.1", ["base"]),
        ("web1/nano", "kept", None, ["base"]),
    ]


def test_without_package_states_there_are_none(found):
    assert found() == []


def test_a_database_that_is_away_is_an_error(found):
    """
    An answer without its locks would look whole
    """
    with pytest.raises(package_state.errors.QueryStoreError) as told:
        found(package_states="broken")
    assert str(told.value) == (
        "The locks of package states can't be read: PostgreSQL says: no"
    )


def test_without_the_extension_for_queries_there_are_none(monkeypatch):
    monkeypatch.setattr(package_state, "query", None)
    assert package_state.__virtual__()[0] is False
