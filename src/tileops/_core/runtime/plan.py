"""The checks of one op class, as the op layer asks for them.

Effects are known from the start. The rest of the plan is made, and the functions are generated,
once, under a lock of their own, when the first of them or the source is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from tileops._core.lang.cached import cached_property
from tileops._core.lang.values import shown
from tileops._core.locks import make_lock
from tileops._core.runtime.construction import Constructed
from tileops._core.runtime.extents import demand_holdable, demand_makeable
from tileops._core.runtime.failures import Faults
from tileops._core.runtime.given import shaped_inputs
from tileops._core.runtime.record import Branches, CallFacts, SignatureCall
from tileops._core.runtime.tensors import Shaped, is_ordinary
from tileops._core.signature.build import PlanFault, build_plan, effect_branches
from tileops._core.signature.plan import EffectBranch, Plan
from tileops._core.spec.model import OpSpec
from tileops._core.spec.objects import function_of
from tileops._core.spec.registry import lookup
from tileops.errors import ManifestError, SignatureError


class _Functions(NamedTuple):
    """The generated functions of a plan, and their text."""

    text: str
    check_construction: Callable[..., Constructed]
    check: Callable[..., Any]
    check_result: Callable[..., None]
    effect_branch: Callable[..., EffectBranch]
    roofline: Callable[..., tuple[int, int]] | None


class _SignaturePlan:
    """What a signature demands of constructions, calls and results of one class.

    Shared by all instances of the class.

    Args:
        spec: what is demanded.
        effects: the effect branches, in the plan's order.
        plan: the decisions made from the spec; where there are none yet, they are made, and the
            spec is judged, when they are first needed.
    """

    def __init__(
        self, spec: OpSpec, effects: tuple[EffectBranch, ...], plan: Plan | None = None
    ) -> None:
        self._spec = spec
        self._effects = effects
        self.effects = frozenset(effects)
        self._lock = make_lock()
        self._functions: _Functions | None = None
        if plan is not None:
            self.__dict__["_plan"] = plan
        signature = spec.signature
        self.input_names = tuple(signature.inputs)
        self.output_names = tuple(signature.outputs)
        self.parameter_names = tuple(signature.params)
        self.has_buffer = signature.has_buffer
        tensors = (*signature.inputs.values(), *signature.held)
        self.metadata_names = tuple(tensor.name for tensor in tensors if tensor.values is not None)
        self._held_names = tuple(tensor.name for tensor in signature.held)
        # A call may move or convert these, and the attribute of the instance then holds the copy.
        self.moved_names = tuple(tensor.name for tensor in signature.held if not tensor.on_cpu)
        self.moves_tensors = bool(self.moved_names)

    @classmethod
    def of(cls, plan: Plan) -> _SignaturePlan:
        """The checks of decisions that are made already."""
        return cls(plan.spec, tuple(case.branch for case in plan.effects), plan)

    def __deepcopy__(self, memo: dict[int, Any]) -> _SignaturePlan:
        return self

    @cached_property
    def _plan(self) -> Plan:
        """The decisions made from the spec.

        Raises:
            ManifestError: the spec has an error.
        """
        return plan_of(self._spec)

    @cached_property
    def _construction(self) -> Faults:
        return Faults(self._plan, "construction")

    @cached_property
    def _call(self) -> Faults:
        return Faults(self._plan, "call")

    @cached_property
    def _branches(self) -> Branches:
        return Branches(self._plan)

    def _generated(self) -> _Functions:
        """The functions, generated now unless another thread has done so."""
        with self._lock:
            if self._functions is None:
                from tileops._core.codegen.unit import compile_unit

                text, unit = compile_unit(self._plan)
                self._functions = _Functions(
                    text,
                    unit["check_construction"],
                    unit["check"],
                    unit["check_result"],
                    unit["effect_branch"],
                    unit.get("roofline"),
                )
            return self._functions

    def source(self) -> str:
        """The text of the generated functions."""
        return (self._functions or self._generated()).text

    def check_construction(self, op: Any) -> Constructed:
        """Check what construction decides.

        Returns:
            The solved values, read-only.

        Raises:
            SignatureError: a parameter or a construction-time tensor is rejected.
        """
        functions = self._functions or self._generated()
        demand_holdable(self._construction, _shapes(vars(op), self._held_names))
        return functions.check_construction(self._construction, op)

    def check(self, op: Any, tensors: Mapping[str, Any]) -> SignatureCall:
        """Check a call.

        Args:
            op: the instance.
            tensors: every input name with a tensor or None, and `out` when it is passed.

        Raises:
            SignatureError: the call is rejected.
        """
        functions = self._functions or self._generated()
        demand_holdable(self._call, _shapes(tensors, self.input_names))
        record: SignatureCall = functions.check(self._call, self._branches, op, tensors)
        described = record.facts.tensors
        made = {name: described[name] for name in self.output_names if name in described}
        demand_makeable(self._call, made)
        return record

    def record_of(self, op: Any, facts: CallFacts, tensors: Mapping[str, Any]) -> SignatureCall:
        """The record of a call of a kind that was checked before.

        Args:
            op: the instance.
            facts: what was found for the kind.
            tensors: as `check` takes them.
        """
        metadata = {
            name: tensors[name] if name in tensors else getattr(op, name)
            for name in self.metadata_names
        }
        return SignatureCall(facts, metadata)

    def check_result(
        self,
        op: Any,
        record: SignatureCall,
        result: Any,
        tensors: Mapping[str, Any],
        target: str | None = None,
    ) -> None:
        """Check what the implementation of a checked call returned.

        Args:
            op: the instance.
            record: what the check of the call gave.
            result: what the implementation returned.
            tensors: what was checked.
            target: the target whose kernel returned it; None for what is in the tree.

        Raises:
            SignatureError: it is not what the signature promises.
        """
        functions = self._functions or self._generated()
        faults = self._call if target is None else self._call.of_target(target)
        functions.check_result(faults, op, record, result, tensors)

    def output_shapes(
        self,
        op: Any,
        shapes: Mapping[str, Any],
        dtypes: Mapping[str, torch.dtype | str] | None = None,
    ) -> dict[str, tuple[int, ...]]:
        """The shapes of the outputs that are present, from shapes alone.

        Args:
            op: the instance.
            shapes: shapes by input name; None, or left out, for an input that is not passed.
            dtypes: dtypes by input name, as far as they are known.

        Raises:
            SignatureError: the shapes do not fit the signature.
        """
        given = shaped_inputs(self._call, shapes, dtypes)
        demand_holdable(self._call, _shapes(given, self.input_names))
        functions = self._functions or self._generated()
        outputs = functions.check(self._call, self._branches, op, given, shapes_only=True)
        demand_makeable(self._call, outputs)
        return {name: shape for name, (shape, _) in outputs.items()}

    def misuse(self, fault: str) -> SignatureError:
        """The error of arguments to shape inference that do not bind."""
        return self._call.given("", fault)

    def effect_branch(self, op: Any, presence: Mapping[str, bool]) -> EffectBranch:
        """The effect branch of a call, from parameters and from what is passed.

        Args:
            op: the instance.
            presence: whether each input that may be absent is passed, and `out`.
        """
        functions = self._functions or self._generated()
        return functions.effect_branch(self._effects, op, presence)

    def eval_roofline(self, record: SignatureCall) -> tuple[int, int]:
        """The FLOPs of a completed call and the bytes that it moves.

        Raises:
            SignatureError: a formula yields anything but an integer of at least 0.
            ManifestError: the spec names a function that cannot be used.
        """
        functions = self._functions or self._generated()
        if functions.roofline is not None:
            return functions.roofline(self._call, record)
        roofline = self._spec.roofline
        if roofline is None or roofline.func is None:
            raise RuntimeError(f"{self._spec.name}: the spec has no roofline")
        try:
            function = function_of(roofline.func)
        except ManifestError as error:
            raise ManifestError(f"{self._spec.name} roofline.func: {error}") from error
        try:
            counted = function(record)
        except ArithmeticError as error:
            raise self._call.formula("roofline.func", record, error) from error
        if not isinstance(counted, tuple) or len(counted) != 2:
            fault = f"expected two ints >= 0, got {shown(counted)}"
            raise self._call.formula("roofline.func", record, fault)
        for value in counted:
            self._call.count("roofline.func", record, value)
        return counted


def _shapes(tensors: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The shapes of those of some tensors that are there and have one."""
    found = ((name, tensors.get(name)) for name in names)
    return {n: t.shape for n, t in found if t is not None and _has_shape(t)}


def _has_shape(tensor: Any) -> bool:
    return isinstance(tensor, Shaped) or is_ordinary(tensor)


_plans: dict[str, tuple[OpSpec, _SignaturePlan]] = {}
_plans_lock = make_lock()


def signature_plan_for(name: str) -> _SignaturePlan | None:
    """The plan of the spec of this name, shared by all that ask; None without a spec.

    Raises:
        ManifestError: the spec yields no plan; the text is its first finding.
    """
    spec = lookup(name)
    if spec is None:
        return None
    with _plans_lock:
        known = _plans.get(name)
        if known is None or known[0] is not spec:
            known = _plans[name] = (spec, _planned(spec))
        return known[1]


def _planned(spec: OpSpec) -> _SignaturePlan:
    """The plan of a spec; that of a spec of this package is made only when it is first used.

    Most imports use few plans, and what is released has passed the validator. A spec that is still
    being written may not even show its effects: then the checks say why.
    """
    if spec.in_tree and not spec.faults:
        with suppress(Exception):
            return _SignaturePlan(spec, effect_branches(spec))
    return _SignaturePlan.of(plan_of(spec))


def plan_of(spec: OpSpec) -> Plan:
    """The decisions made from a spec.

    Raises:
        ManifestError: the spec has an error; the text is the first finding.
    """
    try:
        return build_plan(spec)
    except PlanFault as fault:
        first = fault.findings[0]
        raise ManifestError(f"{first.subject}: {first.message}") from fault
