"""General kernels read nothing back to the host, which is shown without an accelerator.

The body runs on meta tensors, which have a shape and no contents: whatever asks for a number fails
there. As they are not on the CPU, a kernel that treats the CPU apart takes its other way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tileops import Op
from tileops._core.spec.model import TensorInput
from tileops.testing.calling import class_of, construct, placed, results, spec_of
from tileops.testing.drawing import DrawnCall
from tileops.testing.refusals import served


def general_kernels(op: Op) -> Callable[[str, Any], Any]:
    """A look-up of kernels that finds the general one of each interface, on any device."""

    def kernel_for(interface: str, call: Any) -> Any:
        keys = op._keys_by_interface[interface]
        kinds = (op._installed_kernel_types[key] for key in keys)
        _, build = next(kind for kind in kinds if kind.general).entry_for(call)
        return build()

    return kernel_for


def has_general_kernels(op: str) -> bool:
    """Whether each interface of an op has a general implementation."""
    cls = class_of(op)
    kinds = [kind for kind in cls.kernel_types.values() if kind.general]
    return bool(kinds) and all(
        any(issubclass(kind, interface) for kind in kinds) for interface in cls.interfaces.values()
    )


def writes_something(call: DrawnCall) -> bool:
    """Whether the call writes an element, without which no implementation runs."""
    writes = [*call.outputs.values(), *(call.tensors[name] for name in call.written)]
    return any(0 not in tensor.shape for tensor in writes)


def without_contents(call: DrawnCall) -> Op:
    """An instance whose construction-time tensors have no contents either."""
    op = construct(call)
    for name, declared in spec_of(call.op).signature.params.items():
        held = getattr(op, name)
        if isinstance(declared, TensorInput) and isinstance(held, torch.Tensor):
            setattr(op, name, held.to("meta"))
    return op


def test_general_kernels_read_nothing_back(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not spec_of(op).signature.inputs or not has_general_kernels(op):
        return
    for call in filter(writes_something, served(op)):
        if call.params.get("validate_inputs"):
            continue  # the one parameter that asks for a wait
        instance = without_contents(call)
        monkeypatch.setattr(instance, "kernel_for", general_kernels(instance))
        returned = results(op, instance.forward(**placed(call, "meta")))
        shapes = [tuple(found.shape) for found in returned if found is not None]
        assert shapes == [output.shape for output in call.outputs.values()], call
