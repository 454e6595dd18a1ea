"""The plan of a signature: every decision, none of its text.

`build_plan` in this package turns an `OpSpec` into one `Plan`; `codegen` prints it. A plan holds
two step lists, for the construction and for the call. A step carries the `Guard` under which it
runs, so that branches which agree share it; expressions in a step are folded for the branches of
its guard. Steps stand in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Union

from tileops._core.lang.declared import dataclass
from tileops._core.lang.nodes import Expr
from tileops._core.spec.model import Declaration, DtypeCombo, OpSpec, TensorInput, TensorOutput

Value = bool | str | tuple[object, ...] | None
"""A discriminant's value: a bool; an enum literal; None for an absent Maybe; `"given"` for a
present `Maybe` of an unbounded kind; `(constructor, ((field, value), …))` for an ADT."""


@dataclass(frozen=True)
class Discriminant:
    """A finite quantity that selects a branch.

    `name` is the parameter, the tensor for presence, or `out`. `source` tells how generated code
    reads it: a parameter's value, whether a construction-time tensor is held, whether an input or
    `out` is passed. `at_construction` says that construction fixes it.
    """

    name: str
    source: Literal["param", "held", "passed", "out"]
    values: tuple[Value, ...]
    at_construction: bool


@dataclass(frozen=True)
class Guard:
    """A condition over discriminants in disjunctive form.

    Each clause maps a discriminant's name to the values it admits. `()` never holds, `({},)`
    always does.
    """

    clauses: tuple[Mapping[str, frozenset[Value]], ...]

    @property
    def always(self) -> bool:
        """Whether the guard holds on every branch."""
        return any(not clause for clause in self.clauses)

    def holds(self, point: Mapping[str, Value]) -> bool:
        """Whether the guard holds where the discriminants have these values."""
        return any(
            all(point[name] in values for name, values in clause.items()) for clause in self.clauses
        )


@dataclass(frozen=True)
class Position:
    """Where an axis, or the start of a run of axes, stands in a tensor's shape.

    `fixed` counts single axes, `splices` are expressions whose lengths are added. From the left
    they stand before the element, from the right after it.
    """

    side: Literal["left", "right"]
    fixed: int
    splices: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class CheckParam:
    """A parameter against its type, and the invariant of an ADT value."""

    guard: Guard
    name: str


@dataclass(frozen=True)
class CheckHeld:
    """A construction-time tensor: given or absent as declared, a tensor, contiguous, on the CPU.

    `condition` says when it must be given, over discriminants only; None for a literal
    `optional`.
    """

    guard: Guard
    tensor: TensorInput
    condition: Expr | None


@dataclass(frozen=True)
class CheckPassed:
    """A call-time tensor: given or absent as declared, and a tensor; `condition` as above."""

    guard: Guard
    tensor: TensorInput
    condition: Expr | None


@dataclass(frozen=True)
class CheckRule:
    """A refinement; `domain` marks a domain restriction."""

    guard: Guard
    declaration: Declaration[Expr]
    expr: Expr
    domain: bool


@dataclass(frozen=True)
class SettleDevices:
    """The call device, and the place of tensors declared `device: cpu`."""

    guard: Guard


@dataclass(frozen=True)
class CheckLayout:
    """Declared contiguity (`contiguous`), and no internal overlap of an input that is `written`."""

    guard: Guard
    tensor: TensorInput
    contiguous: bool
    written: bool


@dataclass(frozen=True)
class SolveDtype:
    """Rule 4: an unknown dtype index becomes the tensor's dtype, which must be in its set."""

    guard: Guard
    tensor: TensorInput
    index: str


@dataclass(frozen=True)
class CheckDtype:
    """A tensor's dtype equals an expression over known names."""

    guard: Guard
    tensor: TensorInput
    expr: Expr


@dataclass(frozen=True)
class CheckCombos:
    """The call's dtypes equal one of the declared rows."""

    guard: Guard
    rows: tuple[DtypeCombo, ...]


@dataclass(frozen=True)
class PlaceHeld:
    """A construction-time tensor is placed on the call device in its signature dtype."""

    guard: Guard
    tensor: TensorInput
    dtype: Expr


@dataclass(frozen=True)
class CheckRank:
    """The number of axes: exactly `axes` plus the lengths of `splices`.

    At least that when the shape has one splice still to be solved (`open`).
    """

    guard: Guard
    tensor: TensorInput
    axes: int
    splices: tuple[Expr, ...]
    open: bool


@dataclass(frozen=True)
class SolveAxis:
    """Rules 1 and 2: `index := (length - offset) / scale`, exact and non-negative."""

    guard: Guard
    tensor: TensorInput
    position: Position
    index: str
    scale: int
    offset: Expr | None
    axis: Expr


@dataclass(frozen=True)
class SolveSplice:
    """Rule 3: `index :=` the axes from `start` (from the left) to `stop` (from the right)."""

    guard: Guard
    tensor: TensorInput
    start: Position
    stop: Position
    index: str


@dataclass(frozen=True)
class CheckAxis:
    """Rule 5 for one axis; `axis` is the expression it must equal."""

    guard: Guard
    tensor: TensorInput
    position: Position
    axis: Expr


@dataclass(frozen=True)
class CheckSplice:
    """Rule 5 for a run of axes starting at `position`; `value` is the sequence it must equal."""

    guard: Guard
    tensor: TensorInput
    position: Position
    value: Expr


@dataclass(frozen=True)
class ComputeLet:
    """A let whose names are known; `expr` is its folded definition."""

    guard: Guard
    name: str
    declaration: Declaration[Expr]
    expr: Expr


@dataclass(frozen=True)
class CheckNonNegative:
    """An axis (or each item of a spliced part, `many`) of kind `Int` is at least 0."""

    guard: Guard
    path: str
    text: str
    expr: Expr
    many: bool


@dataclass(frozen=True)
class CheckOut:
    """The passed buffer against its output; with `absent`, passing it is the fault."""

    guard: Guard
    output: str
    absent: bool


ConstructionStep = Union[
    CheckParam, CheckHeld, CheckRule, CheckLayout, SolveDtype, CheckDtype, CheckCombos, CheckRank,
    SolveAxis, SolveSplice, CheckAxis, CheckSplice, ComputeLet, CheckNonNegative,
]  # fmt: skip
CallStep = Union[
    CheckPassed, CheckRule, SettleDevices, CheckLayout, SolveDtype, CheckDtype, CheckCombos,
    PlaceHeld, CheckRank, SolveAxis, SolveSplice, CheckAxis, CheckSplice, ComputeLet,
    CheckNonNegative, CheckOut,
]  # fmt: skip


@dataclass(frozen=True)
class OutputForm:
    """An output's shape parts and dtype on the branches of `guard`.

    `axes` holds an expression per single axis and `(expression,)` per spliced run.
    """

    guard: Guard
    name: str
    axes: tuple[Expr | tuple[Expr], ...]
    dtype: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions of the shape, whether they stand for an axis or for a run of them."""
        return tuple(axis[0] if isinstance(axis, tuple) else axis for axis in self.axes)


@dataclass(frozen=True)
class EffectBranch:
    """The inputs a call writes, whether `out` is passed, the outputs it emits."""

    writes: tuple[str, ...]
    has_out: bool
    emits: tuple[str, ...]

    def callers_tensor(self, output: TensorOutput) -> str | None:
        """The argument that an output is, `out` or an input; None for a new tensor or none."""
        if output.name not in self.emits:
            return None
        if output.buffered and self.has_out:
            return "out"
        return output.alias if output.alias in self.writes else None


@dataclass(frozen=True)
class EffectCase:
    """The branches that have one effect branch."""

    guard: Guard
    branch: EffectBranch


@dataclass(frozen=True)
class Formula:
    """A roofline expression: as written where every branch can run it, else folded."""

    guard: Guard
    expr: Expr


@dataclass(frozen=True)
class Plan:
    """All decisions for one op class, shared by its instances."""

    spec: OpSpec
    discriminants: tuple[Discriminant, ...]
    construction: tuple[ConstructionStep, ...]
    call: tuple[CallStep, ...]
    outputs: tuple[OutputForm, ...]
    effects: tuple[EffectCase, ...]
    solved_at_construction: frozenset[str]
    lets_used: Mapping[str, Guard]
    flops: tuple[Formula, ...]
    bytes: tuple[Formula, ...]
