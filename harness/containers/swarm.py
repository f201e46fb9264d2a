"""The fleet of a bed as the tasks of a service, on the nodes of a swarm whose manager has the rest of the bed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.containers import engine, relay
from harness.containers.image import PYTHON
from harness.errors import DockerError
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from docker import DockerClient

# for all tasks to run: their image is there
TASKS_S = 120.0
ENDED = frozenset({"complete", "failed", "orphaned", "rejected", "remove", "shutdown"})


def nodes(client: DockerClient) -> int:
    """Return how many nodes of the engine's swarm take tasks; raise DockerError if it manages none."""
    if not engine.manages(client):
        raise DockerError(
            "The engine manages no swarm: type `docker swarm init` on its machine, or name a manager in DOCKER_HOST."
        )
    found = [node.attrs for node in client.nodes.list()]
    return sum(node["Status"]["State"] == "ready" and node["Spec"]["Availability"] == "active" for node in found)


def start_tasks(client: DockerClient, image: str, network: str, run: str, tasks: int) -> None:
    """Start a service with the `tasks` that fleets will be, each of which connects to its relay.

    Raises:
        DockerError: if the swarm can't run one of them.
    """
    from docker.types import EndpointSpec, RestartPolicy, ServiceMode  # noqa: PLC0415 - slow to import, see above

    services: Any = client.services
    service = services.create(
        # with its identity nobody looks for a newer one of that name in a registry
        client.images.get(image).id,
        command=[PYTHON, "-c", Path(relay.__file__).read_text(encoding="utf-8")],
        name=f"saltbed-{run}-fleet",
        env=[f"{relay.VARIABLE}={relay.ALIAS}{{{{.Task.Slot}}}}"],
        labels=engine.labels(run),
        container_labels=engine.labels(run),
        mode=ServiceMode("replicated", replicas=tasks),
        # addresses of the tasks themselves: no kernel has to balance anything
        endpoint_spec=EndpointSpec(mode="dnsrr"),
        restart_policy=RestartPolicy("none"),
        networks=[network],
        init=True,
    )

    def running() -> bool:
        found = [task["Status"] for task in service.tasks()]
        for status in found:
            if status["State"] in ENDED:
                raise DockerError(
                    f"The swarm can't run a task of the fleet ({status.get('Err', status['State'])}): every node needs "
                    f"the image {image}; `docker save {image} | ssh NODE docker load` brings it there."
                )
        return [status["State"] for status in found] == ["running"] * tasks

    until(running, Deadline(TASKS_S), lambda: f"The swarm does not start {tasks} tasks: see `docker node ls`.")
