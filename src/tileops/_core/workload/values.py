"""Values of a row from YAML to what expressions see: parameters, indices, lists of lengths."""

from __future__ import annotations

from typing import Any

from tileops._core.lang.evaluate import NoNames, evaluate
from tileops._core.lang.faults import EvaluationFault, LanguageFault
from tileops._core.lang.kinds import DimKind
from tileops._core.lang.members import Accepted
from tileops._core.lang.nodes import Arithmetic, Call, Constant, Expr
from tileops._core.lang.parser import parse_expression
from tileops._core.lang.values import AdtView, shown
from tileops._core.spec.model import Index, OpSpec, Param, adt_fields
from tileops._core.workload.arguments import constructor_of

LISTS = frozenset({"repeat", "balanced_sizes"})
"""The calls that may stand for a list of lengths."""


class ValueFault(ValueError):
    """A written value that is not one of its declaration."""


def param_value(spec: OpSpec, param: Param, written: Any) -> Any:
    """A parameter's value as expressions see it.

    Raises:
        ValueFault: the type does not admit it, or an invariant does not hold.
    """
    if param.type.node is None:
        raise ValueFault(f"the type of {param.name} could not be read")
    verdict = param.type.node.from_yaml(written, adt_fields(spec.adts))
    if not isinstance(verdict, Accepted):
        raise ValueFault(verdict.reason)
    if isinstance(verdict.value, AdtView):
        _check_invariant(spec, param, verdict.value)
    return verdict.value


def index_value(index: Index, written: Any) -> Any:
    """An index's value as expressions see it.

    Raises:
        ValueFault: it is not one of the index's kind.
    """
    if isinstance(index.kind, DimKind):
        return _natural(written)
    if index.is_sequence:
        return list_value(written)
    if not isinstance(written, list):
        raise ValueFault(f"expected a list of lengths, got {shown(written)}")
    return tuple(map(_natural, written))


def list_value(written: Any) -> list[int]:
    """A list of lengths, written out or as one call.

    Raises:
        ValueFault: neither.
    """
    if isinstance(written, str):
        return _called_list(written)
    if not isinstance(written, list) or not all(map(_is_int, written)):
        raise ValueFault(f"expected a list of integers, got {shown(written)}")
    return list(written)


class FieldScope(NoNames):
    """The scope of an invariant: the fields of one algebraic value."""

    def __init__(self, view: AdtView) -> None:
        self._view = view

    def value(self, name: str) -> object:
        """The value of a field."""
        return self._view.fields[name]


def _called_list(text: str) -> list[int]:
    try:
        call = parse_expression(text)
    except LanguageFault as fault:
        raise ValueFault(f"{fault.message}, in {text!r}") from None
    if not isinstance(call, Call) or call.callee not in LISTS or call.keywords:
        raise ValueFault(f"expected a list, or a call of repeat or balanced_sizes, got {text!r}")
    if not all(map(_is_literal, call.args)):
        raise ValueFault(f"the arguments are integers combined by + - * //, in {text!r}")
    try:
        return list(evaluate(call, NoNames()))
    except EvaluationFault as fault:
        raise ValueFault(f"{fault.message}, in {text!r}") from None


def _is_literal(expr: Expr) -> bool:
    if isinstance(expr, Arithmetic):
        return expr.op != "%" and _is_literal(expr.left) and _is_literal(expr.right)
    return isinstance(expr, Constant) and _is_int(expr.value)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _natural(written: Any) -> int:
    if not _is_int(written) or written < 0:
        raise ValueFault(f"expected an integer of at least 0, got {shown(written)}")
    return int(written)


def _check_invariant(spec: OpSpec, param: Param, view: AdtView) -> None:
    rule = constructor_of(spec, param, view).invariant
    if rule is None or rule.node is None:
        return
    try:
        holds = evaluate(rule.node, FieldScope(view))
    except EvaluationFault as fault:
        raise ValueFault(f"invariant {rule.text!r}: {fault.message}") from None
    if holds is not True:
        raise ValueFault(f"invariant {rule.text!r} does not hold for {shown(view)}")
