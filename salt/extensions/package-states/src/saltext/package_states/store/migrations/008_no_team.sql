-- Stages, approvals and the generations of minions are gone. Step 5, which made their tables, is gone too: where it was
-- applied, what it made goes here. States, revisions and assignments stay as they are.

DO $$
DECLARE
  made TEXT;
  used BOOLEAN := FALSE;
BEGIN
  -- without stages the newest revision of each state is in force everywhere, also one that nobody approved
  IF to_regclass('package_states.stage') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM package_states.stage)' INTO used;
  END IF;
  IF used THEN
    RAISE EXCEPTION 'this version has no stages, so the newest revisions would be in force everywhere; with the version'
      ' before, bring what prod has into the newest revisions, let no assignment follow a stage, and run'
      ' package_states.stages ''[]''';
  END IF;
  FOREACH made IN ARRAY ARRAY['stage', 'stage_change', 'decision', 'request', 'promotion', 'final_minion', 'generation',
                              'generation_contents'] LOOP
    EXECUTE format('DROP TABLE IF EXISTS package_states.%I', made);
  END LOOP;
  FOREACH made IN ARRAY ARRAY['state_check', 'assignment_check', 'assignment_no_truncate'] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS %I ON package_states.%I', made, split_part(made, '_', 1));
  END LOOP;
  FOREACH made IN ARRAY ARRAY['check_decision()', 'check_promotion()', 'check_assignment()', 'check_stage()',
                              'check_state()', 'check_final()', 'last_stage()', 'refuse(TEXT)', 'renamed(TEXT, TEXT)',
                              'person(TEXT)'] LOOP
    EXECUTE format('DROP FUNCTION IF EXISTS package_states.%s', made);
  END LOOP;
END
$$;

ALTER TABLE package_states.assignment DROP COLUMN IF EXISTS stage;
ALTER TABLE package_states.assignment_change DROP COLUMN IF EXISTS stage;
