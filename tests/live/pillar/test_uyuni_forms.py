"""Forms of formulas against an oracle of Uyuni's rules: random forms, filled in for random groups and minions.

The oracle works on a flat list of the places of a form, where the extension fills in a tree: first what each place
takes, outermost first, then what is left of it, innermost first.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from saltext.uyuni_pillar import form as formulas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(1800)]
SEED, FORMS = 7, 120_000
Form = dict[str, Any]
CONTAINERS = {"group", "hidden-group", "namespace"}
# what was typed for whom, in order of rank
RANKS = {"system": ("minion", "group"), "group": ("group",), "readonly": ()}


class RefusedError(Exception):
    """Something is looked up in what is no mapping, at which Uyuni fails too."""


@dataclass(frozen=True)
class Place:
    """An element, where it is in the form, and the scope that holds there."""

    path: tuple[str, ...]
    element: Form
    scope: object

    @property
    def kind(self) -> object:
        """Return the type of the element."""
        return self.element.get("$type", "text")

    @property
    def is_container(self) -> bool:
        """Say whether other elements are in it."""
        return self.kind in CONTAINERS


def places(form: Form, scope: object = "system", path: tuple[str, ...] = ()) -> Iterator[Place]:
    """Yield the elements of a form, each before those in it."""
    for name, element in form.items():
        if name.startswith("$") or not isinstance(element, dict):
            continue
        place = Place((*path, name), element, element.get("$scope", scope))
        yield place
        if place.is_container:
            yield from places(element, place.scope, place.path)


def at(values: object, path: tuple[str, ...]) -> Form:
    """Return the mapping at a path, an empty one if nothing is there."""
    for name in path:
        values = _mapping(values).get(name, {})
    return _mapping(values)


def _mapping(values: object) -> Form:
    if not isinstance(values, dict):
        raise RefusedError
    return values


def typed_for(typed: dict[str, object]) -> Callable[[Place], tuple[list[object], object]]:
    """Return a function that says where the value of a place is looked for, and what it is if it is nowhere."""

    def look(place: Place) -> tuple[list[object], object]:
        """Look at all owners of a container, and at those whom the scope of any other place has."""
        if place.is_container:
            return list(typed.values()), None
        # a scope that is not known
        if place.scope not in RANKS:
            return [], None
        element = place.element
        return [typed[owner] for owner in RANKS[str(place.scope)]], element.get(
            "$default", element.get("$placeholder", "")
        )

    return look


def solve(form: Form, look: Callable[[Place], tuple[list[object], object]]) -> Form:
    """Return the values of a form."""
    every = list(places(form))
    found: Form = {}
    for place in every:
        *above, name = place.path
        sources, default = look(place)
        holders = [at(source, tuple(above)) for source in sources]
        value = next((holder[name] for holder in holders if name in holder), default)
        at(found, tuple(above))[name] = {} if place.is_container else copy.deepcopy(value)
    for place in reversed(every):
        *above, name = place.path
        holder, element = at(found, tuple(above)), place.element
        if place.kind == "edit-group" and element.get("$prototype"):
            holder[name] = entries(_mapping(element["$prototype"]), holder[name])
        if "$ifEmpty" in element and not holder[name]:
            holder[name] = element["$ifEmpty"]
        if element.get("$optional") and not holder[name]:
            del holder[name]
    return found


def entries(prototype: Form, value: object) -> object:
    """Return the entries of a list or a mapping: they have no scopes and no defaults."""
    if prototype.get("$type", "group") != "group":
        return value
    is_keyed = prototype.get("$key") is not None
    if not isinstance(value, dict if is_keyed else list):
        return {} if is_keyed else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    made = {key: solve(prototype, lambda _, entry=entry: ([entry], "")) for key, entry in pairs}  # type: ignore[misc]  # a default can't be annotated
    return made if is_keyed else list(made.values())


class Forms:
    """Makes forms, and what people typed into them: mostly what fits, and now and then what does not."""

    def __init__(self, seed: int) -> None:
        """Begin a sequence."""
        self._draw = random.Random(seed)  # noqa: S311 - repeatable

    def form(self, depth: int = 3) -> Form:
        """Return a form with up to three elements, which contain others to a depth."""
        draw = self._draw
        found: Form = {name: self._element(depth) for name in draw.sample("abcd", draw.randint(0, 3))}
        if draw.random() < 0.1:
            found["$name"] = found["d"] = "no element"
        return found

    def typed(self, form: object) -> Any:
        """Return what was typed into a form."""
        draw = self._draw
        if not isinstance(form, dict) or draw.random() < 0.04:
            return self._scalar()
        found: Form = {"no element": 1} if draw.random() < 0.1 else {}
        for name, element in form.items():
            if isinstance(element, dict) and not name.startswith("$") and draw.random() < 0.6:
                found[name] = self._value(element)
        return found

    def _value(self, element: Form) -> object:
        draw, prototype = self._draw, element.get("$prototype")
        if draw.random() < 0.05:
            return self._scalar()
        if element.get("$type") in CONTAINERS:
            return self.typed(element)
        if element.get("$type") != "edit-group":
            return self._scalar()
        if not isinstance(prototype, dict) or prototype.get("$type", "group") != "group":
            return draw.choice([[1, ""], {"k": 1}, "", []])
        made = [self.typed(prototype) for _ in range(draw.randint(0, 3))]
        is_list = (prototype.get("$key") is None) != (draw.random() < 0.05)
        return made if is_list else dict(zip("klm", made, strict=False))

    def _element(self, depth: int) -> Form:
        draw = self._draw
        kind = draw.choice([*CONTAINERS_AND_LISTS, "text", "number", "boolean", "select", None])
        element: Form = {} if kind is None else {"$type": kind}
        for name, chance, values in PROPERTIES:
            if draw.random() < chance:
                element[name] = self._scalar() if values is None else draw.choice(values)
        if kind in CONTAINERS and depth:
            element |= self.form(depth - 1)
        if kind == "edit-group" and draw.random() < 0.9:
            element["$prototype"] = self._prototype(depth)
        return element

    def _prototype(self, depth: int) -> object:
        draw = self._draw
        if draw.random() < 0.03:
            return draw.choice([[], "p", None])
        made = self.form(depth - 1) if depth else {}
        if draw.random() < 0.4:
            made["$type"] = draw.choice(["group", "text", "hidden-group"])
        if draw.random() < 0.4:
            made["$key"] = draw.choice([{}, {"$type": "text"}, None])
        return made

    def _scalar(self) -> object:
        return copy.deepcopy(self._draw.choice(["", "x", "y", 0, 1, False, True, None, 1.5, [], {}, [1], ["a", ""]]))


CONTAINERS_AND_LISTS = ("group", "hidden-group", "namespace", "edit-group", "edit-group")
# by name: how often an element has it, and its values, None is anything
PROPERTIES: tuple[tuple[str, float, list[object] | None], ...] = (
    ("$scope", 0.25, ["system", "group", "readonly", "else", None]),
    ("$default", 0.4, None),
    ("$placeholder", 0.2, None),
    ("$ifEmpty", 0.15, None),
    ("$optional", 0.2, [True, False]),
)


def answer(fill: Callable[[Form, object, object], Form], refusal: type[Exception], *asked: Any) -> str:
    """Return the values of a form as JSON, in which 1, 1.0 and true differ, or that they are refused."""
    try:
        return json.dumps(fill(*copy.deepcopy(asked)), sort_keys=True)
    except refusal:
        return "refused"


def oracle(form: Form, group: object, minion: object) -> Form:
    """Return the values of a form by Uyuni's rules."""
    return solve(form, typed_for({"minion": minion, "group": group}))


def test_forms_are_filled_in_as_uyuni_does() -> None:
    """Of 120,000 forms none has other values, and none is refused where Uyuni is not, or the other way round."""
    forms, count, different = Forms(SEED), Counter[str](), []
    for _ in range(FORMS):
        form = forms.form()
        asked = (form, forms.typed(form), forms.typed(form))
        ours, expected = answer(formulas.fill, formulas.BadForm, *asked), answer(oracle, RefusedError, *asked)
        count["refused" if expected == "refused" else "filled in"] += 1
        if ours != expected:
            different.append((asked, ours, expected))
    print(f"{FORMS} forms: {dict(count)}, {len(different)} differ")
    assert different == []
    # neither is rare
    assert min(count.values()) > FORMS / 20
