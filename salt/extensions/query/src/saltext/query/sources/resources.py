"""What is known of instances: the registry of resources, and what minions that run
virtual machines have put into the mine.
"""

import functools
import os

from saltext.query import documents, dynamic, kinds

try:
    import salt.utils.resource_registry as registry
except ImportError:
    # Salt has resources since 3008
    registry = None


def source(context):
    return Instances(context)


class Instances:
    """What is known of instances."""

    def __init__(self, context):
        self.context = context

    @functools.cached_property
    def _registry(self):
        """The registry of resources, or None. Opening it would make it."""
        if registry is None:
            return None
        opts = self.context.opts
        folder = os.path.join(opts["cachedir"], registry.PRIMARY_INDEX_SUBDIR)
        if not os.path.isfile(os.path.join(folder, registry.PRIMARY_INDEX_FILENAME)):
            return None
        return registry.get_registry(opts)

    def mine(self, minion, *functions):
        """Return what a minion has in the mine for each of these functions, or None."""
        document = self.context.read("mine", minion) or {}
        unwrapped = dynamic.unwrapped
        return [unwrapped(document.get(function)) for function in functions]

    def machines(self, minion):
        """Return the virtual machines of a minion by name; None if it has told of none."""
        found = self.mine(minion, documents.VM_INFO)[0]
        if not isinstance(found, dict):
            return None
        return {
            name: info
            for name, info in found.items()
            if isinstance(name, str) and isinstance(info, dict)
        }

    def resources(self, minion):
        """Return the ids of a minion's resources by type."""
        if self._registry is None:
            return {}
        return self._registry.get_resources_for_minion(minion) or {}

    def count(self, minion):
        """Return how many instances a minion manages."""
        machines = self.machines(minion)
        resources = self.resources(minion)
        if machines is None and not resources:
            return kinds.MISSING_NODATA
        return len(machines or ()) + sum(map(len, resources.values()))
