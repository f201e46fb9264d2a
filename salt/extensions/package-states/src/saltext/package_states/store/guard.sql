-- Fails if something belongs to another role. Each value is cast to the type of PostgreSQL's own
-- operator, which is found before others then.
DO $guard$
DECLARE
  strange TEXT;
BEGIN
  SELECT f.name || ' belongs to the role '::TEXT || r.rolname::TEXT INTO strange
    FROM (NAMES AND OWNERS) AS f (name, owner)
    JOIN pg_catalog.pg_roles AS r ON r.oid = f.owner
   WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.rolname <> 'pg_database_owner'::NAME
     AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
   ORDER BY f.name LIMIT 1;
  IF strange IS NOT NULL THEN
    RAISE EXCEPTION '%, and may have been planted for package states to use it; drop it, or give it to the owner of'
      ' the database, then try again', strange;
  END IF;
END
$guard$;
