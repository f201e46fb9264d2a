"""Masking: no secret of a recorded minion gets into its recording.

What counts as a secret is decided by where a value stands, not by what it looks like: all of the pillar, and whatever
has a name such as `password`. Each secret gets a placeholder of its own wherever it occurs, also in the forms that
templates, shells and diffs give it, so that a recording still shows where the same value came back.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import urllib.parse
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LONG_ENOUGH: Final = 6
"""Characters from which on a text of the pillar counts as a secret whatever its name is."""

_INSIDE_WORDS: Final = 4
"""Characters from which on a secret is also looked for inside words."""

_SHORTEST: Final = 3
"""Characters from which on a secret is looked for at all; a shorter one goes where its name says what it is."""

_NAMED: Final = re.compile(
    r"passw|passphrase|^pass$|secret|token|credential|private|(^|_|-)(pin|psk|key|pwd|auth)$|(api|access|ssh|pre)_?key",
    re.IGNORECASE,
)
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_CRYPT: Final = re.compile(r"\$(?:1|2[abxy]?|5|6|7|y|gy|argon2id?)\$[./A-Za-z0-9$=,+]{16,}")
_IN_URL: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_STATE_KEY: Final = "_|-"
_STATE_PARTS: Final = 4


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every scalar with the keys that lead to it."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, (*path, str(name)))
    elif isinstance(value, (list, tuple, set)):
        for child in value:
            yield from _leaves(child, path)
    else:
        yield path, value


def _text(value: object) -> str:
    """Return a scalar as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _forms(secret: str) -> Iterator[str]:
    """Return the ways in which a secret may show: as it is, line by line, and as others quote or encode it."""
    for part in (secret, secret.strip(), *(line.strip() for line in secret.splitlines()), *_IN_URL.findall(secret)):
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield repr(part)[1:-1]
        yield shlex.quote(part).strip("'")
        yield urllib.parse.quote(part, safe="")
        yield urllib.parse.quote_plus(part)
    data = secret.encode()
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data), base64.b64encode(data + b"\n")):
        yield encoded.decode().rstrip("=")


class Masker:
    """Learns secrets, then replaces them; learn everything before the first `mask`."""

    def __init__(self, public: Sequence[str] = (), known: Iterable[str] = ()) -> None:
        """Take patterns of pillar paths (`roles:*`) that are no secrets, and texts that never are."""
        self._public = tuple(public)
        self._known = frozenset(known)
        self._names: dict[str, str] = {}
        self._forms: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn_pillar(self, pillar: Any) -> None:
        """Take every value of a pillar that is long enough or has the name of a secret."""
        for path, leaf in _leaves(pillar):
            where = ":".join(path)
            if leaf is None or isinstance(leaf, bool) or any(fnmatchcase(where, public) for public in self._public):
                continue
            if self._counts(path, leaf):
                self._learn(_text(leaf))

    @staticmethod
    def _counts(path: tuple[str, ...], leaf: object) -> bool:
        """Return whether a leaf of a pillar is a secret; what is short needs a telling name of its own."""
        text = _text(leaf)
        if isinstance(leaf, (str, bytes)) and len(text) >= _INSIDE_WORDS:
            return len(text) >= LONG_ENOUGH or any(_NAMED.search(name) for name in path)
        shortest = _SHORTEST if isinstance(leaf, (str, bytes)) else _INSIDE_WORDS
        return len(text) >= shortest and bool(path) and bool(_NAMED.search(path[-1]))

    def learn_names(self, value: Any) -> None:
        """Take what stands below the names of secrets in anything else."""
        for path, leaf in _leaves(value):
            if path and isinstance(leaf, str) and len(leaf) >= _INSIDE_WORDS and _NAMED.search(path[-1]):
                self._learn(leaf)

    def _learn(self, secret: str) -> None:
        """Give a secret its placeholder."""
        if not secret.strip() or secret in self._known:
            return
        placeholder = self._names.setdefault(secret, f"<secret-{len(self._names) + 1}>")
        for form in _forms(secret):
            whole = form in {secret, secret.strip()}
            if form.strip() and form not in self._known and (whole or len(form) >= _INSIDE_WORDS):
                self._forms.setdefault(form, placeholder)
        self._pattern = None

    def _compiled(self) -> re.Pattern[str]:
        """Return the pattern of all secrets, longest first, so that a part never hides the whole."""
        if self._pattern is None:
            forms = sorted(self._forms, key=lambda form: (-len(form), form))
            self._pattern = re.compile(
                "|".join(
                    re.escape(form) if len(form) >= _INSIDE_WORDS else rf"(?<!\w){re.escape(form)}(?!\w)"
                    for form in forms
                )
                or r"(?!)"
            )
        return self._pattern

    def relevant(self, texts: Iterable[str]) -> None:
        """Keep only the forms that occur in one of `texts`: a search for thousands at once would take minutes."""
        whole = "\0".join(texts)
        self._forms = {form: name for form, name in self._forms.items() if form in whole}
        self._pattern = None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        hidden = _CRYPT.sub("<hash>", _PEM.sub("<PEM>", text))
        return self._compiled().sub(lambda found: self._forms[found.group()], hidden)

    def _key(self, key: str) -> str:
        """Return the name of an entry without secrets; of a state's, module and function are never one."""
        parts = key.split(_STATE_KEY)
        if len(parts) == _STATE_PARTS:
            return _STATE_KEY.join([parts[0], self.text(parts[1]), self.text(parts[2]), parts[3]])
        return self.text(key)

    def mask(self, value: Any) -> Any:
        """Return a value as JSON has it, without secrets."""
        if isinstance(value, dict):
            return {self._key(_text(key)): self._named(key, child) for key, child in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.mask(child) for child in value]
        if isinstance(value, (str, bytes)):
            return self.text(_text(value))
        if isinstance(value, int) and not isinstance(value, bool) and str(value) in self._forms:
            return self._forms[str(value)]
        return value if value is None or isinstance(value, (bool, int, float)) else self.text(str(value))

    def _named(self, key: object, value: Any) -> Any:
        """Return the value of an entry; a short text below the name of a secret goes entirely."""
        short = isinstance(value, str) and 0 < len(value) < _INSIDE_WORDS and _NAMED.search(_text(key))
        return "<secret>" if short else self.mask(value)


def texts(value: Any) -> Iterator[str]:
    """Return every text and number in a value, keys included."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield _text(key)
            yield from texts(child)
    elif isinstance(value, (list, tuple, set)):
        for child in value:
            yield from texts(child)
    elif value is not None and not isinstance(value, bool):
        yield _text(value)
