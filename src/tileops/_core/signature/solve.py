"""Solving one branch: which index each axis gives, and what is left to compare.

A `Solver` starts from the names that are known and repeats until nothing changes: lets whose
names are known become known, dtypes bind dtype indices, a located axis binds the one unknown it
is affine in, a located run binds the one unknown splice. Every rule only ever adds names, so the
set of solved indices does not depend on the order of declarations. The result is a set of
actions; their order is the business of `actions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tileops._core.lang.nodes import Expr, Name, Splice
from tileops._core.signature.actions import Action, Catalogue, Phase
from tileops._core.signature.guards import NEVER
from tileops._core.signature.plan import (
    CheckAxis,
    CheckDtype,
    CheckRank,
    CheckSplice,
    ComputeLet,
    Position,
    SolveAxis,
    SolveDtype,
    SolveSplice,
)
from tileops._core.signature.unify import (
    Affine,
    Part,
    affine,
    from_left,
    from_right,
    locate,
    value_of,
)
from tileops._core.spec.model import TensorInput


@dataclass
class Operand:
    """A present tensor while its branch is solved.

    Attributes:
        tensor: its declaration.
        place: its place among all tensors.
        dtype: folded dtype; None when unknown or when nothing compares it.
        parts: folded axes; None when unknown.
        solves: whether its axes may bind indices, or are only compared.
        pending: places of the axes that neither bound anything nor were compared so far.
        covered: the splices that the last rank check counted; None before the first.
        rank: the token that the last rank check binds.
    """

    tensor: TensorInput
    place: int
    dtype: Expr | None
    parts: tuple[Part, ...] | None
    solves: bool = True
    pending: list[int] = field(default_factory=list)
    covered: frozenset[Expr] | None = None
    rank: str = ""

    def __post_init__(self) -> None:
        self.pending = list(range(len(self.parts or ())))

    @property
    def splices(self) -> tuple[Expr, ...]:
        """The runs of axes in the shape."""
        return tuple(part.value for part in self.parts or () if isinstance(part, Splice))


class Solver:
    """One branch, or one construction point.

    Args:
        catalogue: where actions are kept, and what names stand for.
        known: the names that have a value from the start; grows while solving.
        lets: the lets that are used, folded.
    """

    def __init__(
        self, catalogue: Catalogue, known: frozenset[str], lets: Mapping[str, Expr]
    ) -> None:
        self.catalogue = catalogue
        self.bound = set(known)
        self.lets = dict(lets)
        self.actions: list[Action] = []

    def solve(self, operands: Sequence[Operand]) -> None:
        """Bind all that the operands give, then compare the rest."""
        progress = True
        while progress:
            progress = self._settle_lets()
            for operand in operands:
                progress |= self._bind_dtype(operand)
                progress |= operand.solves and self._bind_axes(operand)
        for operand in operands:
            self._compare(operand)

    def known(self, expr: Expr) -> bool:
        """Whether every name that an expression reads has a value."""
        return self.catalogue.names(expr) <= self.bound

    def emit(self, action: Action) -> None:
        """Add an action and what it binds."""
        self.actions.append(action)
        if action.binds is not None:
            self.bound.add(action.binds)

    def _settle_lets(self) -> bool:
        ready = [name for name, expr in self.lets.items() if self.known(expr)]
        for name in ready:
            self.emit(self._let(name, self.lets.pop(name)))
        return bool(ready)

    def _let(self, name: str, expr: Expr) -> Action:
        def make() -> Action:
            declaration = self.catalogue.facts.signature.lets[name]
            return Action(
                order=(Phase.LET, self.catalogue.let_places[name]),
                reads=self.catalogue.names(expr),
                binds=name,
                step=ComputeLet(NEVER, name, declaration, expr),
                near=frozenset(self.catalogue.facts.reads(declaration.node or expr)),
            )

        return self.catalogue.action(("let", name, id(expr)), make)

    # Rule 4

    def _bind_dtype(self, operand: Operand) -> bool:
        dtype = operand.dtype
        if not isinstance(dtype, Name) or dtype.id not in self.catalogue.dtypes - self.bound:
            return False
        index = dtype.id
        operand.dtype = None
        self.emit(
            self.catalogue.tensor_action(
                operand.tensor,
                ("dtype", index),
                (Phase.DTYPE, operand.place),
                binds=index,
                make=lambda: SolveDtype(NEVER, operand.tensor, index),
            )
        )
        return True

    # Rules 1 to 3

    def _bind_axes(self, operand: Operand) -> bool:
        before = len(operand.pending)
        for place in tuple(operand.pending):
            part = operand.parts[place] if operand.parts else None
            if isinstance(part, Splice):
                self._bind_splice(operand, place, part.value)
            elif part is not None and not self.known(part):
                self._bind_axis(operand, place, part)
        return len(operand.pending) < before

    def _bind_axis(self, operand: Operand, place: int, axis: Expr) -> None:
        unknown = self.catalogue.dims - self.bound
        form = affine(axis, unknown.__contains__, self.known)
        position = locate(operand.parts or (), place, self.known)
        if form is None or position is None:
            return
        operand.pending.remove(place)
        self._checked_rank(operand, position.splices)
        self.emit(self._solve_axis(operand, place, axis, position, form))

    def _solve_axis(
        self, operand: Operand, place: int, axis: Expr, position: Position, form: Affine
    ) -> Action:
        offset = form.offset and self.catalogue.facts.share(form.offset)
        return self.catalogue.tensor_action(
            operand.tensor,
            ("axis", place, id(axis), _key(position), form.index),
            (Phase.BIND, operand.place, place),
            reads=(*position.splices, *([offset] if offset else [])),
            after=operand.rank,
            binds=form.index,
            make=lambda: SolveAxis(
                NEVER, operand.tensor, position, form.index, form.scale, offset, axis
            ),
        )

    def _bind_splice(self, operand: Operand, place: int, value: Expr) -> None:
        if not isinstance(value, Name) or value.id not in self.catalogue.shapes - self.bound:
            return
        parts = operand.parts or ()
        start = from_left(parts[:place], self.known)
        stop = from_right(parts[place + 1 :], self.known)
        if start is None or stop is None:
            return
        operand.pending.remove(place)
        self._checked_rank(operand, start.splices + stop.splices)
        operand.covered = (operand.covered or frozenset()) | {value}
        self.emit(
            self.catalogue.tensor_action(
                operand.tensor,
                ("splice", place, _key(start), _key(stop), value.id),
                (Phase.BIND, operand.place, place),
                reads=start.splices + stop.splices,
                after=operand.rank,
                binds=value.id,
                make=lambda: SolveSplice(NEVER, operand.tensor, start, stop, value.id),
            )
        )

    # Ranks

    def _checked_rank(self, operand: Operand, counted: tuple[Expr, ...]) -> None:
        """Have the rank checked so far that places which count these splices exist."""
        if operand.covered is not None and operand.covered.issuperset(counted):
            return
        splices = tuple(splice for splice in operand.splices if self.known(splice))
        is_open = len(splices) < len(operand.splices)
        axes = len(operand.parts or ()) - len(operand.splices)
        token = f"rank of {operand.tensor.name}, {len(splices)} runs known"
        self.emit(
            self.catalogue.tensor_action(
                operand.tensor,
                ("rank", axes, is_open, *map(id, splices)),
                (Phase.BIND, operand.place, -1, len(splices)),
                reads=splices,
                after=operand.rank,
                binds=token,
                make=lambda: CheckRank(NEVER, operand.tensor, axes, splices, is_open),
            )
        )
        operand.covered = (operand.covered or frozenset()) | set(splices)
        operand.rank = token

    # Rule 5

    def _compare(self, operand: Operand) -> None:
        """Check the dtype, the rank and the axes that bound nothing, where they are known."""
        dtype = operand.dtype
        if dtype is not None and self.known(dtype):
            self.emit(
                self.catalogue.tensor_action(
                    operand.tensor,
                    ("equal dtype", id(dtype)),
                    (Phase.DTYPE, operand.place),
                    reads=(dtype,),
                    make=lambda: CheckDtype(NEVER, operand.tensor, dtype),
                )
            )
        if operand.parts is None or not all(map(self.known, operand.splices)):
            return
        if operand.solves or operand.pending:
            self._checked_rank(operand, operand.splices)
        for place in tuple(operand.pending):
            part = operand.parts[place]
            if self.known(value_of(part)):
                operand.pending.remove(place)
                self.emit(self._equal(operand, place, part))

    def _equal(self, operand: Operand, place: int, part: Part) -> Action:
        position = locate(operand.parts or (), place, self.known)
        if position is None:
            raise AssertionError("every run of a checked shape is known")
        tensor = operand.tensor
        value = value_of(part)
        return self.catalogue.tensor_action(
            tensor,
            ("equal", place, isinstance(part, Splice), id(value), _key(position)),
            (Phase.EQUAL, operand.place, place),
            reads=(value, *position.splices),
            after=operand.rank,
            make=lambda: (
                CheckSplice(NEVER, tensor, position, value)
                if isinstance(part, Splice)
                else CheckAxis(NEVER, tensor, position, value)
            ),
        )


def _key(position: Position) -> tuple[object, ...]:
    return (position.side, position.fixed, *map(id, position.splices))
