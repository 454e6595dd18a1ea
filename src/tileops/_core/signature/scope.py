"""Who may read what: the names, and their kinds, that each position of a spec admits.

A name is readable, or barred with a reason, or not declared. Kinds of lets follow from their
definitions. What could not be read has an unknown kind, which passes every test; where a whole
section could not be read, so has every name that the section might have declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Literal

from tileops._core.lang.cached import cached_property
from tileops._core.lang.faults import KindFault
from tileops._core.lang.infer import infer
from tileops._core.lang.kinds import (
    DIM,
    INTS,
    UNKNOWN,
    DTypeKind,
    Kind,
    MaybeKind,
    SeqKind,
    alternatives,
    is_finite,
    is_opaque,
)
from tileops._core.lang.members import AdtFields
from tileops._core.lang.nodes import Constant, Expr, Name, Node, Present
from tileops._core.lang.positions import Position
from tileops._core.lang.walk import walk
from tileops._core.signature.discriminants import OUT, Point, is_maybe
from tileops._core.signature.facts import Facts
from tileops._core.signature.sites import Role, Site
from tileops._core.spec.model import Declaration, Param, TensorInput, TypeFamily

_SECTIONS = ("forall", "params", "inputs", "outputs", "types", "let")
_IN_TYPES = {Role.SHAPE, Role.DTYPE, Role.LET, Role.CONDITION}
_WITHOUT_PRESENCE = {Role.VALUES, Role.REQUIRES}
_ROOTS: Mapping[Role, Literal["generator", "predicate"]] = {
    Role.VALUES: "generator", Role.REQUIRES: "predicate",
}  # fmt: skip


ANY = MaybeKind(UNKNOWN)
"""Wanted where a name may stand bare although it may be absent."""


class Scope:
    """The positions of one spec.

    Args:
        facts: the spec, and what its lets fold to.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.signature = facts.signature
        self._lets: dict[tuple[str, int], Kind] = {}
        self._tests: dict[Role, frozenset[str]] = {}
        unread = {"signature", *(f"signature.{section}" for section in _SECTIONS)}
        self._misses_names = bool(unread & facts.spec.unknown)

    # Positions

    def position(self, site: Site) -> Position:
        """What the expression at a site may read and call."""
        if site.role in {Role.SUBJECT, Role.CASE}:
            return self._in_family(site)
        role, own = site.role, site.owner.name if site.owner else ""

        def names(name: str) -> Kind | None:
            return self._readable(name, role, own, None)

        return Position(
            names=names,
            barred=lambda name: self._barred(name, role, own),
            tensors=() if role in _WITHOUT_PRESENCE else self._tested(role),
            sizes=role is Role.FORMULA,
            root=_ROOTS.get(role, "expression"),
            adts=self.adts,
            readable=lambda: [name for name in self._names() if names(name) is not None],
        )

    def _in_family(self, site: Site) -> Position:
        family = site.owner
        formals = family.formals if isinstance(family, TypeFamily) else {}
        unread = f"signature.types.{family.name}.params" if family else ""

        def names(name: str) -> Kind | None:
            if name in formals:
                return formals[name] or UNKNOWN
            return UNKNOWN if unread in self.facts.spec.unknown else None

        def barred(name: str) -> str | None:
            if self._declared(name) and name not in formals:
                return f"{name} is not a formal of the family, which reads its formals only"
            return None

        return Position(names=names, barred=barred, adts=self.adts)

    @cached_property
    def _tensors(self) -> frozenset[str]:
        signature = self.signature
        held = (tensor.name for tensor in signature.held)
        out = [OUT] if signature.has_buffer else []
        return frozenset((*held, *signature.inputs, *signature.outputs, *out))

    def _tested(self, role: Role) -> frozenset[str]:
        """What `present` may test: tensors, and parameters of which nothing else is readable."""
        if role not in self._tests:
            maybes = {name for name, p in self.signature.params.items() if is_maybe(p)}
            opaque = {name for name in maybes if self._barred(name, role, "")}
            self._tests[role] = self._tensors | opaque
        return self._tests[role]

    @cached_property
    def adts(self) -> Mapping[str, AdtFields]:
        """The fields of each constructor of each algebraic type."""
        return {
            name: {
                constructor.name: {
                    field.name: field.kind or UNKNOWN for field in constructor.fields.values()
                }
                for constructor in adt.constructors.values()
            }
            for name, adt in self.facts.spec.adts.items()
        }

    # Names

    def _declared(self, name: str) -> bool:
        return any(name in section for section in self._sections())

    def _names(self) -> Iterator[str]:
        """Every declared name."""
        return chain.from_iterable(self._sections())

    def _sections(self) -> tuple[Mapping[str, object], ...]:
        signature = self.signature
        return (
            signature.forall,
            signature.params,
            signature.lets,
            signature.inputs,
            signature.outputs,
            signature.types,
        )

    def _readable(self, name: str, role: Role, own: str, point: Point | None) -> Kind | None:
        """The kind of a name that a position reads, None for any other."""
        if self._barred(name, role, own) is not None:
            return None
        if name in self.signature.forall:
            return self.signature.forall[name].kind or UNKNOWN
        if name in self.signature.lets:
            return self._let_kind(name, point)
        param = self.signature.params.get(name)
        if isinstance(param, Param):
            return param.type.node.kind if param.type.node else UNKNOWN
        if role is Role.REQUIRES and self._is_metadata(name):
            return INTS
        return UNKNOWN if self._misses_names and not self._declared(name) else None

    def _barred(self, name: str, role: Role, own: str) -> str | None:
        """Why a position does not read a declared name."""
        signature = self.signature
        if name in signature.forall:
            return self._barred_index(name, role)
        param = signature.params.get(name)
        if isinstance(param, Param):
            return self._barred_param(name, param, role)
        if name in signature.lets and role is Role.DTYPE:
            return f"{name} is a let, and a dtype expression reads no lets"
        if name in signature.types:
            return f"{name} is a type family, which only a shape applies"
        if name in self._tensors and name != OUT:
            return self._barred_tensor(name, role, own)
        return None

    def _barred_index(self, name: str, role: Role) -> str | None:
        index = self.signature.forall[name]
        if index.is_sequence:
            if role is Role.VALUES:
                return None
            return f"{name} is a Seq[Int] index, which is readable in `values` only"
        if role is Role.CONDITION:
            return f"reads more than discriminants: {name} is an index"
        if isinstance(index.kind, DTypeKind) and role in _WITHOUT_PRESENCE:
            return f"{name} is a dtype index, which `values` and `requires` do not read"
        return None

    def _barred_param(self, name: str, param: Param, role: Role) -> str | None:
        kind = param.type.node.kind if param.type.node else UNKNOWN
        if role in _IN_TYPES and is_opaque(kind):
            return f"{name} is {param.type.text}, which takes no part in types"
        if role is Role.CONDITION and not is_finite(kind):
            return f"reads more than discriminants: {name} is {kind}"
        return None

    def _barred_tensor(self, name: str, role: Role, own: str) -> str | None:
        if role is Role.REQUIRES:
            if name == own:
                return f"the contents of {name} are the first argument already"
            return None if self._is_metadata(name) else f"{name} is a tensor without `values`"
        return f"{name} is a tensor; its contents are no value"

    def _is_metadata(self, name: str) -> bool:
        tensor = self.signature.inputs.get(name) or self.signature.params.get(name)
        return isinstance(tensor, TensorInput) and tensor.values is not None

    def misses(self, expr: Expr) -> bool:
        """Whether an expression leads to a declaration that could not be read."""
        references = self.facts.references
        behind = (references.definitions[key] for key in references.below(expr))
        return any(self._is_unread(node) for tree in (expr, *behind) for node in walk(tree))

    def _is_unread(self, node: Node) -> bool:
        if isinstance(node, Name):
            return self._readable(node.id, Role.RULE, "", None) == UNKNOWN
        if not isinstance(node, Present):
            return False
        param = self.signature.params.get(node.name)
        if isinstance(param, Param):
            return param.type.node is None
        tensor = param or self.signature.inputs.get(node.name)
        output = self.signature.outputs.get(node.name)
        condition = output.nullable if output else tensor.optional if tensor else None
        return isinstance(condition, Declaration) and condition.node is None

    # Kinds

    def _let_kind(self, name: str, point: Point | None) -> Kind:
        """The kind of a let, as declared or at a point."""
        node = self.signature.lets[name].node
        if node is None or name in self.facts.cyclic_lets:
            return UNKNOWN
        expr = node if point is None else self.facts.fold(node, point)
        key = (name, id(expr))
        if key not in self._lets:
            for below in self.facts.references.below(expr):  # chains may be long
                if below.aspect == "value" and below.name != name:
                    self._let_kind(below.name, point)
            self._lets[key] = self.kind(expr, Role.LET, point)
        return self._lets[key]

    def kind(self, expr: Expr, role: Role, point: Point | None) -> Kind:
        """The kind of an expression over declared names; unknown where it has none."""
        position = Position(
            names=lambda name: self._readable(name, role, "", point),
            tensors=self._tested(role),
            adts=self.adts,
        )
        try:
            return infer(expr, position)
        except KindFault:
            return UNKNOWN

    def is_natural(self, expr: Expr, point: Point) -> bool:
        """Whether the kind of an axis or a run already says that nothing in it is negative."""
        if isinstance(expr, Name) and expr.id in self.signature.forall:
            return True
        if isinstance(expr, Constant) and isinstance(expr.value, int):
            return expr.value >= 0
        members = alternatives(self.kind(expr, Role.SHAPE, point))
        items = [member.element if isinstance(member, SeqKind) else member for member in members]
        return all(item in {DIM, UNKNOWN} for item in items)
