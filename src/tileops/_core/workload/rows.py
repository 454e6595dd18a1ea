"""Workload rows to cases: values of indices, shapes, dtypes, contents of metadata; no torch.

A row fixes one call, a case adds a dtype for every dtype index. `RowReader` instantiates cases and
raises the first rule that a row breaks; which findings that makes is the validator's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tileops._core.lang.dtypes import BITS
from tileops._core.lang.evaluate import generate, holds
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.kinds import DTypeKind
from tileops._core.lang.nodes import Call, Expr, Shape, Splice
from tileops._core.lang.primitives.contents import Contents
from tileops._core.lang.values import shown
from tileops._core.signature.actions import Action, schedule
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point, payload_kind
from tileops._core.signature.plan import CheckCombos, CheckRule
from tileops._core.signature.solve import Operand, Solver
from tileops._core.signature.steps import Steps
from tileops._core.spec.model import (
    Declaration,
    OpSpec,
    Param,
    Row,
    TensorInput,
    TensorOutput,
)
from tileops._core.workload.branch import Branch, BranchFinder, is_dtype_index, is_true, point_of
from tileops._core.workload.faults import RowFault
from tileops._core.workload.inference import Inference, InferenceFault, where
from tileops._core.workload.values import ValueFault, index_value, param_value

_RANGES = {"int32": 31, "int64": 63}


@dataclass(frozen=True)
class Setting:
    """What a row says before a dtype case is chosen.

    Args:
        row: the row.
        params: every ordinary parameter as expressions see it.
        indices: the indices that the row gives.
        branch: the branch it selects.
    """

    row: Row
    params: Mapping[str, Any]
    indices: Mapping[str, Any]
    branch: Branch


@dataclass(frozen=True)
class TensorForm:
    """A tensor of a case; `values` are the contents of a metadata tensor, as nested lists."""

    shape: tuple[int, ...]
    dtype: str
    values: Any = None

    @property
    def nbytes(self) -> int:
        """Size in bytes, packed types by their carrier."""
        return -(-prod(self.shape) * BITS[self.dtype] // 8)


@dataclass(frozen=True)
class Case:
    """One call.

    Args:
        id: label, dtypes and dtype parameters, joined by `-`.
        setting: the row.
        values: parameters, indices and lets by name, as expressions see them.
        tensors: the inputs and construction-time tensors that are passed, in order.
        outputs: the outputs that are present, in order.
    """

    id: str
    setting: Setting
    values: Mapping[str, Any]
    tensors: Mapping[str, TensorForm]
    outputs: Mapping[str, TensorForm]


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

    def instantiate(self, setting: Setting, dtypes: Mapping[str, str]) -> Case:
        """One case.

        Raises:
            RowFault: a rule that the case breaks.
        """
        return _Instantiation(self, setting, dtypes).case()

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
                yield RowFault(35, path, f"{dtype} is not admitted by {name} = {kind}")
        missing = sorted(wanted - set(case))
        if missing:
            yield RowFault(35, path, f"misses {', '.join(missing)}")


class _Instantiation:
    """One case while its values are found."""

    def __init__(self, reader: RowReader, setting: Setting, dtypes: Mapping[str, str]) -> None:
        self.reader = reader
        self.spec = reader.spec
        self.finder = reader.finder
        self.setting = setting
        self.branch = setting.branch
        self.point = setting.branch.point
        self.id = reader.case_id(setting, dtypes)
        self.dtypes = dtypes
        self.contents: dict[str, Contents] = {}
        self.inference = Inference(
            self.spec,
            {**setting.params, **setting.indices, **dtypes},
            lambda name: self.finder.present(name, self.point),
            {},
            {},
        )

    def case(self) -> Case:
        """Everything about the case."""
        self._check_combos()
        self._generate()
        self._check_rules()
        tensors = {tensor.name: self._form(tensor) for tensor in self.finder.tensors(self.point)}
        outputs = {output.name: self._form(output) for output in self.finder.outputs(self.point)}
        self._check_requirements(tensors)
        self._infer_again(tensors)
        return Case(self.id, self.setting, dict(self.inference.values), tensors, outputs)

    def _fault(self, check: int, message: str) -> RowFault:
        return RowFault(check, self.setting.row.path, f"case {self.id}: {message}")

    def _check_combos(self) -> None:
        rows = [dict(row.dtypes) for row in self.spec.signature.dtype_combos]
        if any(path.startswith("signature.dtype_combos") for path in self.reader.ignored):
            return
        values = self.inference.values
        if rows and all(name in values for name in rows[0]):
            found = {name: values[name] for name in rows[0]}
            if found not in rows:
                listed = ", ".join(f"{name}={dtype}" for name, dtype in found.items())
                raise self._fault(35, f"signature.dtype_combos has no row {listed}")

    # Lets and generators

    def _generate(self) -> None:
        """Compute lets and run generators until nothing is left."""
        solver = Solver(
            self.reader.analysis.catalogue, frozenset(self.inference.values), self.branch.lets
        )
        waiting = self.finder.operands(self.point)
        ready: list[Operand] = []
        while True:
            done = len(solver.actions)
            solver.solve(ready)
            self._run(solver.actions[done:], 36 if ready else 38)
            found = next((pair for pair in waiting if solver.known(pair[1])), None)
            if found is None:
                break
            waiting.remove(found)
            ready.append(found[0])
            self._generate_one(found[0].tensor, found[1])
        if waiting:
            tensor = waiting[0][0].tensor
            raise self._fault(36, f"the arguments of {tensor.name}'s generator never become known")

    def _run(self, actions: list[Action], check: int) -> None:
        try:
            self.inference.run(actions)
        except InferenceFault as fault:
            raise self._fault(check, str(fault)) from None

    def _generate_one(self, tensor: TensorInput, call: Call) -> None:
        declared = tensor.values
        assert declared is not None
        try:
            contents = generate(call, self.inference, f"{self.spec.name}:{tensor.name}")
        except EvaluationFault as fault:
            reason = f'{declared.path} "{declared.text}": {fault.message}'
            raise self._fault(36, reason) from None
        dtype = self._dtype(tensor)
        bits = _RANGES.get(dtype)
        if bits is None:
            raise self._fault(
                36, f"{tensor.dtype.path}: generated contents are int32 or int64, not {dtype}"
            )
        if any(not -(1 << bits) <= item < 1 << bits for item in _items(contents.values)):
            raise self._fault(36, f"{declared.path}: an item is out of the range of {dtype}")
        self.contents[tensor.name] = contents
        self.inference.shapes[tensor.name] = contents.shape
        self.inference.dtypes[tensor.name] = dtype

    # Rules, shapes, requirements

    def _check_rules(self) -> None:
        for rule in self.spec.signature.shape_rules:
            if rule.node is None or rule.path in self.reader.ignored:
                continue
            folded = self.reader.analysis.facts.fold(rule.node, self.point)
            if self._value(folded, rule, 37) is not True:
                reason = f'{rule.path} "{rule.text}" does not hold'
                raise self._fault(37, reason + where(rule, self.inference.values))

    def _value(self, expr: Expr, declared: Declaration[Any], check: int) -> Any:
        try:
            return self.inference.evaluate(expr, declared.path, declared.text)
        except InferenceFault as fault:
            raise self._fault(check, str(fault)) from None

    def _dtype(self, tensor: TensorInput | TensorOutput) -> str:
        assert tensor.dtype.node is not None
        folded = self.reader.analysis.facts.fold(tensor.dtype.node, self.point)
        return str(self._value(folded, tensor.dtype, 38))

    def _form(self, tensor: TensorInput | TensorOutput) -> TensorForm:
        shape = self._shape(tensor.shape)
        contents = self.contents.get(tensor.name)
        if contents is not None and contents.shape != shape:
            reason = f'{tensor.shape.path} "{tensor.shape.text}" is {shape}, the generator gives'
            raise self._fault(36, f"{reason} {contents.shape}")
        return TensorForm(shape, self._dtype(tensor), contents and contents.values)

    def _shape(self, declared: Declaration[Shape]) -> tuple[int, ...]:
        shape: list[int] = []
        for part in self.reader.analysis.families.parts(declared, self.point) or ():
            if isinstance(part, Splice):
                shape += self._value(part.value, declared, 38)
            else:
                shape.append(self._value(part, declared, 38))
        if any(length < 0 for length in shape):
            reason = f'{declared.path} "{declared.text}" is {tuple(shape)}'
            raise self._fault(38, reason + where(declared, self.inference.values))
        return tuple(shape)

    def _check_requirements(self, tensors: Mapping[str, TensorForm]) -> None:
        for tensor in self.finder.tensors(self.point):
            for declared in tensor.requires:
                if declared.node is not None and declared.path not in self.reader.ignored:
                    self._check_requirement(tensor, declared, tensors)

    def _check_requirement(
        self, tensor: TensorInput, declared: Declaration[Expr], tensors: Mapping[str, TensorForm]
    ) -> None:
        call = declared.node and self.reader.analysis.facts.fold(declared.node, self.point)
        if not isinstance(call, Call) or tensor.name not in self.contents:
            return
        inference = self.inference
        scope = Inference(
            self.spec,
            {**inference.values, **{name: form.values for name, form in tensors.items()}},
            inference.present,
            {},
            {},
        )
        try:
            met = holds(call, self.contents[tensor.name].values, scope)
            reason = "does not hold"
        except EvaluationFault as fault:
            met, reason = False, f"fails: {fault.message}"
        if not met:
            reason += where(declared, inference.values)
            raise self._fault(37, f'{declared.path} "{declared.text}" {reason}')

    def _infer_again(self, tensors: Mapping[str, TensorForm]) -> None:
        """Inference from the tensors alone gives the indices that the row and generators gave."""
        again = Inference(
            self.spec,
            self.setting.params,
            self.inference.present,
            {name: form.shape for name, form in tensors.items()},
            {name: form.dtype for name, form in tensors.items()},
        )
        try:
            again.run(
                action
                for action in self.reader.steps(self.branch)
                if not isinstance(action.step, CheckRule | CheckCombos)
            )
        except InferenceFault as fault:
            raise self._fault(37, f"inference from the tensors fails: {fault}") from None
        for name in self.branch.used & again.values.keys():
            value, found = self.inference.values[name], again.values[name]
            if found != value:
                raise self._fault(37, f"{name} is {shown(value)}, the tensors give {shown(found)}")


def _items(values: Any) -> Iterator[int]:
    """The integers of nested lists."""
    if isinstance(values, list):
        for item in values:
            yield from _items(item)
    else:
        yield values
