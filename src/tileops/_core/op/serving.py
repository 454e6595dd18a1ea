"""Serving by a target: selecting it, building its kernels, calling them, undoing a selection."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

import torch

from tileops._core.boundary.results import adopt_callers_tensors
from tileops._core.devices import as_current, current_device
from tileops._core.lang.values import shown
from tileops._core.op.construct import Construction
from tileops._core.op.notes import add_note
from tileops._core.op.state import TargetKernel, TargetKey
from tileops._core.targets.registry import TensorSpec
from tileops._core.targets.selection import Selection, select_target
from tileops.errors import OpNotAvailableError

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall


class Serving(Construction):
    """The binding of an instance to a target."""

    @property
    def serving_target(self) -> str | None:
        """The target that serves the instance, `BUILTIN` for in-tree kernels, None before."""
        return self._serving_target

    def _selection(self, device: torch.device | None) -> Selection | None:
        """What selection gives for a call on `device`; changes nothing."""
        has_kernels = bool(self.kernel_types or self.interfaces)
        return select_target(
            type(self).__name__,
            self.target,
            device,
            composed=self.composition_only,
            needs_builder=has_kernels or not self.delegate_types,
        )

    def _select_target(self, device: torch.device | None) -> bool:
        """Bind the instance to the target that serves `device`; whether there was one to select."""
        if device is not None and device.type == "meta":
            return False
        selection = self._selection(device)
        if selection is None:
            return False
        self._serving_target = selection.target
        self._target_builder = selection.builder
        return True

    def _reset_binding(self) -> None:
        """Undo the selection of this instance and of every sub-op that it holds."""
        with self._bind_lock:
            with self._build_lock:
                self._initialise_binding()
                held = [op for ops in self._delegates.values() for op in ops.values()]
            for op in held:
                op._reset_binding()

    def _call_target(
        self,
        builder: Callable[..., TargetKernel],
        kernels: dict[TargetKey, TargetKernel],
        record: SignatureCall,
        tensors: dict[str, Any],
        inputs: tuple[Any, ...],
        arguments: dict[str, Any],
    ) -> Any:
        """Run the call on the target's kernel for it."""
        kernel = self._target_kernel(builder, kernels, record.device, inputs)
        effect = record.facts.branch.effect
        try:
            result = kernel(*self._readied(inputs, effect.writes), **arguments)
        except Exception as error:
            add_note(error, f"in the kernel of target {self._serving_target!r} for {self._name}")
            raise
        return adopt_callers_tensors(result, effect, self._spec, tensors)

    def _readied(self, inputs: tuple[Any, ...], written: Container[str]) -> list[Any]:
        """The inputs as a target's kernel may rely on them; those that are written as they are.

        What came through an operator is neither conjugated nor negated lazily.
        """
        ready = [
            tensor if tensor is None or name in written else tensor.contiguous()
            for name, tensor in zip(self._signature.input_names, inputs, strict=True)
        ]
        if self.compile_op_names:
            return ready
        return [
            tensor if tensor is None else tensor.resolve_conj().resolve_neg() for tensor in ready
        ]

    def _target_kernel(
        self,
        builder: Callable[..., TargetKernel],
        kernels: dict[TargetKey, TargetKernel],
        device: torch.device | None,
        inputs: tuple[Any, ...],
    ) -> TargetKernel:
        """The kernel for the call's device and its inputs' dtypes and shapes, built once."""
        slots = (None if tensor is None else (tensor.dtype, tensor.shape) for tensor in inputs)
        key = (device, *slots)
        kernel = kernels.get(key)
        if kernel is None:
            with self._build_lock:
                kernel = kernels.get(key)
                if kernel is None:
                    with as_current(device):
                        kernel = self._build_target_kernel(builder, inputs)
                    kernels[key] = kernel
        return kernel

    def _build_target_kernel(
        self, builder: Callable[..., TargetKernel], inputs: tuple[Any, ...]
    ) -> TargetKernel:
        specs = [None if tensor is None else TensorSpec.of(tensor) for tensor in inputs]
        parameters = {name: getattr(self, name) for name in self._parameter_names}
        if self._tune_requested:
            self._warn_untunable()
        try:
            kernel = builder(*specs, **parameters)
        except Exception as error:
            add_note(error, f"in the builder of target {self._serving_target!r} for {self._name}")
            raise
        if not callable(kernel):
            raise OpNotAvailableError(
                f"the builder of target {self._serving_target!r} for {self._name} returned "
                f"{shown(kernel)}, which is not callable"
            )
        return kernel

    def _serve_traced(
        self,
        builder: Callable[..., TargetKernel],
        inputs: tuple[Any, ...],
        arguments: dict[str, Any],
    ) -> Any:
        """The target's kernel in a trace: what the check would settle is read from the inputs.

        Tensors are readied and results put together as in a call.
        """
        present = (tensor for tensor in inputs if tensor is not None)
        first = next(present, None)
        device = current_device() if first is None else first.device
        kernel = self._target_kernel(builder, self._target_kernels, device, inputs)
        tensors = dict(zip(self._signature.input_names, inputs, strict=True))
        tensors["out"] = arguments.get("out")
        presence = {name: tensor is not None for name, tensor in tensors.items()}
        effect = self._signature.effect_branch(self, presence)
        result = kernel(*self._readied(inputs, effect.writes), **arguments)
        return adopt_callers_tensors(result, effect, self._spec, tensors)

    @property
    def _name(self) -> str:
        """The class's name, under which backends register."""
        return type(self).__name__

    def _warn_untunable(self) -> None:
        """Say once that tuning does not reach a target's kernels."""
        raise NotImplementedError
