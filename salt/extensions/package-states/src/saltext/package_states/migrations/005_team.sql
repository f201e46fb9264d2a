-- A team's work: stages through which revisions are promoted, requests that another person decides on, and what each minion
-- should have had when. Without rows in "stage", nothing of this is used.

-- The number of the last stage is 1000, whatever comes before it: what it has waits for another person.
CREATE TABLE package_states.stage
(
    number INTEGER PRIMARY KEY
           CONSTRAINT stage_number_ck CHECK (number BETWEEN 1 AND 1000),
    name VARCHAR(64) NOT NULL
         CONSTRAINT stage_name_uq UNIQUE
         CONSTRAINT stage_name_ck CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._@-]*$')
);

CREATE TABLE package_states.stage_change
(
    id INTEGER PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    -- all of them from then on, with commas
    names VARCHAR(2000) NOT NULL,
    author VARCHAR(256) NOT NULL,
    comment VARCHAR(1000) NOT NULL DEFAULT '',
    created TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- NULL is the first stage, which has the newest revisions
ALTER TABLE package_states.assignment ADD COLUMN stage VARCHAR(64);
ALTER TABLE package_states.assignment_change ADD COLUMN stage VARCHAR(64);

CREATE TABLE package_states.request
(
    id INTEGER PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    state_id INTEGER NOT NULL
             CONSTRAINT request_state_fk
             REFERENCES package_states.state (id),
    action VARCHAR(16) NOT NULL
           CONSTRAINT request_action_ck CHECK (action IN ('promote', 'assign', 'unassign')),
    -- into which a revision is to come, or which an assignment is to follow
    stage VARCHAR(64),
    revision INTEGER,
    kind VARCHAR(16),
    target VARCHAR(1000),
    priority INTEGER,
    author VARCHAR(256) NOT NULL,
    comment VARCHAR(1000) NOT NULL DEFAULT '',
    created TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE package_states.decision
(
    request_id INTEGER PRIMARY KEY
               CONSTRAINT decision_request_fk
               REFERENCES package_states.request (id),
    approved BOOLEAN NOT NULL,
    author VARCHAR(256) NOT NULL,
    comment VARCHAR(1000) NOT NULL DEFAULT '',
    created TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The newest row of a state and a stage says which revision is in force there.
CREATE TABLE package_states.promotion
(
    id INTEGER PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    state_id INTEGER NOT NULL,
    stage VARCHAR(64) NOT NULL,
    revision INTEGER NOT NULL,
    author VARCHAR(256) NOT NULL,
    comment VARCHAR(1000) NOT NULL DEFAULT '',
    created TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT promotion_revision_fk FOREIGN KEY (state_id, revision)
      REFERENCES package_states.revision (state_id, number)
);

CREATE INDEX promotion_state_idx ON package_states.promotion (state_id, stage, id);

-- What a minion should have, each time that it is something else.
CREATE TABLE package_states.generation_contents
(
    digest VARCHAR(64) PRIMARY KEY,
    items JSONB NOT NULL
          CONSTRAINT generation_contents_items_ck CHECK (jsonb_typeof(items) = 'array')
);

CREATE TABLE package_states.generation
(
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    minion_id VARCHAR(256) NOT NULL,
    digest VARCHAR(64) NOT NULL
           CONSTRAINT generation_digest_fk
           REFERENCES package_states.generation_contents (digest),
    author VARCHAR(256) NOT NULL,
    comment VARCHAR(1000) NOT NULL DEFAULT '',
    created TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE INDEX generation_minion_idx ON package_states.generation (minion_id, id);

-- The person of an author, whom else they name: "ann for bob" and "sudo_ann" are ann.
CREATE FUNCTION package_states.person(author TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
  SELECT lower(trim(regexp_replace(split_part(author, ' for ', 1), '^sudo_', '')))
$$;

CREATE FUNCTION package_states.refuse(why TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%', why USING ERRCODE = 'PS001';
END
$$;

CREATE FUNCTION package_states.last_stage() RETURNS TEXT LANGUAGE sql STABLE AS $$
  SELECT name FROM package_states.stage WHERE number = 1000
$$;

CREATE FUNCTION package_states.check_decision() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  asked package_states.request%ROWTYPE;
  since INTEGER;
  who TEXT := package_states.person(NEW.author);
BEGIN
  SELECT * INTO asked FROM package_states.request WHERE id = NEW.request_id;
  IF NOT NEW.approved THEN
    RETURN NEW;
  END IF;
  IF who IN ('', 'unknown', 'reactor') OR package_states.person(asked.author) IN ('', 'unknown', 'reactor') THEN
    PERFORM package_states.refuse('A request and its approval are by persons whom Salt has authenticated; let one of them do it.');
  END IF;
  IF who = package_states.person(asked.author) THEN
    PERFORM package_states.refuse('A request is approved by another person than the one who made it; let somebody else approve it.');
  END IF;
  IF asked.action = 'promote' THEN
    SELECT COALESCE(max(p.revision), 0) INTO since FROM package_states.promotion AS p
     WHERE p.state_id = asked.state_id AND p.stage = asked.stage AND p.revision < asked.revision;
    IF EXISTS (SELECT FROM package_states.revision AS r WHERE r.state_id = asked.state_id
                AND r.number > since AND r.number <= asked.revision
                AND package_states.person(r.author) IN (who, '', 'unknown', 'reactor')) THEN
      PERFORM package_states.refuse('A revision is approved by another person than the authors of what is new in it; let somebody else approve it, or promote the revisions one by one.');
    END IF;
  END IF;
  RETURN NEW;
END
$$;

CREATE FUNCTION package_states.check_promotion() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  place INTEGER;
  before TEXT;
BEGIN
  SELECT number INTO place FROM package_states.stage WHERE name = NEW.stage;
  SELECT name INTO before FROM package_states.stage WHERE number < place ORDER BY number DESC LIMIT 1;
  IF before IS NULL THEN
    PERFORM package_states.refuse('The first stage always has the newest revision, and there is no other of this name; see package_states.stages.');
  END IF;
  IF EXISTS (SELECT FROM package_states.stage AS s, package_states.stage AS b
              WHERE b.name = before AND s.number < b.number)
     AND NOT EXISTS (SELECT FROM package_states.promotion AS p
                      WHERE p.state_id = NEW.state_id AND p.stage = before AND p.revision = NEW.revision) THEN
    PERFORM package_states.refuse('A revision comes into a stage from the one before; promote it to that first.');
  END IF;
  IF place = 1000
     AND NOT EXISTS (SELECT FROM package_states.request AS q JOIN package_states.decision AS d ON d.request_id = q.id
                      WHERE d.approved AND q.action = 'promote' AND q.state_id = NEW.state_id
                        AND q.stage = NEW.stage AND q.revision = NEW.revision) THEN
    PERFORM package_states.refuse('A revision that nobody approved can''t come into the last stage; let another person approve its request.');
  END IF;
  RETURN NEW;
END
$$;

-- What follows the last stage is what was approved last for this state and target.
CREATE FUNCTION package_states.check_assignment() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
  final TEXT := package_states.last_stage();
  asked package_states.request%ROWTYPE;
  place package_states.assignment%ROWTYPE;
BEGIN
  IF TG_OP = 'DELETE' THEN
    place := OLD;
  ELSE
    place := NEW;
    IF NEW.stage IS NOT NULL AND NOT EXISTS (SELECT FROM package_states.stage WHERE name = NEW.stage) THEN
      PERFORM package_states.refuse('There is no stage of this name; see package_states.stages.');
    END IF;
  END IF;
  -- a minion that is renamed keeps what is assigned to it
  IF TG_OP = 'UPDATE' AND OLD.kind = 'minion'
     AND (OLD.state_id, OLD.kind, OLD.priority, OLD.stage) IS NOT DISTINCT FROM
         (NEW.state_id, NEW.kind, NEW.priority, NEW.stage) THEN
    RETURN NEW;
  END IF;
  IF final IS NULL OR NOT (place.stage IS NOT DISTINCT FROM final OR (TG_OP = 'UPDATE' AND OLD.stage IS NOT DISTINCT FROM final)) THEN
    IF TG_OP = 'DELETE' THEN RETURN OLD; ELSE RETURN NEW; END IF;
  END IF;
  IF TG_OP <> 'DELETE' AND NEW.stage = final AND NEW.kind = 'grains' THEN
    PERFORM package_states.refuse('Minions choose their grains, so no grain can be assigned to the last stage; use a group.');
  END IF;
  IF TG_OP = 'UPDATE' AND (OLD.state_id, OLD.kind, OLD.target) IS DISTINCT FROM (NEW.state_id, NEW.kind, NEW.target) THEN
    PERFORM package_states.refuse('An assignment that follows the last stage stays with its state and target; make another one.');
  END IF;
  SELECT q.* INTO asked FROM package_states.request AS q JOIN package_states.decision AS d ON d.request_id = q.id
   WHERE d.approved AND q.action <> 'promote' AND q.state_id = place.state_id AND q.kind = place.kind
     AND q.target = place.target ORDER BY d.created DESC, q.id DESC LIMIT 1;
  IF asked.id IS NULL OR (asked.action = 'unassign') <> (TG_OP = 'DELETE')
     OR (TG_OP <> 'DELETE' AND (asked.stage, asked.priority) IS DISTINCT FROM (NEW.stage, NEW.priority)) THEN
    PERFORM package_states.refuse('What follows the last stage changes only as another person has approved; see package_states.requests.');
  END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; ELSE RETURN NEW; END IF;
END
$$;

CREATE FUNCTION package_states.check_stage() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    PERFORM package_states.refuse('Stages are not truncated; use package_states.stages.');
  END IF;
  IF TG_OP <> 'INSERT' AND EXISTS (SELECT FROM package_states.assignment WHERE stage = OLD.name)
     AND (TG_OP = 'DELETE' OR OLD.name <> NEW.name OR 1000 IN (OLD.number, NEW.number)) THEN
    PERFORM package_states.refuse('A stage that an assignment follows stays as it is; unassign that first.');
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  -- what came into another stage came without an approval
  IF NEW.number = 1000 AND EXISTS (
       SELECT FROM package_states.promotion AS p WHERE p.stage = NEW.name AND NOT EXISTS (
         SELECT FROM package_states.request AS q JOIN package_states.decision AS d ON d.request_id = q.id
          WHERE d.approved AND q.action = 'promote' AND q.state_id = p.state_id AND q.stage = p.stage
            AND q.revision = p.revision)) THEN
    PERFORM package_states.refuse('The last stage can''t be one that had revisions without an approval; take another name.');
  END IF;
  RETURN NEW;
END
$$;

CREATE TRIGGER stage_check BEFORE INSERT OR UPDATE OR DELETE ON package_states.stage
  FOR EACH ROW EXECUTE FUNCTION package_states.check_stage();
CREATE TRIGGER stage_no_truncate BEFORE TRUNCATE ON package_states.stage
  FOR EACH STATEMENT EXECUTE FUNCTION package_states.check_stage();
CREATE TRIGGER assignment_check BEFORE INSERT OR UPDATE OR DELETE ON package_states.assignment
  FOR EACH ROW EXECUTE FUNCTION package_states.check_assignment();
CREATE TRIGGER assignment_no_truncate BEFORE TRUNCATE ON package_states.assignment
  FOR EACH STATEMENT EXECUTE FUNCTION package_states.append_only();
CREATE TRIGGER decision_check BEFORE INSERT ON package_states.decision
  FOR EACH ROW EXECUTE FUNCTION package_states.check_decision();
CREATE TRIGGER promotion_check BEFORE INSERT ON package_states.promotion
  FOR EACH ROW EXECUTE FUNCTION package_states.check_promotion();
ALTER TABLE package_states.stage ENABLE ALWAYS TRIGGER stage_check;
ALTER TABLE package_states.stage ENABLE ALWAYS TRIGGER stage_no_truncate;
ALTER TABLE package_states.assignment ENABLE ALWAYS TRIGGER assignment_check;
ALTER TABLE package_states.assignment ENABLE ALWAYS TRIGGER assignment_no_truncate;
ALTER TABLE package_states.decision ENABLE ALWAYS TRIGGER decision_check;
ALTER TABLE package_states.promotion ENABLE ALWAYS TRIGGER promotion_check;

DO $$
DECLARE
  one TEXT;
BEGIN
  FOREACH one IN ARRAY ARRAY['request', 'decision', 'promotion', 'generation_contents', 'stage_change'] LOOP
    EXECUTE format('CREATE TRIGGER %1$s_append_only BEFORE UPDATE OR DELETE ON package_states.%1$s'
                   ' FOR EACH ROW EXECUTE FUNCTION package_states.append_only()', one);
    EXECUTE format('CREATE TRIGGER %1$s_no_truncate BEFORE TRUNCATE ON package_states.%1$s'
                   ' FOR EACH STATEMENT EXECUTE FUNCTION package_states.append_only()', one);
    EXECUTE format('ALTER TABLE package_states.%1$s ENABLE ALWAYS TRIGGER %1$s_append_only', one);
    EXECUTE format('ALTER TABLE package_states.%1$s ENABLE ALWAYS TRIGGER %1$s_no_truncate', one);
  END LOOP;
END
$$;
