r"""
Filters as people write them::

    os == "Debian" and mtotal < 4096
    name =* "web*" and not (online or kernel =~ m/^6\.1/)
    "10.0.0.1" in ip4_list

===============================  ===============================================
``a and b``, ``a or b``,         as in Python; ``and`` binds before ``or``
``not a``, ``(a)``
``=`` ``==`` ``!=`` ``<``        a field on the left, a value on the right
``<=`` ``>`` ``>=``
``=~ m/re/``, ``!~ m/re/``       a regular expression that is found anywhere, or is not.
                                 After it ``i`` ignores case and ``s`` lets ``.`` be a
                                 newline. Any of ``/ # @ , ! |`` may enclose it
``=* "web*"``, ``!* "web*"``     a pattern of a shell that the whole value matches
``value in field``,              the field's list has the value
``value not in field``
``field``                        the field has a value that is true
===============================  ===============================================

Values are sizes such as ``4G``, dates, ages such as ``7d``, numbers, ``true``, ``false``, strings in double or single quotes, and words
without blanks as they are.
"""

import json
import re

from saltext.query.errors import QueryError, QueryTooDearError

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
    |(?P<word>[^\s()=!<>~*"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"\s*m([/#@,!|])")
_FLAGS = re.compile(r"[a-z]*")
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_RESERVED = frozenset(("and", "or", "not", "in"))


def parse(text, fields):
    """
    Return the filter that a text means, or None for a text of nothing.

    :param str text: what somebody has written
    :param dict fields: the fields of the item type, by name
    :raises QueryError: if it can't be read. What it asks for is not checked here.
    """
    if len(text) > MAX_TEXT:
        raise QueryTooDearError(f"Give a filter of at most {MAX_TEXT} characters.")
    if text.lstrip().startswith("["):
        # the same as in a program
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise QueryError(f"Correct the filter, which is no JSON: {exc}.") from None
    if not text.strip():
        return None
    return _Parser(text, fields).parse()


class _Parser:
    def __init__(self, text, fields):
        self.text = text
        self.fields = fields
        self.at = self.start = 0
        self.kind = self.token = None
        self.depth = 0
        self.advance()

    # ------------------------------------------------------------------
    # Words
    # ------------------------------------------------------------------

    def advance(self):
        """
        Go on to the next token.
        """
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
        """
        Say where the text can't be read.
        """
        place = self.start
        raise QueryError(
            f"Correct the filter at character {place + 1}: {what}"
            f" {self.text[place:place + 30]!r}."
        )

    def is_word(self, *words):
        """
        Return whether the token is one of these.
        """
        return self.kind == "word" and self.token in words

    # ------------------------------------------------------------------
    # Rules
    # ------------------------------------------------------------------

    def parse(self):
        """
        Return the whole filter.
        """
        ret = self.either()
        if self.kind is not None:
            self.fail("'and' or 'or' is wanted before")
        return ret

    def chain(self, word, operator, part):
        """
        Return parts with the same word between them.
        """
        parts = [part()]
        while self.is_word(word):
            self.advance()
            parts.append(part())
        return parts[0] if len(parts) == 1 else [operator, *parts]

    def either(self):
        """
        Return parts with ``or`` between them.
        """
        return self.chain("or", "|", self.both)

    def both(self):
        """
        Return parts with ``and`` between them.
        """
        return self.chain("and", "&", self.single)

    def single(self):
        """
        Return what is not divided by ``and`` and ``or``.
        """
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.fail(
                f"put at most {_MAX_DEPTH} parentheses and 'not' within each other,"
                " not so many as before"
            )
        if self.is_word("not"):
            self.advance()
            ret = ["!", self.single()]
        elif self.kind == "open":
            self.advance()
            ret = self.either()
            if self.kind != "close":
                self.fail("a closing parenthesis is wanted before")
            self.advance()
        else:
            ret = self.comparison()
        self.depth -= 1
        return ret

    def comparison(self):
        """
        Return a comparison.
        """
        if self.kind not in ("word", "string") or self.is_word(*_RESERVED):
            self.fail("a field is wanted before")
        kind, left = self.kind, self.token
        self.advance()
        if self.is_word("in"):
            self.advance()
            return self.contained(kind, left)
        if self.is_word("not"):
            self.advance()
            if not self.is_word("in"):
                self.fail("'in' is wanted before")
            self.advance()
            return ["!", self.contained(kind, left)]
        if kind == "string":
            self.fail("'in' is wanted before")
        if self.kind != "op":
            return ["?", left]
        operator = self.token
        if operator in ("=~", "!~"):
            rule = ["=~", left, self.regex()]
        else:
            self.advance()
            if self.kind not in ("word", "string") or self.is_word(*_RESERVED):
                self.fail("a value is wanted before")
            rule = [operator, left, self.value(self.kind, self.token, left)]
            if operator in ("=*", "!*"):
                rule = ["=~", left, glob(str(rule[2]))]
            self.advance()
        return ["!", rule] if operator in ("!~", "!*") else rule

    def contained(self, kind, left):
        """
        Return whether a list has a value.
        """
        if self.kind != "word" or self.token in _RESERVED:
            self.fail("a field is wanted before")
        rule = ["=[]", self.token, self.value(kind, left, self.token)]
        self.advance()
        return rule

    def value(self, kind, token, field):
        """
        Return the value that a token means for a field.
        """
        if kind == "string":
            return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
        known = self.fields.get(field)
        if known is not None and known.kind == "text":
            return token
        if token.lower() in ("true", "false"):
            return token.lower() == "true"
        if _NUMBER.fullmatch(token):
            return float(token) if "." in token else int(token)
        return token

    def regex(self):
        """
        Return a regular expression between its marks.
        """
        match = _REGEX.match(self.text, self.at)
        if match is None:
            self.start = self.at
            self.fail("a regular expression such as m/web[0-9]+/ is wanted at")
        end = match.end()
        mark = match.group(1)
        while end < len(self.text) and self.text[end] != mark:
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            self.start = self.at
            self.fail(f"a closing {mark} is wanted after")
        pattern = self.text[match.end() : end].replace("\\" + mark, mark)
        flags = _FLAGS.match(self.text, end + 1)
        if set(flags.group()) - {"i", "s"}:
            self.start = end + 1
            self.fail("only i and s may follow a regular expression, not")
        self.at = flags.end()
        self.advance()
        given = "".join(sorted(set(flags.group())))
        return f"(?{given}:{pattern})" if given else pattern


def glob(pattern):
    """
    Return the regular expression of a shell's pattern: ``*``, ``?`` and ``[...]``.
    """
    ret = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char in "*?":
            ret.append(".*" if char == "*" else ".")
            continue
        end = pattern.find("]", at + 1 + (pattern[at : at + 1] == "!"))
        if char == "[" and end != -1:
            inner = pattern[at:end].replace("\\", "\\\\").replace("[", "\\[")
            negated = inner.startswith("!")
            inner = inner[negated:]
            if inner.startswith(("^", "]")):
                inner = "\\" + inner
            ret.append(f"[{'^' * negated}{inner}]")
            at = end + 1
        else:
            ret.append(re.escape(char))
    return rf"\A(?s:{''.join(ret)})\Z"
