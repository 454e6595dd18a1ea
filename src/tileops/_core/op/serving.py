"""Serving by a target: selecting it, building its kernels, calling them, undoing a selection."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from tileops._core.boundary.results import adopt_callers_tensors
from tileops._core.devices import building_on, current_device
from tileops._core.lang.values import shown
from tileops._core.notes import add_note
from tileops._core.op.construct import Construction
from tileops._core.op.stack import Report, _stack, held_by
from tileops._core.op.state import _UNRESOLVED, Binding, TargetKernel
from tileops._core.op.walk import each_once
from tileops._core.plugins import labelled
from tileops._core.runtime.tracing import is_traced
from tileops._core.targets import registry
from tileops._core.targets.builders import call_fault
from tileops._core.targets.registry import TensorSpec
from tileops._core.targets.selection import Selection, select_target
from tileops.errors import OpNotAvailableError

if TYPE_CHECKING:
    from tileops._core.runtime.record import SignatureCall

_MIXES = {"cpu": True, "cuda": True, "meta": False}
"""Whether devices have automatic mixed precision, which some compilers cannot ask torch."""


class Serving(Construction):
    """The binding of an instance to a target."""

    @property
    def serving_target(self) -> str | None:
        """The target that serves the instance, `BUILTIN` for its own body, None before."""
        return self._serving_target

    def _is_target_served(self) -> bool:
        """Whether a target's builder serves the instance."""
        return self._target_builder is not None and self._target_builder is not _UNRESOLVED

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

    def _select_target(self, device: torch.device | None) -> None:
        """Bind the instance to the target that serves `device`, where there is one to select."""
        if device is not None and device.type == "meta":
            return
        selection = self._selection(device)
        if selection is not None:
            self._serving_target = selection.target
            self._target_builder = selection.builder

    def _join(self, call: list[Report], device: torch.device | None) -> Binding:
        """Have a call take part in the selection that is not settled yet; select if there is none.

        A call inside one of the same thread that takes part is a part of that one.

        Args:
            call: what is reported to the call, which tells it from others.
            device: the call device.
        """
        with self._bind_lock:
            if self._target_builder is _UNRESOLVED:
                self._select_target(device)
            calls = self._unsettled_calls
            inside = any(id(reports) in calls for _, reports, _ in _stack.frames)
            if not inside and self._target_builder is not _UNRESOLVED:
                calls[id(call)] = call
            return self._bound()

    def _bound(self) -> Binding:
        """The binding as it is; a call goes on with it, whatever is taken back meanwhile."""
        return self._serving_target, self._target_builder, self._target_kernels

    def _settle(self, call: list[Report]) -> None:
        """Settle the selection that a complete call took part in, unless it was taken back."""
        with self._bind_lock:
            if id(call) in self._unsettled_calls:
                self._settled = self._bound()
                self._unsettled_calls = {}

    def _leave(self, call: list[Report]) -> None:
        """Have a call that failed take part no more; the last one takes the selection back.

        An interrupted call never leaves, so that what it selected stays.
        """
        with self._bind_lock:
            self._unsettled_calls.pop(id(call), None)
            is_bound = self._serving_target is not None
            if is_bound and self._settled is None and not self._unsettled_calls:
                self._reset_binding()

    def _reset_binding(self) -> None:
        """Undo the selection of this instance and of every op below it.

        What runs meanwhile goes on with what it has.
        """
        for op in each_once(self):
            with op._bind_lock:
                op._initialise_binding()

    def _call_target(
        self,
        binding: Binding,
        record: SignatureCall,
        tensors: dict[str, Any],
        inputs: tuple[Any, ...],
        arguments: dict[str, Any],
    ) -> Any:
        """Run the call on the target's kernel for it."""
        effect = record.facts.branch.effect
        with self._as_declared(record.device):
            kernel = self._target_kernel(binding, record.device, inputs)
            try:
                result = kernel(*self._readied(inputs, effect.writes), **arguments)
            except Exception as error:
                add_note(error, f"in the kernel of target {binding[0]!r} for {self._name}")
                raise
        return adopt_callers_tensors(result, effect, self._spec, tensors)

    def _as_declared(self, device: torch.device | None) -> AbstractContextManager[Any]:
        """Leaves dtypes to the kernel under automatic mixed precision, as an operator does.

        Torch refuses to be asked for devices that have no such mode.
        """
        if self.compile_op_names or device is None:
            return nullcontext()
        kind = device.type
        mixes = _MIXES[kind] if kind in _MIXES else torch.amp.is_autocast_available(kind)
        if not mixes or not torch.is_autocast_enabled(kind):
            return nullcontext()
        return torch.autocast(kind, enabled=False)

    def _readied(self, inputs: tuple[Any, ...], written: Container[str]) -> list[Any]:
        """The inputs in the form that a target's kernel may rely on; written ones as they are.

        What came through an operator is never lazily conjugated or negated.
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
        binding: Binding,
        device: torch.device | None,
        inputs: tuple[Any, ...],
    ) -> TargetKernel:
        """The kernel for the call's device and its inputs' dtypes and shapes, built once.

        A trace builds none: what it made would be kept, and hold tensors of the trace.
        """
        target, builder, kernels = binding
        assert builder is not None
        slots = (None if tensor is None else (tensor.dtype, tensor.shape) for tensor in inputs)
        key = (device, *slots)
        try:
            kernel = kernels.get(key)
        except TypeError:  # A symbolic size is no key.
            kernel = None
        if kernel is None:
            if is_traced():
                raise RuntimeError(
                    f"{self._name}: target {target!r} has built no kernel for these shapes and "
                    "dtypes, and a trace cannot: call the op once with such inputs before it is "
                    "traced, and trace it without dynamic sizes"
                )
            with self._turn(key):
                kernel = kernels.get(key)
                if kernel is None:
                    with building_on(device):
                        kernel = self._build_target_kernel(target, builder, inputs)
                    held = held_by(self)
                    if held is None or held.kernels is kernels:  # Not built for an older tensor.
                        kernels[key] = kernel
        return kernel

    def _build_target_kernel(
        self,
        target: str | None,
        builder: Callable[..., TargetKernel],
        inputs: tuple[Any, ...],
    ) -> TargetKernel:
        specs = [None if tensor is None else TensorSpec.of(tensor) for tensor in inputs]
        parameters = {name: getattr(self, name) for name in self._parameter_names}
        if self._tune_requested:
            self._warn_untunable()
        try:
            returned: object = builder(*specs, **parameters)
        except Exception as error:
            add_note(error, f"in the builder of target {target!r} for {self._name}")
            fault = call_fault(builder, self._signature.input_names, parameters)
            if fault:
                owner = registry.owner_of("builders", (self._name, target))
                add_note(error, f"{f'of {labelled(owner)}, ' if owner else ''}which {fault}")
            raise
        if not callable(returned):
            got = "a tensor" if isinstance(returned, torch.Tensor) else shown(returned)
            raise OpNotAvailableError(
                f"the builder of target {target!r} for {self._name} returned {got}, which is not "
                "callable: it returns the kernel, which then gets the tensors"
            )
        return returned

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
        binding = self._serving_target, builder, self._target_kernels
        kernel = self._target_kernel(binding, device, inputs)
        tensors = dict(zip(self._signature.input_names, inputs, strict=True))
        tensors["out"] = arguments.get("out")
        presence = {name: tensor is not None for name, tensor in tensors.items()}
        effect = self._signature.effect_branch(self, presence)
        with self._as_declared(device):
            result = kernel(*self._readied(inputs, effect.writes), **arguments)
        return adopt_callers_tensors(result, effect, self._spec, tensors)

    @property
    def _name(self) -> str:
        """The class's name, under which backends register."""
        return type(self).__name__

    def _warn_untunable(self) -> None:
        """Say once that tuning does not reach a target's kernels."""
        raise NotImplementedError
