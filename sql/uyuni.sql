-- The tables of Uyuni that the pillar storage refers to, with the columns that it needs.
--
-- Uyuni creates these itself; a Salt without Uyuni needs them as stand-ins. Names and types are Uyuni's own. Safe to run twice:
--     psql -f sql/uyuni.sql -f sql/pillar_rfc.sql

\set ON_ERROR_STOP on

CREATE TABLE IF NOT EXISTS web_customer
(
    id NUMERIC PRIMARY KEY,
    name VARCHAR(128) NOT NULL UNIQUE
);

CREATE TABLE IF NOT EXISTS rhnServer
(
    id NUMERIC PRIMARY KEY,
    org_id NUMERIC NOT NULL
           CONSTRAINT rhn_server_oid_fk
           REFERENCES web_customer (id)
           ON DELETE CASCADE,
    name VARCHAR(128)
);

CREATE INDEX IF NOT EXISTS rhn_server_oid_idx ON rhnServer (org_id);

CREATE TABLE IF NOT EXISTS rhnServerGroup
(
    id NUMERIC PRIMARY KEY,
    name VARCHAR(64) NOT NULL,
    description VARCHAR(1024) NOT NULL,
    org_id NUMERIC NOT NULL
           CONSTRAINT rhn_servergroup_oid_fk
           REFERENCES web_customer (id)
           ON DELETE CASCADE,
    UNIQUE (org_id, name)
);

CREATE TABLE IF NOT EXISTS rhnServerGroupMembers
(
    server_id NUMERIC NOT NULL
              CONSTRAINT rhn_sg_members_sid_fk
              REFERENCES rhnServer (id)
              ON DELETE CASCADE,
    server_group_id NUMERIC NOT NULL
                    CONSTRAINT rhn_sg_members_gid_fk
                    REFERENCES rhnServerGroup (id)
                    ON DELETE CASCADE,
    UNIQUE (server_id, server_group_id)
);

CREATE INDEX IF NOT EXISTS rhn_sgmembers_gid_idx ON rhnServerGroupMembers (server_group_id);

CREATE TABLE IF NOT EXISTS suseMinionInfo
(
    server_id NUMERIC NOT NULL UNIQUE
              CONSTRAINT suse_minion_info_sid_fk
              REFERENCES rhnServer (id)
              ON DELETE CASCADE,
    minion_id VARCHAR(256) NOT NULL UNIQUE
);
