"""Populations: a TOML file that says which systems, roles and sites there are, in which shares.

The grains of the systems themselves are long; they come from the package's template, and a file names them by their
`osfinger` or says how another system differs from one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evil_minions.inventory.grains import Choice, Grains, Template, load_template
from evil_minions.tables import Table, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT: Final = Path(__file__).parent.parent / "data" / "population.toml"
FORMAT: Final = 1
_MOST: Final = 1_000_000_000


def load_population(path: Path = DEFAULT) -> Template:
    """Return the template of grains that a population file describes.

    Raises:
        UsageError: if it can't be read, or makes no sense.

    """
    table = read_table(path).allow("format", "description", "domain", "systems", "grains")
    if table.count("format", FORMAT) != FORMAT:
        raise table.error("format", f"is {table.values['format']!r}, but has to be {FORMAT}")
    base = load_template()
    known = {str(family["osfinger"]): family for family in base.families}
    families, shares = _systems(table, known)
    grains = table.table("grains")
    custom = tuple((name, _choice(grains, name)) for name in grains)
    _some(table, "systems", shares)
    return Template(
        tuple(families),
        Choice(tuple(range(len(families))), tuple(shares)),
        custom,
        table.take("domain", str, base.domain),
    )


def _systems(table: Table, known: Mapping[str, Grains]) -> tuple[list[Grains], list[int]]:
    """Return the grains of each system and its share."""
    systems = table.table("systems")
    families, shares = [], []
    for name in systems:
        if not isinstance(systems.values[name], dict):
            families.append(_known(systems, name, name, known))
            shares.append(systems.count(name, high=_MOST))
            continue
        inner = systems.table(name).allow("share", "like", "grains")
        like = _known(inner, "like", inner.take("like", str), known)
        families.append({**like, "osfinger": name, **inner.take("grains", dict, {})})
        shares.append(inner.count("share", high=_MOST))
    return families, shares


def _known(table: Table, key: str, name: str, known: Mapping[str, Grains]) -> Grains:
    """Return the grains of one of the package's systems."""
    if name not in known:
        raise table.error(key, f"names no system of the package; there are {', '.join(known)}")
    return known[name]


def _choice(grains: Table, name: str) -> Choice:
    """Return the values of a grain with their shares: a table, or for other values than texts a list of tables."""
    values: list[Any] = []
    shares: list[int] = []
    if isinstance(grains.values[name], list):
        for inner in grains.tables(name):
            inner.allow("value", "share")
            if "value" not in inner:
                raise inner.error("value", "is missing: give it what the grain is to be")
            values.append(inner.values["value"])
            shares.append(inner.count("share", high=_MOST))
    else:
        inner = grains.table(name)
        values = list(inner)
        shares = [inner.count(value, high=_MOST) for value in inner]
    _some(grains, name, shares)
    return Choice(tuple(values), tuple(shares))


def _some(table: Table, key: str, shares: list[int]) -> None:
    """Raise UsageError unless somebody gets something."""
    if not sum(shares):
        raise table.error(key, "has no shares: give at least one more than 0")
