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
    -- NULL for a minion that is to be released from the last stage
    state_id INTEGER
             CONSTRAINT request_state_fk
             REFERENCES package_states.state (id)
             CONSTRAINT request_state_ck CHECK ((state_id IS NULL) = (action = 'release')),
    action VARCHAR(16) NOT NULL
           CONSTRAINT request_action_ck CHECK (action IN ('promote', 'assign', 'unassign', 'release')),
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

-- Minions that belong to the last stage. One stays in it until another person approves that it leaves, whatever becomes of
-- its group or its grains.
CREATE TABLE package_states.final_minion
(
    minion_id VARCHAR(256) PRIMARY KEY,
    since TIMESTAMPTZ NOT NULL DEFAULT now()
);

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

-- The person of an author, whom else they name: "ann for bob", "sudo_ann", "EX\ann" and "ann@example.com" are ann.
CREATE FUNCTION package_states.person(author TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
  SELECT trim(regexp_replace(regexp_replace(regexp_replace(
    lower(trim(split_part(author, ' for ', 1))), '^sudo_', ''), '^.*\\', ''), '@.*$', ''))
$$;

-- Whether a minion that is gone is there under another id.
CREATE FUNCTION package_states.renamed(old TEXT, new TEXT) RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM package_states.known_minion AS o JOIN package_states.known_minion AS n USING (identity)
                  WHERE o.minion_id = old AND n.minion_id = new AND o.gone AND NOT n.gone AND identity <> '')
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
  IF who !~ '^[a-z0-9_][a-z0-9._-]*$' OR who ~ '\.$' THEN
    PERFORM package_states.refuse('A decision is by a person with a plain name, of letters from a to z, digits and ._-; let one of them decide.');
  END IF;
  IF NOT NEW.approved AND who IN ('unknown', 'reactor') THEN
    PERFORM package_states.refuse('A request is rejected by a person whom Salt has authenticated; let one of them do it.');
  END IF;
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
    -- the newest one with what was approved there already, or with nothing: what is new came after it
    SELECT COALESCE(max(r.number), 0) INTO since FROM package_states.revision AS r
     WHERE r.state_id = asked.state_id AND r.number <= asked.revision
       AND (r.items = '[]'::jsonb AND r.number < asked.revision
            OR r.contents IN (SELECT c.contents FROM package_states.promotion AS p JOIN package_states.revision AS c
                                ON c.state_id = p.state_id AND c.number = p.revision
                               WHERE p.state_id = asked.state_id AND p.stage = asked.stage));
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
  IF TG_OP = 'UPDATE' AND OLD.kind = 'minion' AND package_states.renamed(OLD.target, NEW.target)
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

-- A state stays what it is; but for the own one of a minion that is renamed, and of one that comes.
CREATE FUNCTION package_states.check_state() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id <> OLD.id OR (OLD.own AND NOT NEW.own) OR NEW.name <> OLD.name
     AND NOT (OLD.own AND package_states.renamed(OLD.name, NEW.name)) THEN
    PERFORM package_states.refuse('A state keeps its name and whose it is; make another one.');
  END IF;
  IF NEW.own AND NOT OLD.own
     AND (EXISTS (SELECT FROM package_states.promotion WHERE state_id = OLD.id)
          OR EXISTS (SELECT FROM package_states.assignment WHERE state_id = OLD.id)) THEN
    PERFORM package_states.refuse('A state that is assigned or was promoted is no minion''s own; make another one.');
  END IF;
  RETURN NEW;
END
$$;

-- A minion leaves the last stage in the transaction in which that is approved, or when there are no stages.
CREATE FUNCTION package_states.check_final() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND (NOT EXISTS (SELECT FROM package_states.stage)
     OR EXISTS (SELECT FROM package_states.decision AS d JOIN package_states.request AS q ON q.id = d.request_id
                 WHERE d.approved AND d.created = now() AND (q.action IN ('assign', 'unassign')
                       OR q.action = 'release' AND q.target = OLD.minion_id))) THEN
    RETURN OLD;
  END IF;
  PERFORM package_states.refuse('A minion leaves the last stage as another person has approved; see package_states.release.');
END
$$;

DO $$
DECLARE
  made RECORD;
BEGIN
  FOR made IN SELECT * FROM (VALUES
      ('state', 'check', 'UPDATE', 'ROW', 'check_state'),
      ('stage', 'check', 'INSERT OR UPDATE OR DELETE', 'ROW', 'check_stage'),
      ('stage', 'no_truncate', 'TRUNCATE', 'STATEMENT', 'check_stage'),
      ('assignment', 'check', 'INSERT OR UPDATE OR DELETE', 'ROW', 'check_assignment'),
      ('assignment', 'no_truncate', 'TRUNCATE', 'STATEMENT', 'append_only'),
      ('final_minion', 'check', 'UPDATE OR DELETE', 'ROW', 'check_final'),
      ('final_minion', 'no_truncate', 'TRUNCATE', 'STATEMENT', 'append_only'),
      ('decision', 'check', 'INSERT', 'ROW', 'check_decision'),
      ('promotion', 'check', 'INSERT', 'ROW', 'check_promotion')) AS checks (place, name, events, each, function)
    UNION ALL
    SELECT place, name, events, each, 'append_only'
      FROM unnest(ARRAY['request', 'decision', 'promotion', 'generation_contents', 'stage_change']) AS place
     CROSS JOIN (VALUES ('append_only', 'UPDATE OR DELETE', 'ROW'), ('no_truncate', 'TRUNCATE', 'STATEMENT'))
        AS grow (name, events, each)
  LOOP
    EXECUTE format('CREATE TRIGGER %1$s_%2$s BEFORE %3$s ON package_states.%1$s FOR EACH %4$s EXECUTE FUNCTION'
                   ' package_states.%5$s()', made.place, made.name, made.events, made.each, made.function);
    -- whatever the session's role
    EXECUTE format('ALTER TABLE package_states.%1$s ENABLE ALWAYS TRIGGER %1$s_%2$s', made.place, made.name);
  END LOOP;
END
$$;
