SELECT 'the schema package_states'::TEXT, n.nspowner
  FROM pg_catalog.pg_namespace AS n WHERE n.nspname = 'package_states'::NAME
UNION ALL SELECT c.oid::REGCLASS::TEXT, c.relowner
  FROM pg_catalog.pg_class AS c WHERE c.relnamespace = to_regnamespace('package_states')::OID
UNION ALL SELECT p.oid::REGPROC::TEXT, p.proowner
  FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = to_regnamespace('package_states')::OID
