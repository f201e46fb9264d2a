"""What renders the page's templates, and the style that goes with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.report import theme

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent


def engine(number: Callable[[float | None], str]) -> Environment:
    """Return what renders the templates of this folder, with `number` for numbers."""
    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["number"] = number
    found.filters["tree_colour"] = theme.of_tree
    return found


def css() -> Markup:
    """Return the style of the page."""
    return Markup(theme.css() + (FOLDER / "style.css").read_text(encoding="utf-8"))  # noqa: S704  # our own files
