"""
An option with a slip is an error: Salt itself prints the help, and ends with 0
"""

import pytest
import saltext.package_states.runners.package_states as package_states
import saltext.package_states.runners.pkgset as pkgset
from saltext.package_states.errors import InvalidInput

import salt.loader
import salt.minion


def given(function, *words):
    """
    Call a function as salt-run does with the words of a command line
    """
    args, kwargs = salt.minion.load_args_and_kwargs(
        function, [*words, {"__kwarg__": True, "__pub_user": "root"}]
    )
    return function(*args, **kwargs)


@pytest.mark.parametrize(
    "function, words, message",
    (
        (
            package_states.set_,
            ("web", "vim", "coment=x"),
            "set takes no 'coment'; use comment.",
        ),
        (package_states.show, ("nmae=web",), "show takes no 'nmae'; use name."),
        (
            package_states.show,
            ("x9=1",),
            "show takes no 'x9'; use name, revision, against.",
        ),
        (
            package_states.assign,
            ("web",),
            "assign: missing a required argument: 'kind'; it ",
        ),
        (
            package_states.setup,
            (False, False, 3),
            "setup: too many positional arguments; ",
        ),
        (
            pkgset.refresh,
            ("*", "tgt_tpye=grain"),
            "refresh takes no 'tgt_tpye'; use tgt_type.",
        ),
    ),
)
def test_what_a_function_does_not_take_is_named(function, words, message):
    with pytest.raises(InvalidInput) as told:
        given(function, *words)
    assert str(told.value).startswith(message)


def test_the_help_has_the_arguments():
    assert (
        "\n    Arguments: (name=None, revision=None, against=None)\n"
        in package_states.show.__doc__
    )
    assert "Arguments: (name, package=None, wanted=None," in package_states.set_.__doc__


@pytest.mark.parametrize("module", (package_states, pkgset))
def test_who_calls_is_put_where_the_runner_looks(master_opts, module):
    """
    Salt's client puts the user whom it has authenticated into the globals of a function
    """
    name = module.__name__.rpartition(".")[2]
    functions = salt.loader.runner(master_opts)
    functions[f"{name}.refresh"].__globals__["__user__"] = "ann"
    loaded = functions[f"{name}.refresh"].__globals__
    assert loaded["__user__"] == "ann" and "__virtual__" in loaded
    assert module.refresh.__globals__ is vars(module)
