"""
The Salt Module Interface: what a virtual module promises

Several modules serve one virtual name: ``aptpkg``, ``yumpkg``, ``win_pkg`` and others
all are ``pkg``. An interface says what all of them have in common, so that a caller
need not know the platform.

.. code-block:: python

    from salt.interfaces import Interface


    class PkgInterface(Interface):
        __modulename__ = "pkg"
        __version__ = "1.0"

        @Interface.returns({str: (str, list)})
        def list_pkgs(self, versions_as_list=False, **kwargs):
            '''
            List the packages that are installed
            '''
            return {}

The interface of the virtual name ``pkg`` is the class with that ``__modulename__``
in ``salt/interfaces/pkg_module.py``. A module says which interface it has with

.. code-block:: python

    from salt.interfaces.pkg_module import PkgInterface

    __virtualname__ = PkgInterface(__name__)()

A module that does not say it gets the interface of its virtual name all the same.
See :ref:`module-interfaces`.

.. versionadded:: 3009.0
"""

import importlib
import importlib.util

from salt.interfaces.interface import (
    Declaration,
    Interface,
    features,
    functions,
    profiles,
)
from salt.interfaces.marks import wrong

__all__ = [
    "Declaration",
    "Interface",
    "features",
    "functions",
    "get",
    "names",
    "profiles",
]

# The file of a virtual name's interface is this name with the suffix
_SUFFIX = "_module"


def __getattr__(name):
    """
    Return one of the errors, which a module that declares its interface does not need
    """
    import salt.interfaces.errors  # pylint: disable=import-outside-toplevel

    if name.endswith("Error") and hasattr(salt.interfaces.errors, name):
        return getattr(salt.interfaces.errors, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def names():
    """
    Return the virtual names that have an interface, sorted

    :rtype: list
    """
    # asked for by tools alone, while a minion imports this module for every interface
    import pkgutil  # pylint: disable=import-outside-toplevel

    return sorted(
        found.name[: -len(_SUFFIX)]
        for found in pkgutil.iter_modules(__path__)
        if found.name.endswith(_SUFFIX)
    )


def get(virtual_name):
    """
    Return the interface of a virtual name, or None if it has none

    :param str virtual_name: For example ``pkg``
    :return: A subclass of :class:`Interface`
    :raises DeclarationError: The file is there and has no such class
    """
    # a name comes from whoever calls a function: it may be anything
    if not str(virtual_name).isidentifier():
        return None
    path = f"{__name__}.{virtual_name}{_SUFFIX}"
    if importlib.util.find_spec(path) is None:
        return None
    module = importlib.import_module(path)
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Interface)
            and value.__module__ == path
            and value.__modulename__ == virtual_name
        ):
            return value
    raise wrong(
        f"{path} has no subclass of Interface whose __modulename__ is '{virtual_name}'."
    )
