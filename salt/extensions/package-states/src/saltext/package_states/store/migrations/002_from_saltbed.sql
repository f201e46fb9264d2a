-- Whoever had package states in a patched Salt, before this extension, has tables of them in the schema "public", made
-- with the file sql/package_states.sql. Take over what they hold; they themselves stay as they are. Uyuni has another
-- table of the name susePackageState: what tells ours is the one of revisions.

DO $$
BEGIN
  IF to_regclass('public.susepackagestaterevision') IS NULL OR to_regclass('public.susepackagelist') IS NULL THEN
    RETURN;
  END IF;
  INSERT INTO package_states.state (id, name, own, created)
    SELECT id, name, own, created FROM public.susePackageState;
  PERFORM setval(pg_get_serial_sequence('package_states.state', 'id'),
                 (SELECT COALESCE(max(id), 0) + 1 FROM package_states.state), false);
  INSERT INTO package_states.revision (state_id, number, parent, contents, author, comment, created, items)
    SELECT state_id, number, parent, contents, author, comment, created, items
      FROM public.susePackageStateRevision ORDER BY state_id, number;
  INSERT INTO package_states.assignment (state_id, kind, target, priority, author, created)
    SELECT a.state_id,
           CASE WHEN a.server_id IS NOT NULL THEN 'minion' WHEN a.group_id IS NOT NULL THEN 'group'
                WHEN a.org_id IS NOT NULL THEN 'organization' ELSE 'grains' END,
           COALESCE(m.minion_id, a.group_id::TEXT, a.org_id::TEXT, a.grain_match),
           a.priority, a.author, a.created
      FROM public.susePackageStateAssignment AS a
      LEFT JOIN public.suseMinionInfo AS m ON m.server_id = a.server_id
     WHERE a.server_id IS NULL OR m.minion_id IS NOT NULL
     ORDER BY a.id;
  INSERT INTO package_states.package_list (minion_id, platform, digest, packages, refreshed)
    SELECT m.minion_id, l.platform, l.digest, l.packages, l.refreshed
      FROM public.susePackageList AS l JOIN public.suseMinionInfo AS m ON m.server_id = l.server_id;
END
$$;
