"""
The report on Salt's own source tree: it is true, and what it finds is known
"""

import inspect

import pytest

import salt.interfaces
import salt.interfaces.signature
import salt.loader
from salt.interfaces import Interface
from salt.interfaces.conformance import ERROR, check
from salt.interfaces.report import generate, matrix, providers
from salt.interfaces.report.__main__ import KNOWN_FILE
from salt.interfaces.report.known import Known
from salt.interfaces.report.platforms import grains_of

ROOT = providers.root_of_salt()


@pytest.fixture(scope="module")
def shared(every):
    """
    The virtual names that several files provide.
    """
    return {
        name: listed
        for name, listed in every.items()
        if sum(len(provider.sources) for provider in listed) > 1
    }


def declared(text):
    """
    Give the interface that a generated text declares.
    """
    namespace = {"__name__": "generated"}
    exec(text, namespace)  # pylint: disable=exec-used
    (interface,) = (
        value
        for value in namespace.values()
        if inspect.isclass(value)
        and issubclass(value, Interface)
        and value is not Interface
    )
    return interface


def errors(interface, listed):
    """
    Give the errors of all providers, with the names of the providers.
    """
    return {
        (provider.name, finding)
        for provider in listed
        for finding in check(
            interface,
            provider.signatures,
            grains_of(provider.name),
            (
                provider.profile
                if provider.profile in salt.interfaces.profiles(interface)
                else None
            ),
        )
        if finding.level == ERROR
    }


def test_every_shared_virtual_name_has_an_interface(shared):
    """
    And no other has.
    """
    assert salt.interfaces.names() == sorted(shared)


def test_what_differs_is_known():
    """
    A new difference fails, and so does a line whose difference is gone.
    """
    known = Known.read(ROOT / KNOWN_FILE)
    data = matrix.matrix(known=known)
    assert matrix.unknown(data) == []
    assert data["unused"] == []


def test_no_function_of_salts_own_is_alien(shared):
    """
    A function that no interface has would be called deprecated.
    """
    for name, listed in shared.items():
        functions = salt.interfaces.functions(salt.interfaces.get(name))
        for provider in listed:
            assert set(provider.functions) <= set(functions), provider.name


def test_generated_from_one_module_fits_that_module(shared):
    """
    The round trip from each file alone shows no difference at all.
    """
    for name, listed in shared.items():
        for provider in listed:
            text, conflicts = generate.write(name, [provider], ())
            assert conflicts == ()
            assert check(declared(text), provider.signatures) == []


def test_generated_from_all_modules_fits_them_all(shared):
    """
    The round trip from all files shows the differences that the generator has named
    itself, where no signature suits all, and no other.
    """
    irreconcilable = 0
    for name, listed in shared.items():
        text, conflicts = generate.write(name, listed, ())
        assert errors(declared(text), listed) == set(conflicts), name
        irreconcilable += len(conflicts)
    assert irreconcilable < 40


def _static(function, module):
    """
    Write a signature with the defaults evaluated that are no literals.
    """
    signature = function.signature
    return salt.interfaces.signature.Signature(
        [
            parameter._replace(
                default=parameter.default
                and repr(eval(parameter.default, vars(module)))  # pylint: disable=W0123
            )
            for parameter in signature.parameters
        ],
        signature.asynchronous,
    )


def test_source_files_tell_what_the_loader_sees(every, minion_opts):
    """
    For every module that loads here: the same functions with the same signatures.
    """
    loader = salt.loader.minion_mods(minion_opts)
    loaded = {}
    for key in loader:
        function = loader[key]
        module = inspect.getmodule(function)
        if module is None or not module.__name__.startswith("salt.loaded.int.module."):
            continue
        name = module.__name__.rsplit(".", 1)[-1]
        virtualname, _, own = key.partition(".")
        loaded.setdefault((name, virtualname), {})[own] = function
    compared = 0
    for virtualname, listed in every.items():
        for provider in listed:
            for source in provider.sources:
                seen = loaded.get((source.name, virtualname), {})
                if not seen:
                    continue
                static = source.functions
                assert set(seen) <= set(static), source.name
                # what needs a program that is not here is taken out by the loader
                for name in set(static) - set(seen):
                    decorators = map(str, map(_text, static[name].node.decorator_list))
                    assert any("depends" in text for text in decorators), (
                        source.name,
                        name,
                    )
                for name, function in seen.items():
                    module = inspect.getmodule(function)
                    dynamic = salt.interfaces.signature.of_function(function)
                    assert _static(static[name], module) == dynamic, (
                        source.name,
                        name,
                    )
                    compared += 1
    assert compared > 1000


def _text(node):
    """
    Write a decorator's name.
    """
    return getattr(getattr(node, "func", node), "id", None) or getattr(
        getattr(node, "func", node), "attr", ""
    )
