"""Who can do what at a master, as the two tables of docs/security.md say, and nothing else."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg2
import pytest
import salt.crypt
import salt.payload

from evil_minions import Credentials, MasterKey, MinionKey, auth, load_pool
from evil_minions.errors import EvilMinionsError
from evil_minions.protocol import envelope, keys
from harness.bed import Bed, BedSettings
from harness.bed.master import GRAIN
from harness.bed.settings import ApiSettings
from harness.processes.deadline import Deadline, until
from tests.live.bed.test_users import as_other
from tests.live.helpers.fuzz import loads
from tests.live.helpers.fuzz.lines import LINES, Line
from tests.live.helpers.fuzz.witness import Events, Keys
from tests.live.query.test_bed import request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE: Final = Path(__file__).parents[3] / "docs" / "security.md"
VICTIM: Final = "minion-00000"
REPLY_S: Final = 60.0
NO, YES, OWN = "no", "yes", "its own"
MINIONS: Final = ("nobody", "rejected", "minion", "peer", "runner")
RUNNERS: Final = [
    "query.*",
    "job_handler.*",
    "package_states.*",
    "pkgset.*",
    "pillar_sql.*",
    "interfaces.*",
    "jobs.list_jobs",
]

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


class Caller:
    """Somebody at the request port: with a session of the master, or with one that is made up."""

    def __init__(self, name: str, key: MinionKey, credentials: Credentials | None, line: Line) -> None:
        """Take the id, the key, and the session."""
        self.name = name
        self._key = key
        self._session = credentials.session if credentials else salt.crypt.Crypticle.generate_key_string()
        self._line = line

    def ask(self, cmd: str, **load: object) -> Any:
        """Send an encrypted request, with another id within if the load has one; return the answer, None if refused."""
        number = envelope.nonce()
        inner = {"nonce": number, "ts": int(time.time()), "tok": self._key.token, "id": self.name, "cmd": cmd, **load}
        sealed = keys.encrypted(keys.PAD + envelope.dumps(inner), self._session)
        request = {"enc": "aes", "load": sealed, "version": envelope.VERSION, "id": self.name}
        reply = self._line.ask(envelope.dumps(request), REPLY_S)
        if reply is None:
            return None
        try:
            return envelope.decrypted(reply, self._session, number)
        except EvilMinionsError:
            return None


class Scene:
    """A master with everything, and all who call it."""

    def __init__(self, bed: Bed) -> None:
        """Sign the minions in, and reject one of them."""
        self.bed = bed
        self.line = LINES[bed.master.transport](bed.master.request_port)
        master = MasterKey(bed.temporary / "fuzzer")
        self.callers = {}
        for name, key in zip(MINIONS, load_pool(bed.temporary / "fuzzer", len(MINIONS)), strict=True):
            credentials = None if name == "nobody" else self._sign_in(name, key, master)
            self.callers[name] = Caller(name, key, credentials, self.line)
        done = bed.command("salt-key")
        subprocess.run([*done, "-y", "-r", "rejected", "--include-accepted"], env=bed.environment, check=True)
        self.keys = Keys(bed)

    def _sign_in(self, name: str, key: MinionKey, master: MasterKey) -> Credentials:
        token = salt.crypt.Crypticle.generate_key_string().encode()
        attempt = auth.question(name, key, master, token, {GRAIN: self.bed.master.word})
        reply = self.line.ask(envelope.clear(attempt.load), REPLY_S)
        assert reply
        return auth.answer(attempt, envelope.reply(reply), key, master)

    def clear(self, cmd: str, **load: object) -> Any:
        """Send a request in the clear."""
        reply = self.line.ask(envelope.clear({"cmd": cmd, **load}), REPLY_S)
        return salt.payload.loads(reply) if reply else None

    def fires(self, tag: str, act: Callable[[], object]) -> str:
        """Say whether an act brings an event whose tag matches."""
        with Events(self.bed) as events:
            events.since()
            act()
            return YES if any(re.search(tag, one) for one in events.since()) else NO


@pytest.fixture(scope="module")
def scene(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yield a patched master with its job handler, salt-api, PostgreSQL, and rights of all kinds."""
    options = {
        "rate_limiting": {"criteria": "capacity"},
        "peer": {"peer": ["test.ping"]},
        "peer_run": {"runner": RUNNERS},
    }
    settings = BedSettings(
        root / "salt",
        tmp_path_factory.mktemp("callers"),
        options,
        minions=2,
        api=ApiSettings(users={"reader": [{"@runner": ["query.items"]}]}),
    )
    with Bed(settings) as bed:
        bed.start_fleet().wait_ready(120)
        made = Scene(bed)
        with made.line:
            yield made


@pytest.fixture(autouse=True)
def _line(scene: Scene) -> Iterator[None]:
    """Hang up after each test: a line that was lost and opened again would be left behind."""
    yield
    scene.line.close()


def table(title: str) -> dict[tuple[str, str], str]:
    """Return a table of the page, by row and column."""
    text = (
        PAGE.read_text(encoding="utf-8").partition(f"\n### {title}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    head, _, *body = rows
    return {(row[0], column): cell for row in body for column, cell in zip(head[1:], row[1:], strict=True)}


def names(answer: Any) -> list[Any] | None:
    """Return the names of the nodes in an answer of a query."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    return None if rows is None else [row[0][1] for row in rows]


def seen(found: list[Any] | None, own: str) -> str:
    """Say whose nodes were shown."""
    if not found:
        return NO
    return OWN if found == [own] else YES


def run(caller: Caller, fun: str, *arg: object) -> Any:
    """Have a runner run for a minion, and return what it returns unless that is an error."""
    answer = caller.ask("minion_runner", fun=fun, arg=list(arg), kwarg={})
    if isinstance(answer, dict) and set(answer) == {"return"}:
        answer = answer["return"]
    return None if isinstance(answer, str) or not answer else answer


def at_the_request_port(scene: Scene, caller: Caller) -> dict[str, str]:
    """Try everything that a minion may ask of the master."""
    own, fires, ask = caller.name, scene.fires, caller.ask
    result = {"jid": loads.JID, "fun": "test.ping", "fun_args": [], "return": True, "retcode": 0, "success": True}

    def job(cmd: str) -> str:
        load = {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "ret": "", "tmo": 1, "form": "clean"}
        return fires(r"^salt/job/\d+/new", lambda: ask(cmd, **load))

    def event(tag: str) -> str:
        return fires(f"^{tag}$", lambda: ask("_minion_event", tag=tag, data={}, pretag=None))

    def events(tag: str) -> str:
        return fires(f"^{tag}$", lambda: ask("_minion_event", events=[{"tag": tag, "data": {}}], pretag=None))

    def refused_runner(fun: str) -> str:
        return YES if run(caller, fun) else NO

    return {
        "read files that the master serves": YES if ask("_file_list", saltenv="base", prefix="") is not None else NO,
        "fire an event": event("any/tag"),
        "fire its start": event(f"salt/minion/{own}/start"),
        "fire another's start": max(event(f"salt/minion/{VICTIM}/start"), events(f"salt/minion/{VICTIM}/start")),
        "fire what only the master fires": max(
            event("salt/job/1/publish"), events("salt/job/1/new"), events("salt/key")
        ),
        "return for itself": fires(f"/ret/{own}$", lambda: ask("_return", **result)),
        "return for another": fires(f"/ret/{VICTIM}$", lambda: ask("_return", **result, id=VICTIM)),
        "publish `test.ping` through the master": max(job("minion_pub"), job("minion_publish")),
        "send a file to the master": YES if ask("_file_recv", path=["x"], loc=0, data=b"x", size=1) else NO,
        "run `jobs.list_jobs`": refused_runner("jobs.list_jobs"),
        "run `query.items`: nodes": seen(names(run(caller, "query.items", "node", "name")), own),
        "run `query.items`: jobs": YES if names(run(caller, "query.items", "job", "id")) else NO,
        "run `job_handler.status`": refused_runner("job_handler.status"),
        "run `package_states.show`": refused_runner("package_states.show"),
        "run `pkgset.refresh`": refused_runner("pkgset.refresh"),
        "run `pillar_sql.compare`": refused_runner("pillar_sql.compare"),
        "run `interfaces.check`": refused_runner("interfaces.check"),
    }


def clear_commands(scene: Scene, credentials: dict[str, str]) -> dict[str, str]:
    """Try the commands that clients send in the clear, and salt-api with the same credentials."""
    port = scene.bed.api.port

    def granted(answer: Any) -> str:
        return YES if answer and not (isinstance(answer, dict) and "error" in answer) else NO

    job = {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "ret": "", "jid": "", "user": "root"}
    # everybody may publish the first one
    two = {"fun": ["saltutil.find_job", "test.ping"], "arg": [["1"], []]}
    status, text, _ = request(port, "/login", "", credentials)
    token = json.loads(text)["return"][0]["token"] if status == 200 else ""

    def api(client: str, fun: object, **more: object) -> str:
        status, text, _ = request(port, "/", token, [{"client": client, "fun": fun, **more}])
        if status != 200:
            return NO
        (answer,) = json.loads(text)["return"]
        return YES if answer and not isinstance(answer, str) else NO

    def query(*fields: str) -> str:
        return YES if request(port, "/query/node", token, {"fields": list(fields)})[0] == 200 else NO

    return {
        "publish `test.ping`": scene.fires(
            r"^salt/job/\d+/new", lambda: scene.clear("publish", **job, kwargs=credentials, key="0" * 64)
        ),
        "publish two functions at once": scene.fires(
            r"^salt/job/\d+/new", lambda: scene.clear("publish", **job | two, kwargs=credentials, key="0" * 64)
        ),
        "have a token made": granted(scene.clear("mk_token", **credentials)),
        "run `query.items`": granted(scene.clear("runner", fun="query.items", kwarg={}, **credentials)),
        "run `jobs.list_jobs`": granted(scene.clear("runner", fun="jobs.list_jobs", kwarg={}, **credentials)),
        "list keys": granted(scene.clear("wheel", fun="key.list_all", **credentials)),
        "salt-api: a session": YES if token else NO,
        "salt-api: `local`": api("local", "test.ping", tgt="*"),
        "salt-api: `local`, two functions at once": api("local", two["fun"], arg=two["arg"], tgt="*"),
        "salt-api: `runner` `query.items`": api("runner", "query.items", arg=["node", "name"]),
        "salt-api: `runner` `jobs.list_jobs`": api("runner", "jobs.list_jobs"),
        "salt-api: `wheel`": api("wheel", "key.list_all"),
        "salt-api: `/query/node`": query("name"),
        "salt-api: `/query/node` with a pillar": query("name", "pillar.x"),
        "salt-api: `/keys`, `/minions`, `/jobs`": YES
        if any(request(port, path, token)[0] == 200 for path in ("/keys", "/minions", "/jobs"))
        else NO,
    }


def test_at_the_request_port(scene: Scene) -> None:
    """Minions of all kinds."""
    assert scene.clear("ping")["cmd"] == "ping"
    found = {
        (entry, name): word
        for name, caller in scene.callers.items()
        for entry, word in at_the_request_port(scene, caller).items()
    }
    assert found == table("Minions at the request port")
    assert scene.keys.listed() == scene.keys.before


def test_nobody_withdraws_the_key_of_another(scene: Scene) -> None:
    """A minion withdraws its own, which is the last that it does."""
    for caller in scene.callers.values():
        caller.ask("revoke_auth", id=VICTIM)
    assert VICTIM in {Path(name).name for name, _ in scene.keys.listed()}


def test_users(scene: Scene) -> None:
    """Somebody without a password, and a user of `external_auth` who may run one runner."""
    api = scene.bed.api
    callers = {
        "no password": {"username": "reader", "password": "wrong", "eauth": api.eauth},
        "reader": {"username": "reader", "password": api.password, "eauth": api.eauth},
    }
    found = {
        (entry, name): word
        for name, credentials in callers.items()
        for entry, word in clear_commands(scene, credentials).items()
    }
    assert found == table("Users of external_auth")


@pytest.mark.needs_root
def test_another_user_of_the_machine(scene: Scene) -> None:
    """Sockets, keys and the database are closed to him."""
    bed = scene.bed
    places = [
        bed.master.sock_dir / name for name in ("job_handler.ipc", "master_event_pull.ipc", "master_event_pub.ipc")
    ]
    keys = list(bed.temporary.rglob(".root_key"))
    assert keys
    assert all(path.exists() for path in places)
    port = bed.postgres.port

    def work() -> list[str]:
        done = []
        for path in places:
            with socket.socket(socket.AF_UNIX) as line:
                try:
                    line.connect(str(path))
                    done.append(str(path))
                except OSError:
                    pass
        done += [str(path) for path in keys if os.access(path, os.R_OK)]
        try:
            psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres", connect_timeout=10)
            done.append("PostgreSQL")
        except psycopg2.OperationalError:
            pass
        return done

    assert as_other(work) == []
    until(lambda: scene.clear("ping") is not None, Deadline(REPLY_S), lambda: "the master has no answer")
