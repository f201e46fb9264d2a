-- The tables of Uyuni that the pillar storage refers to, with the columns that it needs.
--
-- Uyuni creates these itself; a Salt without Uyuni needs them as stand-ins. Names and types are Uyuni's own. Safe to run twice:
--     psql -f sql/uyuni.sql -f sql/pillar_rfc.sql

\set ON_ERROR_STOP on

-- Whoever could create in the schema may have been here before
DO $$
DECLARE
  strange TEXT;
BEGIN
  SELECT pg_catalog.string_agg(c.oid::regclass::TEXT || ' of '::TEXT || r.rolname::TEXT, ', '::TEXT ORDER BY c.relname) INTO strange
    FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname::TEXT ~ '^(web_customer|rhnserver(group(members)?)?|suseminioninfo)$'::TEXT
      AND n.nspname = ANY (current_schemas(false)) AND n.nspowner <> r.oid AND NOT r.rolsuper AND r.rolname <> current_user
      AND r.oid <> (SELECT d.datdba FROM pg_database AS d WHERE d.datname = current_database());
  IF strange IS NOT NULL THEN
    RAISE EXCEPTION 'these tables are here, and belong to roles of no special right: %', strange
      USING HINT = 'In a database of Uyuni leave this file out. Else drop them, then run it again.';
  END IF;
END
$$;

CREATE TABLE IF NOT EXISTS web_customer
(
    id NUMERIC PRIMARY KEY,
    name VARCHAR(128) NOT NULL UNIQUE
);

CREATE TABLE IF NOT EXISTS rhnServer
(
    id NUMERIC PRIMARY KEY,
    org_id NUMERIC NOT NULL REFERENCES web_customer (id) ON DELETE CASCADE,
    name VARCHAR(128)
);
CREATE INDEX IF NOT EXISTS rhn_server_oid_idx ON rhnServer (org_id);

CREATE TABLE IF NOT EXISTS rhnServerGroup
(
    id NUMERIC PRIMARY KEY,
    name VARCHAR(64) NOT NULL,
    description VARCHAR(1024) NOT NULL,
    org_id NUMERIC NOT NULL REFERENCES web_customer (id) ON DELETE CASCADE,
    UNIQUE (org_id, name)
);

CREATE TABLE IF NOT EXISTS rhnServerGroupMembers
(
    server_id NUMERIC NOT NULL REFERENCES rhnServer (id) ON DELETE CASCADE,
    server_group_id NUMERIC NOT NULL REFERENCES rhnServerGroup (id) ON DELETE CASCADE,
    UNIQUE (server_id, server_group_id)
);
CREATE INDEX IF NOT EXISTS rhn_sgmembers_gid_idx ON rhnServerGroupMembers (server_group_id);

CREATE TABLE IF NOT EXISTS suseMinionInfo
(
    server_id NUMERIC NOT NULL UNIQUE REFERENCES rhnServer (id) ON DELETE CASCADE,
    minion_id VARCHAR(256) NOT NULL UNIQUE
);
