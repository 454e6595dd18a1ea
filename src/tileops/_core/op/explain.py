"""Explaining a call: what would serve it, and why each other candidate would not.

The call is bound and checked like any other, then the body is followed on fake tensors with
selection alone. All of it happens on a shadow of the instance, which takes whatever a check or a
body writes, so that nothing on the instance changes; nothing is built, launched or recorded.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tileops._core.boundary.results import empty_result, writes_nothing
from tileops._core.dispatch.call_spec import CallSpec, own_values
from tileops._core.lang.values import shown
from tileops._core.op.copying import Copies, adopt, attributes_of
from tileops._core.op.entries import _on_current_device, build_of, kernels_in
from tileops._core.op.fakes import FollowingFakes
from tileops._core.op.kinds import NO_KIND
from tileops._core.op.state import _UNRESOLVED
from tileops._core.runtime.tracing import active_fake_mode
from tileops._core.targets.registry import BUILTIN
from tileops.errors import TileOpsError, candidate_lines

if TYPE_CHECKING:
    from tileops._core.dispatch.facts import DeviceFacts
    from tileops._core.dispatch.select import Choice
    from tileops._core.runtime.record import SignatureCall


@dataclass(frozen=True)
class InterfaceReport:
    """What one question of the body to a kernel interface gives.

    `candidates` holds key, class name and verdict of each implementation. `key` and `identity` are
    None when none was chosen, `config` while the chosen one is not built.
    """

    interface: str
    call: CallSpec
    candidates: tuple[tuple[str, str, str], ...]
    key: str | None = None
    identity: Hashable = None
    config: dict[str, Any] | None = None

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.interface}: {self.call.describe()}"
        yield from (f"  {line}" for line in candidate_lines(self.candidates))
        if self.key is not None:
            config = "not built yet" if self.config is None else repr(self.config)
            yield f"  chosen: {self.key}; identity {shown(self.identity)}; config {config}"


@dataclass(frozen=True)
class StageReport:
    """What a call of a sub-op gives."""

    stage: str
    report: Explanation


@dataclass(frozen=True)
class Explanation:
    """What would serve a call.

    Attributes:
        op: name of the op class.
        device: the call device, None when it is unknown or the check fails.
        target: the target that would serve, `builtin` for the op's own body.
        rule: what names the target: constructor, process default, detection or an earlier call.
        steps: what the body asks, in order: interfaces and sub-ops.
        end: why the report ends early; None when the body was followed to its end.
        error: the error with which the call would be refused.
    """

    op: str
    device: torch.device | None = None
    target: str | None = None
    rule: str | None = None
    steps: tuple[InterfaceReport | StageReport, ...] = ()
    end: str | None = None
    error: Exception | None = None

    @property
    def interfaces(self) -> tuple[InterfaceReport, ...]:
        """The questions to the op's own kernel interfaces."""
        return tuple(step for step in self.steps if isinstance(step, InterfaceReport))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The report as text."""
        rule = _UNCLAIMED if (self.target, self.rule) == (BUILTIN, "detection") else self.rule
        served = f"served by {self.target} ({rule})" if self.target else "served by nothing"
        is_unsettled = self.device is None and self.error is not None
        place = "" if is_unsettled else f" on {self.device or 'an unknown device'}"
        yield f"{self.op}{place}: {served}"
        for step in self.steps:
            if isinstance(step, StageReport):
                yield f"  stage {step.stage}:"
                yield from (f"    {line}" for line in step.report.lines())
            else:
                yield from (f"  {line}" for line in step.lines())
        if self.end:
            yield f"  {self.end}"
        if self.error is not None:
            first, *further = self._reasons(str(self.error))
            yield f"  refused: {first}"
            yield from (f"  {line}" for line in further)

    def _reasons(self, error: str) -> Iterator[str]:
        """The lines of the error, without the candidates that stand above it already."""
        rows = [row for step in self.interfaces for row in step.candidates]
        listed = {f"  {line}" for line in candidate_lines(rows)}
        yield from (line for line in error.splitlines() if line not in listed)


class _CannotFollow(Exception):
    """The body needs what only a kernel could compute."""


class _Unknown:
    """The result of an entry that was not run, and whatever is computed from it."""

    def _absorb(self, *_args: Any, **_kwargs: Any) -> _Unknown:
        return _Unknown()

    def _stop(self, *_args: Any) -> NoReturn:
        raise _CannotFollow

    __call__ = __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = _absorb
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = __matmul__ = __rmatmul__ = _absorb
    __lt__ = __le__ = __gt__ = __ge__ = _absorb
    __bool__ = __len__ = __iter__ = __index__ = __int__ = __float__ = _stop

    def __getattr__(self, name: str) -> _Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unknown()

    @classmethod
    def __torch_function__(cls, *_args: object, **_kwargs: object) -> _Unknown:
        return cls()


class _UnbuiltEntry:
    """Stands for an entry: it can be called, and answers what its interface answers by itself."""

    def __init__(self, interface: type) -> None:
        self._interface = interface

    def __call__(self, *args: Any, **kwargs: Any) -> _Unknown:
        return _Unknown()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._interface, name, None)
        if getattr(found, "__self__", None) is self._interface:
            return found
        raise _CannotFollow


class Explained(Copies):
    """The explaining side of an op."""

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What would serve the call, without running a kernel.

        Args:
            args: what a call takes.
            kwargs: what a call takes.

        Returns:
            The call device, the target and the rule that names it, every candidate of each
            interface that the body asks, and the one chosen. A call that would be refused gives a
            report that ends with its error.
        """
        return _Explainer(self).explain(args, kwargs)


def explain_elsewhere(
    op: Explained, facts: DeviceFacts, tensors: Mapping[str, torch.Tensor]
) -> Explanation:
    """What would serve a call on a device that need not be here.

    Args:
        op: the op.
        facts: what kernels are told of the device; nothing is asked of one that is here.
        tensors: what the call takes by name, fake where their device is not here.
    """
    return _Explainer(op, facts).explain((), tensors)


class _Explainer:
    """Follows one call on a shadow of an op.

    Args:
        op: the op.
        elsewhere: facts that stand for those of the call's device; None to read them from it.
    """

    def __init__(self, op: Explained, elsewhere: DeviceFacts | None = None) -> None:
        self.op = op
        self.elsewhere = elsewhere
        self.shadow = _shadow(op)
        self.steps: list[InterfaceReport | StageReport] = []
        self.result: Any = None
        self.facts: dict[str, Any] = {"op": type(op).__name__}
        self.refusal: Exception | None = None
        # Instance attributes come before the class's methods, on the shadow only.
        self.shadow.__dict__["kernel_for"] = self._kernel_for
        self.shadow.__dict__["kernel_for_fields"] = self._kernel_for_fields
        self.shadow.__dict__["delegate_for"] = self._delegate_for

    def explain(self, args: Any, kwargs: Any) -> Explanation:
        """The report; the result that the signature promises stays in `result`."""
        end, error = self._outcome(args, kwargs)
        # What is left refers to nothing that refers back: tensors go with their last reference.
        self.refusal = None
        self.shadow.__dict__.clear()
        return Explanation(**self.facts, steps=tuple(self.steps), end=end, error=error)

    def _outcome(self, args: Any, kwargs: Any) -> tuple[str | None, Exception | None]:
        """Why the report ends early, and the error with which the call would be refused."""
        try:
            return self._follow(args, kwargs), None
        except TileOpsError as refusal:
            return None, _without_frames(refusal)
        except _CannotFollow:
            return f"{_STOPPED} without the result of a kernel", None
        except Exception as failure:
            if failure is self.refusal:
                return None, _without_frames(failure)
            return f"{_STOPPED}: {type(failure).__name__}: {failure}", None

    def _follow(self, args: Any, kwargs: Any) -> str | None:
        """Bind, check, select and follow the body; why the report ends before the body did."""
        shadow = self.shadow
        inputs, writes, execution = self._bind(args, kwargs)
        tensors = {
            **dict(zip(shadow._signature.input_names, inputs, strict=True)),
            **(writes or {}),
        }
        record = shadow._signature.check(shadow, tensors)
        self.facts["device"] = record.device
        with _fake_mode() as mode, FollowingFakes():
            fake = {name: _as_fake(mode, tensor) for name, tensor in tensors.items()}
            self.result = empty_result(record, shadow._spec, fake)
            if writes_nothing(record):
                return "no implementation runs: every tensor that the call writes is empty"
            if record.device == torch.device("meta") and shadow.compile_op_names:
                return "no implementation runs: a call on meta tensors ends with its check"
            if self._settle_target(record):
                return _BUILDER
            arguments = {"out": fake["out"]} if writes else {}
            shadow._forward_by_name(
                *(fake[name] for name in shadow._signature.input_names),
                **arguments,
                **(execution or {}),
            )
        return None

    def _bind(self, args: Any, kwargs: Any) -> Any:
        try:
            return self.shadow._entry().bind(self.shadow, *args, **kwargs)
        except Exception as error:
            unbound = isinstance(error, TypeError)
            fault = self.shadow._argument_fault(error, args, kwargs) if unbound else None
            self.refusal = fault or error
            raise self.refusal from None

    def _settle_target(self, record: SignatureCall) -> bool:
        """Note the target that would serve; whether it has a builder for the op."""
        op = self.op
        if op._target_builder is not _UNRESOLVED:
            self.facts |= {"target": op._serving_target, "rule": "an earlier call"}
            return op._target_builder is not None
        selection = op._selection(record.device)
        if selection is None:
            return False
        self.facts |= {"target": selection.target, "rule": selection.rule}
        return selection.builder is not None

    def _kernel_for_fields(
        self, interface: str, request: type[CallSpec], device: torch.device, *fields: Any
    ) -> _UnbuiltEntry:
        return self._kernel_for(interface, request(*fields, device=device))

    def _kernel_for(self, interface: str, call: CallSpec) -> _UnbuiltEntry:
        """Answer the body's question with a stand-in, and note what was chosen from what."""
        op = self.op
        if any(isinstance(value, _Unknown) for value in own_values(call)):
            raise _CannotFollow
        try:
            if getattr(call, "device", op) is None:
                call = _on_current_device(call)
            op._check_request(interface, call)
            op._check_keyable(interface, call)
            if self.elsewhere is not None:
                call = replace(call, **self.elsewhere._asdict())
            choice = op._choice(interface, call)
            if choice.key is None:
                self.steps.append(InterfaceReport(interface, call, choice.rows))
                raise op._refusal(choice)
            self.steps.append(self._chosen(choice, choice.key))
        except Exception as error:
            self.refusal = error
            raise
        return _UnbuiltEntry(op.interfaces[interface])

    def _chosen(self, choice: Choice, key: str) -> InterfaceReport:
        cls = self.op._installed_kernel_types[key]
        identity, _ = build_of(cls, choice.call)
        entry = self.op._built_entries.get(choice.interface, {}).get((cls, identity))
        config = None
        if entry is not None:
            config = dict(next((k.config for k in kernels_in(entry) if k.config), {}))
        return InterfaceReport(choice.interface, choice.call, choice.rows, key, identity, config)

    def _delegate_for(
        self, stage: str, identity: Hashable, given: Any = None, /, **params: Any
    ) -> _ExplainedSubOp:
        """A stand-in for the sub-op, which explains the calls it gets."""
        op = Explained.delegate_for(self.shadow, stage, identity, given, **params)
        return _ExplainedSubOp(self, stage, op)


class _ExplainedSubOp:
    """Stands for a sub-op: its calls are explained, all else is answered by the op itself."""

    def __init__(self, holder: _Explainer, stage: str, op: Explained) -> None:
        self._holder = holder
        self._stage = stage
        self._op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, _Unknown) for value in (*args, *kwargs.values())):
            raise _CannotFollow
        explainer = _Explainer(self._op, self._holder.elsewhere)
        report = explainer.explain(args, kwargs)
        self._holder.steps.append(StageReport(self._stage, report))
        if report.error is not None:
            self._holder.refusal = report.error
            raise report.error
        return explainer.result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)


_BUILDER = "the target has a builder for the whole op, which may refuse the call: it is not asked"
_UNCLAIMED = "no target claims the device"
_STOPPED = "the body cannot be followed further"


def _without_frames(error: Exception) -> Exception:
    """An error as data: with its traceback it would keep the call's tensors alive."""
    link: BaseException | None = error
    while link is not None and link.__traceback__ is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def _shadow(op: Explained) -> Explained:
    """An instance with the same attributes, whose tables may be written."""
    op._demand_constructed()
    shadow = type(op).__new__(type(op))
    shared: dict[int, Any] = {}
    adopt(shadow, {name: _own(value, shared) for name, value in attributes_of(op).items()})
    shadow._known_calls, shadow._latest_kind = {}, NO_KIND
    return shadow


def _own(value: Any, made: dict[int, Any]) -> Any:
    """`value`, containers in it copied: a body that keeps a fake tensor keeps it in the copy."""
    if not isinstance(value, (dict, list, set, deque)):
        return value
    if id(value) not in made:
        made[id(value)] = twin = copy.copy(value)
        if isinstance(twin, dict):
            twin.update({key: _own(item, made) for key, item in list(twin.items())})
        elif not isinstance(twin, set):
            for at, item in enumerate(twin):
                twin[at] = _own(item, made)
    return made[id(value)]


@contextmanager
def _fake_mode() -> Iterator[FakeTensorMode]:
    """The fake-tensor mode that is active, else a new one."""
    mode = active_fake_mode() or FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        yield mode


def _as_fake(mode: FakeTensorMode, tensor: torch.Tensor | None) -> torch.Tensor | None:
    if tensor is None or isinstance(tensor, FakeTensor):
        return tensor
    return mode.from_tensor(tensor, static_shapes=True)
