"""Which expressions can be evaluated on symbolic sizes.

Under compilation the sizes of call-time tensors are symbols. A symbol may be computed with and
compared, but it cannot select: it is no subscript, orders no sequences, is no argument that a
primitive needs as a plain number, and tests only what has an integer or a truth value on both
arms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

from tileops._core.lang.calls import bind
from tileops._core.lang.faults import KindFault
from tileops._core.lang.kinds import BoolKind, Kind, SeqKind, alternatives, is_integer
from tileops._core.lang.nodes import (
    Attribute,
    Call,
    Compare,
    Conditional,
    Each,
    Expr,
    Name,
    Node,
    Slice,
    Subscript,
)
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.printer import to_text
from tileops._core.lang.walk import children
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.discriminants import Point
from tileops._core.signature.findings import Complaint
from tileops._core.signature.sites import Role, Site
from tileops._core.signature.unify import value_of

_ORDERINGS = frozenset({"<", "<=", ">", ">="})
_JUDGED = frozenset({Role.SHAPE, Role.LET, Role.RULE})


def symint_complaints(analysis: Analysis) -> Iterator[Complaint]:
    """Check 34, for a spec whose class gets a compile boundary."""
    if not analysis.spec.has_boundary:
        return
    facts = analysis.facts
    held = {name for tensor in facts.signature.held for name in facts.presence_reads(tensor.name)}
    for site in analysis.sites:
        if site.role in _JUDGED:
            complaints = partial(_on_branch, analysis, site)
            yield from analysis.branches.judge(analysis.reads(site) | held, complaints)


def _on_branch(analysis: Analysis, site: Site, point: Point) -> Iterator[Complaint]:
    if not analysis.evaluates(site, point):
        return
    symbols = _Symbols(analysis, point)
    for expr in _expressions(analysis, site, point):
        symbols.settle(expr)
        for fault in symbols.faults(expr, {}):
            yield Complaint(site.path, 34, fault)


def _expressions(analysis: Analysis, site: Site, point: Point) -> Iterator[Expr]:
    """What a site evaluates at a point, folded."""
    if site.shape is not None:
        for part in analysis.families.parts(site.shape, point) or ():
            yield value_of(part)
    elif site.expr is not None:
        yield analysis.facts.fold(site.expr, point)


class _Symbols:
    """What is a symbol at a point: a size that construction does not know, and what it gives.

    Args:
        analysis: the spec.
        point: a point that fixes which construction-time tensors are held.
    """

    def __init__(self, analysis: Analysis, point: Point) -> None:
        self.analysis = analysis
        self.point = point
        known = [
            constructed.known
            for origin, constructed in zip(
                analysis.branches.constructions.points, analysis.constructed, strict=True
            )
            if all(point.get(name, value) == value for name, value in origin.items())
        ]
        sizes = analysis.catalogue.dims | analysis.catalogue.shapes
        self.names = set(sizes - frozenset.intersection(*known) if known else sizes)

    def settle(self, expr: Expr) -> None:
        """Find which of the lets behind an expression are symbols."""
        facts = self.analysis.facts
        for reference in facts.references.below(expr):
            definition = facts.references.definitions[reference]
            if reference.aspect != "value" or reference.name in facts.cyclic_lets:
                continue
            if self.has(facts.fold(definition, self.point), {}):
                self.names.add(reference.name)

    def has(self, node: Node, variables: Mapping[str, bool]) -> bool:
        """Whether the value of an expression, or an item of it, may be a symbol."""
        if isinstance(node, Name):
            return variables.get(node.id, node.id in self.names)
        if isinstance(node, Attribute):
            return False
        if isinstance(node, Each):
            variables = {**variables, node.variable: self.has(node.source, variables)}
            return self.has(node.element, variables)
        if isinstance(node, Call):
            builtin = BUILTINS.get(node.callee)
            if builtin is None or builtin.symint != "symbolic":
                return False
        return any(self.has(child, variables) for child in children(node))

    def faults(self, node: Node, variables: Mapping[str, bool]) -> Iterator[str]:
        """The places in an expression where a symbol would have to select."""
        for what, selector in self._selectors(node):
            if self.has(selector, variables):
                yield f"not evaluable on SymInt: {to_text(cast('Expr', node))} {what}"
        if isinstance(node, Each):
            variables = {**variables, node.variable: self.has(node.source, variables)}
        for child in children(node):
            yield from self.faults(child, variables)

    def _selectors(self, node: Node) -> Iterator[tuple[str, Expr]]:
        """What selects in a node, each after what it is used for."""
        if isinstance(node, Subscript):
            yield f"subscripts by {to_text(node.index)}", node.index
        elif isinstance(node, Slice):
            bounds = (node.start, node.stop, node.step)
            yield from ((f"slices by {to_text(b)}", b) for b in bounds if b is not None)
        elif isinstance(node, Conditional) and not self._is_selectable(node):
            yield f"chooses by {to_text(node.test)}", node.test
        elif isinstance(node, Compare) and self._orders_sequences(node):
            yield from ((f"orders {to_text(o)}", o) for o in (node.first, *node.rest))
        elif isinstance(node, Call):
            yield from _construction_arguments(node)

    def _kind(self, expr: Expr) -> Kind:
        return self.analysis.scope.kind(expr, Role.RULE, self.point)

    def _orders_sequences(self, node: Compare) -> bool:
        kinds = [self._kind(operand) for operand in (node.first, *node.rest)]
        members = [member for kind in kinds for member in alternatives(kind)]
        return bool(_ORDERINGS & set(node.ops)) and any(isinstance(m, SeqKind) for m in members)

    def _is_selectable(self, node: Conditional) -> bool:
        """Whether both arms are integers, or both are truth values."""
        arms = [self._kind(arm) for arm in (node.then, node.orelse)]
        return all(map(is_integer, arms)) or all(isinstance(kind, BoolKind) for kind in arms)


def _construction_arguments(call: Call) -> Iterator[tuple[str, Expr]]:
    builtin = BUILTINS.get(call.callee)
    if builtin is None:
        return
    try:
        bound = list(bind(call, builtin))
    except KindFault:
        return
    for parameter, argument in bound:
        if parameter.construction:
            yield f"needs {parameter.name} = {to_text(argument)} at construction", argument
