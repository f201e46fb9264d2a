"""
One loader of outputters prints everything that a command has to print.
"""

import pytest

import salt.loader
import salt.output
import salt.utils.files
from tests.support.mock import patch


@pytest.fixture
def opts(minion_opts):
    minion_opts["color"] = False
    minion_opts["extension_modules"] = ""
    return minion_opts


@pytest.fixture
def loads():
    outputters = salt.loader.outputters
    with patch("salt.output._kept", None, create=True), patch(
        "salt.loader.outputters", side_effect=outputters
    ) as mock:
        yield mock


def test_one_loader_for_many_returns(opts, loads, capsys):
    for number in range(10):
        salt.output.display_output({f"minion-{number}": True}, "nested", opts)
    assert loads.call_count == 1
    assert capsys.readouterr().out.split() == [
        word for number in range(10) for word in (f"minion-{number}:", "True")
    ]


def test_another_outputter_of_the_same_loader(opts, loads):
    assert salt.output.out_format({"a": 1}, "json", opts) == '{\n    "a": 1\n}'
    assert salt.output.out_format({"a": 1}, "txt", opts) == "a: 1"
    assert loads.call_count == 1


def test_changed_options_count(opts, loads):
    assert salt.output.out_format({"a": 1}, "json", opts) == '{\n    "a": 1\n}'
    opts["output_indent"] = -1
    assert salt.output.out_format({"a": 1}, "json", opts) == '{"a": 1}'
    assert loads.call_count == 2


def test_options_that_are_changed_in_place_count(opts, loads):
    opts["outputter_lines"] = {"json": [1]}
    for number in range(2):
        salt.output.out_format({"a": 1}, "json", opts)
        opts["outputter_lines"]["json"].append(number)
    salt.output.out_format({"a": 1}, "json", opts)
    assert loads.call_count == 3


def test_options_without_a_copy(opts, loads, tmp_path):
    with salt.utils.files.fopen(str(tmp_path / "out"), "w") as output_file:
        opts["output_file"] = output_file
        for _ in range(2):
            salt.output.display_output({"a": 1}, "json", opts)
    assert (tmp_path / "out").read_text().count('"a": 1') == 2
    assert loads.call_count == 2


def test_other_options_count(opts, loads):
    other = {**opts, "output_indent": -1}
    assert salt.output.out_format({"a": 1}, "json", opts) == '{\n    "a": 1\n}'
    assert salt.output.out_format({"a": 1}, "json", other) == '{"a": 1}'
    assert salt.output.out_format({"a": 1}, "json", opts) == '{\n    "a": 1\n}'
    assert loads.call_count == 3


def test_options_that_are_used_by_nobody_else(loads):
    # as string_format and html_format are called by others
    assert salt.output.out_format({"a": 1}, "raw", {"color": False}) == "{'a': 1}"
    assert salt.output.out_format({"a": 1}, "raw", {"color": False}) == "{'a': 1}"


@pytest.mark.parametrize(
    "option", ("outputter_dirs", "module_dirs", "extension_modules")
)
def test_outputters_of_a_site_are_read_again(opts, tmp_path, option):
    """
    A folder that is added to the list in place, and a file that is changed, are seen
    """
    if option != "extension_modules":
        opts[option] = []
    assert salt.output.out_format("a", "ours", opts).strip() == "a"
    folder = tmp_path if option == "outputter_dirs" else tmp_path / "output"
    folder.mkdir(exist_ok=True)
    for number in range(2):
        # of another size, which Python's own cache of bytecode sees
        ours = "ours" * (number + 1)
        text = f"def output(data, **kwargs):\n    return '{ours}'\n"
        (folder / "ours.py").write_text(text)
        if option == "extension_modules":
            opts[option] = str(tmp_path)
        elif not number:
            opts[option].append(str(tmp_path))
        assert salt.output.out_format("a", "ours", opts) == ours
