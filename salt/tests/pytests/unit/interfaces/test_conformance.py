"""
The checker is checked by mutants of a module that conforms
"""

import pytest

import salt.interfaces.signature
from salt.interfaces import Interface
from salt.interfaces.conformance import LEVELS, check
from salt.interfaces.verdict import overall, verdicts


@Interface.profile("minimal", ["install"])
@Interface.feature("holds", ["hold", "unhold"])
class PackInterface(Interface):
    """
    An interface with one function of each kind
    """

    __modulename__ = "pack"

    def install(self, name, refresh=False, pkgs=None, **kwargs):
        """
        Install
        """

    def version(self, *names):
        """
        Versions
        """

    @Interface.supported(os=["Arch"])
    def sync(self):
        """
        Synchronize
        """

    def hold(self, name):
        """
        Hold
        """

    def unhold(self, name):
        """
        Don't hold
        """

    @Interface.optional
    def search(self, text):
        """
        Search
        """

    @Interface.deprecated(successor="pack.install")
    def add(self, name):
        """
        Install
        """


CONFORMING = """
def install(name, refresh=False, pkgs=None, **kwargs): ...
def version(*names): ...
def sync(): ...
"""
INSTALL = "install(name, refresh=False, pkgs=None, **kwargs)"

MUTANTS = {
    "drop a function": ("def version(*names): ...", "", "missing-function", ""),
    "rename a function": ("install(", "add_package(", "renamed-function", "add_package"),
    "half a feature": ("def sync", "def hold(name): ...\ndef sync", "incomplete-feature", ""),
    "make it asynchronous": ("def install", "async def install", "asynchronous-function", ""),
    "drop a parameter": ("refresh=False, pkgs=None, **kwargs", "pkgs=None", "missing-parameter", "refresh"),
    "rename a parameter": ("(name,", "(package,", "renamed-parameter", "name"),
    "reorder": ("refresh=False, pkgs=None", "pkgs=None, refresh=False", "reordered-parameters", ""),
    "change a default": ("refresh=False", "refresh=True", "changed-default", "refresh"),
    "make it required": ("refresh=False", "refresh", "required-parameter", "refresh"),
    "demand one more": ("(name,", "(name, source,", "extra-parameter", "source"),
    "by position only": ("(name,", "(name, /,", "positional-parameter", "name"),
    "by name only": ("pkgs=None,", "*, pkgs=None,", "keyword-parameter", "pkgs"),
    "swallow in *args": (INSTALL, "install(*args)", "only-args", "name"),
    "swallow in **kwargs": ("refresh=False, pkgs=None, **kwargs", "**kwargs", "only-kwargs", "refresh"),
    "drop *args": ("version(*names)", "version()", "missing-args", ""),
    "drop **kwargs": (", **kwargs", "", "missing-kwargs", ""),
    "give it a default": ("(name,", "(name='',", "optional-parameter", "name"),
    "squeeze one in": ("refresh=False,", "root=None, refresh=False,", "shifted-parameters", ""),
    "keep a deprecated one": ("def sync", "def add(name): ...\ndef sync", "deprecated-function", ""),
    "add an alien": ("def sync", "def dance(tune): ...\ndef sync", "alien-function", ""),
}  # fmt: skip


def signatures(text):
    """
    Give the signatures of the functions of a source text.
    """
    namespace = {}
    exec(text, namespace)  # pylint: disable=exec-used
    del namespace["__builtins__"]
    return {
        name: salt.interfaces.signature.of_function(function)
        for name, function in namespace.items()
    }


def test_a_conforming_module_has_no_findings():
    """
    What is optional or a feature need not be there.
    """
    assert check(PackInterface, signatures(CONFORMING), {"os": "Arch"}) == []


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_mutant_is_caught_by_its_code(mutant):
    """
    One change gives the finding that is named after it.
    """
    old, new, code, parameter = MUTANTS[mutant]
    text = CONFORMING.replace(old, new, 1)
    assert text != CONFORMING
    found = check(PackInterface, signatures(text), {"os": "Arch"})
    assert (code, parameter) in [(one.code, one.parameter) for one in found]


def test_every_code_has_its_mutant():
    """
    A code that no mutant gives is a code that nobody has seen at work.
    """
    assert {code for _, _, code, _ in MUTANTS.values()} == set(LEVELS)


def test_codes_are_not_shared():
    """
    Mutants of one place only give no other error beside their own.
    """
    for name in ("change a default", "make it required", "by name only", "reorder"):
        old, new, code, _ = MUTANTS[name]
        text = CONFORMING.replace(old, new, 1).replace("pkgs=None, **", "pkgs=None, **")
        if name == "make it required":
            text = text.replace("pkgs=None", "pkgs")
        found = check(PackInterface, signatures(text), {"os": "Arch"})
        assert {one.code for one in found} == {code}


def test_all_differences_are_found_at_once():
    """
    A module with three faults gives all of them.
    """
    text = "def install(name, refresh=True, pkgs=1): ..."
    found = check(PackInterface, signatures(text), {"os": "Arch"})
    assert [(one.function, one.code) for one in found] == [
        ("install", "changed-default"),
        ("install", "changed-default"),
        ("install", "missing-kwargs"),
        ("version", "missing-function"),
        ("sync", "missing-function"),
    ]


def test_a_function_of_other_platforms_is_not_demanded():
    """
    Without grains it is, as nobody knows.
    """
    text = CONFORMING.replace("def sync(): ...", "")
    assert check(PackInterface, signatures(text), {"os": "Debian"}) == []
    codes = [one.code for one in check(PackInterface, signatures(text))]
    assert codes == ["missing-function"]


def test_a_profile_demands_its_functions_only():
    """
    A device behind a proxy minion promises less, and keeps that.
    """
    text = "def install(name, refresh=False, pkgs=None, **kwargs): ..."
    assert check(PackInterface, signatures(text), {}, "minimal") == []
    found = check(PackInterface, {}, {}, "minimal")
    assert [(one.function, one.code) for one in found] == [
        ("install", "missing-function")
    ]


def test_words():
    """
    Each function gets one word, and the module another.
    """
    provided = signatures(
        "def install(name, refresh=True, pkgs=None, **kwargs): ...\n"
        "def search(text, root=None): ...\n"
        "def add(name): ...\n"
        "def dance(): ...\n"
    )
    found = check(PackInterface, provided, {"os": "Debian"})
    words = verdicts(PackInterface, provided, found, {"os": "Debian"})
    assert words == {
        "install": "differs",
        "version": "missing",
        "sync": "not supported",
        "hold": "absent",
        "unhold": "absent",
        "search": "conforms",
        "add": "deprecated",
        "dance": "alien",
    }
    assert overall(words.values()) == "differs"
    assert overall(["conforms", "absent", "tolerated"]) == "tolerated"
    assert overall(["conforms", "not supported"]) == "conforms"
