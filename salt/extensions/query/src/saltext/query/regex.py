r"""
Regular expressions that can't be made to take long.

Python's own module tries one way after the other, and patterns like ``(a+)+$`` have more
ways than anybody can wait for. Here all ways are followed at the same time, so a search
takes time in proportion to the text. Python's parser reads the pattern, so the syntax is
the usual one, but for what needs to go back: references to groups, lookahead and
lookbehind, atomic groups and possessive repeats. These are refused.

The automaton is made of the pattern as a list of nodes, and sets of nodes become states
when a text first needs them. All work is charged to a budget, which the patterns of one filter
share.
"""

import importlib
import re
import warnings

from saltext.query.errors import QueryError, QueryTooDearError

try:
    _parser = importlib.import_module("re._parser")
except ImportError:
    # Python before 3.11
    _parser = importlib.import_module("sre_parse")

_c = _parser

#: The longest pattern, in characters.
MAX_PATTERN = 500

#: The most nodes, after repeats like ``{3}`` have been written out.
MAX_NODES = 2000

#: The longest text that is searched. What is beyond is not looked at.
MAX_TEXT = 65536

#: The most work of all searches with the patterns of one filter: visits of nodes, each of
#: which counts as often as there is something to compare. A few seconds.
MAX_WORK = 5_000_000

#: How many characters of a text are charged like one visit.
_CHARS = 2

#: Nodes in the states that the patterns of one filter keep at the same time.
_MAX_KEPT = 200_000

#: What keeping a state takes besides its nodes.
_KEEPING = 4

#: States are thrown away when there are so many.
_MAX_STATES = 4000

_CHAR, _SPLIT, _AT, _ACCEPT = range(4)
_EDGE, _WORD, _NEWLINE, _LAST_NEWLINE, _OTHER = range(5)

_SPACE = re.compile(r"\s")
_DIGIT = re.compile(r"\d")
_WORDS = re.compile(r"\w")
_ASCII_SPACE = re.compile(r"\s", re.ASCII)
_ASCII_DIGIT = re.compile(r"\d", re.ASCII)
_ASCII_WORDS = re.compile(r"\w", re.ASCII)

# whether \B is in the empty text, which depends on the version of Python
_INSIDE_NOTHING = re.search(r"\B", "") is not None

_CATEGORIES = {
    _c.CATEGORY_SPACE: (_SPACE, _ASCII_SPACE, True),
    _c.CATEGORY_NOT_SPACE: (_SPACE, _ASCII_SPACE, False),
    _c.CATEGORY_DIGIT: (_DIGIT, _ASCII_DIGIT, True),
    _c.CATEGORY_NOT_DIGIT: (_DIGIT, _ASCII_DIGIT, False),
    _c.CATEGORY_WORD: (_WORDS, _ASCII_WORDS, True),
    _c.CATEGORY_NOT_WORD: (_WORDS, _ASCII_WORDS, False),
}


class Budget:
    """
    What the searches with several patterns may take together.

    :ivar int work: what has been charged so far
    """

    __slots__ = ("work", "kept", "users")

    def __init__(self):
        self.work = 0
        self.kept = 0
        self.users = []

    def charge(self, work, pattern):
        """
        :raises QueryTooDearError: if all of it is used up
        """
        self.work += work
        if self.work > MAX_WORK:
            raise QueryTooDearError(
                f"The regular expression {pattern!r} takes too long over this"
                " data. Make it simpler, or look at fewer items."
            )

    def keep(self, size):
        """
        Return whether so much more may be kept. If not, nothing is kept any more: all
        patterns have forgotten their states.
        """
        self.kept += size
        if self.kept <= _MAX_KEPT:
            return True
        self.kept = 0
        for regex in self.users:
            regex.clear()
        return False


class Regex:
    """
    :param str pattern: as of Python's ``re``, without what has to go back
    :param Budget budget: what its searches are charged to, by default one of its own
    :raises QueryError: if it can't be read, or needs to go back
    :raises QueryTooDearError: if it is too large
    """

    def __init__(self, pattern, budget=None):
        if len(pattern) > MAX_PATTERN:
            raise QueryTooDearError(
                f"Give a regular expression of at most {MAX_PATTERN} characters."
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = _parser.parse(pattern)
        except (re.error, OverflowError, RecursionError, ValueError) as exc:
            raise QueryError(
                f"Correct the regular expression {pattern!r}: {exc}."
            ) from None
        self.pattern = pattern
        self._nodes = []
        self._has_assertions = False
        accept = self._add(_ACCEPT, None)
        self._start = self._sequence(tree, tree.state.flags, accept)
        self._initial = frozenset((self._start,))
        self.budget = Budget() if budget is None else budget
        self.budget.users.append(self)
        self.clear()

    @property
    def work(self):
        """
        What has been charged to the budget so far.
        """
        return self.budget.work

    # ------------------------------------------------------------------
    # From the pattern to nodes. They are made from the end to the start, so that each
    # knows where to go on.
    # ------------------------------------------------------------------

    def _add(self, kind, what, *out):
        if len(self._nodes) >= MAX_NODES:
            raise QueryTooDearError(
                "Give a shorter regular expression, or fewer and smaller repeats"
                " in braces."
            )
        self._nodes.append((kind, what, out))
        return len(self._nodes) - 1

    def _sequence(self, items, flags, after):
        for operator, operand in reversed(list(items)):
            after = self._item(operator, operand, flags, after)
        return after

    def _item(self, operator, operand, flags, after):
        if operator is _c.BRANCH:
            return self._add(
                _SPLIT,
                None,
                *[self._sequence(one, flags, after) for one in operand[1]],
            )
        if operator is _c.SUBPATTERN:
            _, added, removed, inner = operand
            return self._sequence(inner, (flags | added) & ~removed, after)
        if operator in (_c.MAX_REPEAT, _c.MIN_REPEAT):
            return self._repeat(*operand, flags, after)
        if operator is _c.AT:
            self._has_assertions = True
            return self._add(_AT, _assertion(operand, flags), after)
        test = _char_test(operator, operand, flags)
        if test is None:
            raise QueryError(
                "Leave out of the regular expression what looks back or ahead:"
                " references to groups, lookahead, lookbehind, atomic groups and"
                " possessive repeats."
            )
        return self._add(_CHAR, test, after)

    def _repeat(self, low, high, inner, flags, after):
        if high is _c.MAXREPEAT:
            loop = self._add(_SPLIT, None)
            body = self._sequence(inner, flags, loop)
            self._nodes[loop] = (_SPLIT, None, (body, after))
            after = loop
        else:
            # (x(x(x)?)?)?
            end = after
            for _ in range(high - low):
                body = self._sequence(inner, flags, after)
                after = self._add(_SPLIT, None, body, end)
        for _ in range(low):
            before = len(self._nodes)
            after = self._sequence(inner, flags, after)
            if len(self._nodes) == before:
                # repeats of nothing
                break
        return after

    # ------------------------------------------------------------------
    # Searching
    # ------------------------------------------------------------------

    def clear(self):
        """
        Forget the states.
        """
        # (state, what is before, what is after) -> number, characters' nodes, what visiting
        # them takes, whether accepted
        self._closures = {}
        # (number of closure, character) -> state
        self._steps = {}
        self._numbers = {}

    def search(self, text):
        """
        Return whether the pattern matches anywhere in ``text``.

        :raises QueryTooDearError: if the patterns of this budget have taken too long, all
            in all
        """
        text = text[:MAX_TEXT]
        self.budget.charge(len(text) // _CHARS + 1, self.pattern)
        end = len(text)
        state = self._initial
        before = _EDGE
        for index in range(end + 1):
            char = text[index] if index < end else ""
            after = before
            if self._has_assertions:
                after = _surrounding(char, index + 1 == end)
            key = (state, before, after)
            closure = self._closures.get(key)
            if closure is None:
                closure = self._close(key)
            number, nodes, weight, accepted = closure
            if accepted:
                return True
            if not char:
                return False
            state = self._steps.get((number, char))
            if state is None:
                state = self._step(number, nodes, weight, char)
            if self._has_assertions:
                before = _NEWLINE if after == _LAST_NEWLINE else after
        return False

    def _close(self, key):
        """
        Return the nodes that can be reached without a character.
        """
        state, before, after = key
        todo = list(state)
        seen = set(state)
        nodes = []
        weight = 0
        accepted = False
        while todo:
            kind, what, out = self._nodes[todo.pop()]
            if kind == _ACCEPT:
                accepted = True
            elif kind == _CHAR:
                test, dear = what
                nodes.append((test, out[0]))
                weight += dear
            elif kind == _SPLIT or what(before, after):
                for one in out:
                    if one not in seen:
                        seen.add(one)
                        todo.append(one)
        self.budget.charge(len(seen), self.pattern)
        if len(self._closures) > _MAX_STATES:
            self.clear()
        self.budget.keep(_KEEPING + 2 * len(seen))
        reached = frozenset(seen)
        number = self._numbers.setdefault((reached, accepted), len(self._numbers))
        ret = self._closures[key] = (number, nodes, weight, accepted)
        return ret

    def _step(self, number, nodes, weight, char):
        """
        Return the state after a character. The pattern may start at any place.
        """
        self.budget.charge(weight, self.pattern)
        state = frozenset([out for test, out in nodes if test(char)] + [self._start])
        if len(self._steps) > _MAX_STATES:
            self._steps.clear()
        # numbers are given anew if nothing is kept
        if self.budget.keep(_KEEPING + len(state)):
            self._steps[number, char] = state
        return state


# ----------------------------------------------------------------------
# What characters are
# ----------------------------------------------------------------------


def _surrounding(char, last):
    if not char:
        return _EDGE
    if char == "\n":
        return _LAST_NEWLINE if last else _NEWLINE
    # whether it is one of a word is asked for by \b only, which looks at both kinds
    if _WORDS.match(char):
        return (_WORD, char.isascii())
    return _OTHER


def _is_word(kind, flags):
    return isinstance(kind, tuple) and (kind[1] or not flags & re.ASCII)


def _assertion(where, flags):
    """
    Return a function of what is before and after that tells whether it holds.
    """
    newlines = (_NEWLINE, _LAST_NEWLINE)
    if where is _c.AT_BEGINNING_STRING or (
        where is _c.AT_BEGINNING and not flags & re.MULTILINE
    ):
        return lambda before, after: before == _EDGE
    if where is _c.AT_BEGINNING:
        return lambda before, after: before == _EDGE or before in newlines
    if where is _c.AT_END_STRING:
        return lambda before, after: after == _EDGE
    if where is _c.AT_END:
        if flags & re.MULTILINE:
            return lambda before, after: after == _EDGE or after in newlines
        return lambda before, after: after in (_EDGE, _LAST_NEWLINE)
    if where is _c.AT_BOUNDARY:
        return lambda before, after: (_is_word(before, flags) != _is_word(after, flags))
    return lambda before, after: (
        _is_word(before, flags) == _is_word(after, flags)
        if (before, after) != (_EDGE, _EDGE)
        else _INSIDE_NOTHING
    )


def _char_test(operator, operand, flags):
    """
    Return a function that tells whether a character is meant and how dear it is, or None
    if this is about something else than one character.
    """
    if operator is _c.ANY:
        if flags & re.DOTALL:
            return (lambda char: True), 1
        return (lambda char: char != "\n"), 1
    if operator is _c.LITERAL:
        test = _members([(_c.LITERAL, operand)], flags)
    elif operator is _c.NOT_LITERAL:
        test = _members([(_c.NEGATE, None), (_c.LITERAL, operand)], flags)
    elif operator is _c.IN:
        test = _members(operand, flags)
    else:
        return None
    return test


def _members(items, flags):
    negate = False
    chars = set()
    ranges = []
    categories = []
    for operator, operand in items:
        if operator is _c.NEGATE:
            negate = True
        elif operator is _c.LITERAL:
            chars.add(chr(operand))
        elif operator is _c.RANGE:
            ranges.append((chr(operand[0]), chr(operand[1])))
        else:
            wide, narrow, is_in = _CATEGORIES[operand]
            categories.append((narrow if flags & re.ASCII else wide, is_in))

    def has(char):
        return (
            char in chars
            or any(low <= char <= high for low, high in ranges)
            or any(bool(one.match(char)) == is_in for one, is_in in categories)
        )

    weight = 1 + len(ranges) + len(categories)
    if not flags & re.IGNORECASE:
        return (lambda char: has(char) != negate), weight
    folded = {_fold(char) for char in chars}
    return (
        lambda char: (_fold(char) in folded or any(has(one) for one in _cases(char)))
        != negate
    ), 3 * weight


def _fold(char):
    return char.lower() if len(char.lower()) == 1 else char


def _cases(char):
    return {char, char.lower(), char.upper()} if char.isalpha() else {char}
