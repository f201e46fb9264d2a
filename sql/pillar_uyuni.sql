-- Pillar storage over Uyuni's own table suseSaltPillar, which stays as Uyuni made it: its name, its type, its sequence, its rows.
--
-- For the database of Uyuni, in place of pillar.sql. Safe to run twice:
--     psql -f sql/pillar_uyuni.sql
-- What it adds: the function of pillar.sql, an index for it, the tables of priorities and of the order of formulas, and the view
-- suseSaltPillars, by which everything that knows the name of the RFC reads and writes the same rows.

\set ON_ERROR_STOP on

DO $$
BEGIN
  IF to_regclass('suseSaltPillar') IS NULL THEN
    RAISE EXCEPTION 'this database has no table suseSaltPillar of Uyuni'
      USING HINT = 'Name the database of Uyuni, or run sql/uyuni.sql and sql/pillar.sql where there is no Uyuni.';
  END IF;
  IF (SELECT relkind FROM pg_class WHERE oid = to_regclass('suseSaltPillars')) <> 'v' THEN
    RAISE EXCEPTION 'this database has a table suseSaltPillars beside suseSaltPillar'
      USING HINT = 'Move its rows to suseSaltPillar and drop it, then run pillar_uyuni.sql again.';
  END IF;
END
$$;

BEGIN;

-- The one scope for which Uyuni has no index
CREATE INDEX IF NOT EXISTS suse_salt_pillar_everyone_idx ON suseSaltPillar (category)
  WHERE server_id IS NULL AND group_id IS NULL AND org_id IS NULL;

CREATE OR REPLACE VIEW suseSaltPillars AS
  SELECT id, server_id, group_id, org_id, category, pillar FROM suseSaltPillar;

ALTER VIEW suseSaltPillars ALTER COLUMN id SET DEFAULT nextval('suse_salt_pillar_id_seq');

CREATE TABLE IF NOT EXISTS suseSaltPillarPriority
(
    group_id NUMERIC PRIMARY KEY
             CONSTRAINT suse_salt_pillar_priority_gid_fk
             REFERENCES rhnServerGroup (id)
             ON DELETE CASCADE,
    priority INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS suseSaltFormulaOrder
(
    formula VARCHAR PRIMARY KEY,
    position INTEGER NOT NULL
);

-- As in pillar.sql, by the columns and not by their level, which is no column of Uyuni's
CREATE OR REPLACE FUNCTION suse_minion_pillars(
  mid VARCHAR
) RETURNS TABLE (pillar JSONB) LANGUAGE plpgsql STABLE
AS $$
DECLARE
  minion RECORD;
BEGIN
  SELECT s.id, s.org_id INTO minion
    FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id WHERE m.minion_id = mid;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT p.pillar FROM suseSaltPillar AS p
      WHERE p.server_id IS NULL AND p.group_id IS NULL AND p.org_id IS NULL
      ORDER BY p.category COLLATE "C";
  RETURN QUERY
    SELECT p.pillar FROM suseSaltPillar AS p
      WHERE p.org_id = minion.org_id
      ORDER BY p.category COLLATE "C";
  RETURN QUERY
    SELECT p.pillar
      FROM suseSaltPillar AS p LEFT JOIN suseSaltPillarPriority AS o ON o.group_id = p.group_id
      WHERE p.group_id = ANY (ARRAY(
        SELECT g.server_group_id FROM rhnServerGroupMembers AS g WHERE g.server_id = minion.id
      ))
      ORDER BY COALESCE(o.priority, 0), p.group_id, p.category COLLATE "C";
  RETURN QUERY
    SELECT p.pillar FROM suseSaltPillar AS p
      WHERE p.server_id = minion.id
      ORDER BY p.category COLLATE "C";
END
$$;

COMMIT;
