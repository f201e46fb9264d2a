-- Pillar storage, improved: the rows of pillar_rfc.sql in the same order, refusing bad rows, fast at 100,000 minions.
--
-- Installs into an empty database, upgrades the RFC's table in place and keeps its rows, and is safe to run twice. Needs the tables of
-- Uyuni, or those of uyuni.sql:
--     psql -f sql/uyuni.sql -f sql/pillar.sql
-- What is different from the RFC: a row without a target is unique by category, a pillar is an object, the order of rows is complete
-- (scope, id of the group, category), a minion that is not known gets no row at all.
--
-- Where Uyuni's own table suseSaltPillar is, its columns stay as Uyuni made them, and suseSaltPillars is a view of it. It gets an index by
-- which a row without a target is unique, and refuses what is no object: both as in a table of our own.

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

-- Whoever waits for a table keeps all others from it who come later. Two of these files at once would replace each other's functions
SET LOCAL lock_timeout = '10s';
DO 'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(''suse_salt_pillar'')); END';

-- What functions of the pillars find by its name, and what PostgreSQL may take in place of its own, must be of a role that is trusted anyway:
-- a superuser, the owner of the database, of the schema or of Uyuni's tables. Whoever could create in the schema may have been here before.
-- A function of another role would stay that role's if it was only replaced
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS suse_salt_pillar_trusted();
SET LOCAL client_min_messages TO DEFAULT;

CREATE FUNCTION suse_salt_pillar_trusted() RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
  strange TEXT;
BEGIN
  WITH found (name, owner, home) AS (
    SELECT c.oid::regclass::TEXT, c.relowner, c.relnamespace FROM pg_class AS c
      WHERE c.relname::TEXT ~ '^(web_customer|rhnserver(group(members)?)?|suse(minioninfo|saltpillar\w*))$'::TEXT
    UNION ALL
    SELECT p.oid::regprocedure::TEXT, p.proowner, p.pronamespace FROM pg_proc AS p
      WHERE p.proname::TEXT ~ '^suse_(minion_pillars$|salt_pillar_)'::TEXT
        OR EXISTS (SELECT FROM pg_proc AS b WHERE b.proname = p.proname AND b.pronamespace = 'pg_catalog'::regnamespace::OID)
    UNION ALL
    SELECT o.oid::regoperator::TEXT, o.oprowner, o.oprnamespace FROM pg_operator AS o
  )
  SELECT pg_catalog.string_agg(f.name || ' of '::TEXT || r.rolname::TEXT, ', '::TEXT ORDER BY f.name) INTO strange
    FROM found AS f JOIN pg_roles AS r ON r.oid = f.owner JOIN pg_namespace AS n ON n.oid = f.home
    WHERE n.nspname = ANY (current_schemas(false)) AND n.nspowner <> r.oid AND NOT r.rolsuper
      AND r.rolname <> ALL (ARRAY[current_user, 'salt_pillar_owner']::NAME[])
      AND r.oid <> (SELECT d.datdba FROM pg_database AS d WHERE d.datname = current_database())
      AND r.oid <> (SELECT c.relowner FROM pg_class AS c WHERE c.oid = to_regclass('rhnServer'::TEXT)::OID);
  IF strange IS NOT NULL THEN
    RAISE EXCEPTION 'functions of the pillars would call or read what belongs to roles that must not change them: %', strange
      USING HINT = 'Drop these, or give them to the owner of the database, then run this file again.';
  END IF;
END
$$;

SELECT suse_salt_pillar_trusted();

-- The table of Uyuni, or one of our own
DO $$
BEGIN
  IF to_regclass('suseSaltPillar') IS NOT NULL THEN
    CREATE OR REPLACE VIEW suseSaltPillars AS
      SELECT id, server_id, group_id, org_id, category, pillar,
        CASE WHEN server_id IS NOT NULL THEN 3 WHEN group_id IS NOT NULL THEN 2 WHEN org_id IS NOT NULL THEN 1 ELSE 0 END AS level
      FROM suseSaltPillar;
    ALTER VIEW suseSaltPillars ALTER COLUMN id SET DEFAULT pg_catalog.nextval('suse_salt_pillar_id_seq'::regclass);
    RETURN;
  END IF;

  CREATE TABLE IF NOT EXISTS suseSaltPillars
  (
      id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
      server_id NUMERIC REFERENCES rhnServer (id) ON DELETE CASCADE,
      group_id NUMERIC REFERENCES rhnServerGroup (id) ON DELETE CASCADE,
      org_id NUMERIC REFERENCES web_customer (id) ON DELETE CASCADE,
      category VARCHAR NOT NULL,
      pillar JSONB NOT NULL,
      UNIQUE (server_id, category),
      UNIQUE (group_id, category),
      UNIQUE (org_id, category),
      CONSTRAINT suse_salt_pillar_only_one_target CHECK (num_nonnulls(server_id, group_id, org_id) <= 1)
  );
END
$$;

-- Rows that break the rules are named before anything else is changed, as PostgreSQL's own message names the constraint only
DO $$
DECLARE
  place TEXT := CASE WHEN to_regclass('suseSaltPillar') IS NULL THEN 'suseSaltPillars' ELSE 'suseSaltPillar' END;
  bad TEXT;
BEGIN
  SELECT string_agg(id::TEXT, ', ' ORDER BY id) INTO bad FROM suseSaltPillars WHERE jsonb_typeof(pillar) <> 'object';
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION 'the pillar is no JSON object in these rows of %: %', place, bad
      USING HINT = 'Correct or delete them, then run pillar.sql again.';
  END IF;
  SELECT string_agg(category, ', ' ORDER BY category) INTO bad FROM (
    SELECT category FROM suseSaltPillars WHERE num_nonnulls(server_id, group_id, org_id) = 0
    GROUP BY category HAVING count(*) > 1
  ) AS twice;
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION '% has more than one global row of these categories: %', place, bad
      USING HINT = 'Keep one of each, then run pillar.sql again.';
  END IF;

  -- What is there was looked at above, and is not read again while nobody may write
  IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = place::REGCLASS AND conname = 'suse_salt_pillar_object') THEN
    EXECUTE 'ALTER TABLE ' || place || ' ADD CONSTRAINT suse_salt_pillar_object CHECK (jsonb_typeof(pillar) = ''object'') NOT VALID';
  END IF;
END
$$;

-- For the one scope for which Uyuni has no index, whose rows the function finds by their level
DO $$
BEGIN
  IF to_regclass('suseSaltPillar') IS NOT NULL THEN
    DROP INDEX IF EXISTS suse_salt_pillar_global_idx;
    CREATE UNIQUE INDEX IF NOT EXISTS suse_salt_pillar_global_uq ON suseSaltPillar (category) WHERE
      CASE WHEN server_id IS NOT NULL THEN 3 WHEN group_id IS NOT NULL THEN 2 WHEN org_id IS NOT NULL THEN 1 ELSE 0 END = 0;
    RETURN;
  END IF;

  -- 0 everyone, 1 organisation, 2 group, 3 minion
  ALTER TABLE suseSaltPillars ADD COLUMN IF NOT EXISTS level SMALLINT NOT NULL GENERATED ALWAYS AS (
      CASE WHEN server_id IS NOT NULL THEN 3 WHEN group_id IS NOT NULL THEN 2 WHEN org_id IS NOT NULL THEN 1 ELSE 0 END
  ) STORED;

  -- A pillar of 2 KB and more is compressed, and a fetch undoes that for each row, which takes less with lz4. Rows that are there keep what
  -- they have. A server before version 14 cannot parse this, one that was built without lz4 refuses it: either goes on with its default.
  BEGIN
    EXECUTE 'ALTER TABLE suseSaltPillars ALTER COLUMN pillar SET COMPRESSION lz4';
  EXCEPTION WHEN syntax_error OR feature_not_supported THEN
    RAISE NOTICE 'pillars are compressed as this server does by default: %', SQLERRM;
  END;

  -- One small index for each scope: a lookup never meets rows of another one, nor its many NULLs.
  CREATE UNIQUE INDEX IF NOT EXISTS suse_salt_pillar_global_uq ON suseSaltPillars (category) WHERE level = 0;

  CREATE INDEX IF NOT EXISTS suse_salt_pillar_level_oid_idx ON suseSaltPillars (org_id) WHERE level = 1;

  CREATE INDEX IF NOT EXISTS suse_salt_pillar_level_gid_idx ON suseSaltPillars (group_id) WHERE level = 2;

  CREATE INDEX IF NOT EXISTS suse_salt_pillar_level_sid_idx ON suseSaltPillars (server_id) WHERE level = 3;

  CREATE INDEX IF NOT EXISTS suse_salt_pillar_category ON suseSaltPillars (category);
END
$$;

-- A query for each scope, and not one with four ORs, which reads the whole table. PL/pgSQL keeps their plans for the session, which is most
-- of the time: a function in SQL is planned at each call. Each of them looks up one value in one index, so that a plan that is made for any
-- minion is good for all; an array of groups, as IN over a subquery joins. pillar_role.sql lets it run as its owner: it casts
-- each VARCHAR that it compares, as who may create an operator for VARCHAR itself would have it called in place of PostgreSQL's.
CREATE OR REPLACE FUNCTION suse_minion_pillars(
  mid VARCHAR
) RETURNS TABLE (pillar JSONB) LANGUAGE plpgsql STABLE
AS $$
DECLARE
  minion RECORD;
BEGIN
  SELECT s.id, s.org_id INTO minion
    FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id WHERE m.minion_id::TEXT = mid::TEXT;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT p.pillar FROM suseSaltPillars AS p
      WHERE p.level = 0
      ORDER BY p.category COLLATE "C";
  RETURN QUERY
    SELECT p.pillar FROM suseSaltPillars AS p
      WHERE p.level = 1 AND p.org_id = minion.org_id
      ORDER BY p.category COLLATE "C";
  RETURN QUERY
    SELECT p.pillar FROM suseSaltPillars AS p
      WHERE p.level = 2 AND p.group_id = ANY (ARRAY(
        SELECT g.server_group_id FROM rhnServerGroupMembers AS g WHERE g.server_id = minion.id
      ))
      ORDER BY p.group_id, p.category COLLATE "C";
  RETURN QUERY
    SELECT p.pillar FROM suseSaltPillars AS p
      WHERE p.level = 3 AND p.server_id = minion.id
      ORDER BY p.category COLLATE "C";
END
$$;

COMMIT;
