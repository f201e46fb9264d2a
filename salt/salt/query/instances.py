"""
What is known of instances: the registry of resources, and what minions that run virtual
machines have put into the mine.
"""

import functools
import os

import salt.query.kinds
import salt.utils.mine
import salt.utils.resource_registry

#: The function whose results are looked for in the mine.
VM_INFO = "virt.vm_info"


class Instances:
    """
    :param Context context: the context of the query
    """

    def __init__(self, context):
        self.context = context

    @functools.cached_property
    def _registry(self):
        """
        The registry of resources, or None. Opening it would make it.
        """
        folder = os.path.join(
            self.context.opts["cachedir"],
            salt.utils.resource_registry.PRIMARY_INDEX_SUBDIR,
        )
        if not os.path.isfile(
            os.path.join(folder, salt.utils.resource_registry.PRIMARY_INDEX_FILENAME)
        ):
            return None
        return salt.utils.resource_registry.get_registry(self.context.opts)

    def mine(self, minion, *functions):
        """
        Return what a minion has put into the mine by each of these functions, or None.
        """
        document = self.context.read("mine", minion) or {}
        return [self._unwrapped(document.get(function)) for function in functions]

    @staticmethod
    def _unwrapped(found):
        if (
            isinstance(found, dict)
            and salt.utils.mine.MINE_ITEM_ACL_ID in found
            and salt.utils.mine.MINE_ITEM_ACL_DATA in found
        ):
            found = found[salt.utils.mine.MINE_ITEM_ACL_DATA]
        return found

    def machines(self, minion):
        """
        Return the virtual machines of a minion by name; None if it has told of none.
        """
        found = self.mine(minion, VM_INFO)[0]
        if not isinstance(found, dict):
            return None
        return {
            name: info
            for name, info in found.items()
            if isinstance(name, str) and isinstance(info, dict)
        }

    def resources(self, minion):
        """
        Return the ids of a minion's resources by type.
        """
        if self._registry is None:
            return {}
        return self._registry.get_resources_for_minion(minion) or {}

    def count(self, minion):
        """
        Return how many instances a minion manages.
        """
        machines = self.machines(minion)
        resources = self.resources(minion)
        if machines is None and not resources:
            return salt.query.kinds.MISSING_NODATA
        return len(machines or ()) + sum(map(len, resources.values()))
