"""The manifests of a bed on Kubernetes: what its API takes, and what the programs in them take.

This is what `kubeconform -strict` checks, which no package registry has: kubernetes.json holds the part of the API's
definitions that the manifests use. No cluster has run them.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.bed import master
from harness.bed.api import EAUTH
from harness.load import plan
from harness.scenarios import scenario

SCHEMA = json.loads(Path(__file__).with_name("kubernetes.json").read_text())
TYPES: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "array": list,
}
IMAGE = "registry.example.com/saltbed:latest"


def _wrong(value: Any, rule: dict[str, Any], place: str) -> list[str]:
    """Return what a value has that its rule forbids, with its place."""
    if "$ref" in rule:
        return _wrong(value, SCHEMA["definitions"][rule["$ref"]], place)
    if "oneOf" in rule:
        tries = [_wrong(value, one, place) for one in rule["oneOf"]]
        return [] if [] in tries else tries[0]
    kind = rule["type"]
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return [f"{place}: {value!r} is no {kind}"]
    found = [] if value in rule.get("enum", [value]) else [f"{place}: {value!r} is none of {rule['enum']}"]
    for number, one in enumerate(value if kind == "array" else ()):
        found += _wrong(one, rule["items"], f"{place}.{number}")
    for name, one in value.items() if kind == "object" else ():
        inner = rule.get("properties", {}).get(name, rule.get("additionalProperties"))
        found += _wrong(one, inner, f"{place}.{name}") if inner else [f"{place}: {name} is unknown"]
    return found + [f"{place}: {name} is missing" for name in rule.get("required", ()) if name not in value]


def _check(entry: dict[str, Any]) -> list[str]:
    return _wrong(
        entry, SCHEMA["definitions"][SCHEMA["kinds"][f"{entry['apiVersion']}/{entry['kind']}"]], entry["kind"]
    )


@pytest.fixture(scope="module")
def entries(root: Path) -> dict[str, dict[str, Any]]:
    """Return all manifests by kind and name."""
    files = sorted((root / "docs" / "kubernetes").glob("*.yaml"))
    found = [entry for file in files for entry in yaml.safe_load_all(file.read_text())]
    return {f"{entry['kind']} {entry['metadata']['name']}": entry for entry in found}


def test_manifests_are_valid(entries: dict[str, dict[str, Any]]) -> None:
    """Every field is one of the API's, with its type; none that it requires is missing."""
    assert len(entries) == 10
    assert [line for entry in entries.values() for line in _check(entry)] == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (["spec", "replica"], 1, "Deployment.spec: replica is unknown"),
        (["spec", "replicas"], "1", "Deployment.spec.replicas: '1' is no integer"),
        (["spec", "replicas"], True, "Deployment.spec.replicas: True is no integer"),
        (["spec", "strategy", "type"], None, "Deployment.spec.strategy.type: None is no string"),
        (["spec", "template", "spec", "containers"], [{"image": "x"}],
         "Deployment.spec.template.spec.containers.0: name is missing"),
        (["metadata", "labels"], {"app": 1}, "Deployment.metadata.labels.app: 1 is no string"),
    ],
)  # fmt: skip
def test_faults_are_found(entries: dict[str, dict[str, Any]], path: list[str], value: object, problem: str) -> None:
    """A manifest with a fault is refused."""
    entry = copy.deepcopy(entries["Deployment master"])
    *way, last = path
    place = entry
    for name in way:
        place = place[name]
    place[last] = value
    assert _check(entry) == [problem]


def _containers(entries: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    pods = [entry["spec"]["template"]["spec"] for entry in entries.values() if "template" in entry.get("spec", {})]
    return [one for pod in pods for one in [*pod.get("initContainers", ()), *pod["containers"]]]


def test_names_agree(entries: dict[str, dict[str, Any]], root: Path) -> None:
    """Everything is in one namespace, services select pods, and one image has all our programs."""
    assert {entry["metadata"].get("namespace", "saltbed") for entry in entries.values()} == {"saltbed"}
    for name, entry in entries.items():
        if name.startswith("Service "):
            labels = [other["spec"]["template"]["metadata"]["labels"] for other in entries.values()
                      if other["kind"] in {"Deployment", "StatefulSet"}]  # fmt: skip
            assert entry["spec"]["selector"] in labels
    assert {one["image"] for one in _containers(entries)} == {IMAGE, "postgres:16"}
    recipe = (root / "docs" / "kubernetes" / "Dockerfile").read_text()
    for source in re.findall(r"^COPY (\S+) ", recipe, re.MULTILINE):
        assert (root / source).exists(), source


def test_the_master_is_configured_as_the_bed_is(entries: dict[str, dict[str, Any]]) -> None:
    """Its options are those of the bed's master."""
    options = yaml.safe_load(entries["Secret bed"]["stringData"]["master"])
    database = {"host": "postgres", "port": 5432, "user": "saltbed", "pass": "change-me", "db": "saltbed"}
    assert {key: options[key] for key in ("postgres", "ext_pillar")} == master.pillar_options(database)
    assert options["netapi_enable_clients"] == list(master.CLIENTS)
    assert options[EAUTH] == entries["Secret bed"]["stringData"]["password"]
    assert options["external_auth"] == {EAUTH: {"saltbed": [".*", "@wheel", "@runner", "@jobs"]}}


@pytest.mark.slow
def test_the_fleet_knows_its_options(entries: dict[str, dict[str, Any]], root: Path) -> None:
    """The command of the fleet passes its own check, and its pods have as many minions as there are pillars."""
    spec = entries["StatefulSet fleet"]["spec"]
    words = spec["template"]["spec"]["containers"][0]["command"][2]
    minions = re.search(r"--minions (\d+) --first \$\(\(\$\{HOSTNAME##\*-\} \* (\d+)\)\)", words)
    assert minions
    assert minions[1] == minions[2]
    assert f"range({int(minions[1]) * spec['replicas']})" in str(_containers(entries))
    program = f"HOSTNAME=fleet-2; exec {sys.executable}"
    command = words.replace("exec python", program).replace("master master", "master ::1") + " --check"
    done = subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_clients_have_a_plan(
    entries: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients' plan is one that locust's users read, and its scenario is sound."""
    file = tmp_path / "scenario.toml"
    file.write_text(entries["ConfigMap scenario"]["data"]["scenario.toml"])
    (locust,) = (one for one in _containers(entries) if one["name"] == "locust")
    text = next(one["value"] for one in locust["env"] if one["name"] == plan.VARIABLE)
    monkeypatch.setenv(plan.VARIABLE, text.replace("/scenario/scenario.toml", str(file)))
    found = plan.from_environment()
    wanted = scenario.load(file)
    assert found.scenario.clients == wanted.clients
    assert set(found.expected) == {name for clients in wanted.clients for name in clients.targets}
