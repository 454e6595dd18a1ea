"""After a call: the last record, the roofline, and what the op has built and holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from tileops._core.dispatch.kernel import Kernel
from tileops._core.op.composite import Composite, UnrunStage
from tileops._core.op.walk import each_once

if TYPE_CHECKING:
    from tileops._core.runtime.plan import _SignaturePlan
    from tileops._core.runtime.record import SignatureCall


class _Refusing(tuple[Any, ...]):
    """A stage without records; reading it says why there are none."""

    reason: str

    def __new__(cls, reason: str) -> _Refusing:
        stage = super().__new__(cls)
        stage.reason = reason
        return stage

    def _refuse(self, *_: object) -> NoReturn:
        raise RuntimeError(self.reason)

    __getitem__ = __iter__ = __len__ = _refuse


class Records(Composite):
    """What an op tells after a call."""

    @property
    def last_call(self) -> SignatureCall:
        """The record of the last completed call.

        Raises:
            RuntimeError: no call has completed.
        """
        if self._last_call is None:
            raise RuntimeError(f"{self._name} has completed no call; call it first")
        return self._last_call

    def eval_roofline(self) -> tuple[int, int]:
        """FLOPs and bytes of the last completed call; generated from the spec.

        Raises:
            RuntimeError: no call has completed, or the spec has no roofline.
        """
        raise RuntimeError(f"{self._name} has no roofline: its spec has no field `roofline`")

    def _evaluated(self, plan: _SignaturePlan) -> tuple[int, int]:
        """The plan's roofline on the last record.

        When a target serves a composite as a whole, no sub-op reports; a formula that asks for
        them is refused instead of adding up nothing.
        """
        record = self.last_call
        if self._has_stages:
            unrun = {
                name: _Refusing(
                    f"{self._name}: the roofline needs the stage {name!r}, of which there is no "
                    f"record: target {stage.target!r} serves the op as a whole"
                )
                for name, stage in record.stages.items()
                if isinstance(stage, UnrunStage)
            }
            record = record.with_stages({**record.stages, **unrun})
        return plan.eval_roofline(record)

    def roof_key(self) -> str:
        """The compute unit that prices the FLOPs, as `unit.type`."""
        return "cuda_core.fp32"

    def eval_roofline_read_bytes(self) -> int | None:
        """The bytes of the roofline less those that the signature declares written.

        An override returns None where it cannot say.
        """
        record = self.last_call
        written = sum(writes * record.bytes(name) for name, _, writes in record.traffic if writes)
        return self.eval_roofline()[1] - written

    def roofline_data_terms(self) -> dict[str, int]:
        """What the values of the inputs decided, by name; reported beside the roofline."""
        return {}

    def iter_kernels(self) -> Iterator[Kernel]:
        """Every kernel in the op's entries, then in its sub-ops', each once."""
        self._demand_constructed()
        seen: set[int] = set()
        for op in each_once(self):
            for kernel in op._own_kernels():
                if id(kernel) not in seen:
                    seen.add(id(kernel))
                    yield kernel

    def built_entries(self, interface: str) -> Mapping[Any, Any]:
        """What was built for an interface, by implementation and identity; read-only.

        When a target serves the op these are the target's kernels, whatever the interface.

        Raises:
            OpNotAvailableError: the interface is not declared.
        """
        self._demand_constructed()
        self._check_interface(interface)
        if self._is_target_served():
            return MappingProxyType(self._target_kernels)
        return MappingProxyType(self._built_entries.get(interface, {}))

    def kernel_config(self) -> Mapping[str, Any] | None:
        """The op's own configuration, else the first of its kernels', else None."""
        own = getattr(self, "config", None)
        if own:
            configuration: Mapping[str, Any] = own
            return configuration
        return next((kernel.config for kernel in self.iter_kernels() if kernel.config), None)
