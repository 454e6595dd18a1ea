"""A case as roofline formulas and functions see a call; it has no tensors and no device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileops._core.lang.values import frozen
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.effects import effect_branch, traffic
from tileops._core.workload.cases import Case, TensorForm


class CaseCall:
    """The reading side of a call's record, filled from a case.

    Args:
        analysis: the spec, taken apart.
        case: the case.
    """

    device = None
    has_out = False
    stages: Mapping[str, Any] = {}

    def __init__(self, analysis: Analysis, case: Case) -> None:
        point = case.setting.branch.point
        self._forms: dict[str, TensorForm] = {**case.tensors, **case.outputs}
        self.written = effect_branch(analysis.facts, point).writes
        self.traffic = traffic(analysis.facts, point)
        forall = analysis.spec.signature.forall
        self.indices = {
            name: frozen(value)
            for name, value in case.values.items()
            if name not in forall or not forall[name].is_sequence
        }

    @property
    def tensors(self) -> Mapping[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype name of every tensor and output that is present."""
        return {name: (form.shape, form.dtype) for name, form in self._forms.items()}

    def value(self, name: str) -> object:
        """The value of a name in a formula."""
        return self.indices[name]

    def present(self, name: str) -> bool:
        """Whether a tensor is passed, held or returned, or a parameter given."""
        return name in self._forms or self.indices.get(name) is not None

    def bytes(self, name: str) -> int:
        """The size of a tensor in bytes."""
        return self._forms[name].nbytes

    def derived_bytes(self) -> int:
        """The bytes that the call moves: each tensor's size times its reads and writes."""
        return sum((reads + writes) * self.bytes(name) for name, reads, writes in self.traffic)

    def metadata_values(self, name: str) -> Any:
        """The contents of a metadata tensor as nested lists.

        Raises:
            KeyError: `name` is no metadata tensor of the case.
        """
        form = self._forms.get(name)
        if form is None or form.values is None:
            raise KeyError(f"{name} is no metadata tensor of this call")
        return form.values
