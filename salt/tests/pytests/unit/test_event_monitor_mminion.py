"""
EventMonitor writes what the peers of a cluster send into the job cache.
"""

import asyncio

import salt.master
import salt.utils.event
from tests.support.mock import MagicMock, patch

EVENTS = [
    ("salt/job/1/new", {"jid": "1", "minions": ["a", "b"], "__peer_id": "other"}),
    ("salt/job/1/ret/a", {"jid": "1", "id": "a", "return": 1, "__peer_id": "other"}),
    ("salt/job/1/ret/b", {"jid": "1", "id": "b", "return": 1, "__peer_id": "other"}),
]


def test_one_minion_for_all_events(master_opts):
    master_opts["cluster_id"] = "cluster"
    monitor = salt.master.EventMonitor(master_opts, ipc_publisher=None)
    bus = MagicMock()

    def set_event_handler(handler):
        loop = asyncio.get_event_loop()

        async def feed():
            try:
                for tag, data in EVENTS:
                    await handler(salt.utils.event.SaltEvent.pack(tag, data))
            finally:
                loop.stop()

        bus.task = loop.create_task(feed())

    bus.set_event_handler = set_event_handler
    with patch("salt.utils.event.get_master_event") as get_master_event, patch(
        "salt.minion.MasterMinion"
    ) as made, patch("salt.utils.job._store_minions") as store_minions, patch(
        "salt.utils.job._store_job"
    ) as store_job:
        get_master_event.return_value.__enter__.return_value = bus
        monitor.run()
    assert store_minions.call_count == 1
    assert store_job.call_count == 2
    assert made.call_count == 1
