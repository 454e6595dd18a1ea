"""The record of one checked call, and what calls of one kind or one branch share.

A record is three layers, so that making one is cheap: `BranchFacts` follow from the discriminants
alone, `CallFacts` from shapes, dtypes and the device, and `SignatureCall` adds what belongs to one
call only. The first two are immutable and may be shared freely.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch

from tileops._core.devices import has_cuda
from tileops._core.lang.cached import cached_property
from tileops._core.lang.dtypes import BITS
from tileops._core.signature.facts import Facts
from tileops._core.signature.plan import EffectBranch, Plan, Value
from tileops.errors import OpNotAvailableError

Described = tuple[tuple[int, ...], str]
"""The shape and the dtype name of a tensor."""


class Traffic(NamedTuple):
    """How often a call reads and writes a whole tensor."""

    tensor: str
    reads: int
    writes: int


@dataclass(frozen=True)
class BranchFacts:
    """What the discriminants of a call decide.

    Attributes:
        key: the value of each discriminant, in the plan's order.
        effect: the inputs written, whether `out` is passed, the outputs emitted.
        traffic: reads and writes of every declared tensor.
        allocated: the outputs for which the op makes a new tensor.
        outputs: the declared outputs, in order.
    """

    key: tuple[Value, ...]
    effect: EffectBranch
    traffic: tuple[Traffic, ...]
    allocated: frozenset[str]
    outputs: tuple[str, ...]


class Branches(dict[tuple[Value, ...], BranchFacts]):
    """The branches of a plan that calls have taken, by key; a new key is worked out once.

    Args:
        plan: the plan.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan
        self._facts = Facts(plan.spec)

    def __missing__(self, key: tuple[Value, ...]) -> BranchFacts:
        plan = self._plan
        point = {d.name: value for d, value in zip(plan.discriminants, key, strict=True)}
        effect = next(case.branch for case in plan.effects if case.guard.holds(point))
        outputs = plan.spec.signature.outputs
        own = {name for name in effect.emits if effect.callers_tensor(outputs[name]) is not None}
        present = {name: bool(self._facts.present(name, point)) for name in _tensors(plan)}
        traffic = tuple(_traffic(plan, effect, own, present))
        allocated = frozenset(effect.emits) - own
        facts = BranchFacts(key, effect, traffic, allocated, tuple(outputs))
        return self.setdefault(key, facts)


def _tensors(plan: Plan) -> Iterator[str]:
    """The inputs, then the construction-time tensors."""
    signature = plan.spec.signature
    yield from signature.inputs
    yield from (tensor.name for tensor in signature.held)


def _traffic(
    plan: Plan, effect: EffectBranch, own: Set[str], present: Mapping[str, bool]
) -> Iterator[Traffic]:
    """Each declared name is storage of its own; an output in a written input costs nothing."""
    signature = plan.spec.signature
    for name, is_present in present.items():
        is_written = name in effect.writes
        overwritten = is_written and signature.inputs[name].write_only
        yield Traffic(name, int(is_present and not overwritten), int(is_written))
    for name, output in signature.outputs.items():
        is_new = name in effect.emits and not (name in own and output.alias in effect.writes)
        yield Traffic(name, 0, int(is_new))


@dataclass(frozen=True)
class CallFacts:
    """What calls of one kind share: same branch, shapes, dtypes and device.

    Attributes:
        branch: what the discriminants decide.
        device: the call device, or None.
        indices: parameters, solved indices and used lets; dtypes by name.
        tensors: shape and dtype name of every tensor that is present.
    """

    branch: BranchFacts
    device: torch.device | None
    indices: dict[str, Any]
    tensors: dict[str, Described]

    @cached_property
    def writes_nothing(self) -> bool:
        """Whether such a call writes some tensor and every tensor it writes has no elements."""
        sizes = [self.tensors[name][0] for name, _, writes in self.branch.traffic if writes]
        return bool(sizes) and all(0 in shape for shape in sizes)

    @cached_property
    def promised(self) -> tuple[Any, ...]:
        """Shape, dtype and device of each declared output, None for one that is absent."""
        return tuple(
            (found[0], getattr(torch, found[1]), self.device) if found else None
            for found in map(self.tensors.get, self.branch.outputs)
        )


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_set_field = object.__setattr__


def _captured(device: torch.device | None) -> bool:
    """Whether a CUDA graph is recording what the call launches."""
    return has_cuda(device) and torch.cuda.is_current_stream_capturing()


def _lent(tensors: Mapping[str, torch.Tensor | None]) -> Mapping[str, torch.Tensor]:
    """Weak references: memory of a graph may not be kept alive by what is not of the graph."""
    return WeakValueDictionary({name: t for name, t in tensors.items() if t is not None})


class SignatureCall:
    """What is known of one checked call.

    Frozen: only `stages` is set after creation, once.

    Args:
        facts: what calls of this kind share.
        metadata: the passed tensors whose contents a formula may ask for, absent ones as None.
    """

    __slots__ = ("__weakref__", "_metadata", "_stages", "facts")

    facts: CallFacts
    _metadata: Mapping[str, torch.Tensor | None]
    _stages: Mapping[str, tuple[SignatureCall, ...]]

    def __init__(
        self, facts: CallFacts, metadata: Mapping[str, torch.Tensor | None] = _NOTHING
    ) -> None:
        if metadata and _captured(facts.device):
            metadata = _lent(metadata)
        _set_field(self, "facts", facts)
        _set_field(self, "_metadata", metadata)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a record is frozen: {name} cannot be set")

    def __repr__(self) -> str:
        return f"SignatureCall({dict(self.tensors)!r}, device={self.device})"

    def __reduce__(self) -> tuple[Any, ...]:
        stages = dict(self._stages) if hasattr(self, "_stages") else None
        return _rebuilt, (self.facts, dict(self._metadata), stages)

    @property
    def indices(self) -> Mapping[str, Any]:
        """Parameters, solved indices and lets used on the branch; dtypes by name."""
        return MappingProxyType(self.facts.indices)

    @property
    def branch_key(self) -> tuple[Value, ...]:
        """The discriminant values that the check took."""
        return self.facts.branch.key

    @property
    def device(self) -> torch.device | None:
        """The call device, or None."""
        return self.facts.device

    @property
    def tensors(self) -> Mapping[str, Described]:
        """Shape and dtype name of every input, construction-time tensor and output present."""
        return MappingProxyType(self.facts.tensors)

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """How often the call reads and writes each declared tensor as a whole."""
        return self.facts.branch.traffic

    @property
    def written(self) -> tuple[str, ...]:
        """The inputs that the call writes."""
        return self.facts.branch.effect.writes

    @property
    def has_out(self) -> bool:
        """Whether `out` was passed."""
        return self.facts.branch.effect.has_out

    @property
    def allocated(self) -> frozenset[str]:
        """The outputs that are new tensors."""
        return self.facts.branch.allocated

    @property
    def metadata(self) -> Mapping[str, torch.Tensor]:
        """The metadata tensors that are present: references, not copies.

        A call that a CUDA graph captured has those that its caller still holds.
        """
        present = {name: t for name, t in self._metadata.items() if t is not None}
        return MappingProxyType(present)

    @property
    def stages(self) -> Mapping[str, tuple[SignatureCall, ...]]:
        """The records of sub-ops by stage; empty until the call completes."""
        return getattr(self, "_stages", _NOTHING)

    def file_stages(self, stages: Mapping[str, tuple[SignatureCall, ...]]) -> None:
        """Set `stages`, once, before anyone else sees the record.

        Args:
            stages: the records of sub-op calls by stage, every declared stage present.

        Raises:
            RuntimeError: they are set already.
        """
        if hasattr(self, "_stages"):
            raise RuntimeError("the stages of a record are set once")
        _set_field(self, "_stages", MappingProxyType(dict(stages)))

    def with_stages(self, stages: Mapping[str, tuple[SignatureCall, ...]]) -> SignatureCall:
        """A record of the same call with other stages."""
        record = SignatureCall(self.facts, self._metadata)
        record.file_stages(stages)
        return record

    def present(self, name: str) -> bool:
        """Whether a tensor is passed, held or returned; for `"out"` whether it was passed."""
        return self.has_out if name == "out" else name in self.facts.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a present tensor."""
        return self.facts.tensors[name][0]

    def bytes(self, name: str) -> int:
        """The size of a present tensor in bytes, packed types by their carrier."""
        shape, dtype = self.facts.tensors[name]
        return -(-prod(shape) * BITS[dtype] // 8)

    def derived_bytes(self) -> int:
        """The bytes that the call moves: each tensor's size times its reads and writes."""
        return sum(
            (reads + writes) * self.bytes(name) for name, reads, writes in self.traffic
            if reads or writes
        )  # fmt: skip

    def metadata_values(self, name: str) -> list[Any]:
        """The contents of a metadata tensor as nested lists, copied to the host now.

        Raises:
            KeyError: `name` is no metadata tensor of this call.
            OpNotAvailableError: the tensor has no contents.
        """
        tensor = self._metadata.get(name)
        if tensor is None:
            known = ", ".join(self.metadata) or "none"
            raise KeyError(f"{name} is no metadata tensor of this call; known: {known}")
        if tensor.is_meta:
            raise OpNotAvailableError(f"{name} is a meta tensor, which has no contents")
        values: list[Any] = tensor.tolist()
        return values


def _rebuilt(
    facts: CallFacts,
    metadata: Mapping[str, torch.Tensor | None],
    stages: Mapping[str, tuple[SignatureCall, ...]] | None,
) -> SignatureCall:
    """A copy of a record, or one that was pickled."""
    record = SignatureCall(facts, metadata)
    if stages is not None:
        record.file_stages(stages)
    return record
