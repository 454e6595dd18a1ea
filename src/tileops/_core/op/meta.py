"""The metaclass of ops: what instantiation refuses before and after a constructor runs."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from typing import Any

from tileops.errors import SignatureTypeError


class OpMeta(ABCMeta):
    """Names abstract members, and reports constructor arguments that do not bind."""

    def __call__(cls, /, *args: Any, **kwargs: Any) -> Any:
        """Make an instance."""
        if cls.__abstractmethods__:
            raise TypeError(
                f"{cls.__name__} cannot be instantiated: it leaves "
                f"{', '.join(sorted(cls.__abstractmethods__))} abstract"
            )
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as error:
            fault = _binding_fault(cls, args, kwargs)
            if fault is None:
                raise
            try:
                raise fault from error
            finally:
                # The error's traceback leads back here: a name for it would close a cycle.
                del fault


def _binding_fault(
    cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> SignatureTypeError | None:
    """The fault for which arguments do not bind to the constructor, or None when they do."""
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        taken = list(signature.parameters.values())[1:]
        expected = str(signature.replace(parameters=taken, return_annotation=signature.empty))
        return SignatureTypeError(
            cls.__name__, "construction", "", None, f"{error}\n  expected {expected}"
        )
    return None
