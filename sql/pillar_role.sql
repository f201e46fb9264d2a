-- The role of a master: it may call the functions of the pillar storage, and nothing else.
--
-- Run it as a superuser after pillar.sql, and again each time after it, as that makes the function anew. Safe to run twice; the name of
-- the role is that of the variable:
--     psql -v role=salt -f sql/pillar_role.sql
-- It sets no password: give the role one with \password, or let pg_hba.conf know it otherwise. The functions belong to a role that nobody
-- can log in as and that may read the tables of pillars only, so not even a fault in a function gives more than these. What any role may do
-- in any database of PostgreSQL is taken from PUBLIC here, in this database: temporary tables and large objects. Grant it to those of your
-- own roles that need it.

\set ON_ERROR_STOP on
\if :{?role}
\else
\set role salt
\endif

DO $$
BEGIN
  IF to_regprocedure('suse_minion_pillars(varchar)') IS NULL THEN
    RAISE EXCEPTION 'this database has no function suse_minion_pillars'
      USING HINT = 'Run sql/pillar.sql first.';
  END IF;
END
$$;

-- What functions of the pillars find by its name, and what PostgreSQL may take in place of its own, must be of a role that is trusted anyway:
-- a superuser, the owner of the database, of the schema or of Uyuni's tables. Whoever could create in the schema may have been here before.
DO $$
DECLARE
  strange TEXT;
BEGIN
  WITH found (name, owner, home) AS (
    SELECT c.oid::regclass::TEXT, c.relowner, c.relnamespace FROM pg_class AS c
      WHERE c.relname::TEXT ~ '^(web_customer|rhnserver(group(members)?)?|suse(minioninfo|salt(pillar\w*|formulaorder)))$'::TEXT
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

SELECT format('CREATE ROLE %I NOLOGIN', 'salt_pillar_owner')
  WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'salt_pillar_owner') \gexec
SELECT format('CREATE ROLE %I LOGIN', :'role')
  WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec

BEGIN;

ALTER ROLE :"role" NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS NOINHERIT;
ALTER ROLE salt_pillar_owner NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS NOLOGIN;

SELECT format('GRANT USAGE ON SCHEMA %I TO salt_pillar_owner, %I', nspname, :'role'),
       format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, %I', nspname, :'role')
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
  WHERE p.oid = to_regprocedure('suse_minion_pillars(varchar)') \gexec
SELECT format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, %I', current_database(), :'role'),
       format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), :'role') \gexec
REVOKE EXECUTE ON FUNCTION lo_creat(INTEGER), lo_create(OID), lo_from_bytea(OID, BYTEA) FROM PUBLIC;

-- What the role was given before, as by an earlier set-up
SELECT format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %I', nspname, :'role'),
       format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %I FROM %I', nspname, :'role')
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
  WHERE p.oid = to_regprocedure('suse_minion_pillars(varchar)') \gexec

SELECT format('GRANT SELECT ON %s TO salt_pillar_owner', found)
  FROM unnest(ARRAY['suseSaltPillars', 'suseSaltPillar', 'suseSaltPillarPriority', 'suseMinionInfo', 'rhnServer',
                    'rhnServerGroupMembers', 'suseSaltPillarHistory', 'suseSaltPillarMoved', 'suseSaltPillarPruned',
                    'suseSaltPillarAsked']) AS name, to_regclass(name) AS found
  WHERE found IS NOT NULL \gexec

SELECT format('GRANT INSERT, UPDATE ON %s TO salt_pillar_owner', found)
  FROM to_regclass('suseSaltPillarAsked') AS found WHERE found IS NOT NULL \gexec

-- Each function runs as its owner, and finds its tables where they are, whatever the caller's search_path is
SELECT format('ALTER FUNCTION %s SECURITY DEFINER', p.oid::regprocedure),
       format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', p.oid::regprocedure, nspname),
       format('ALTER FUNCTION %s OWNER TO salt_pillar_owner', p.oid::regprocedure),
       format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', p.oid::regprocedure),
       format('GRANT EXECUTE ON FUNCTION %s TO %I', p.oid::regprocedure, :'role')
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
  WHERE p.oid IN (to_regprocedure('suse_minion_pillars(varchar)'), to_regprocedure('suse_salt_pillar_changes(text)')) \gexec

-- It deletes old notes, as the owner of these
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', found, :'role')
  FROM to_regprocedure('suse_salt_pillar_prune(integer)') AS found WHERE found IS NOT NULL \gexec

COMMIT;
