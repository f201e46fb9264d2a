"""
The metrics of the job handler in the exporter for Prometheus, as a master has it: set up
in one process, which the job handler's is forked from.
"""

import multiprocessing
import socket
import urllib.request

import pytest

import salt.job_criteria.capacity
import salt.job_handler.job
import salt.job_handler.manager
import salt.job_handler.metrics
import salt.utils.metrics

pytest.importorskip("opentelemetry.exporter.prometheus")
pytest.importorskip("prometheus_client")


def _free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _serve(opts, connection, of_parent):
    # The connection's other end is the parent's alone: should it die, this ends too.
    of_parent.close()
    criteria = salt.job_criteria.capacity.Capacity({"max_master_jobs": 7})
    manager = salt.job_handler.manager.QueueManager(criteria, 9, "open", lambda: 0)
    manager.orders.paused = True
    manager.submit(salt.job_handler.job.Job(1, "1", "f", 1, minions=["a"]))
    salt.job_handler.metrics.Metrics(manager, lambda: 0).register(opts)
    connection.send("ready")
    try:
        connection.recv()
    except EOFError:
        pass


def _page(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        return page.read().decode()


def _master(opts, connection):
    """
    As the master does it: metrics first, then its processes.
    """
    salt.utils.metrics.configure({**opts, "__role": "master"})
    salt.utils.metrics.counter("salt.test.of_the_master").add(1)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(opts, theirs, ours))
    process.start()
    theirs.close()
    try:
        assert ours.poll(30)
        port = opts["metrics"]["prometheus"]["port"]
        own = opts["metrics"]["prometheus"]["job_handler_port"]
        pages = (_page(port), _page(own))
    finally:
        process.kill()
        process.join()
    connection.send(pages)


def test_prometheus_has_the_figures():
    ports = {"port": _free_port(), "job_handler_port": _free_port()}
    metrics = {"enabled": True, "exporter": "prometheus", "prometheus": ports}
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_master, args=({"metrics": metrics}, theirs))
    process.start()
    try:
        assert ours.poll(60)
        of_master, of_handler = ours.recv()
        process.join(60)
    finally:
        process.kill()
        process.join()
    assert "salt_test_of_the_master" in of_master
    lines = dict(
        line.rsplit(" ", 1)
        for line in of_handler.splitlines()
        if line.startswith("salt_job_handler_")
    )
    found = {name.partition("{")[0]: float(value) for name, value in lines.items()}
    assert found["salt_job_handler_depth"] == 1
    assert found["salt_job_handler_limit"] == 7
