"""Shapes and dtypes given in place of tensors, judged before any check reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tileops._core.lang.values import shown, shown_with_type
from tileops._core.runtime.failures import Faults
from tileops._core.runtime.tensors import DTYPES, Shaped
from tileops.errors import SignatureError


def shaped_inputs(
    faults: Faults, shapes: Mapping[str, Any], dtypes: object
) -> dict[str, Shaped | None]:
    """What stands for each input; None for one that is not passed.

    Args:
        faults: raises what is wrong.
        shapes: shapes by input name.
        dtypes: dtypes or their names by input name, as far as they are known; or None.

    Raises:
        SignatureError: a name is no input's, or a shape or a dtype is malformed.
    """
    given = {} if dtypes is None else dtypes
    if not isinstance(given, Mapping):
        raise faults.given("", f"expected dtypes by input name, got {shown_with_type(given)}")
    inputs = faults.plan.spec.signature.inputs
    unknown = [name for name in (*shapes, *given) if name not in inputs]
    if unknown:
        raise faults.given("", f"no input {shown(unknown[0])}; inputs: {', '.join(inputs)}")
    found: dict[str, Shaped | None] = {}
    for name in inputs:
        shape, dtype = shapes.get(name), given.get(name)
        taken = _dtype(faults, name, dtype)
        found[name] = None if shape is None else Shaped(_shape(faults, name, shape), taken)
    return found


def _shape(faults: Faults, name: str, shape: object) -> tuple[Any, ...]:
    if not isinstance(shape, list | tuple):
        fault = f"expected a list or tuple of lengths, got {shown_with_type(shape)}"
        raise faults.given(f"inputs.{name}.shape", fault)
    for size in shape:
        if isinstance(size, torch.SymInt):
            continue
        if isinstance(size, bool) or not isinstance(size, int):
            fault = f"expected lengths, got {shown_with_type(size)} in {shown(shape)}"
            raise faults.given(f"inputs.{name}.shape", fault)
        if size < 0:
            fault = f"expected lengths of at least 0, got {shown(shape)}"
            raise faults.given(f"inputs.{name}.shape", fault, SignatureError)
    return tuple(shape)


def _dtype(faults: Faults, name: str, dtype: object) -> torch.dtype | None:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    if not isinstance(dtype, str):
        fault = f"expected a dtype or its name, got {shown_with_type(dtype)}"
        raise faults.given(f"inputs.{name}.dtype", fault)
    if dtype not in DTYPES:
        fault = f"expected the name of a dtype, got {shown(dtype)}"
        raise faults.given(f"inputs.{name}.dtype", fault, SignatureError)
    return DTYPES[dtype]
