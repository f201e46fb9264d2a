"""The access methods of the RFC's experiment: what the master is told, and what its database needs before."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.errors import BenchmarkError
from benchmarks.pillar import by_socket
from harness.database import forms, schema, scratch

if TYPE_CHECKING:
    from pathlib import Path

    from harness.bed import Bed

REAL = "real"
EXPORT_S = 600
CATEGORIES = ["custom-info", "group-memberships"]
# the target form gets a table of the same name, in a schema that PostgreSQL searches first
TARGET = """
CREATE SCHEMA target; SET search_path = target, public; {form}
INSERT INTO target.suseSaltPillars SELECT coalesce('org_id:' || org_id, 'group_id:' || group_id, minion_id, '*'),
    category, pillar FROM public.suseSaltPillars LEFT JOIN suseMinionInfo USING (server_id);
ANALYZE target.suseSaltPillars; ALTER DATABASE {database} SET search_path = target, public;
"""


@dataclass(frozen=True)
class Method:
    """One way to the pillars: a form, where "files" are the RFC's old files and "none" no pillar, and the trees."""

    name: str
    form: str
    is_local: bool = False
    trees: tuple[str, ...] = ("stock", "patched")

    @property
    def key(self) -> str:
        """Return the name in files."""
        return f"{self.form}-socket" if self.is_local else self.form

    def options(self, tree: str, files: Path) -> dict[str, Any]:
        """Return the master's options."""
        if self.form == "none":
            return {"ext_pillar": []}
        if self.form == "files":
            folders = {name: str(files / name) for name in ("pillar_data", "static_data", "formula_data")}
            return {"ext_pillar": [{"uyuni_files": {**folders, "categories": CATEGORIES}}]}
        source = forms.FORMS[self.form].options()
        if tree == "stock":
            for query in source[0]["postgres"]:
                query["as_json"] = True
        return {"ext_pillar": source}

    def prepare(self, bed: Bed, files: Path) -> None:
        """Bring the bed's database into the form, before anybody asks."""
        schema.add_minion(bed.postgres.dsn, REAL, bed.settings.seed, schema.Scale())
        database = scratch.Database(bed.postgres)
        if self.form == "improved":
            forms.install(bed.postgres.dsn, forms.FORMS["improved"])
        elif self.form == "target":
            text = schema.read("pillar_target.sql")
            body = text.replace("BEGIN;\n\n", "", 1).replace("\nCOMMIT;\n", "\n")
            database.run(TARGET.format(form=body, database=bed.postgres.database))
        elif self.form == "files":
            done = bed.salt_run(["pillar_sql.export", f"folder={files}"], timeout=EXPORT_S)
            if done.returncode:
                raise BenchmarkError(f"The pillars could not be written to files: {done.stdout.strip()}")
        if self.is_local:
            options = {"postgres": by_socket(database).salt_options()}
            folder = bed.master.config_dir / "master.d"
            folder.mkdir(exist_ok=True)
            # JSON is YAML
            (folder / "socket.conf").write_text(json.dumps(options), encoding="utf-8")
            bed.restart_master()


METHODS = (
    Method("no pillar", "none"),
    Method("files", "files"),
    Method("function", "rfc"),
    Method("function, Unix socket", "rfc", is_local=True),
    Method("four queries", "four"),
    Method("target queries", "target"),
    Method("improved function", "improved", trees=("patched",)),
)
