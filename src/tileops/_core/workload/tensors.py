"""Cases to tensors: deterministic data on the device that a call would run on.

All tensors are contiguous and share no storage. Ordinary data is drawn from a generator seeded by
the op, the case and the tensor, so a case gives the same data on one device type whatever ran
before; metadata has the contents that its generator gave.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tileops._core.lang.primitives.sampling import WORKLOAD_SEED
from tileops._core.spec.model import OpSpec, Param, TensorInput
from tileops._core.workload.arguments import constructor_value, names_a_dtype
from tileops._core.workload.cases import Case, TensorForm

_UNIFORM = 8
"""Integers are drawn from 0 to one below this."""


@dataclass(frozen=True)
class Arguments:
    """What to construct an op with and what to call it with.

    Args:
        params: keyword arguments of the constructor, construction-time tensors included.
        inputs: every input in order; None for one that is not passed.
        device: where the call runs.
    """

    params: Mapping[str, Any]
    inputs: Mapping[str, torch.Tensor | None]
    device: torch.device


def make_arguments(spec: OpSpec, case: Case, fallback: torch.device | str) -> Arguments:
    """The arguments of one case.

    An op that no input ties to a device is told the device, if it has a parameter for it.

    Args:
        spec: the spec.
        case: the case.
        fallback: the device of the call where the spec's parameters do not name one.

    Raises:
        AttributeError: the running torch lacks a dtype.
    """
    device = torch.device(case.setting.params.get("device") or fallback)
    decided = any(not t.on_cpu for t in spec.signature.inputs.values() if t.name in case.tensors)
    params: dict[str, Any] = {}
    for name, param in spec.signature.params.items():
        if isinstance(param, Param):
            params[name] = _parameter(spec, param, case.setting.params[name])
        elif name in case.tensors:
            params[name] = _tensor(spec, case, param, device)
    inputs = {
        name: _tensor(spec, case, tensor, device) if name in case.tensors else None
        for name, tensor in spec.signature.inputs.items()
    }
    if "device" in params and not decided:
        params["device"] = device
    return Arguments(params, inputs, device)


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a registered name.

    Raises:
        AttributeError: the running torch lacks it.
    """
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def _parameter(spec: OpSpec, param: Param, value: Any) -> Any:
    if names_a_dtype(param, value):
        return dtype_of(value)
    return constructor_value(spec, param, value)


def _tensor(spec: OpSpec, case: Case, tensor: TensorInput, device: torch.device) -> torch.Tensor:
    form = case.tensors[tensor.name]
    place = torch.device("cpu") if tensor.on_cpu else device
    if form.values is not None:
        values = torch.tensor(form.values, dtype=dtype_of(form.dtype), device=place)
        return values.reshape(form.shape)
    return random_tensor(form, place, f"{spec.name}:{case.id}:{tensor.name}")


def random_tensor(form: TensorForm, device: torch.device, owner: str) -> torch.Tensor:
    """Ordinary data of a shape and dtype.

    Args:
        form: shape and dtype.
        device: where it lies.
        owner: `"<op>:<case id>:<tensor>"`, which seeds it.
    """
    dtype = dtype_of(form.dtype)
    if device.type == "meta":
        return torch.empty(form.shape, dtype=dtype, device=device)
    generator = torch.Generator(device=device)
    generator.manual_seed(WORKLOAD_SEED ^ zlib.crc32(owner.encode()))
    if form.dtype == "float4_e2m1fn_x2":
        # A carrier byte holds two numbers, and every byte is a pair of them.
        data = torch.randint(256, form.shape, generator=generator, dtype=torch.uint8, device=device)
        return data.view(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        drawn = dtype if dtype in _DRAWN else torch.float32
        return torch.randn(form.shape, generator=generator, dtype=drawn, device=device).to(dtype)
    bound = 2 if dtype is torch.bool else _UNIFORM
    return torch.randint(bound, form.shape, generator=generator, device=device).to(dtype)


_DRAWN = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})
"""Dtypes that a standard normal is drawn in; others are cast from float32."""
