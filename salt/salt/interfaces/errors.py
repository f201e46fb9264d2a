"""
Errors of the Salt Module Interface

.. code-block:: text

    salt.exceptions.CommandExecutionError
    └── InterfaceError                   anything below
        ├── DeclarationError             an interface is written wrongly
        ├── FunctionNotImplementedError  the interface has the function, the module lacks it
        ├── FunctionNotSupportedError    ... and the platform is not one that must have it
        └── ReturnStructureError         a function returned another structure than declared

.. versionadded:: 3009.0
"""

from salt.exceptions import CommandExecutionError


class InterfaceError(CommandExecutionError):
    """
    The base of all errors of an interface
    """


class DeclarationError(InterfaceError):
    """
    An interface is declared wrongly; raised while it is imported
    """


class FunctionNotImplementedError(InterfaceError, KeyError):
    """
    The interface has the function, and the module that was loaded lacks it

    It is a KeyError as well: whoever is prepared for a function that is not there is
    prepared for this.
    """

    __str__ = Exception.__str__


class FunctionNotSupportedError(InterfaceError, KeyError):
    """
    The interface has the function for other platforms only, and the module lacks it

    It is a KeyError as well, see :class:`FunctionNotImplementedError`.
    """

    __str__ = Exception.__str__


class ReturnStructureError(InterfaceError):
    """
    A function returned something that lacks what its interface promises
    """
