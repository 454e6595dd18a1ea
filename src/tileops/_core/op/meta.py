"""The metaclass of ops: what instantiation refuses before and after a constructor runs."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from tileops.errors import SignatureTypeError


class OpMeta(ABCMeta):
    """Names abstract members, and reports constructor arguments that do not bind."""

    if not TYPE_CHECKING:
        # A type checker would take what it returns for what constructing an op gives.

        def __call__(cls, /, *args: Any, **kwargs: Any) -> Any:
            """Make an instance."""
            if cls.__abstractmethods__:
                raise TypeError(_abstractness(cls))
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

    @property
    def __signature__(cls) -> inspect.Signature:
        """What the constructor takes, which `__call__` here would hide from `inspect`."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        parameters = list(signature.parameters.values())[1:]
        return signature.replace(parameters=parameters, return_annotation=signature.empty)


def _abstractness(cls: OpMeta) -> str:
    """Which members a class leaves abstract; if only a spec's, that its spec is missing."""
    name, lacking = cls.__name__, sorted(cls.__abstractmethods__)
    message = f"{name} cannot be instantiated: it leaves {', '.join(lacking)} abstract"
    if lacking != ["_infer_output_shapes"]:
        return message
    return (
        f"{message}, since no spec was called {name!r} when the class was defined: register one "
        "with tileops.manifest.register before, or give both the same name"
    )


def _binding_fault(
    cls: OpMeta, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> SignatureTypeError | None:
    """The fault for which arguments do not bind to the constructor, or None when they do."""
    signature = cls.__signature__
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return SignatureTypeError(
            cls.__name__, "construction", "", None, f"{error}\n  expected {signature}"
        )
    return None
