"""Every case of every workload row: checks 35 to 41."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.kinds import DTypeKind
from tileops._core.lang.nodes import Expr
from tileops._core.lang.values import AdtView, shown
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import payload_kind
from tileops._core.spec.model import Finding, OpSpec, Param, Row
from tileops._core.spec.objects import resolve
from tileops._core.validate.gate import Gate
from tileops._core.validate.objects import unusable_class, unusable_function
from tileops._core.workload.arguments import constructor_of, constructor_value
from tileops._core.workload.cases import Case, Setting
from tileops._core.workload.faults import RowFault
from tileops._core.workload.record import CaseCall
from tileops._core.workload.rows import RowReader


def check_cases(analysis: Analysis, gate: Gate) -> Iterator[Finding]:
    """Findings about rows and cases, and about formulas on them."""
    if not gate.closed:
        yield from _Cases(analysis, gate).findings()


@dataclass
class _Cases:
    """The rows of one spec, in order."""

    analysis: Analysis
    gate: Gate
    unjudged: bool = False
    settings: list[Setting] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @property
    def spec(self) -> OpSpec:
        """The spec."""
        return self.analysis.spec

    def findings(self) -> Iterator[Finding]:
        """All findings."""
        self.reader = RowReader(self.analysis, self.gate.ignored)
        for row in self.spec.workloads:
            if row is None:
                self.unjudged = True
            else:
                yield from self._row(row)
        yield from self._labels()
        if self.spec.status == "implemented" and not self.unjudged:
            yield from self._coverage()

    def _row(self, row: Row) -> Iterator[Finding]:
        try:
            setting = self.reader.setting(row)
        except RowFault as fault:
            self.unjudged = True
            yield self._error(fault.check, fault.path, fault.message)
            return
        finder, point = self.reader.finder, setting.branch.point
        present = [tensor.name for tensor in finder.tensors(point)]
        present += [output.name for output in finder.outputs(point)]
        self.settings.append(setting)
        if self.gate.blocks(setting.branch, present):
            return
        faults = [self._error(f.check, f.path, f.message) for f in self.reader.key_faults(setting)]
        yield from faults
        if faults:
            return
        for number, dtypes in enumerate(self.reader.cases(setting)):
            yield from self._case(setting, number, dtypes)

    def _case(self, setting: Setting, number: int, dtypes: Mapping[str, str]) -> Iterator[Finding]:
        row = setting.row
        path = f"{row.path}.dtype_cases[{number}]" if row.dtype_cases else row.path
        name = self.reader.case_id(setting, dtypes)
        if row.label is not None and name in self.ids:
            yield self._error(39, path, f"case id {name} is that of {self.ids[name]}")
        self.ids.setdefault(name, path)
        try:
            case = self.reader.instantiate(setting, dtypes)
        except RowFault as fault:
            yield self._error(fault.check, fault.path, fault.message)
            return
        if self.spec.status == "implemented":
            yield from self._arguments(case)
        yield from self._formulas(case)

    def _arguments(self, case: Case) -> Iterator[Finding]:
        """The constructor's arguments can be made."""
        for name, value in case.setting.params.items():
            param = self.spec.signature.params[name]
            if not isinstance(param, Param) or not isinstance(value, AdtView):
                continue
            if unusable_class(constructor_of(self.spec, param, value).python):
                continue
            try:
                constructor_value(self.spec, param, value)
            except Exception as error:
                reason = f"case {case.id}: {type(error).__name__}: {error}"
                yield self._error(38, f"{case.setting.row.path}.{name}", reason)

    # Formulas

    def _formulas(self, case: Case) -> Iterator[Finding]:
        roofline = self.spec.roofline
        if roofline is None:
            return
        call = CaseCall(self.analysis, case)
        for name, declared in (("flops", roofline.flops), ("bytes", roofline.bytes)):
            if declared is not None and declared.node is not None and self.gate.judges(name):
                value = self._value(declared.node, call, case)
                yield from self._judge(f"roofline.{name}", case, value)
        if self.spec.status != "implemented" or not roofline.func:
            return
        if self.gate.judges("func") and not unusable_function(roofline.func):
            yield from self._judge("roofline.func", case, *self._counted(roofline.func, call))

    def _value(self, formula: Expr, call: CaseCall, case: Case) -> Any:
        """A formula's value, or the fault that stopped it."""
        folded = self.analysis.facts.fold(formula, case.setting.branch.point)
        try:
            return evaluate(folded, call)
        except EvaluationFault as fault:
            return fault

    @staticmethod
    def _counted(path: str, call: CaseCall) -> tuple[Any, ...]:
        """The two numbers of a roofline function, or what it did instead."""
        try:
            found = resolve(path)(call)
        except Exception as error:
            return (error,)
        return found if isinstance(found, tuple) and len(found) == 2 else (found, found)

    def _judge(self, path: str, case: Case, *values: Any) -> Iterator[Finding]:
        """Counts are integers of at least 0; the first case that says otherwise is reported."""
        for value in values:
            if path in self.failed:
                return
            if isinstance(value, Exception):
                reason = f"fails in case {case.id}: {value}"
            elif not isinstance(value, int) or isinstance(value, bool):
                reason = f"not an integer in case {case.id}: {shown(value)}"
            elif value < 0:
                reason = f"negative in case {case.id}: {shown(value)}"
            else:
                continue
            self.failed.add(path)
            yield self._error(40, path, reason)

    # All rows together

    def _labels(self) -> Iterator[Finding]:
        """Rows that share a label differ in dtypes only."""
        first: dict[str, tuple[Row, dict[str, Any]]] = {}
        for row in (setting.row for setting in self.settings):
            if row.label is None:
                continue
            content = self._without_dtypes(row)
            other, theirs = first.setdefault(row.label, (row, content))
            differing = sorted(
                name for name in {*content, *theirs} if content.get(name) != theirs.get(name)
            )
            if differing:
                reason = f"reused: {other.path} differs in {', '.join(differing)}"
                yield self._error(39, f"{row.path}.label", reason)

    def _without_dtypes(self, row: Row) -> dict[str, Any]:
        """What a row says about anything but dtypes."""
        content: dict[str, Any] = {"some": sorted(row.some)}
        for name, value in row.values.items():
            param = self.spec.signature.params.get(name)
            if not isinstance(param, Param) or not isinstance(payload_kind(param), DTypeKind):
                content[name] = value
        return content

    def _coverage(self) -> Iterator[Finding]:
        """Each tensor that may be absent is passed by some row and omitted by some."""
        signature = self.spec.signature
        for tensor in (*signature.held, *signature.inputs.values()):
            if tensor.optional is False:
                continue
            seen = {
                self.reader.finder.present(tensor.name, setting.branch.point)
                for setting in self.settings
            }
            for wanted, word in ((True, "passed"), (False, "omitted")):
                if wanted not in seen:
                    mend = wanted and tensor.optional is True
                    hint = f": `some: [{tensor.name}]` in a row passes it" if mend else ""
                    yield self._error(41, "workloads", f"{tensor.name} is never {word}{hint}")

    def _error(self, check: int, path: str, message: str) -> Finding:
        return Finding.of(self.spec.name, path, check, message)
