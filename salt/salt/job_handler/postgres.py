"""
One queue for all masters of a cluster: the store in PostgreSQL, and which of the masters
publishes.

One job handler leads: it alone decides and publishes. The others pass requests on to it
through the table ``requests``. The leader renews the row ``leader`` of the table ``meta``
every second. If it does not for :data:`LEADER_SECONDS`, another one takes the row over. Each
transaction of a leader checks that the row is its own, so one that hung publishes nothing
more: each wave is written down first.

Nothing here takes an advisory lock: every role that may connect to the database could
hold it for ever. Writers lock the table ``version``, which needs rights to it.
"""

import asyncio
import contextlib
import logging
import time
import uuid

import salt.job_handler.store
import salt.payload
from salt.exceptions import SaltException
from salt.job_handler.store import StoreError, pack, unpack

try:
    import psycopg2
    import psycopg2.errors
    import psycopg2.extensions
    import psycopg2.extras

    HAS_PSYCOPG2 = True
except ImportError:
    HAS_PSYCOPG2 = False

log = logging.getLogger(__name__)

#: Where the tables are, unless the settings name another schema.
SCHEMA = "salt_job_handler"

#: How often a job handler that does not lead tries to, in seconds.
ELECTION_SECONDS = 1

#: A leader without a sign of life, and an idle transaction, end after so many seconds.
LEADER_SECONDS = 5

#: The same, while a leader takes over what is in the store.
START_SECONDS = 30

#: How long a request may wait for the leader, in seconds.
RELAY_SECONDS = 10

#: What belongs to a role that is not to be trusted with it. Membership says nothing:
#: before PostgreSQL 16 every role could make others its members.
_STRANGE = """
    SELECT name, rolname FROM (
        SELECT 'the schema', nspowner FROM pg_namespace WHERE oid = %(schema)s
        UNION ALL SELECT relname, relowner FROM pg_class WHERE relnamespace = %(schema)s
        UNION ALL SELECT proname, proowner FROM pg_proc WHERE pronamespace = %(schema)s
        UNION ALL SELECT oprname, oprowner FROM pg_operator WHERE oprnamespace = %(schema)s
        UNION ALL SELECT typname, typowner FROM pg_type WHERE typnamespace = %(schema)s
    ) AS found (name, owner) JOIN pg_roles AS r ON r.oid = owner
    WHERE NOT rolsuper AND rolname NOT IN (current_user, 'pg_database_owner')
    AND r.oid <> (SELECT datdba FROM pg_database WHERE datname = current_database())
    LIMIT 1
"""

#: The clock of a master may be late, as its machine stood still
_NOW = "extract(epoch FROM clock_timestamp())"

_TYPES = {"bytes": "BYTEA", "number": "BIGSERIAL PRIMARY KEY"}

_REQUESTS = """
    CREATE UNLOGGED TABLE requests (
        id BIGSERIAL PRIMARY KEY,
        at DOUBLE PRECISION NOT NULL,
        request BYTEA NOT NULL,
        reply BYTEA
    );
    CREATE TABLE version (number INTEGER NOT NULL);
    INSERT INTO version VALUES (0)
"""


def errors(section):
    """Return a list of sentences, one for each thing that is wrong."""
    if not HAS_PSYCOPG2:
        return ["store is 'postgresql': install psycopg2 for the Salt of this master."]
    settings = section.get("postgresql")
    if not isinstance(settings, dict):
        return ["postgresql is missing: write host, dbname, user and password."]
    try:
        _dsn(settings)
    except psycopg2.Error as exc:
        return [f"postgresql: {str(exc).strip()}; write what libpq knows, and schema."]
    return []


def _dsn(settings):
    values = {name: value for name, value in settings.items() if name != "schema"}
    # a dead machine must not keep the lock
    keepalives = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 2}
    # nor let a request that is on its way wait for it, in milliseconds
    timeouts = {"connect_timeout": 5, "tcp_user_timeout": 5000}
    return psycopg2.extensions.make_dsn(**{**timeouts, **keepalives, **values})


def _connect(settings):
    connection = psycopg2.connect(_dsn(settings))
    connection.autocommit = True
    convert = psycopg2.extensions.new_type(
        psycopg2.BINARY.values,
        "BYTES",
        lambda value, cursor: (
            None if value is None else bytes(psycopg2.BINARY(value, cursor))
        ),
    )
    psycopg2.extensions.register_type(convert, connection)
    return connection


class _Database:
    def __init__(self, settings):
        self.connection = _connect(settings)

    def execute(self, statement, values=()):
        cursor = self.connection.cursor()
        cursor.execute(statement.replace("?", "%s"), values)
        return cursor

    def executemany(self, statement, rows):
        with self.connection.cursor() as cursor:
            psycopg2.extras.execute_batch(cursor, statement.replace("?", "%s"), rows)

    @property
    def in_transaction(self):
        return self.connection.get_transaction_status() in (
            psycopg2.extensions.TRANSACTION_STATUS_INTRANS,
            psycopg2.extensions.TRANSACTION_STATUS_INERROR,
        )

    def close(self):
        self.connection.close()


class _Clock(salt.job_handler.store.Clock):
    def _read(self):
        row = self.store.db.execute(f"SELECT {_NOW}")
        return float(row.fetchone()[0]) - time.monotonic()

    def keep(self):
        """The database keeps it."""


class PostgresStore(salt.job_handler.store.Store):
    """The store of all masters of a cluster."""

    # pylint: disable=super-init-not-called

    shared = True

    def __init__(self, opts, busy=salt.job_handler.store.BUSY_SECONDS):
        settings = opts["rate_limiting"]["postgresql"]
        self.settings = settings
        self.schema = settings.get("schema") or SCHEMA
        self.db = _Database(settings)
        self.path = f"the schema {self.schema}"
        # the sign of life of a store that leads, and the name in it
        self._sign = self._leads_as = None
        # that of the leader, and since when it has been this one
        self._seen = None, 0
        self._name = psycopg2.extensions.quote_ident(self.schema, self.db.connection)
        try:
            # a master that waits for another one for long has fail_mode
            self.db.execute(f"SET lock_timeout = {max(1000, int(busy * 1000))}")
            timeout = int(LEADER_SECONDS * 1000)
            self.db.execute(f"SET idle_in_transaction_session_timeout = {timeout}")
            self._prepare()
        except BaseException:
            self.db.close()
            raise
        self.clock = _Clock(self)

    def _prepare(self):
        # before anything of another role could be found
        self.db.execute("SET search_path = pg_catalog")
        # of masters that make it at the same moment, all but one find it made: a unique
        # violation, a duplicate schema, table or object
        codes = ("23505", "42P06", "42P07", "42710")
        made = [psycopg2.errors.lookup(code) for code in codes]
        with contextlib.suppress(*made):
            if self._schema_number() is None:
                self.db.execute(f"CREATE SCHEMA {self._name}")
        self._check_owners(self._schema_number())
        self.db.execute(f"SET search_path = {self._name}")
        with contextlib.suppress(*made):
            if self.db.execute("SELECT to_regclass('version')").fetchone()[0] is None:
                self.db.execute(_REQUESTS)
        try:
            with self.writing():
                for script in salt.job_handler.store.MIGRATIONS[self._version() :]:
                    self.db.execute(script.format(**_TYPES))
                    self.db.execute("UPDATE version SET number = number + 1")
        except psycopg2.errors.lookup("42501") as exc:
            raise StoreError(
                f"The tables in {self.path} can't be brought up to date"
                f" ({str(exc).splitlines()[0]}): give them to the role of the master."
            ) from exc

    def _schema_number(self):
        row = self.db.execute("SELECT to_regnamespace(?)::oid", (self._name,))
        return row.fetchone()[0]

    def _check_owners(self, schema):
        """Check that no other role could plant what is called or read here."""
        row = self.db.execute(_STRANGE, {"schema": schema}).fetchone()
        if row:
            raise StoreError(
                f"{row[0]} in {self.path} belongs to the role {row[1]}, which could read and"
                " change the queue: drop it, or give it to the owner of the database."
            )
        row = self.db.execute(
            "SELECT has_schema_privilege('public', ?::oid, 'CREATE')", (schema,)
        )
        if row.fetchone()[0]:
            raise StoreError(
                f"Every role may make tables and functions in {self.path}: type REVOKE"
                f" CREATE ON SCHEMA {self._name} FROM PUBLIC, or name another schema."
            )

    def _version(self):
        return self.db.execute("SELECT number FROM version").fetchone()[0]

    def _insert(self, statement, values):
        name = "seq" if "INTO jobs" in statement else "id"
        return self.db.execute(f"{statement} RETURNING {name}", values).fetchone()[0]

    def _begin(self):
        self.db.execute("BEGIN")
        self.db.execute("LOCK TABLE version IN EXCLUSIVE MODE")
        # a master with a newer one may have been started
        self._check_version(self._version())
        if self._sign is not None and self._sign != self._leader():
            self._lost()

    def replaced(self):
        """Return whether the connection is lost."""
        return bool(self.db.connection.closed)

    def checkpoint(self):
        """PostgreSQL does so itself."""

    def _shrink(self):
        self.db.execute(f"DELETE FROM requests WHERE at < {_NOW} - 60")

    # Which master leads

    def _leader(self):
        row = self.db.execute("SELECT value FROM meta WHERE name = 'leader'").fetchone()
        return row and row[0]

    def lead(self, name):
        """Try to lead, and return whether that worked. Call this every second."""
        sign = self._leader()
        leader = unpack(sign) if sign else {}
        if sign != self._seen[0]:
            self._seen = sign, time.monotonic()
        # the process of this master before this one has ended. If it did so while it
        # took over, another master is to try
        if sign and (leader["name"] != name or leader["seconds"] == START_SECONDS):
            if time.monotonic() - self._seen[1] < leader["seconds"]:
                return False
        self._leads_as = name
        packed = self._new_sign(START_SECONDS)
        with self.writing():
            # unless another one was faster
            if self._leader() != sign:
                return False
            self.db.execute(
                "INSERT INTO meta VALUES ('leader', ?)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (packed,),
            )
        self._sign = packed
        return True

    def _new_sign(self, seconds):
        sign = {"name": self._leads_as, "seconds": seconds, "sign": uuid.uuid4().hex}
        return pack(sign)

    def keep_lead(self):
        """Write a sign of life of a leader that takes over what is in the store."""
        if self._sign is not None:
            self.sign(START_SECONDS)

    def sign(self, seconds=None):
        """Write a sign of life of the leader, which holds for so many seconds."""
        packed = self._new_sign(seconds or LEADER_SECONDS)
        row = self.db.execute(
            "UPDATE meta SET value = ? WHERE name = 'leader' AND value = ?",
            (packed, self._sign),
        )
        if not row.rowcount:
            self._lost()
        self._sign = packed

    def _lost(self):
        # what leads ends with its connection
        self.close()
        raise psycopg2.InterfaceError("another master leads the queue now")


def connect(opts, busy=salt.job_handler.store.BUSY_SECONDS):
    """Return the store that is configured.

    :raises StoreError: if it can't be used
    """
    postgresql = (opts.get("rate_limiting") or {}).get("store") == "postgresql"
    return (PostgresStore if postgresql else salt.job_handler.store.Store)(opts, busy)


class Group:
    """The job handlers of a cluster, and the name of this master."""

    def __init__(self, store, name):
        self.store = store
        self.name = name
        self._channel = f"{store.schema}_requests"
        self._ears = _connect(store.settings)
        self._news = asyncio.Event()
        with self._ears.cursor() as cursor:
            quoted = psycopg2.extensions.quote_ident(self._channel, self._ears)
            cursor.execute(f"LISTEN {quoted}")
        # which a connection that was lost does not know any more
        self._fileno = self._ears.fileno()
        asyncio.get_running_loop().add_reader(self._fileno, self._listen)
        self._serving = set()

    def _listen(self):
        try:
            self._ears.poll()
        except psycopg2.Error as exc:
            asyncio.get_running_loop().remove_reader(self._fileno)
            log.error("The job handler lost PostgreSQL: %s", exc)
            # the next thing that it asks the database for ends the process
            self.store.close()
        self._ears.notifies.clear()
        self._news.set()

    async def _wait(self, seconds):
        self._news.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    def _notify(self):
        self.store.db.execute("SELECT pg_notify(?, '')", (self._channel,))

    async def lead(self):
        """Wait until this job handler leads."""
        while True:
            try:
                if self.store.lead(self.name):
                    return
            except psycopg2.OperationalError:
                # somebody else writes, unless the connection is lost
                if self.store.replaced():
                    raise
            await asyncio.sleep(ELECTION_SECONDS)

    async def relay(self, request):
        """Pass a request to the leader, and return its reply."""
        db = self.store.db
        number = db.execute(
            f"INSERT INTO requests (at, request) VALUES ({_NOW}, ?) RETURNING id",
            (salt.payload.dumps(request, use_bin_type=True),),
        ).fetchone()[0]
        self._notify()
        until = time.monotonic() + RELAY_SECONDS
        while time.monotonic() < until:
            await self._wait(1)
            row = db.execute(
                "DELETE FROM requests WHERE id = ? AND reply IS NOT NULL"
                " RETURNING reply",
                (number,),
            ).fetchone()
            if row:
                return salt.payload.loads(row[0])
        raise SaltException("The master that leads the queue does not answer")

    async def serve(self, handle):
        """Answer the requests of all masters for ever."""
        while True:
            rows = self.store.db.execute(
                "SELECT id, request FROM requests WHERE reply IS NULL"
                f" AND at > {_NOW} - ? ORDER BY id",
                (RELAY_SECONDS,),
            ).fetchall()
            for number, request in rows:
                if number not in self._serving:
                    self._serving.add(number)
                    asyncio.ensure_future(self._answer(handle, number, request))
            await self._wait(1)

    async def _answer(self, handle, number, request):
        try:
            reply = await handle(salt.payload.loads(request))
        except Exception as exc:  # pylint: disable=broad-except
            reply = {"error": f"{exc.__class__.__name__}: {exc}"}
        try:
            self.store.db.execute(
                "UPDATE requests SET reply = ? WHERE id = ?",
                (salt.payload.dumps(reply, use_bin_type=True), number),
            )
            self._notify()
        except psycopg2.Error as exc:
            log.error("A request of another master was not answered: %s", exc)
        self._serving.discard(number)
