r"""
Filters as people write them::

    os == "Debian" and mtotal < 4096
    name =* "web*" and not (online or kernel =~ m/^6\.1/)
    "10.0.0.1" in ip4_list

The page of the project and ``salt-query --help`` list the operators. After a regular
expression in ``m/re/``, ``i`` ignores case and ``s`` lets ``.`` be a newline; any of
``/ # @ , ! |`` may enclose it.
"""

import fnmatch
import json
import re

from saltext.query.errors import QueryError

#: The longest text, in characters.
MAX_TEXT = 1_000_000

#: How deep parentheses and ``not`` may be within each other.
_MAX_DEPTH = 50

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<open>\()
    |(?P<close>\))
    |(?P<op>=~|!~|=\*|!\*|==|!=|<=|>=|=|<|>)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<word>[^\s()=!<>~*"'][^\s()=!<>*"']*)
    )""",
    re.VERBOSE | re.DOTALL,
)
# its mark, what is between two of them, the second one, and flags
_REGEX = re.compile(r"\s*m([/#@,!|])((?:\\.|(?!\1)[^\\])*)(\1?)([a-z]*)", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_RESERVED = frozenset(("and", "or", "not", "in", "is"))


def parse(text, known):
    """Return the filter that a text means.

    :param str text: what somebody has written
    :param Known known: the fields that there are
    :raises QueryError: if it can't be read. What it asks for is not checked here.
    """
    if len(text) > MAX_TEXT:
        raise QueryError(f"Give a filter of at most {MAX_TEXT} characters.")
    if text.lstrip().startswith("["):
        # the same as in a program
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise QueryError(f"Correct the filter, which is no JSON: {exc}.") from None
    if not text.strip():
        raise QueryError("Give a filter, or leave it out for all items.")
    return _Parser(text, known).parse()


class _Parser:
    def __init__(self, text, fields):
        self.text = text
        self.fields = fields
        self.at = self.start = 0
        self.kind = self.token = None
        self.depth = 0
        self.advance()

    def advance(self):
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            left = self.text[self.at :]
            if left.strip():
                self.start = self.at + len(left) - len(left.lstrip())
                if left.lstrip()[0] in "\"'":
                    self.fail("close the quote that is opened by")
                self.fail("take out what means nothing here:")
            self.kind = self.token = None
            self.start = len(self.text)
            return
        self.kind = match.lastgroup
        self.token = match.group(self.kind)
        self.start = match.start(self.kind)
        self.at = match.end()

    def fail(self, what):
        place = self.start
        raise QueryError(
            f"Correct the filter at character {place + 1}: {what}"
            f" {self.text[place:place + 30]!r}."
        )

    def has(self, kind, word=None):
        """Take the next token if it is this one, and report whether it was."""
        ret = self.kind == kind and word in (None, self.token)
        if ret:
            self.advance()
        return ret

    def take(self, what):
        """Return the kind and the text of the next token: a word or a string."""
        found = self.kind, self.token
        is_reserved = self.kind == "word" and self.token in _RESERVED
        if self.kind not in ("word", "string") or is_reserved:
            self.fail(f"{what} is wanted before")
        self.advance()
        return found

    def parse(self):
        ret = self.either()
        if self.kind is not None:
            self.fail("'and' or 'or' is wanted before")
        return ret

    def chain(self, word, operator, part):
        parts = [part()]
        while self.has("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else [operator, *parts]

    def either(self):
        return self.chain("or", "|", self.both)

    def both(self):
        return self.chain("and", "&", self.single)

    def single(self):
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail(
                f"put at most {_MAX_DEPTH} parentheses and 'not' within each other,"
                " not so many as before"
            )
        if self.has("word", "not"):
            ret = ["!", self.single()]
        elif self.has("open"):
            ret = self.either()
            if not self.has("close"):
                self.fail("a closing parenthesis is wanted before")
        else:
            ret = self.comparison()
        self.depth -= 1
        return ret

    def comparison(self):
        kind, left = self.take("a field")
        if kind == "word" and self.has("word", "is"):
            negated = self.has("word", "not")
            if not self.has("word", "missing"):
                self.fail("'missing' is wanted before")
            rule = ["missing", left]
        else:
            negated = self.has("word", "not")
            if self.has("word", "in"):
                rule = self.contained(kind, left)
            elif negated or kind == "string":
                self.fail("'in' is wanted before")
            elif self.kind != "op":
                rule = ["?", left]
            else:
                negated = self.token in ("!~", "!*")
                rule = self.compared(left)
        return ["!", rule] if negated else rule

    def compared(self, left):
        operator = self.token
        if operator in ("=~", "!~"):
            return ["=~", left, self.regex()]
        self.advance()
        value = self.value(*self.take("a value"), left)
        if operator in ("=*", "!*"):
            return ["=~", left, r"\A" + fnmatch.translate(str(value))]
        return [operator, left, value]

    def contained(self, kind, left):
        if kind == "string" or not self.has("open"):
            if self.kind == "string":
                self.fail("a field is wanted before")
            _, field = self.take("a field")
            return ["=[]", field, self.value(kind, left, field)]
        rule = ["|"]
        while self.kind in ("word", "string"):
            tokens = [self.token]
            if self.kind == "word":
                tokens = [one for one in self.token.split(",") if one]
            for one in tokens:
                rule.append(["==", left, self.value(self.kind, one, left)])
            self.advance()
        if len(rule) == 1 or not self.has("close"):
            self.fail("values with commas and a closing parenthesis are wanted before")
        return rule

    def value(self, kind, token, field):
        if kind == "string":
            return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
        known = self.fields.find(field)
        if known is None or known.kind in ("text", "other"):
            # how it is written may matter: "24.10" is no number here
            return token
        if token.lower() in ("true", "false"):
            return token.lower() == "true"
        if _NUMBER.fullmatch(token):
            return float(token) if "." in token else int(token)
        return token

    def regex(self):
        match = _REGEX.match(self.text, self.at)
        self.start = self.at
        if match is None:
            self.fail("a regular expression such as m/web[0-9]+/ is wanted at")
        mark, pattern, closing, flags = match.groups()
        if not closing:
            self.fail(f"a closing {mark} is wanted after")
        if set(flags) - {"i", "s"}:
            self.start = match.start(4)
            self.fail("only i and s may follow a regular expression, not")
        self.at = match.end()
        self.advance()
        pattern = pattern.replace("\\" + mark, mark)
        given = "".join(sorted(set(flags)))
        return f"(?{given}:{pattern})" if given else pattern
