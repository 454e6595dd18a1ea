"""Every expression of a spec with the position it stands in, in the order of the document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import cast

from tileops._core.lang.nodes import Expr, FamilyApplication, Shape, ShapeList
from tileops._core.spec.model import (
    Declaration,
    OpSpec,
    TensorInput,
    TensorOutput,
    TypeFamily,
)

Owner = TensorInput | TensorOutput | TypeFamily
"""What an expression may belong to."""


class Role(Enum):
    """The positions that an expression may stand in; each has its own scope and kind."""

    SHAPE = "a shape"
    DTYPE = "a dtype"
    LET = "a let"
    CONDITION = "a condition"
    SUBJECT = "a match subject"
    CASE = "a case"
    RULE = "a refinement"
    VALUES = "a generator"
    REQUIRES = "a predicate"
    FORMULA = "a roofline formula"


@dataclass(frozen=True, eq=False)
class Site:
    """One declared expression or shape; `owner` is the tensor or family it belongs to."""

    role: Role
    declaration: Declaration[Expr] | Declaration[Shape]
    owner: Owner | None = None

    @property
    def path(self) -> str:
        """The field path."""
        return self.declaration.path

    @property
    def node(self) -> Expr | Shape | None:
        """The tree, None when it could not be read."""
        return self.declaration.node

    @property
    def expr(self) -> Expr | None:
        """The expression, None when it could not be read or is a shape."""
        node = self.declaration.node
        return None if isinstance(node, ShapeList | FamilyApplication) else node

    @property
    def shape(self) -> Declaration[Shape] | None:
        """The declared shape, None for an expression."""
        if self.role in {Role.SHAPE, Role.CASE}:
            return cast("Declaration[Shape]", self.declaration)
        return None

    @property
    def tensor(self) -> str | None:
        """The tensor that the expression belongs to, if it belongs to one."""
        return None if isinstance(self.owner, TypeFamily | None) else self.owner.name


def sites(spec: OpSpec) -> tuple[Site, ...]:
    """All expressions of a signature and of inline roofline formulas."""
    return tuple(_sites(spec))


def _sites(spec: OpSpec) -> Iterator[Site]:
    signature = spec.signature
    for tensor in (*signature.held, *signature.inputs.values()):
        yield from _input_sites(tensor)
    for output in signature.outputs.values():
        yield Site(Role.DTYPE, output.dtype, output)
        yield Site(Role.SHAPE, output.shape, output)
        if output.nullable is not None:
            yield Site(Role.CONDITION, output.nullable, output)
    for family in signature.types.values():
        yield from (Site(Role.SUBJECT, subject, family) for subject in family.subjects)
        yield from (Site(Role.CASE, case.shape, family) for case in family.cases)
    yield from (Site(Role.LET, let) for let in signature.lets.values())
    yield from (Site(Role.RULE, rule) for rule in signature.shape_rules)
    if spec.roofline is not None:
        for formula in (spec.roofline.flops, spec.roofline.bytes):
            if formula is not None:
                yield Site(Role.FORMULA, formula)


def _input_sites(tensor: TensorInput) -> Iterator[Site]:
    yield Site(Role.DTYPE, tensor.dtype, tensor)
    yield Site(Role.SHAPE, tensor.shape, tensor)
    for condition in (tensor.optional, tensor.mutated):
        if isinstance(condition, Declaration):
            yield Site(Role.CONDITION, condition, tensor)
    if tensor.values is not None:
        yield Site(Role.VALUES, tensor.values, tensor)
    yield from (Site(Role.REQUIRES, predicate, tensor) for predicate in tensor.requires)
