import pytest
import saltext.query
from saltext.query.errors import QueryError
from saltext.query.field import Known
from saltext.query.filters import Filter
from saltext.query.text import parse

KNOWN = Known(saltext.query.item_type({}, "node").fields)


@pytest.mark.parametrize(
    "text,rule",
    (
        ("online", ["?", "online"]),
        ("not online", ["!", ["?", "online"]]),
        ('os == "Debian"', ["==", "os", "Debian"]),
        ("os=Debian", ["=", "os", "Debian"]),
        ("os != 'a\\'b'", ["!=", "os", "a'b"]),
        ("os_release = 12", ["=", "os_release", "12"]),
        ("mtotal < 4096", ["<", "mtotal", 4096]),
        ("mtotal>=4096.5", [">=", "mtotal", 4096.5]),
        ("mtotal > -1", [">", "mtotal", -1]),
        ("online = true", ["=", "online", True]),
        ("roles = 3", ["=", "roles", "3"]),
        ("name =~ m/^web[0-9]/", ["=~", "name", "^web[0-9]"]),
        ("name =~ m#a/b#i", ["=~", "name", "(?i:a/b)"]),
        (r"name =~ m/a\/b/si", ["=~", "name", "(?is:a/b)"]),
        ("name !~ m/a/", ["!", ["=~", "name", "a"]]),
        ('name =* "web*"', ["=~", "name", r"\A(?s:web.*)\Z"]),
        ("name !* 'web*'", ["!", ["=~", "name", r"\A(?s:web.*)\Z"]]),
        ('"a" in roles', ["=[]", "roles", "a"]),
        ("a in roles", ["=[]", "roles", "a"]),
        ("3 not in roles", ["!", ["=[]", "roles", "3"]]),
        (
            "os = a or os = b and online",
            ["|", ["=", "os", "a"], ["&", ["=", "os", "b"], ["?", "online"]]],
        ),
        (
            "(os = a or os = b) and not online",
            [
                "&",
                ["|", ["=", "os", "a"], ["=", "os", "b"]],
                ["!", ["?", "online"]],
            ],
        ),
        (
            "os in (a, 'b c',d)",
            ["|", *[["==", "os", one] for one in ("a", "b c", "d")]],
        ),
        ("ctotal not in (1,2)", ["!", ["|", ["==", "ctotal", 1], ["==", "ctotal", 2]]]),
        ("uuid is missing", ["missing", "uuid"]),
        ("uuid is not missing", ["!", ["missing", "uuid"]]),
        ("grain.v == 007", ["==", "grain.v", "007"]),
        ("a and b and c", ["&", ["?", "a"], ["?", "b"], ["?", "c"]]),
        ('["=", "os", "a"]', ["=", "os", "a"]),
    ),
)
def test_texts(text, rule):
    assert parse(text, KNOWN) == rule


@pytest.mark.parametrize(
    "text",
    (
        "",
        "  ",
        "os in (",
        "os in ()",
        "os in (a",
        "os is",
        "os is b",
        "(",
        ")",
        "(os",
        "os = ",
        "= os",
        "os os",
        "os = a b",
        "and",
        "os and",
        "not",
        "os = and",
        '"a"',
        '"a" = os',
        '"a" not os',
        "a in",
        'a in "roles"',
        "name =~ web",
        "name =~ m/web",
        "name =~ m/web/x",
        "name =~ mxwebx",
        '"open',
        "!os",
        "~",
        "[1",
        "[" * 100000,
        "(" * 100000,
        "not " * 100000 + "os",
    ),
)
def test_wrong_texts(text):
    with pytest.raises(QueryError):
        parse(text, KNOWN)


def test_the_place_is_told():
    with pytest.raises(QueryError, match="character 8: .* 'b'"):
        parse("os = a b", KNOWN)


@pytest.mark.parametrize(
    "text,words",
    (
        ('os == "open', "character 7: close the quote that is opened by '\"open'"),
        ("os !", "character 4: take out what means nothing here: '!'"),
        ("not " * 60 + "os", "put at most 50 parentheses and 'not' within each other"),
    ),
)
def test_what_is_wrong_is_told(text, words):
    """
    In words that say what to do.
    """
    with pytest.raises(QueryError) as exc:
        parse(text, KNOWN)
    assert words in str(exc.value)


def test_what_is_read_can_be_filtered_by():
    rule = parse('name =* "web*" and not (mtotal < 1 or os =~ m/x/i)', KNOWN)
    assert [field.name for field in Filter(rule, KNOWN).fields] == [
        "name",
        "mtotal",
        "os",
    ]
