-- Package states: named, versioned lists of packages, to whom they apply, and what minions have installed.
--
-- Installs into an empty database and is safe to run twice. Needs the tables of uyuni.sql:
--     psql -f sql/uyuni.sql -f sql/package_states.sql
-- The history of a state can only grow: triggers that fire whatever the session's role refuse everything else.

\set ON_ERROR_STOP on

DO $$
BEGIN
  IF to_regclass('rhnServer') IS NULL THEN
    RAISE EXCEPTION 'this database has no tables of Uyuni'
      USING HINT = 'Run sql/uyuni.sql first, or name the database of Uyuni.';
  END IF;
END
$$;

BEGIN;

CREATE TABLE IF NOT EXISTS susePackageState
(
    id INTEGER PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name VARCHAR(128) NOT NULL
         CONSTRAINT suse_pkgstate_name_uq UNIQUE
         CONSTRAINT suse_pkgstate_name_ck CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._@-]*$'),
    -- the state of one minion, named after it; it stays when the minion goes, and is its again when it comes back
    own BOOLEAN NOT NULL DEFAULT FALSE,
    created TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS susePackageStateRevision
(
    state_id INTEGER NOT NULL
             CONSTRAINT suse_pkgstate_rev_sid_fk
             REFERENCES susePackageState (id),
    number INTEGER NOT NULL,
    -- the revision that its author saw; with a rollback, the one that is in force again
    parent INTEGER,
    -- the first revision with the same entries
    contents INTEGER NOT NULL,
    author VARCHAR(256) NOT NULL,
    comment VARCHAR(1000) NOT NULL DEFAULT '',
    created TIMESTAMPTZ NOT NULL DEFAULT now(),
    -- [{"package": name or name:architecture, "wanted": ..., "version": ..., "floor": ...}], in the order of the names
    items JSONB NOT NULL
          CONSTRAINT suse_pkgstate_rev_items_ck CHECK (jsonb_typeof(items) = 'array'),
    PRIMARY KEY (state_id, number)
);

CREATE TABLE IF NOT EXISTS susePackageStateAssignment
(
    id INTEGER PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    state_id INTEGER NOT NULL
             CONSTRAINT suse_pkgstate_asg_sid_fk
             REFERENCES susePackageState (id),
    server_id NUMERIC
              CONSTRAINT suse_pkgstate_asg_server_fk
              REFERENCES rhnServer (id)
              ON DELETE CASCADE,
    group_id NUMERIC
             CONSTRAINT suse_pkgstate_asg_gid_fk
             REFERENCES rhnServerGroup (id)
             ON DELETE CASCADE,
    org_id NUMERIC
           CONSTRAINT suse_pkgstate_asg_oid_fk
           REFERENCES web_customer (id)
           ON DELETE CASCADE,
    grain_match VARCHAR(1000),
    priority INTEGER NOT NULL DEFAULT 0,
    author VARCHAR(256) NOT NULL,
    created TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT suse_pkgstate_asg_target_ck CHECK (num_nonnulls(server_id, group_id, org_id, grain_match) = 1),
    UNIQUE (state_id, server_id),
    UNIQUE (state_id, group_id),
    UNIQUE (state_id, org_id),
    UNIQUE (state_id, grain_match)
);

CREATE INDEX IF NOT EXISTS suse_pkgstate_asg_server_idx ON susePackageStateAssignment (server_id) WHERE server_id IS NOT NULL;

-- The packages of a minion, as it sent them last. The status is made of these and of the states whenever somebody asks.
CREATE TABLE IF NOT EXISTS susePackageList
(
    server_id NUMERIC PRIMARY KEY
              CONSTRAINT suse_pkglist_sid_fk
              REFERENCES rhnServer (id)
              ON DELETE CASCADE,
    platform VARCHAR(16) NOT NULL,
    digest VARCHAR(64) NOT NULL,
    packages JSONB NOT NULL
             CONSTRAINT suse_pkglist_packages_ck CHECK (jsonb_typeof(packages) = 'object'),
    refreshed TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- One row for each entry of the newest revisions, for queries by people.
CREATE OR REPLACE VIEW susePackageStateItem AS
  SELECT s.name AS state, r.number AS revision, i.package, i.wanted, i.version, i.floor
    FROM susePackageState AS s
    JOIN LATERAL (
      SELECT * FROM susePackageStateRevision AS n WHERE n.state_id = s.id ORDER BY n.number DESC LIMIT 1
    ) AS r ON TRUE
    CROSS JOIN LATERAL jsonb_to_recordset(r.items) AS i (package TEXT, wanted TEXT, version TEXT, floor TEXT);

CREATE OR REPLACE FUNCTION suse_pkgstate_append_only() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the history of package states can only grow: save a new revision instead'
    USING ERRCODE = 'insufficient_privilege';
END
$$;

-- A revision is the next one of its state: without holes, and never a second one with its number.
CREATE OR REPLACE FUNCTION suse_pkgstate_next() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  newest INTEGER;
BEGIN
  PERFORM FROM susePackageState WHERE id = NEW.state_id FOR UPDATE;
  SELECT COALESCE(max(number), 0) INTO newest FROM susePackageStateRevision WHERE state_id = NEW.state_id;
  IF NEW.number <> newest + 1 OR NEW.parent NOT BETWEEN 1 AND newest OR NEW.contents NOT BETWEEN 1 AND NEW.number THEN
    RAISE EXCEPTION 'revision % of package state % does not follow revision %', NEW.number, NEW.state_id, newest
      USING ERRCODE = 'unique_violation';
  END IF;
  RETURN NEW;
END
$$;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'suse_pkgstate_rev_append_only') THEN
    CREATE TRIGGER suse_pkgstate_rev_append_only BEFORE UPDATE OR DELETE ON susePackageStateRevision
      FOR EACH ROW EXECUTE FUNCTION suse_pkgstate_append_only();
    CREATE TRIGGER suse_pkgstate_rev_no_truncate BEFORE TRUNCATE ON susePackageStateRevision
      FOR EACH STATEMENT EXECUTE FUNCTION suse_pkgstate_append_only();
    CREATE TRIGGER suse_pkgstate_rev_next BEFORE INSERT ON susePackageStateRevision
      FOR EACH ROW EXECUTE FUNCTION suse_pkgstate_next();
    ALTER TABLE susePackageStateRevision ENABLE ALWAYS TRIGGER suse_pkgstate_rev_append_only;
    ALTER TABLE susePackageStateRevision ENABLE ALWAYS TRIGGER suse_pkgstate_rev_no_truncate;
  END IF;
END
$$;

COMMIT;
