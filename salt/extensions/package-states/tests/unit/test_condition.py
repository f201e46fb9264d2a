import pytest
import saltext.package_states.model.condition as condition
from saltext.package_states.errors import InvalidInput

VERSIONS = ["0.9", "1.0", "1.2", "1.10", "2.0~rc1", "2.0", "1:0.5"]


@pytest.mark.parametrize(
    "text,expected",
    [
        ("", VERSIONS),
        ("1.10", ["1.10"]),
        ("=1.10", ["1.10"]),
        ("==1.10", ["1.10"]),
        ("<1.10", ["0.9", "1.0", "1.2"]),
        ("<=1.10", ["0.9", "1.0", "1.2", "1.10"]),
        (">2.0~rc1", ["2.0", "1:0.5"]),
        (">=2.0", ["2.0", "1:0.5"]),
        (">=1.0,<2.0", ["1.0", "1.2", "1.10", "2.0~rc1"]),
        ("!=2.0", ["0.9", "1.0", "1.2", "1.10", "2.0~rc1", "1:0.5"]),
        ("1.*", ["1.0", "1.2", "1.10"]),
        ("!=1.*", ["0.9", "2.0~rc1", "2.0", "1:0.5"]),
        ("1.?", ["1.0", "1.2"]),
        ("0.5", []),
        ("0.*", ["0.9", "1:0.5"]),
        (" >= 1.0 , != 1.2 , < 2 ", ["1.0", "1.10"]),
    ],
)
def test_which_versions_meet_a_condition(text, expected):
    parts = condition.parse(text)
    assert [one for one in VERSIONS if condition.meets("apt", one, parts)] == expected
    assert condition.parse(condition.show(parts)) == parts


@pytest.mark.parametrize(
    "text",
    [
        ">1.*",
        "=",
        ">=",
        "1.0,",
        "=>1.0",
        "1.0 2.0",
        "~=1.0",
        1.1,
        1,
        "1" + ",1" * 16 + ",2",
    ],
)
def test_what_is_no_condition(text):
    if text == "1" + ",1" * 16 + ",2":
        text = ",".join(f"!={number}" for number in range(17))
    with pytest.raises(InvalidInput):
        condition.parse(text)
