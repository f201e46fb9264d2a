"""What the live tests of the console share: a master whose salt-api serves the page."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.bed import LOSSES, Bed, BedSettings, api
from harness.bed.settings import ApiSettings
from harness.database import sources

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
# what each user may do beside signing in; the bed's own user may do everything
USERS: dict[str, list[Any]] = {
    "reader": [{"@runner": ["job_handler.list", "job_handler.status", "query.items", "query.fields", "query.count"]}],
    "editor": [{"@runner": ["package_states.*"]}],
    "viewer": [{"@runner": ["package_states.(show|history|available|status|where)"]}],
    "operator": [{"@runner": ["job_handler.*"]}],
    "tester": [{"@runner": ["query.*"]}, "test.*"],
    "pillars": [{"@runner": ["query.*", "cache.pillar"]}],
    "queuer": [{"@runner": ["job_handler.(list|status|cancel)"]}],
    "nobody": ["test.version"],
}


def without_browser() -> str:
    """Return why the page can't be opened here, or nothing."""
    if CHROMIUM is None:
        return "no Chromium is installed: apt-get install chromium"
    return ""


def page_folder(python: str = sys.executable) -> Path:
    """Return the folder of the page as the wheel installed it."""
    command = [python, "-m", "saltext.console", "--folder"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip())


@dataclass(frozen=True)
class ConsoleBed:
    """A bed whose salt-api serves the page."""

    bed: Bed

    @property
    def url(self) -> str:
        """Return the address of the page."""
        assert self.bed.api
        return f"{self.bed.api.url}/app"

    def restart_api(self) -> None:
        """Stop the first process of salt-api, start it again with the same configuration, and wait until it answers."""
        bed = self.bed
        bed._api_processes[0].stop()
        process = api.start(bed.api, bed.tree, bed.master.config_dir, bed.environment, bed._processes)
        bed._api_processes[0] = process
        api.wait_ready(bed.api, process)
        bed._watch.add(process, LOSSES["api"], log=bed.api.log)

    @property
    def password(self) -> str:
        """Return the password of all users."""
        assert self.bed.api
        return str(self.bed.api.password)

    def run(self, function: str, *arguments: str) -> Any:
        """Return what a runner answers on the master."""
        done = self.bed.salt_run([function, *arguments, "--out=json", "--out-indent=-1"])
        assert done.returncode == 0, f"{function} {arguments}: {done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def sleep(self, target: str, seconds: int = 60) -> str:
        """Start a job and return its id."""
        assert self.bed.salt(["--async", target, "test.sleep", str(seconds)]).returncode == 0
        return str(self.run("job_handler.list")[-1]["jid"])

    def status(self, user: str, function: str, **keywords: object) -> int:
        """Return the status of salt-api when a user calls a runner by hand."""
        api = self.bed.api
        assert api
        place = urlsplit(api.url)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        try:
            head = {"Content-Type": "application/json", "Accept": "application/json"}
            who = {"username": user, "password": api.password, "eauth": api.eauth}
            connection.request("POST", "/login", json.dumps(who), head)
            token = json.loads(connection.getresponse().read())["return"][0]["token"]
            low = [{"client": "runner", "fun": function, "kwarg": keywords}]
            connection.request("POST", "/", json.dumps(low), {**head, "X-Auth-Token": token})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()


@contextmanager
def console_bed(
    tree: Path, folder: Path, page: Path, minions: int = 10, *, patched: bool = True, states: bool = True
) -> Iterator[ConsoleBed]:
    """Yield a bed with simulated minions; with the job handler if it is patched, and with package states or not."""
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "srv"
    files.mkdir()
    options: dict[str, Any] = {
        "netapi_enable_clients": ["runner"],
        "nodegroups": {"Webservers": "minion-0000[0-4]", "all": "*"},
        "file_roots": {"base": [str(files)]},
    }
    if patched:
        options["rate_limiting"] = {
            "criteria": "capacity",
            "max_master_jobs": max(5, minions // 4),
            "max_minion_jobs": 1,
            "operators": ["saltbed"],
        }
    served = {"app": str(page / "index.html"), "static": str(page)}
    with sources.served(folder) as server:
        sources.make(server, "console")
        if states:
            options |= {"postgres": server.salt_options() | {"db": "console"}, "package_states": {}}
        settings = BedSettings(
            tree=tree,
            folder=folder / "bed",
            master_options=options,
            pillar="none",
            postgres="none",
            minions=minions,
            api=ApiSettings(users=USERS, options=served),
        )
        with Bed(settings) as bed:
            bed.start_fleet().wait_ready(120)
            made = ConsoleBed(bed)
            if states:
                made.run("package_states.setup")
            yield made
