"""The rows of the bed's database: how many, for whom, and always the same."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from harness.database import schema
from harness.database.schema import Scale, Server, minion_rows, shared_rows

SCALE = Scale()


def test_rows_repeat_with_the_seed() -> None:
    """The same seed gives the same rows, another one others."""
    rows = list(minion_rows(Server(5, "m5"), 1, SCALE))
    schema.body.cache_clear()
    assert list(minion_rows(Server(5, "m5"), 1, SCALE)) == rows
    assert list(minion_rows(Server(5, "m5"), 2, SCALE)) != rows


def test_rows_of_shared_scopes() -> None:
    """Each shared scope has four categories for each of its owners."""
    rows = list(shared_rows(range(1, 11), range(1, 51), 1))
    scopes = Counter(next(iter(json.loads(row[-1])["saltbed"].values())) for row in rows)
    assert scopes == {"global": 4, "organisation": 40, "group": 200}


def test_row_has_one_target() -> None:
    """No row has more than one target."""
    rows = [*shared_rows(range(1, 3), range(1, 3), 1), *minion_rows(Server(1, "m1"), 1, SCALE)]
    assert {sum(target is not None for target in row[:3]) for row in rows} == {0, 1}


def test_documents_are_objects_of_two_kilobytes() -> None:
    """A pillar is a JSON object of about the size of a real one."""
    sizes = [len(row[-1]) for row in minion_rows(Server(1, "m1"), 1, SCALE)]
    assert all(isinstance(json.loads(row[-1]), dict) for row in minion_rows(Server(1, "m1"), 1, SCALE))
    assert all(1_500 < size < 3_000 for size in sizes)


def test_minions_keep_their_own_facts() -> None:
    """Minions that share content differ in what is theirs."""
    one, other = (
        json.loads(next(minion_rows(Server(number, f"m{number}"), 1, SCALE))[-1]) for number in (1, 1 + schema.VARIANTS)
    )
    assert one["general"] == other["general"]
    assert (one["mgr_server_id"], other["mgr_server_id"]) == (1, 1 + schema.VARIANTS)


@pytest.mark.parametrize("server", [1, 9, 10, 11, 9_999])
def test_groups_belong_to_the_own_organisation(server: int) -> None:
    """A minion is in three different groups of its own organisation."""
    groups = SCALE.groups_of(server)
    assert len(set(groups)) == 3
    assert {SCALE.organisation(group) for group in groups} == {SCALE.organisation(server)}


def test_every_group_has_members() -> None:
    """No group stays empty once there are as many minions as groups."""
    members = {group for server in range(1, 101) for group in SCALE.groups_of(server)}
    assert members == set(range(1, 51))
