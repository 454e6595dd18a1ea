"""How a builder is called: a spec per input, then every parameter by name; can it be?"""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from tileops._core.targets.registry import Builder


def call_fault(builder: Builder, inputs: Iterable[str], params: Iterable[str]) -> str | None:
    """Why a builder cannot be called, or None; what shows no signature is not judged.

    Args:
        builder: the builder.
        inputs: names of the op's inputs, in order.
        params: names of the op's parameters.
    """
    inputs, params = tuple(inputs), tuple(params)
    try:
        signature = inspect.signature(builder)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*inputs, **dict.fromkeys(params))
    except TypeError as error:
        call = ", ".join([*inputs, *(f"{name}=…" for name in params)])
        return f"cannot be called as ({call}): {error}"
    return None


def order_fault(builder: Builder, inputs: Iterable[str]) -> str | None:
    """That a builder names the inputs in another order than it gets them in, or None."""
    wanted = [*inputs]
    try:
        named = [*inspect.signature(builder).parameters][: len(wanted)]
    except (TypeError, ValueError):
        return None
    if named == wanted or sorted(named) != sorted(wanted):
        return None
    return f"names its inputs ({', '.join(named)}), and gets them as ({', '.join(wanted)})"
