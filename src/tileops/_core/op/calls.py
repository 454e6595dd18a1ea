"""One call: the ways in, the seven steps, and what a failure undoes.

Check, selection, record and undo of a call that runs an implementation live in `_run_call` and
nowhere else. The stack of calls is per thread; everything else on an instance is shared. Calls of
one instance run side by side, but one after the other where a call may move its tensors.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from tileops._core.boundary.faults import binding_fault, stray_real_tensors
from tileops._core.boundary.results import empty_result, writes_nothing
from tileops._core.op.serving import Serving
from tileops._core.op.state import _UNRESOLVED, TargetKernel, TargetKey
from tileops._core.runtime.tracing import is_traced

if TYPE_CHECKING:
    from tileops._core.boundary.boundary import CallEntry
    from tileops._core.runtime.record import SignatureCall

Report = tuple[Any, Any]
"""An op and the record of a call that it completed."""


class _Stack(threading.local):
    """The calls that are running on this thread, innermost last."""

    def __init__(self) -> None:
        self.frames: list[tuple[Any, list[Report]]] = []


_stack = _Stack()


class Calls(Serving):
    """The calling side of an op."""

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs from the inputs; never called by a user."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the op on tensors.

        Raises:
            SignatureError: the signature rejects the call or the result.
            DispatchError: no implementation serves the call, or several do.
            OpNotAvailableError: nothing runs on the call's device.
            BackendError: no target can be selected.
        """
        if self._instance_key is None:
            raise self._unconstructed()
        try:
            if self.compile_op_names:
                return self._call_boundary(*args, **kwargs)
            if is_traced():
                return self._traced_call(args, kwargs)
            inputs, writes, execution = self._entry().bind(self, *args, **kwargs)
        except (TypeError, AssertionError, RuntimeError) as error:
            # The dispatcher refuses real tensors under a fake mode by an assertion, and what was
            # defined again by a RuntimeError.
            is_compiling = torch.compiler.is_compiling()
            fault = None if is_compiling else self._argument_fault(error, args, kwargs)
            if fault is None:
                raise
            try:
                raise fault from error
            finally:
                # The error's traceback leads back here: a name for it would close a cycle.
                del fault
        tensors = dict(zip(self._signature.input_names, inputs, strict=True))
        if writes:
            tensors.update(writes)
        arguments = _joined(writes, execution)
        return self._run_call(inputs, tensors, self._forward_by_name, arguments)

    def _entry(self) -> CallEntry:
        """The entry of the class; a class without a spec has none."""
        if self._call_entry is None:
            name = type(self).__name__
            raise TypeError(
                f"{name} has no spec, so it cannot be called: register one under the name {name!r} "
                "with tileops.manifest.register before the class is defined"
            )
        return self._call_entry

    def _argument_fault(self, error: Exception, args: Any, kwargs: Any) -> Exception | None:
        """What is wrong with arguments that did not bind, or that the dispatcher refused."""
        if self._call_entry is None:
            return None
        if isinstance(error, RuntimeError):
            return None if self._call_entry.is_current() else self._outdated()
        find = binding_fault if isinstance(error, TypeError) else stray_real_tensors
        return find(self, args, kwargs)

    def _outdated(self) -> RuntimeError:
        return RuntimeError(
            f"{self._name} was defined again with other arguments, and its operators with it: "
            "construct the op again"
        )

    def _filed(self, reports: list[Report]) -> Mapping[str, tuple[SignatureCall, ...]]:
        """What sub-ops reported, by stage."""
        raise NotImplementedError

    def _call_boundary(self, *args: Any, **kwargs: Any) -> Any:
        """Enter through a registered operator; generated for a class with a boundary."""
        raise NotImplementedError

    def _forward_by_name(self, *inputs: Any, **named: Any) -> Any:
        """`forward` with every argument by name, whatever their order."""
        return self.forward(**dict(zip(self._signature.input_names, inputs, strict=True)), **named)

    def _traced_call(self, args: Any, kwargs: Any) -> Any:
        """A traced call of a class without a boundary: no check, no record."""
        builder = self._target_builder
        if builder is None or builder is _UNRESOLVED:
            return self.forward(*args, **kwargs)
        inputs, writes, execution = self._entry().bind(self, *args, **kwargs)
        return self._serve_traced(builder, inputs, _joined(writes, execution))

    def _run_call(
        self,
        inputs: tuple[Any, ...],
        tensors: dict[str, Any],
        body: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> Any:
        """Run one call through its seven steps.

        Args:
            inputs: in the spec's order, None for one that is absent.
            tensors: the same by name, and `out` where the caller passed it.
            body: runs the in-tree implementation.
            arguments: what `forward` takes beside the inputs; not changed.
        """
        if self._signature.moves_tensors:
            # The body reads what the check wrote to the attributes of this instance, so no other
            # call may convert them before this one is complete.
            with self._bind_lock:
                return self._run_steps(inputs, tensors, body, arguments)
        return self._run_steps(inputs, tensors, body, arguments)

    def _run_steps(
        self,
        inputs: tuple[Any, ...],
        tensors: dict[str, Any],
        body: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> Any:
        """The steps of `_run_call`."""
        frames = _stack.frames
        depth = len(frames)
        reports: list[Report] = []
        try:
            frames.append((self, reports))
            record = self._signature.check(self, tensors)
            if writes_nothing(record):
                result = empty_result(record, self._spec, tensors)
                self._complete(record, tensors, reports, result, None)
                return result
            with self._bind_lock:
                # A call that selects keeps the lock until it is complete or undone, so that no
                # other call runs on a binding that may still be taken back.
                if self._target_builder is _UNRESOLVED and self._select_target(record.device):
                    return self._run_selecting(record, tensors, reports, inputs, body, arguments)
                builder, kernels = self._target_builder, self._target_kernels
            if builder is None:
                result = body(*inputs, **arguments)
            else:
                result = self._produce(builder, kernels, record, tensors, inputs, body, arguments)
            if result.__class__ is list:
                result = tuple(result)
            self._complete(record, tensors, reports, result, builder)
            return result
        finally:
            del frames[depth:]

    def _run_selecting(
        self,
        record: SignatureCall,
        tensors: dict[str, Any],
        reports: list[Report],
        inputs: tuple[Any, ...],
        body: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> Any:
        """Run the call that selected the target; a failure takes the selection back."""
        try:
            builder, kernels = self._target_builder, self._target_kernels
            result = self._produce(builder, kernels, record, tensors, inputs, body, arguments)
            if result.__class__ is list:
                result = tuple(result)
            self._complete(record, tensors, reports, result, builder)
        except Exception:
            self._reset_binding()
            raise
        return result

    def _produce(
        self,
        builder: Any,
        kernels: dict[TargetKey, TargetKernel],
        record: SignatureCall,
        tensors: dict[str, Any],
        inputs: tuple[Any, ...],
        body: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> Any:
        """The result by the target's kernel, or by the body where no target serves the call."""
        if builder is None or builder is _UNRESOLVED or _is_meta(record):
            return body(*inputs, **arguments)
        return self._call_target(builder, kernels, record, tensors, inputs, arguments)

    def _complete(
        self,
        record: SignatureCall,
        tensors: dict[str, Any],
        reports: list[Report],
        result: Any,
        builder: Any,
    ) -> None:
        """Check the result, file what sub-ops reported, and record the call."""
        in_tree = builder is None or builder is _UNRESOLVED or _is_meta(record)
        target = None if in_tree else self._serving_target
        self._signature.check_result(self, record, result, tensors, target)
        self._record(record, reports)

    def _record(self, record: SignatureCall, reports: list[Report]) -> None:
        """Finish the record, leave the stack, keep the record and report it to the call above."""
        if reports or self.delegate_types:
            record.file_stages(self._filed(reports))
        frames = _stack.frames
        frames.pop()
        # As by assignment, without asking whether this is a parameter.
        self.__dict__["_last_call"] = record
        if frames:
            frames[-1][1].append((self, record))

    def _check_in_fake(self, tensors: dict[str, Any]) -> SignatureCall:
        """The record of a call that ends in the operator's fake.

        On meta tensors it completes there; under tracing nothing on the instance changes.
        """
        if is_traced():
            return self._signature.check(self, tensors)
        if self._signature.moves_tensors:
            with self._bind_lock:
                return self._complete_in_fake(tensors)
        return self._complete_in_fake(tensors)

    def _complete_in_fake(self, tensors: dict[str, Any]) -> SignatureCall:
        """Check a call on meta tensors and keep its record."""
        frames = _stack.frames
        depth = len(frames)
        reports: list[Report] = []
        try:
            frames.append((self, reports))
            record = self._signature.check(self, tensors)
            self._record(record, reports)
            return record
        finally:
            del frames[depth:]


_NOTHING: dict[str, Any] = {}


def _joined(writes: dict[str, Any] | None, execution: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments beside the inputs; nobody changes the result."""
    if writes is None:
        return _NOTHING if execution is None else execution
    return writes if execution is None else {**writes, **execution}


def _is_meta(record: SignatureCall) -> bool:
    return record.device is not None and record.device.type == "meta"
