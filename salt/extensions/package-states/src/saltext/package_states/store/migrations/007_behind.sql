-- Why the packages of a minion are others than what it sent last; NULL where nothing tells that they are.

ALTER TABLE package_states.package_list ADD COLUMN behind VARCHAR(500);
