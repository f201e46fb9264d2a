-- Who was a minion, and by what it is known again under another id; and what became of assignments, by whom and why.

CREATE TABLE package_states.known_minion
(
    minion_id VARCHAR(256) PRIMARY KEY,
    -- the digest of its public key, or the id of its system where minions come from a database; empty if there is none
    identity VARCHAR(128) NOT NULL DEFAULT '',
    gone BOOLEAN NOT NULL DEFAULT FALSE,
    seen TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE INDEX known_minion_identity_idx ON package_states.known_minion (identity) WHERE identity <> '';

CREATE TABLE package_states.assignment_change
(
    id INTEGER PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    state_id INTEGER NOT NULL
             CONSTRAINT assignment_change_state_fk
             REFERENCES package_states.state (id),
    kind VARCHAR(16) NOT NULL,
    target VARCHAR(1000) NOT NULL,
    -- NULL for one that was taken away
    priority INTEGER,
    author VARCHAR(256) NOT NULL,
    comment VARCHAR(1000) NOT NULL DEFAULT '',
    created TIMESTAMPTZ NOT NULL DEFAULT now()
);

INSERT INTO package_states.assignment_change (state_id, kind, target, priority, author, created)
  SELECT state_id, kind, target, priority, author, created FROM package_states.assignment ORDER BY id;

CREATE TRIGGER assignment_change_append_only BEFORE UPDATE OR DELETE ON package_states.assignment_change
  FOR EACH ROW EXECUTE FUNCTION package_states.append_only();
CREATE TRIGGER assignment_change_no_truncate BEFORE TRUNCATE ON package_states.assignment_change
  FOR EACH STATEMENT EXECUTE FUNCTION package_states.append_only();
ALTER TABLE package_states.assignment_change ENABLE ALWAYS TRIGGER assignment_change_append_only;
ALTER TABLE package_states.assignment_change ENABLE ALWAYS TRIGGER assignment_change_no_truncate;
