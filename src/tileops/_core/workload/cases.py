"""One case of a workload row: values of indices, shapes, dtypes, contents of metadata; no torch.

The row's values go in, lets and generators are worked out by turns, then everything that the
signature demands is checked, and inference from the shapes alone has to give the same indices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tileops._core.lang.dtypes import BITS
from tileops._core.lang.evaluate import generate, holds
from tileops._core.lang.extents import excess
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.nodes import Call, Expr, Shape, Splice
from tileops._core.lang.primitives.contents import Contents
from tileops._core.lang.values import shown
from tileops._core.signature.actions import Action
from tileops._core.signature.plan import CheckCombos, CheckRule
from tileops._core.signature.solve import Operand, Solver
from tileops._core.spec.model import Declaration, Row, TensorInput, TensorOutput
from tileops._core.workload.branch import Branch, BranchFinder
from tileops._core.workload.faults import RowFault
from tileops._core.workload.inference import Inference, InferenceFault, where

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


class Instantiation:
    """One case while its values are found.

    Args:
        finder: the branches of the spec.
        setting: the row.
        dtypes: the dtype of each dtype index.
        name: the id of the case.
        ignored: field paths of refinements and predicates that are not to be judged.
        steps: the steps of a construction and a call on the row's branch.
    """

    def __init__(
        self,
        finder: BranchFinder,
        setting: Setting,
        dtypes: Mapping[str, str],
        name: str,
        ignored: Collection[str],
        steps: Iterable[Action],
    ) -> None:
        self.finder = finder
        self.facts = finder.analysis.facts
        self.spec = finder.spec
        self.setting = setting
        self.branch = setting.branch
        self.point = setting.branch.point
        self.id = name
        self.ignored = ignored
        self.steps = steps
        self.contents: dict[str, Contents] = {}
        self.inference = Inference(
            self.spec,
            {**setting.params, **setting.indices, **dtypes},
            lambda name: finder.present(name, self.point),
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
        if any(path.startswith("signature.dtype_combos") for path in self.ignored):
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
            self.finder.analysis.catalogue, frozenset(self.inference.values), self.branch.lets
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
            if rule.node is None or rule.path in self.ignored:
                continue
            folded = self.facts.fold(rule.node, self.point)
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
        folded = self.facts.fold(tensor.dtype.node, self.point)
        return str(self._value(folded, tensor.dtype, 38))

    def _form(self, tensor: TensorInput | TensorOutput) -> TensorForm:
        shape, dtype = self._shape(tensor.shape), self._dtype(tensor)
        reason = excess(shape, dtype)
        if reason is not None:
            raise self._fault(38, f'{tensor.shape.path} "{tensor.shape.text}": {reason}')
        contents = self.contents.get(tensor.name)
        return TensorForm(shape, dtype, contents and contents.values)

    def _shape(self, declared: Declaration[Shape]) -> tuple[int, ...]:
        shape: list[int] = []
        for part in self.finder.analysis.families.parts(declared, self.point) or ():
            if isinstance(part, Splice):
                shape += self._value(part.value, declared, 38)
            else:
                shape.append(self._value(part, declared, 38))
        if any(length < 0 for length in shape):
            reason = f'{declared.path} "{declared.text}" is {tuple(shape)}'
            raise self._fault(38, reason + where(declared, self.inference.values))
        return tuple(shape)

    def _check_requirements(self, tensors: Mapping[str, TensorForm]) -> None:
        values = {name: form.values for name, form in tensors.items() if name in self.contents}
        scope = Inference(
            self.spec, {**self.inference.values, **values}, self.inference.present, {}, {}
        )
        for tensor in self.finder.tensors(self.point):
            if tensor.name not in values:  # requires what nothing generates, a fault of its own
                continue
            for declared, call in self.finder.requirements(tensor, self.point):
                if declared.path not in self.ignored:
                    self._check_requirement(declared, call, values[tensor.name], scope)

    def _check_requirement(
        self, declared: Declaration[Expr], call: Call, contents: Any, scope: Inference
    ) -> None:
        try:
            met = holds(call, contents, scope)
            reason = "does not hold"
        except EvaluationFault as fault:
            met, reason = False, f"fails: {fault.message}"
        if not met:
            reason += where(declared, self.inference.values)
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
                for action in self.steps
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
