-- Whether a minion is as it should be, of the packages that it sent last and of what was wanted then. A row goes when what
-- is wanted changes, and comes back when the minion is heard, or when somebody works it out.

CREATE TABLE package_states.minion_status
(
    minion_id VARCHAR(256) PRIMARY KEY
              CONSTRAINT minion_status_list_fk
              REFERENCES package_states.package_list (minion_id) ON DELETE CASCADE ON UPDATE CASCADE,
    managed INTEGER NOT NULL,
    drifted INTEGER NOT NULL,
    -- what can't be decided
    error VARCHAR(2000) NOT NULL DEFAULT '',
    checked TIMESTAMPTZ NOT NULL DEFAULT now()
);
