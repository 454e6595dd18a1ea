"""Workload rows: the branch and the values that a row gives, the keys it needs, its cases.

No torch. A row fixes one call; a case adds a dtype for every dtype index. What breaks a rule is
raised, and the validator makes findings of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tileops._core.lang.dtypes import BITS
from tileops._core.lang.kinds import DTypeKind
from tileops._core.signature.actions import Action, schedule
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point, payload_kind
from tileops._core.signature.steps import Steps
from tileops._core.spec.model import OpSpec, Param, Row
from tileops._core.workload.branch import Branch, BranchFinder, is_dtype_index, is_true, point_of
from tileops._core.workload.cases import Case, Instantiation, Setting
from tileops._core.workload.faults import RowFault
from tileops._core.workload.inference import where
from tileops._core.workload.values import ValueFault, index_value, param_value


class RowReader:
    """The rows of one spec.

    Args:
        analysis: the spec, taken apart.
        ignored: field paths of refinements and predicates that are not to be judged.
    """

    def __init__(self, analysis: Analysis, ignored: Collection[str] = ()) -> None:
        self.analysis = analysis
        self.ignored = ignored
        self.spec: OpSpec = analysis.spec
        self.finder = BranchFinder(analysis)
        self._steps = Steps(
            analysis.catalogue, analysis.families, analysis.branches, analysis.scope
        )
        self._ordered: dict[int, tuple[Branch, tuple[Action, ...]]] = {}

    def setting(self, row: Row) -> Setting:
        """The branch and the values of a row.

        Raises:
            RowFault: a value is not one of its declaration, or the branch is excluded.
        """
        params = self._params(row)
        point = point_of(self.spec, self.analysis, params, set(row.some))
        self._check_restrictions(row, point, params)
        indices = {
            name: self._index(row, name, written)
            for name, written in row.values.items()
            if name in self.spec.signature.forall
        }
        return Setting(row, params, indices, self.finder.at(point))

    def key_faults(self, setting: Setting) -> Iterator[RowFault]:
        """What the row gives without need and what it fails to give."""
        row, branch = setting.row, setting.branch
        dtypes = {name for name in branch.used if is_dtype_index(self.spec, name)}
        missing = sorted(branch.given - dtypes - set(setting.indices))
        if missing:
            yield RowFault(35, row.path, f"misses {', '.join(missing)}")
        for name in setting.indices:
            if name in branch.solved:
                reason = f"the generator of {branch.solved[name]} gives it"
                yield RowFault(35, f"{row.path}.{name}", f"surplus: {reason}")
            elif name not in branch.used:
                yield RowFault(35, f"{row.path}.{name}", "surplus: not used on this branch")
        if dtypes and not row.dtype_cases:
            yield RowFault(35, row.path, f"misses dtype_cases for {', '.join(sorted(dtypes))}")
        for number, case in enumerate(row.dtype_cases):
            yield from self._dtype_faults(f"{row.path}.dtype_cases[{number}]", case, dtypes)

    def cases(self, setting: Setting) -> Iterator[Mapping[str, str]]:
        """The dtype assignments of a row; one empty one when it has none."""
        yield from setting.row.dtype_cases or ({},)

    def case_id(self, setting: Setting, dtypes: Mapping[str, str]) -> str:
        """The id of a case."""
        parts = [setting.row.label or setting.row.path]
        parts += [dtypes[name] for name in self.spec.signature.forall if name in dtypes]
        for name, param in self.spec.signature.params.items():
            if isinstance(param, Param) and isinstance(payload_kind(param), DTypeKind):
                parts += [str(setting.params[name])] if setting.params[name] is not None else []
        return "-".join(parts)

    def all_cases(self) -> Iterator[Case]:
        """Every case of every row, in order.

        Raises:
            RowFault: the first rule that a row or case breaks.
        """
        for row in self.spec.workloads:
            if row is None:
                raise RowFault(25, "workloads", "a row could not be read")
            setting = self.setting(row)
            for fault in self.key_faults(setting):
                raise fault
            for dtypes in self.cases(setting):
                yield self.instantiate(setting, dtypes)

    def instantiate(self, setting: Setting, dtypes: Mapping[str, str]) -> Case:
        """One case.

        Raises:
            RowFault: a rule that the case breaks.
        """
        name = self.case_id(setting, dtypes)
        steps = self.steps(setting.branch)
        return Instantiation(self.finder, setting, dtypes, name, self.ignored, steps).case()

    def steps(self, branch: Branch) -> tuple[Action, ...]:
        """The steps of a construction and a call on a branch, in an order in which they run."""
        kept = self._ordered.get(id(branch))
        if kept is None:
            kept = self._ordered[id(branch)] = branch, tuple(self._schedule(branch))
        return kept[1]

    def _schedule(self, branch: Branch) -> Iterator[Action]:
        constructed = self._steps.construction(branch.point, set(branch.usage.lets))
        called = self._steps.call(branch.point, constructed, branch.usage)
        for actions, known in (
            (constructed.actions, frozenset()),
            (called.actions, constructed.known),
        ):
            start = dict.fromkeys((*self.spec.signature.params, *known), 1)
            yield from (action for action, _ in schedule(dict.fromkeys(actions, 1), start))

    def _params(self, row: Row) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for name, param in self.spec.signature.params.items():
            if not isinstance(param, Param):
                continue
            if name in row.values:
                try:
                    params[name] = param_value(self.spec, param, row.values[name])
                except ValueFault as fault:
                    raise RowFault(38, f"{row.path}.{name}", str(fault)) from None
            elif param.has_default:
                params[name] = param.default
            else:
                raise RowFault(35, row.path, f"misses {name}, which has no default")
        return params

    def _index(self, row: Row, name: str, written: Any) -> Any:
        try:
            return index_value(self.spec.signature.forall[name], written)
        except ValueFault as fault:
            raise RowFault(38, f"{row.path}.{name}", str(fault)) from None

    def _check_restrictions(self, row: Row, point: Point, params: Mapping[str, Any]) -> None:
        for restriction in self.analysis.branches.restrictions:
            if restriction.declaration.path in self.ignored:
                continue
            if not is_true(self.analysis.facts.fold(restriction.expr, point)):
                declared = restriction.declaration
                reason = f'{declared.path} "{declared.text}" does not hold'
                raise RowFault(37, row.path, reason + where(declared, params))

    def _dtype_faults(
        self, path: str, case: Mapping[str, str], wanted: set[str]
    ) -> Iterator[RowFault]:
        for name, dtype in case.items():
            index = self.spec.signature.forall.get(name)
            kind = index.kind if index else None
            if not isinstance(kind, DTypeKind):
                yield RowFault(35, path, f"{name} is no DType index")
            elif name not in wanted:
                yield RowFault(35, path, f"{name} is not used on this branch")
            elif dtype not in kind.members:
                written = dtype if dtype in BITS else repr(dtype)
                yield RowFault(35, path, f"{written} is not admitted by {name} = {kind}")
        missing = sorted(wanted - set(case))
        if missing:
            yield RowFault(35, path, f"misses {', '.join(missing)}")


def cases_of(spec: OpSpec) -> Iterator[Case]:
    """Every case of a spec.

    Raises:
        RowFault: the first rule that a row or case breaks.
    """
    return RowReader(Analysis(spec)).all_cases()
