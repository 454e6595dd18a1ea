"""Drawn calls made real: instances, tensors, results, and what is expected of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from tileops import Op
from tileops._core import plugins
from tileops._core.signature.discriminants import OUT
from tileops._core.spec.model import OpSpec, Param
from tileops._core.spec.names import reference_name
from tileops._core.spec.registry import lookup
from tileops._core.validate.code import find_class
from tileops._core.workload.arguments import constructor_value, names_a_dtype
from tileops.testing.blame import ReferenceFault, raised
from tileops.testing.drawing import DrawnCall, DrawnTensor
from tileops.testing.serving import note

TOLERANCE = {
    "float32": 1e-4,
    "float16": 4e-3,
    "bfloat16": 2e-2,
    "complex64": 1e-4,
    "complex128": 1e-10,
}
"""Relative tolerance by the result's dtype, none for codes; float8 inputs widen it to 6e-2.

The absolute tolerance is the same share of a result's magnitude.
"""


AT: list[DrawnCall] = []
"""The drawn call that is being made, or was last: what a test that fails was about."""


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


def construct(call: DrawnCall) -> Op:
    """An instance with the call's parameters."""
    made: Op = class_of(call.op)(**parameters(call))
    note(made)
    return made


def parameters(call: DrawnCall, device: str = "cpu") -> dict[str, Any]:
    """The constructor's arguments by name; dtypes are torch's, a `device` is the one given."""
    AT[:] = [call]
    found: dict[str, Any] = {}
    spec = spec_of(call.op)
    for name, declared in spec.signature.params.items():
        if not isinstance(declared, Param):
            if name in call.tensors:
                found[name] = tensor(call, name).to("cpu" if declared.on_cpu else device)
        elif name == "device":
            found[name] = device
        else:
            found[name] = _python_value(spec, declared, call.params[name])
    return found


def _python_value(spec: OpSpec, param: Param, value: Any) -> Any:
    """A drawn value as the constructor takes it."""
    if isinstance(value, str) and names_a_dtype(param, value):
        return getattr(torch, value)
    return constructor_value(spec, param, value)


def inputs(call: DrawnCall) -> dict[str, Tensor]:
    """The call-time tensors by name, those that are passed."""
    names = spec_of(call.op).signature.inputs
    return tamed(call, {name: tensor(call, name) for name in names if name in call.tensors})


def tamed(call: DrawnCall, given: dict[str, Tensor], device: str = "cpu") -> dict[str, Tensor]:
    """Data of the same form on which the op is stable.

    A reference module may hold a function `<name>_tamed(inputs, **params)` that gives it: a
    recurrence that blows up says nothing about its numerics.
    """
    home = spec_of(call.op).home
    function = home and getattr(_references(call.op), f"{reference_name(call.op)}_tamed", None)
    if not function:
        return given
    found: dict[str, Tensor] = function(given, **parameters(call, device))
    return found


def placed(call: DrawnCall, device: str) -> dict[str, Tensor]:
    """The call-time tensors on a device, but those declared to lie on the CPU."""
    declared = spec_of(call.op).signature.inputs
    return {
        name: tensor if declared[name].on_cpu else tensor.to(device)
        for name, tensor in inputs(call).items()
    }


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


def buffer(call: DrawnCall) -> dict[str, Tensor]:
    """`out`, where the call passes it: memory for the output that takes a buffer."""
    if not call.point.get(OUT):
        return {}
    outputs = spec_of(call.op).signature.outputs.values()
    drawn = next(call.outputs[output.name] for output in outputs if output.buffered)
    return {OUT: torch.empty(drawn.shape, dtype=getattr(torch, drawn.dtype))}


def results(op: str, returned: Any) -> tuple[Tensor | None, ...]:
    """What a call of an op returned, as a tuple; nothing where it has no outputs."""
    count = len(spec_of(op).signature.outputs)
    found = returned if isinstance(returned, tuple) else (returned,)
    if not count:
        found = () if returned is None else found
    if len(found) != count:
        raise FormFault(f"{op} has {count} outputs, what was returned are {len(found)}")
    return found


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two results are equal, or both absent; NaN equals NaN."""
    if one is None or other is None:
        return one is other
    one, other = (t.double() if t.is_floating_point() else t for t in (one, other))
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def expected(
    call: DrawnCall, given: Mapping[str, Tensor], device: str = "cpu"
) -> tuple[Tensor | None, ...]:
    """What the op's reference makes of copies of the inputs, in the form of `outcome`.

    Raises:
        ReferenceFault: the reference raises, or returns what the spec does not declare.
    """
    copies = {name: tensor.clone() for name, tensor in given.items()}
    returned = reference(call, device)(**copies)
    try:
        return outcome(call, copies, returned)
    except FormFault as fault:
        raise ReferenceFault(f"the reference is at fault: {fault}") from None


def reference(call: DrawnCall, device: str = "cpu") -> Callable[..., Any]:
    """The op's reference with the call's parameters; takes the inputs by name.

    What it raises becomes a `ReferenceFault`.
    """
    module, name = _references(call.op), reference_name(call.op)
    assert hasattr(module, name), (
        f"{module.__name__} has no function {name}, which judges {call.op}"
    )
    function = getattr(module, name)
    names, params = list(spec_of(call.op).signature.inputs), parameters(call, device)

    def computed(**given: Tensor) -> Any:
        try:
            return function(*map(given.get, names), **params)
        except Exception as error:
            own = module.__name__
            what = raised("the reference", error, lambda at: at.f_globals.get("__name__") == own)
            raise ReferenceFault(what) from error

    return computed


class FormFault(AssertionError):
    """A result is there where none is declared, or lacks, or has another shape or dtype."""


def outcome(
    call: DrawnCall, given: Mapping[str, Tensor], returned: Any
) -> tuple[Tensor | None, ...]:
    """All that a call gives: its results, then the inputs that it wrote and does not return.

    A reference module may hold a function `<name>_canonical(outcome, *inputs, **params)`. It
    brings an outcome into a form in which all right ones are equal: unspecified values become one
    value, and where the order is free it becomes one order.
    """
    spec = spec_of(call.op)
    found = results(call.op, returned)
    for name, result in zip(spec.signature.outputs, found, strict=True):
        _assert_declared(call, name, result)
    returns = {output.alias for output in spec.signature.outputs.values()}
    found += tuple(given[name] for name in call.written if name not in returns)
    canonical = getattr(_references(call.op), f"{reference_name(call.op)}_canonical", None)
    if canonical is None:
        return found
    ordered = [given.get(name) for name in spec.signature.inputs]
    form: tuple[Tensor | None, ...] = canonical(found, *ordered, **parameters(call))
    return form


def _references(op: str) -> Any:
    """The module that holds the reference of an op."""
    home = spec_of(op).home
    assert home is not None, f"{op} is registered by running code, it has no reference"
    return plugins.module(f"{home}.reference")


def _assert_declared(call: DrawnCall, name: str, result: Tensor | None) -> None:
    """Results are present exactly where drawn ones are, with the drawn shapes and dtypes."""
    drawn = call.outputs.get(name)
    if drawn is None:
        found, wanted = result is None, "is no output of this call"
    else:
        found = _is_of(result, drawn)
        wanted = f"is declared as {drawn.dtype}{list(drawn.shape)}"
    if not found:
        raise FormFault(f"{call}: {name} {wanted}, what was returned is {_form(result)}")


def _is_of(result: Any, drawn: DrawnTensor) -> bool:
    return isinstance(result, Tensor) and (
        (tuple(result.shape), result.dtype) == (drawn.shape, getattr(torch, drawn.dtype))
    )


def _form(result: Any) -> str:
    """Dtype and shape of what was returned; the type of what is no tensor."""
    if isinstance(result, Tensor):
        return f"{str(result.dtype).removeprefix('torch.')}{list(result.shape)}"
    return "None" if result is None else f"of type {type(result).__name__}"


def assert_close(
    call: DrawnCall,
    given: Mapping[str, Tensor],
    returned: Any,
    wanted: tuple[Tensor | None, ...],
) -> None:
    """What a call returned, and what it wrote in `given`, has the values of the reference."""
    float8 = any(drawn.dtype.startswith("float8") for drawn in call.tensors.values())
    for place, (found, reference) in enumerate(
        zip(outcome(call, given, returned), wanted, strict=True)
    ):
        if found is None or reference is None:
            assert found is reference, f"{call}: result {place}"
            continue
        bound = TOLERANCE.get(str(found.dtype).removeprefix("torch."), 0.0)
        bound = 6e-2 if float8 and bound else bound
        atol = bound * _magnitude(reference)
        try:
            torch.testing.assert_close(found, reference, rtol=bound, atol=atol, equal_nan=True)
        except AssertionError as error:
            raise AssertionError(f"{call}: result {place}: {error}") from None


def _magnitude(reference: Tensor) -> float:
    """The root mean square of the finite numbers, at least 1: where sums cancel, errors do not."""
    numbers = reference.double() if not reference.is_complex() else reference.abs().double()
    finite = numbers[numbers.isfinite()]
    return max(1.0, float(finite.square().mean().sqrt())) if finite.numel() else 1.0
