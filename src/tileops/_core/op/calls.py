"""One call: the ways in, the seven steps, and what a failure undoes.

Check, selection, record and undo of a call that runs an implementation live in `_run_call` and
nowhere else. Calls of one instance run side by side, the first ones too: no lock is held while an
implementation or a target's kernel runs, so that these may wait for other calls.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tileops._core.boundary.faults import (
    binding_fault,
    outdated,
    stray_real_tensors,
    unserved_input,
)
from tileops._core.boundary.results import empty_result, writes_nothing
from tileops._core.notes import add_note
from tileops._core.op.kinds import Kind, keep
from tileops._core.op.passing import is_in_passing
from tileops._core.op.serving import Serving
from tileops._core.op.stack import Frame, Held, Report, _stack
from tileops._core.op.state import _UNRESOLVED, Binding
from tileops._core.runtime.tracing import is_compiled, is_traced
from tileops.errors import SignatureError

if TYPE_CHECKING:
    from tileops._core.boundary.boundary import CallEntry
    from tileops._core.runtime.record import SignatureCall


def calling(enter: Callable[..., Any]) -> Callable[..., Any]:
    """`__call__` of a class whose calls enter by a function of the op and its arguments.

    Each class has a copy, in which a call finds the function without a look-up. The op stays among
    the arguments, which are passed on as they are.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the op on tensors.

        Raises:
            SignatureError: the signature rejects the call or the result.
            DispatchError: no implementation serves the call, or several do.
            OpNotAvailableError: nothing runs on the call's device.
            BackendError: no target can be selected.
        """
        op = args[0]
        if op._instance_key is None:
            raise op._unconstructed()
        try:
            # An empty mapping to pass on costs as much as a look-up.
            return enter(*args, **kwargs) if kwargs else enter(*args)
        except (TypeError, AssertionError, RuntimeError) as error:
            # The dispatcher refuses real tensors under a fake mode by an assertion, nested ones
            # by a NotImplementedError, and what was defined again by a RuntimeError.
            op._reword(error, args[1:], kwargs)
            raise

    call.__name__, call.__qualname__ = "__call__", "Op.__call__"
    return call


class Calls(Serving):
    """The calling side of an op."""

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs from the inputs; never called by a user."""

    def _enter_call(self, *args: Any, **kwargs: Any) -> Any:
        """Enter a call, where the class has no shorter way."""
        if type(self).compile_op_names:
            return self._call_boundary(*args, **kwargs)
        if is_traced():
            return self._traced_call(args, kwargs)
        entry = self._entry()
        inputs, writes, execution = entry.bind(self, *args, **kwargs)
        return self._enter(entry, inputs, _joined(writes, execution))

    __call__ = calling(_enter_call)

    def _reword(self, error: Exception, args: Any, kwargs: Any) -> None:
        """Raise what is wrong with the arguments where an error says less."""
        fault = None if is_compiled() else self._argument_fault(error, args, kwargs)
        if fault is None:
            return
        try:
            raise fault from error
        finally:
            # The error's traceback leads back here: a name for it would close a cycle.
            del fault

    def _enter(self, entry: CallEntry, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Run a call of a class without a boundary."""
        held = self._held_now()
        key = None if entry.key is None else entry.key(self, inputs, arguments, held)
        kind = self._recall(key)
        return self._run_call(inputs, self._forward_by_name, arguments, kind, key, entry.fits, held)

    def _held_now(self) -> Held | None:
        """The construction-time tensors that calls may move, as they are bound; None for none."""
        names = self._signature.moved_names
        if not names:
            return None
        held = Held(self._target_kernels)  # Before the tensors, one of which may be bound anew.
        for name in names:
            held[name] = getattr(self, name)
        return held

    def _recall(self, key: tuple[Any, ...] | None, told_by: tuple[Any, ...] = ()) -> Kind | None:
        """The kind of this key, if calls of that kind are known.

        Args:
            key: equal for calls of which the check finds the same; None where it cannot be told.
            told_by: inputs by which such a call can be told without its key, if they suffice.
        """
        try:
            kind = self._known_calls[key]
        except (KeyError, TypeError):
            return None
        if told_by:
            latest = self._latest_kind
            if kind is latest:
                kind.tell_by(told_by)
            else:
                latest.forget()
                self._latest_kind = kind
        return kind

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
        if isinstance(error, NotImplementedError):
            return unserved_input(self, args, kwargs)
        if isinstance(error, RuntimeError):
            return self._outdated()
        if isinstance(error, TypeError):
            return binding_fault(self, args, kwargs) or self._outdated()
        return stray_real_tensors(self, args, kwargs)

    def _outdated(self) -> RuntimeError | None:
        """That the operators take other arguments now than the class did; None if they do not."""
        if self._entry().is_current():
            return None
        return outdated(self)

    def _filed(
        self, reports: list[Report], target: str | None
    ) -> Mapping[str, tuple[SignatureCall, ...]]:
        """What sub-ops reported, by stage; `target` is whose kernel ran instead of them."""
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
        body: Callable[..., Any],
        arguments: dict[str, Any],
        kind: Kind | None,
        key: tuple[Any, ...] | None,
        fits: Callable[..., bool] | None,
        held: Held | None = None,
    ) -> Any:
        """Run one call through its seven steps.

        Args:
            inputs: in the spec's order, None for one that is absent.
            body: runs the in-tree implementation.
            arguments: what `forward` takes beside the inputs; not changed.
            kind: what is known of such calls, None where nothing is.
            key: where to keep what the check finds; None where it cannot be kept.
            fits: whether a result is plainly as promised; None where that takes the full check.
            held: the tensors that calls may move, as the kind has them; what this call's check
                puts in their place is kept there, for this call alone.
        """
        frames = _stack.frames
        depth = len(frames)
        reports: list[Report] = []
        try:
            frames.append((self, reports, held))
            if kind is None:
                kind = self._check_new(key, inputs, arguments, held)
            record = kind.record
            if record is None:
                named = self._named(inputs, arguments)
                record = self._signature.record_of(self, kind.facts, named)
                if writes_nothing(record):
                    result = empty_result(record, self._spec, named)
                    return self._concluded(record, reports, inputs, arguments, result, None)
            settled = self._settled
            if settled is None:
                return self._run_unsettled(record, reports, inputs, body, arguments)
            if settled[1] is not None:  # What a target returns is judged in full.
                result = self._produce(settled, record, inputs, body, arguments)
                return self._concluded(record, reports, inputs, arguments, result, settled)
            result = body(*inputs, **arguments) if arguments else body(*inputs)
            if fits is None or not fits(self, kind, result, inputs, arguments):
                return self._concluded(record, reports, inputs, arguments, result, settled)
            if depth or reports or record is not self._last_call:
                self._record(record, reports, frames)
            else:  # It is kept already, and nobody waits for it.
                frames.pop()
            return result
        except BaseException:
            del frames[depth:]
            raise

    def _check_new(
        self,
        key: tuple[Any, ...] | None,
        inputs: tuple[Any, ...],
        arguments: dict[str, Any],
        held: Held | None,
    ) -> Kind:
        """Run the check, and keep what it found for calls of this key."""
        before = {} if held is None else dict(held)
        record = self._checked(self._named(inputs, arguments), held)
        varies = self._signature.metadata_names or self._has_stages or writes_nothing(record)
        kind = Kind(None if varies else record, record.facts)
        # Where the check has put another tensor in a held one's place, the kind is that of before.
        is_settled = held is None or all(held[name] is before[name] for name in before)
        if key is not None and is_settled:
            keep(self._known_calls, key, kind)
        return kind

    def _checked(self, tensors: dict[str, Any], held: Held | None) -> SignatureCall:
        """Check a call; what the instance holds then is this call's for as long as it runs."""
        if held is None:
            return self._signature.check(self, tensors)
        held.clear()
        with self._bind_lock:  # A check moves what another may be looking at.
            record = self._signature.check(self, tensors)
            held.kernels = self._target_kernels
            held.update(self._held_now() or {})
        return record

    def _named(self, inputs: tuple[Any, ...], arguments: dict[str, Any]) -> dict[str, Any]:
        """The inputs by name, and `out` where the caller passed it."""
        tensors = dict(zip(self._signature.input_names, inputs, strict=True))
        if "out" in arguments:
            tensors["out"] = arguments["out"]
        return tensors

    def _run_unsettled(
        self,
        record: SignatureCall,
        reports: list[Report],
        inputs: tuple[Any, ...],
        body: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> Any:
        """Run a call while no completed one has settled who serves the instance.

        Calls that run at once share the selection of the first. The one that completes first
        settles it; where all of them fail, the last takes it back.
        """
        try:
            binding = self._join(reports, record.device)
            result = self._produce(binding, record, inputs, body, arguments)
            result = self._concluded(record, reports, inputs, arguments, result, binding)
            self._settle(reports)
        except Exception:
            self._leave(reports)
            raise
        return result

    def _produce(
        self,
        binding: Binding,
        record: SignatureCall,
        inputs: tuple[Any, ...],
        body: Callable[..., Any],
        arguments: dict[str, Any],
    ) -> Any:
        """The result by the target's kernel, or by the body where no target serves the call."""
        if not _serves(binding, record):
            return body(*inputs, **arguments)
        tensors = self._named(inputs, arguments)
        return self._call_target(binding, record, tensors, inputs, arguments)

    def _concluded(
        self,
        record: SignatureCall,
        reports: list[Report],
        inputs: tuple[Any, ...],
        arguments: dict[str, Any],
        result: Any,
        binding: Binding | None,
    ) -> Any:
        """Check the result in full and record the call; the result as the caller gets it."""
        if result.__class__ is list:
            result = tuple(result)
        target = binding[0] if binding is not None and _serves(binding, record) else None
        tensors = self._named(inputs, arguments)
        try:
            self._signature.check_result(self, record, result, tensors, target)
        except SignatureError as error:
            if target is None:
                add_note(error, self._built_kernels())
            raise
        self._record(record, reports, _stack.frames, target)
        return result

    def _built_kernels(self) -> str:
        """Which kernels may have computed a result, for the error of one that is wrong."""
        raise NotImplementedError

    def _record(
        self,
        record: SignatureCall,
        reports: list[Report],
        frames: list[Frame],
        target: str | None = None,
    ) -> None:
        """File what sub-ops reported, leave the stack, keep the record and report it above.

        What the op above does not hold is no part of its call where it ran in passing.

        Args:
            record: of this call.
            reports: what sub-ops reported to it.
            frames: the calls of this thread.
            target: whose kernel ran instead of the body.
        """
        if reports or self._has_stages:
            record.file_stages(self._filed(reports, target))
        frames.pop()
        # As by assignment, without asking whether this is a parameter.
        self.__dict__["_last_call"] = record
        if frames:
            around, reported, _ = frames[-1]
            if id(self) in around._delegate_stages or not is_in_passing(_ENTRIES):
                reported.append((self, record))

    def _check_in_fake(self, tensors: dict[str, Any]) -> SignatureCall:
        """The record of a call that ends in the operator's fake.

        On meta tensors it completes there; under tracing nothing on the instance changes.
        """
        if is_traced():
            return self._signature.check(self, tensors)
        return self._complete_in_fake(tensors)

    def _complete_in_fake(self, tensors: dict[str, Any]) -> SignatureCall:
        """Check a call on meta tensors and keep its record."""
        frames = _stack.frames
        depth = len(frames)
        reports: list[Report] = []
        try:
            held = self._held_now()
            frames.append((self, reports, held))
            record = self._checked(tensors, held)
            self._record(record, reports, frames)
            return record
        except BaseException:
            del frames[depth:]
            raise


_ENTRIES = frozenset({Calls._run_call.__code__, Calls._complete_in_fake.__code__})
"""The code in which calls run."""


_NOTHING: dict[str, Any] = {}


def _joined(writes: dict[str, Any] | None, execution: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments beside the inputs; nobody changes the result."""
    if writes is None:
        return _NOTHING if execution is None else execution
    return writes if execution is None else {**writes, **execution}


def _serves(binding: Binding, record: SignatureCall) -> bool:
    """Whether the kernel of a target runs the call, and not the body."""
    _, builder, _ = binding
    is_meta = record.device is not None and record.device.type == "meta"
    return builder is not None and builder is not _UNRESOLVED and not is_meta
