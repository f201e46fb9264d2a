-- Pillar storage with one column for the target, the alternative of the RFC: https://github.com/uyuni-project/uyuni-rfc/pull/51
--
-- As the RFC writes it, except that running this twice is safe. For comparison only, in a database of its own with the tables of uyuni.sql.

\set ON_ERROR_STOP on

CREATE TABLE IF NOT EXISTS suseSaltPillars
(
    target VARCHAR(256) NOT NULL,
    category VARCHAR,
    pillar JSONB
);

CREATE INDEX IF NOT EXISTS suse_salt_pillar_target_idx ON suseSaltPillars (target);

CREATE OR REPLACE FUNCTION minion_removed() RETURNS TRIGGER AS $$
BEGIN
  DELETE FROM suseSaltPillars WHERE target = OLD.minion_id;
  RETURN OLD;
END $$ LANGUAGE PLPGSQL;

CREATE OR REPLACE FUNCTION group_removed() RETURNS TRIGGER AS $$
BEGIN
  DELETE FROM suseSaltPillars WHERE target = CONCAT('group_id:',OLD.id::VARCHAR);
  RETURN OLD;
END $$ LANGUAGE PLPGSQL;

DROP TRIGGER IF EXISTS minion_removed ON suseMinionInfo;
CREATE TRIGGER minion_removed BEFORE DELETE ON suseMinionInfo FOR EACH ROW EXECUTE PROCEDURE minion_removed();

DROP TRIGGER IF EXISTS group_removed ON rhnServerGroup;
CREATE TRIGGER group_removed BEFORE DELETE ON rhnServerGroup FOR EACH ROW EXECUTE PROCEDURE group_removed();
