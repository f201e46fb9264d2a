-- Minions, groups and organizations as Uyuni has them, see `minions: database`.

CREATE OR REPLACE VIEW package_states.minion AS
  SELECT m.minion_id::TEXT AS minion_id, s.org_id::TEXT AS organization,
         ARRAY(SELECT g.server_group_id::TEXT FROM rhnServerGroupMembers AS g WHERE g.server_id = s.id) AS groups,
         s.id::TEXT AS identity
    FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id;

CREATE OR REPLACE VIEW package_states.target AS
  SELECT 'group' AS kind, id::TEXT AS id, name::TEXT AS name FROM rhnServerGroup
  UNION ALL SELECT 'organization', id::TEXT, name::TEXT FROM web_customer;
