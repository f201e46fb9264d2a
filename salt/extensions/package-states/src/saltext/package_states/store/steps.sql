-- The steps that were applied, see the files of migrations.
CREATE TABLE IF NOT EXISTS package_states.migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  applied TIMESTAMPTZ NOT NULL DEFAULT now()
);
