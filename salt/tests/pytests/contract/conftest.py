"""
The contract of an interface, for a module on a real system

It changes the system: run it in a container. From the root of Salt's tree:

.. code-block:: bash

    pytest -c /dev/null --confcutdir tests/pytests/contract -p no:cacheprovider \\
        tests/pytests/contract/pkg_contract.py \\
        --module my_pkg.py --package small-package
"""

import json
import pathlib
import shutil

import pytest

import salt.config
import salt.loader
import salt.runners.interfaces
import salt.utils.files
from salt._logging import shutdown_temp_handler
from tests.pytests.contract.returns import problem


def pytest_addoption(parser):
    group = parser.getgroup("contract")
    group.addoption("--module", help="file of a module, instead of the system's own")
    group.addoption("--package", help="a package to install and remove")
    group.addoption("--service", help="a service to start and stop")
    group.addoption("--minion-config", default="/etc/salt/minion")
    group.addoption("--record", help="file to which results are added, one a line")


def pytest_configure():
    # At its end Salt would log what it kept to a stream that pytest has closed
    shutdown_temp_handler()


def check(functions, name, file):
    """
    Raise an error unless a file serves a virtual name: the system's own module would be
    tested in its place
    """
    hasattr(functions, name)  # loads the module
    declaration = functions.interfaces.get(name)
    module = declaration and declaration.module.rpartition(".")[2]
    if module != file.stem or declaration != name:
        reason = functions.missing_modules.get(file.stem)
        if module == file.stem:
            reason = f"it declares '{declaration}'"
        reason = reason or "it declares no interface"
        pytest.exit(
            f"{file} does not serve '{name}': {reason} - see declaration_contract.py",
            returncode=1,
        )


@pytest.fixture(scope="session")
def load(request, tmp_path_factory):
    """
    Return a function that loads the execution modules
    """
    config = request.config

    def load(name, **more):
        opts = salt.config.minion_config(config.getoption("--minion-config"))
        opts.update({"smi": True, "file_client": "local", **more})
        opts["grains"] = salt.loader.grains(opts)
        if config.getoption("--module"):
            file = pathlib.Path(config.getoption("--module"))
            folder = tmp_path_factory.mktemp("site")
            (folder / "modules").mkdir()
            shutil.copy(file, folder / "modules")
            opts["module_dirs"] = [str(folder)]
            opts["providers"] = {name: file.stem}
        functions = salt.loader.minion_mods(opts)
        if config.getoption("--module"):
            check(functions, name, file)
        return functions

    return load


@pytest.fixture(scope="session")
def calls(request, load):
    """
    Return a function that makes the call of a virtual name, whose results are checked
    """

    def calls(name, **more):
        functions = load(name, **more)
        schemas = salt.runners.interfaces.schema(name)

        def call(function, *args, **kwargs):
            key = f"{name}.{function}"
            if key not in functions:
                pytest.skip(f"{functions.missing_fun_string(key)}")
            value = functions[key](*args, **kwargs)
            wrong = problem(value, schemas[function]["returns"])
            assert wrong is None, f"{key}{args}: {wrong}"
            if request.config.getoption("--record"):
                with salt.utils.files.fopen(
                    request.config.getoption("--record"), "a"
                ) as handle:
                    handle.write(json.dumps([key, value], default=str) + "\n")
            return value

        return call

    return calls
