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

SELECT $$DO 'BEGIN RAISE EXCEPTION ''Run sql/pillar.sql first.''; END'$$ WHERE to_regprocedure('suse_minion_pillars(varchar)') IS NULL \gexec

BEGIN;
SET LOCAL lock_timeout = '10s';
DO 'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(''suse_salt_pillar'')); END';
SELECT suse_salt_pillar_trusted();

SELECT format('CREATE ROLE %I NOLOGIN', 'salt_pillar_owner')
  WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'salt_pillar_owner') \gexec
SELECT format('CREATE ROLE %I LOGIN', :'role')
  WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec

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
  FROM unnest(ARRAY['suseSaltPillars', 'suseSaltPillar', 'suseMinionInfo', 'rhnServer',
                    'rhnServerGroupMembers', 'suseSaltPillarHistory', 'suseSaltPillarMoved', 'suseSaltPillarAsked']) AS name, to_regclass(name) AS found
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
