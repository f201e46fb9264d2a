-- Changes of pillars: who hears of them, and what there was before.
--
-- Run it after pillar.sql, and pillar_role.sql after it. Needs PostgreSQL 13. Safe to run twice.
-- Each change of a row is noted in suseSaltPillarHistory: when, by whom, from what, to what. A minion that gets another group, organisation
-- or id, and a TRUNCATE are noted in suseSaltPillarMoved. Either notifies the channel suse_salt_pillar, and the engine pillar_changes asks for
-- what has changed with suse_salt_pillar_changes, so that a notification that is lost loses nothing. PUBLIC may create nothing in the schema
-- of the pillars any more, as functions here run as their owner. The owner of the pillars may.

\set ON_ERROR_STOP on

BEGIN;
SET LOCAL lock_timeout = '10s';
DO 'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(''suse_salt_pillar'')); END';
SET LOCAL client_min_messages = warning;
SELECT suse_salt_pillar_trusted();

-- For how long changes are kept, and whether with their values, which may be secrets and outlive their owners. Replace them to have others.
DO $$
BEGIN
  IF to_regprocedure('suse_salt_pillar_keep()') IS NULL THEN
    CREATE FUNCTION suse_salt_pillar_keep() RETURNS INTERVAL LANGUAGE sql IMMUTABLE AS 'SELECT INTERVAL ''90 days''';
  END IF;
  IF to_regprocedure('suse_salt_pillar_history()') IS NULL THEN
    CREATE FUNCTION suse_salt_pillar_history() RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS 'SELECT true';
  END IF;
END
$$;

-- No foreign keys: a change outlives its owner. The transaction is what says to a reader whether it has seen a change: ids are given out in
-- another order than transactions end.
CREATE TABLE IF NOT EXISTS suseSaltPillarHistory
(
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    changed TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    changed_by TEXT NOT NULL DEFAULT session_user,
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    server_id NUMERIC,
    group_id NUMERIC,
    org_id NUMERIC,
    category VARCHAR NOT NULL,
    before JSONB,
    after JSONB
);

CREATE INDEX IF NOT EXISTS suse_salt_pillar_history_time_idx ON suseSaltPillarHistory (changed);
CREATE INDEX IF NOT EXISTS suse_salt_pillar_history_transaction_idx ON suseSaltPillarHistory (transaction);
CREATE INDEX IF NOT EXISTS suse_salt_pillar_history_owner_idx ON suseSaltPillarHistory (server_id, group_id, org_id, category);

-- Who may have another pillar though no row of a pillar has changed, by another group, organisation or id: a minion, all of a group,
-- a minion by a group that it joins or leaves, everyone.
CREATE TABLE IF NOT EXISTS suseSaltPillarMoved
(
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    changed TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    server_id NUMERIC,
    group_id NUMERIC
);

CREATE INDEX IF NOT EXISTS suse_salt_pillar_moved_time_idx ON suseSaltPillarMoved (changed);
CREATE INDEX IF NOT EXISTS suse_salt_pillar_moved_transaction_idx ON suseSaltPillarMoved (transaction);

-- When who listens was told of changes, see suse_salt_pillar_changes
CREATE TABLE IF NOT EXISTS suseSaltPillarAsked
(
    transaction xid8 PRIMARY KEY DEFAULT pg_current_xact_id(),
    asked TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS suse_salt_pillar_asked_time_idx ON suseSaltPillarAsked (asked);

-- One row: since when all changes are known. Changes before are deleted or were never noted, as while the triggers were away.
CREATE TABLE IF NOT EXISTS suseSaltPillarKnown (since TIMESTAMPTZ NOT NULL);

DELETE FROM suseSaltPillarKnown WHERE num_nulls(to_regproc('suse_salt_pillar_changed'), to_regproc('suse_salt_pillar_moved')) > 0;

-- The functions below that run as their owner cast each VARCHAR that they compare, and name the schema of each function that takes a value
-- of any type: who may create an operator or a function for the type itself would have it called in place of PostgreSQL's.

-- Delete what is too old, at most so many rows of each table, and return how many. It waits for nobody: whoever changes pillars must not be held
-- up by it. Changes stay a day longer than the answers that may have missed them.
CREATE OR REPLACE FUNCTION suse_salt_pillar_prune(
  most INTEGER
) RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
  old TIMESTAMPTZ := now() - suse_salt_pillar_keep();
  pruned INTEGER;
BEGIN
  WITH history AS (
    DELETE FROM suseSaltPillarHistory WHERE id IN (
      SELECT id FROM suseSaltPillarHistory WHERE changed < old - INTERVAL '1 day' ORDER BY changed LIMIT most FOR UPDATE SKIP LOCKED)
      RETURNING changed
  ), moved AS (
    DELETE FROM suseSaltPillarMoved WHERE id IN (
      SELECT id FROM suseSaltPillarMoved WHERE changed < old - INTERVAL '1 day' ORDER BY changed LIMIT most FOR UPDATE SKIP LOCKED)
      RETURNING changed
  ), asked AS (
    DELETE FROM suseSaltPillarAsked WHERE transaction IN (
      SELECT transaction FROM suseSaltPillarAsked WHERE asked < old ORDER BY asked LIMIT most FOR UPDATE SKIP LOCKED)
  ), gone AS (
    TABLE history UNION ALL TABLE moved
  ), known AS (
    UPDATE suseSaltPillarKnown SET since = GREATEST(since, (SELECT max(changed) FROM gone))
  )
  SELECT count(*) INTO pruned FROM gone;
  RETURN pruned;
END
$$;

-- A statement and not each row: ten thousand rows that change at once are one INSERT here. It runs as its owner, as whoever writes pillars
-- need not write their history.
CREATE OR REPLACE FUNCTION suse_salt_pillar_changed() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
  noted BIGINT;
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO suseSaltPillarHistory (server_id, group_id, org_id, category, after)
      SELECT server_id, group_id, org_id, category, CASE WHEN suse_salt_pillar_history() THEN pillar END FROM new_rows;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO suseSaltPillarHistory (server_id, group_id, org_id, category, before)
      SELECT server_id, group_id, org_id, category, CASE WHEN suse_salt_pillar_history() THEN pillar END FROM old_rows;
  ELSE
    -- As text: 1 and 1.0 are equal in jsonb. A row that goes to another owner is gone from the first one.
    INSERT INTO suseSaltPillarHistory (server_id, group_id, org_id, category, before, after)
      SELECT COALESCE(o.server_id, n.server_id), COALESCE(o.group_id, n.group_id), COALESCE(o.org_id, n.org_id),
          COALESCE(o.category, n.category), CASE WHEN suse_salt_pillar_history() THEN o.pillar END,
          CASE WHEN suse_salt_pillar_history() THEN n.pillar END
        FROM old_rows AS o FULL JOIN new_rows AS n
          ON ROW(o.id, o.server_id, o.group_id, o.org_id, o.category)::TEXT
            = ROW(n.id, n.server_id, n.group_id, n.org_id, n.category)::TEXT
        WHERE o.pillar::TEXT IS DISTINCT FROM n.pillar::TEXT;
  END IF;
  GET DIAGNOSTICS noted = ROW_COUNT;
  IF noted > 0 THEN
    PERFORM pg_catalog.pg_notify('suse_salt_pillar', '');
  END IF;
  RETURN NULL;
END
$$;

-- The columns with the server and with the group are those that the trigger names. Of any group: whether one has a pillar is known to whoever
-- asks, and not while other transactions are on their way. Of TRUNCATE no row is known, which is everyone.
CREATE OR REPLACE FUNCTION suse_salt_pillar_moved() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER
AS $$
BEGIN
  INSERT INTO suseSaltPillarMoved (server_id, group_id)
    SELECT DISTINCT (side.moved ->> TG_ARGV[0])::NUMERIC, (side.moved ->> TG_ARGV[1])::NUMERIC
      FROM (VALUES (pg_catalog.to_jsonb(OLD)), (pg_catalog.to_jsonb(NEW))) AS side (moved)
      WHERE side.moved <> 'null' OR TG_OP = 'TRUNCATE';
  PERFORM pg_catalog.pg_notify('suse_salt_pillar', '');
  RETURN NULL;
END
$$;

-- What has changed since a snapshot, which is what an earlier call returned; NULL is now. Changes that were not committed then are among
-- the answers, whenever they began. A snapshot that the server cannot know is everything. It
-- knows one by a row that was written with the answer: where that is, all is that was committed before, and no number of a transaction
-- that the snapshot has seen is given out again. A standby that takes over may lack the last transactions, and a backup that is restored is
-- older; one that goes through a dump has other transactions, which write its rows. No row is written for an answer that says nothing.
-- Rows of transactions that are still to come are those of another server.
-- Uyuni has groups for much else than pillars: a minion that joins or leaves a group counts if that has a pillar, or had one.
CREATE OR REPLACE FUNCTION suse_salt_pillar_changes(
  since TEXT
) RETURNS TABLE (snapshot TEXT, minions TEXT[]) LANGUAGE plpgsql
AS $$
DECLARE
  seen pg_snapshot := substring(since FROM '^\d+/(\d+:\d+:[\d,]*)$');
  witnessed TIMESTAMPTZ := (
    SELECT a.asked FROM suseSaltPillarAsked AS a
      WHERE a.transaction = substring(since FROM '^(\d+)/')::xid8 AND a.xmin = a.transaction::xid);
  is_known BOOLEAN := witnessed IS NOT NULL;
BEGIN
  -- one statement, which sees what the snapshot has that it returns
  WITH changed AS (
    SELECT DISTINCT h.server_id, h.group_id, h.org_id FROM suseSaltPillarHistory AS h
      WHERE h.transaction >= pg_snapshot_xmin(seen) AND h.transaction < pg_snapshot_xmax(pg_current_snapshot())
        AND NOT pg_visible_in_snapshot(h.transaction, seen)
    UNION
    SELECT m.server_id, CASE WHEN m.server_id IS NULL THEN m.group_id END, NULL FROM suseSaltPillarMoved AS m
      WHERE m.transaction >= pg_snapshot_xmin(seen) AND m.transaction < pg_snapshot_xmax(pg_current_snapshot())
        AND NOT pg_visible_in_snapshot(m.transaction, seen)
        AND (m.server_id IS NULL OR m.group_id IS NULL
          OR EXISTS (SELECT FROM suseSaltPillars AS p WHERE p.level = 2 AND p.group_id = m.group_id)
          OR EXISTS (SELECT FROM suseSaltPillarHistory AS h WHERE h.server_id IS NULL AND h.group_id = m.group_id))
  ), everyone AS (
    SELECT since IS NOT NULL AND (NOT is_known OR EXISTS (
      SELECT FROM changed AS c WHERE c.server_id IS NULL AND c.group_id IS NULL AND c.org_id IS NULL)) AS is_meant
  )
  SELECT pg_current_snapshot()::TEXT, ARRAY(
    SELECT m.minion_id::TEXT FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id
      WHERE (SELECT is_meant FROM everyone)
        OR s.id IN (SELECT c.server_id FROM changed AS c)
        OR s.org_id IN (SELECT c.org_id FROM changed AS c)
        OR s.id IN (SELECT g.server_id FROM rhnServerGroupMembers AS g JOIN changed AS c ON c.group_id = g.server_group_id)
      ORDER BY 1)
    INTO snapshot, minions;
  IF is_known AND pg_catalog.cardinality(minions) = 0 AND witnessed > now() - INTERVAL '1 hour' THEN
    snapshot := since;
  ELSE
    INSERT INTO suseSaltPillarAsked AS a DEFAULT VALUES ON CONFLICT (transaction) DO UPDATE SET asked = now();
    snapshot := pg_current_xact_id()::TEXT || '/' || snapshot;
  END IF;
  RETURN NEXT;
END
$$;

-- Undo the change of this id: the row is again what it was before it
CREATE OR REPLACE FUNCTION suse_salt_pillar_restore(
  change BIGINT
) RETURNS VOID LANGUAGE plpgsql
AS $$
DECLARE
  old suseSaltPillarHistory := (SELECT h FROM suseSaltPillarHistory AS h WHERE h.id = change);
  kept NUMERIC := (SELECT p.id FROM suseSaltPillars AS p WHERE p.category::TEXT = old.category::TEXT
    AND (p.server_id, p.group_id, p.org_id) IS NOT DISTINCT FROM (old.server_id, old.group_id, old.org_id));
BEGIN
  IF old.before IS NULL AND old.after IS NULL THEN
    RAISE EXCEPTION 'suseSaltPillarHistory has no change %, or none with its values', change;
  END IF;
  IF old.before IS NULL THEN
    DELETE FROM suseSaltPillars WHERE id = kept;
  ELSIF kept IS NOT NULL THEN
    UPDATE suseSaltPillars SET pillar = old.before WHERE id = kept;
  ELSE
    INSERT INTO suseSaltPillars (server_id, group_id, org_id, category, pillar)
      VALUES (old.server_id, old.group_id, old.org_id, old.category, old.before);
  END IF;
END
$$;

-- Onto the table, which is Uyuni's where suseSaltPillars is a view of it. Functions that run as their owner find their tables where they
-- are, whatever the caller's search_path is.
DO $$
DECLARE
  home TEXT;
  target REGCLASS;
  owner TEXT;
  name TEXT;
  found RECORD;
BEGIN
  SELECT CASE relkind WHEN 'v' THEN to_regclass('suseSaltPillar') ELSE oid::regclass END, relnamespace::regnamespace::TEXT
    INTO target, home FROM pg_class WHERE oid = 'suseSaltPillars'::regclass;
  IF has_schema_privilege('public', to_regnamespace(home), 'CREATE') THEN
    SELECT relowner::regrole::TEXT INTO owner FROM pg_class WHERE oid = target;
    EXECUTE format('GRANT CREATE ON SCHEMA %s TO %s', home, owner);
    EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM PUBLIC', home);
    IF has_schema_privilege('public', to_regnamespace(home), 'CREATE') THEN
      RAISE EXCEPTION 'PUBLIC may create objects in the schema % of the pillars, and % cannot revoke that', home, current_user
        USING HINT = 'Run sql/pillar_changes.sql as the owner of the schema, or as a superuser.';
    END IF;
  END IF;
  FOR found IN SELECT tgname, tgrelid::regclass AS place FROM pg_trigger WHERE tgname::TEXT ~ '^suse_salt_pillar_'::TEXT
      AND tgrelid = ANY (ARRAY[target, 'rhnServer', 'rhnServerGroupMembers', 'suseMinionInfo', 'suseSaltPillarHistory']::REGCLASS[]) LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.place);
  END LOOP;
  FOREACH name IN ARRAY ARRAY['changed()', 'moved()', 'prune(integer)', 'changes(text)', 'restore(bigint)'] LOOP
    EXECUTE format('ALTER FUNCTION suse_salt_pillar_%s SET search_path = pg_catalog, %s, pg_temp', name, home);
    EXECUTE format('REVOKE ALL ON FUNCTION suse_salt_pillar_%s FROM PUBLIC', name);
  END LOOP;
  EXECUTE format('CREATE TRIGGER suse_salt_pillar_inserted AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows'
    ' FOR EACH STATEMENT EXECUTE FUNCTION suse_salt_pillar_changed()', target);
  EXECUTE format('CREATE TRIGGER suse_salt_pillar_updated AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows'
    ' FOR EACH STATEMENT EXECUTE FUNCTION suse_salt_pillar_changed()', target);
  EXECUTE format('CREATE TRIGGER suse_salt_pillar_deleted AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows'
    ' FOR EACH STATEMENT EXECUTE FUNCTION suse_salt_pillar_changed()', target);
  EXECUTE format('CREATE TRIGGER suse_salt_pillar_emptied AFTER TRUNCATE ON %s'
    ' FOR EACH STATEMENT EXECUTE FUNCTION suse_salt_pillar_moved()', target);
END
$$;

-- Hibernate writes all columns of a row, those too that have not changed
CREATE TRIGGER suse_salt_pillar_joined AFTER INSERT OR DELETE ON rhnServerGroupMembers
  FOR EACH ROW EXECUTE FUNCTION suse_salt_pillar_moved('server_id', 'server_group_id');
CREATE TRIGGER suse_salt_pillar_updated AFTER UPDATE ON rhnServerGroupMembers
  FOR EACH ROW WHEN ((OLD.server_id, OLD.server_group_id) IS DISTINCT FROM (NEW.server_id, NEW.server_group_id))
  EXECUTE FUNCTION suse_salt_pillar_moved('server_id', 'server_group_id');
CREATE TRIGGER suse_salt_pillar_emptied AFTER TRUNCATE ON rhnServerGroupMembers
  FOR EACH STATEMENT EXECUTE FUNCTION suse_salt_pillar_moved();

CREATE TRIGGER suse_salt_pillar_moved AFTER UPDATE OF org_id ON rhnServer
  FOR EACH ROW WHEN (OLD.org_id IS DISTINCT FROM NEW.org_id) EXECUTE FUNCTION suse_salt_pillar_moved('id');

CREATE TRIGGER suse_salt_pillar_moved AFTER INSERT ON suseMinionInfo
  FOR EACH ROW EXECUTE FUNCTION suse_salt_pillar_moved('server_id');
CREATE TRIGGER suse_salt_pillar_updated AFTER UPDATE OF server_id, minion_id ON suseMinionInfo
  FOR EACH ROW WHEN ((OLD.server_id, OLD.minion_id::TEXT) IS DISTINCT FROM (NEW.server_id, NEW.minion_id::TEXT))
  EXECUTE FUNCTION suse_salt_pillar_moved('server_id');

INSERT INTO suseSaltPillarKnown SELECT clock_timestamp() WHERE NOT EXISTS (TABLE suseSaltPillarKnown);

COMMIT;
