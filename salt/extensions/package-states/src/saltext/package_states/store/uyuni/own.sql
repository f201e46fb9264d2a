-- where the search_path finds them
SELECT c.oid::REGCLASS::TEXT, c.relowner
  FROM unnest(ARRAY['suseMinionInfo', 'rhnServer', 'rhnServerGroupMembers', 'rhnServerGroup',
                    'web_customer']::TEXT[]) AS t (name)
  JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(t.name)::OID
