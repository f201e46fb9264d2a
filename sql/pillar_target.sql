-- Pillar storage with one column for the target, the alternative of the RFC: https://github.com/uyuni-project/uyuni-rfc/pull/51
--
-- Kept for comparison. A target is '*', 'org_id:<id>', 'group_id:<id>' or a minion id; no foreign key refers to any of these, so triggers
-- delete the rows of what is deleted. A minion that is renamed loses its pillars. The table has the name of that of pillar_rfc.sql, so
-- this needs a database, or a schema, of its own, with the tables of uyuni.sql. Safe to run twice:
--     psql -f sql/uyuni.sql -f sql/pillar_target.sql

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

CREATE TABLE IF NOT EXISTS suseSaltPillars
(
    target VARCHAR(256) NOT NULL,
    category VARCHAR,
    pillar JSONB
);

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'suseSaltPillars'::regclass AND attname = 'target') THEN
    RAISE EXCEPTION 'this database has suseSaltPillars with foreign keys: install pillar_target.sql into another database';
  END IF;
END
$$;

CREATE INDEX IF NOT EXISTS suse_salt_pillar_target_idx ON suseSaltPillars (target);

CREATE OR REPLACE FUNCTION minion_removed() RETURNS TRIGGER AS $$
BEGIN
  DELETE FROM suseSaltPillars WHERE target = OLD.minion_id;
  RETURN OLD;
END $$ LANGUAGE PLPGSQL;

CREATE OR REPLACE FUNCTION group_removed() RETURNS TRIGGER AS $$
BEGIN
  DELETE FROM suseSaltPillars WHERE target = CONCAT('group_id:', OLD.id::VARCHAR);
  RETURN OLD;
END $$ LANGUAGE PLPGSQL;

-- The RFC leaves this to Uyuni's procedure delete_org.
CREATE OR REPLACE FUNCTION org_removed() RETURNS TRIGGER AS $$
BEGIN
  DELETE FROM suseSaltPillars WHERE target = CONCAT('org_id:', OLD.id::VARCHAR);
  RETURN OLD;
END $$ LANGUAGE PLPGSQL;

-- A minion chooses its id, and one that is called like another target would have its pillars.
CREATE OR REPLACE FUNCTION minion_named() RETURNS TRIGGER AS $$
BEGIN
  IF NEW.minion_id ~ '^(\*$|org_id:|group_id:)' THEN
    RAISE EXCEPTION 'the minion id % is that of another target in suseSaltPillars: give the minion another id', NEW.minion_id;
  END IF;
  RETURN NEW;
END $$ LANGUAGE PLPGSQL;

DROP TRIGGER IF EXISTS minion_named ON suseMinionInfo;

CREATE TRIGGER minion_named BEFORE INSERT OR UPDATE OF minion_id ON suseMinionInfo FOR EACH ROW EXECUTE PROCEDURE minion_named();

DROP TRIGGER IF EXISTS minion_removed ON suseMinionInfo;

CREATE TRIGGER minion_removed BEFORE DELETE ON suseMinionInfo FOR EACH ROW EXECUTE PROCEDURE minion_removed();

DROP TRIGGER IF EXISTS group_removed ON rhnServerGroup;

CREATE TRIGGER group_removed BEFORE DELETE ON rhnServerGroup FOR EACH ROW EXECUTE PROCEDURE group_removed();

DROP TRIGGER IF EXISTS org_removed ON web_customer;

CREATE TRIGGER org_removed BEFORE DELETE ON web_customer FOR EACH ROW EXECUTE PROCEDURE org_removed();

COMMIT;
