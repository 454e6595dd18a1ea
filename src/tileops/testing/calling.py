"""Drawn calls made real: instances, tensors, results, and what is expected of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from tileops import Op
from tileops._core.boundary.naming import stem
from tileops._core.lang.kinds import DTypeKind, MaybeKind
from tileops._core.spec.model import OpSpec, Param
from tileops._core.spec.registry import lookup
from tileops._core.validate.code import find_class
from tileops.testing.drawing import DrawnCall

TOLERANCE = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 2e-2}
"""Absolute and relative tolerance by the result's dtype; float8 inputs widen it to 6e-2."""


def spec_of(op: str) -> OpSpec:
    """The spec of an op."""
    spec = lookup(op)
    assert spec is not None
    return spec


def class_of(op: str) -> type[Any]:
    """The class of an op."""
    found = find_class(spec_of(op))
    assert isinstance(found, type), found
    return found


def reference_name(op: str) -> str:
    """The reference function of an op: its name in snake case without `Fwd`."""
    return "_".join(word for word in stem(op).split("_") if word != "fwd")


def construct(call: DrawnCall) -> Op:
    """An instance with the call's parameters."""
    made: Op = class_of(call.op)(**parameters(call))
    return made


def parameters(call: DrawnCall) -> dict[str, Any]:
    """The constructor's arguments by name; dtypes are torch's, a `device` is the CPU."""
    found: dict[str, Any] = {}
    for name, declared in spec_of(call.op).signature.params.items():
        if not isinstance(declared, Param):
            if name in call.tensors:
                found[name] = tensor(call, name)
        elif name == "device":
            found[name] = "cpu"
        else:
            found[name] = _python_value(declared, call.params[name])
    return found


def _python_value(param: Param, value: Any) -> Any:
    """A drawn value as the constructor takes it."""
    assert param.type.node is not None
    kind = param.type.node.kind
    inner = kind.inner if isinstance(kind, MaybeKind) else kind
    if isinstance(value, str) and isinstance(inner, DTypeKind):
        return getattr(torch, value)
    return value


def inputs(call: DrawnCall) -> dict[str, Tensor]:
    """The call-time tensors by name, those that are passed."""
    names = spec_of(call.op).signature.inputs
    return {name: tensor(call, name) for name in names if name in call.tensors}


def tensor(call: DrawnCall, name: str) -> Tensor:
    """The tensor as drawn: given contents, else standard normal or small random numbers."""
    drawn = call.tensors[name]
    dtype = getattr(torch, drawn.dtype)
    if drawn.contents is not None:
        return torch.tensor(drawn.contents, dtype=dtype).reshape(drawn.shape)
    generator = torch.Generator().manual_seed(crc32(f"{call} {name}".encode()))
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(drawn.shape, generator=generator).to(dtype)
    high = 2 if dtype is torch.bool else 8
    return torch.randint(0, high, drawn.shape, generator=generator).to(dtype)


def results(value: Any) -> tuple[Tensor | None, ...]:
    """What a call returned, as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two results are equal, or both absent; NaN equals NaN."""
    if one is None or other is None:
        return one is other
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def expected(call: DrawnCall, given: Mapping[str, Tensor]) -> tuple[Tensor | None, ...]:
    """What the op's reference makes of copies of the inputs."""
    return results(_refer(call, {name: tensor.clone() for name, tensor in given.items()}))


def expected_writes(call: DrawnCall, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the reference leaves in copies of the written inputs that are no outputs."""
    copies = {name: tensor.clone() for name, tensor in given.items()}
    aliased = {output.alias for output in spec_of(call.op).signature.outputs.values()}
    names = [name for name in call.written if name not in aliased]
    if names:
        _refer(call, copies)
    return {name: copies[name] for name in names}


def _refer(call: DrawnCall, given: Mapping[str, Tensor]) -> Any:
    """Run the op's reference."""
    spec = spec_of(call.op)
    assert spec.home is not None, f"{call.op} is registered by running code, it has no reference"
    module = importlib.import_module(f"{spec.home}.reference")
    ordered = [given.get(name) for name in spec.signature.inputs]
    return getattr(module, reference_name(call.op))(*ordered, **parameters(call))


def assert_close(call: DrawnCall, actual: Any, wanted: Any) -> None:
    """Every result has the shape and dtype drawn and the values of the reference."""
    names = spec_of(call.op).signature.outputs
    for name, found, reference in zip(names, results(actual), results(wanted), strict=True):
        if name not in call.outputs:
            assert found is None, f"{call}: {name} is no output of this call"
            continue
        drawn = call.outputs[name]
        assert found is not None and reference is not None, f"{call}: {name}"
        assert (tuple(found.shape), found.dtype) == (drawn.shape, getattr(torch, drawn.dtype))
        _assert_near(call, name, found, reference)


def assert_writes(
    call: DrawnCall, given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> None:
    """The written inputs hold what the reference wrote."""
    for name, reference in wanted.items():
        _assert_near(call, name, given[name], reference)


def _assert_near(call: DrawnCall, name: str, found: Tensor, reference: Tensor) -> None:
    """Two tensors are equal to within the tolerance of their dtype."""
    float8 = any(drawn.dtype.startswith("float8") for drawn in call.tensors.values())
    bound = 6e-2 if float8 else TOLERANCE.get(str(found.dtype).removeprefix("torch."), 0.0)
    try:
        torch.testing.assert_close(found, reference, rtol=bound, atol=bound, equal_nan=True)
    except AssertionError as error:
        raise AssertionError(f"{call}: {name}: {error}") from None
