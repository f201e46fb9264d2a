-- What the repositories of minions have. Of each content of a repository there is one, whoever has it: its digest is made
-- of it and of the repository's name. And which versions mend the security of what a minion has.

CREATE TABLE package_states.repository
(
    digest VARCHAR(64) PRIMARY KEY,
    name VARCHAR(256) NOT NULL,
    platform VARCHAR(16) NOT NULL,
    received TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE package_states.offer
(
    digest VARCHAR(64) NOT NULL
           CONSTRAINT offer_repository_fk
           REFERENCES package_states.repository (digest) ON DELETE CASCADE,
    package VARCHAR(256) COLLATE "C" NOT NULL,
    -- the newest first
    versions TEXT[] NOT NULL,
    PRIMARY KEY (digest, package)
);

-- Which repositories a minion told of last. What they have may not be there yet.
CREATE TABLE package_states.minion_repository
(
    minion_id VARCHAR(256) NOT NULL
              CONSTRAINT minion_repository_list_fk
              REFERENCES package_states.package_list (minion_id) ON DELETE CASCADE ON UPDATE CASCADE,
    digest VARCHAR(64) NOT NULL,
    name VARCHAR(256) NOT NULL,
    PRIMARY KEY (minion_id, digest)
);

CREATE INDEX minion_repository_digest_idx ON package_states.minion_repository (digest);

-- {package: [version, ...]}, the newest first; NULL where the minion can't tell, or never did
ALTER TABLE package_states.package_list ADD COLUMN security JSONB;
