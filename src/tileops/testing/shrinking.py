"""Workload rows with small extents: the same branch, ranks, dtypes and choices, little data.

Large numbers of a row are replaced by small ones, equal numbers by equal ones. What a declaration
rejects is drawn again, as in any drawing; nothing is known of any op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from tileops._core.lang.nodes import Call, Name
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.walk import walk
from tileops._core.signature.analysis import Analysis
from tileops._core.spec.model import OpSpec
from tileops._core.spec.registry import lookup
from tileops._core.workload.cases import Setting
from tileops._core.workload.rows import RowReader
from tileops.testing.drawing import TRIES, Attempt, Drawing, DrawnCall

LARGE = 8
"""Numbers above this are extents, not choices: they shrink."""
EXTENTS = (2, 3, 4, 5, 6, 8, 12, 16)
STARTS = 64
"""Searches for a row's call; one that is stuck among its repairs gives way to the next."""
DRAWS = 200
"""Calls drawn to find some whose extents differ while the same of them are equal."""

MILD = TRIES // 8
"""Repairs up to which different numbers become different ones, and only small ones."""
BLOCKS = (1, 16, 32, 64, 128, 256)
"""Blocks that layouts ask for, and one of them; drawn where others are rejected over and over."""


class Shrinking(Drawing):
    """Draws small calls in the form of a workload row.

    Args:
        spec: the op's spec.
        setting: what the row says.
        dtypes: the dtype of each dtype index.
    """

    def __init__(self, spec: OpSpec, setting: Setting, dtypes: Mapping[str, str]) -> None:
        super().__init__(spec)
        self.point = setting.branch.point
        self.row: dict[str, Any] = {**setting.params, **setting.indices, **dtypes}
        self._small: dict[int, int] = {}
        self._repairs = 0

    def call(self) -> DrawnCall | None:
        """The row's call with small extents, None when none is found."""
        rng = self._rng(f"{sorted(self.row)} {self.point}")
        starts = (self.draw(self.point, rng) for _ in range(STARTS))
        return next((call for call in starts if call is not None), None)

    def _draw_values(self, attempt: Attempt, rng: Random, empty: str | None) -> None:
        self._small.clear()
        self._repairs = 0
        super()._draw_values(attempt, rng, empty)

    def _draw_value(self, attempt: Attempt, name: str, rng: Random, *, empty: bool = False) -> None:
        if name not in self.row:
            super()._draw_value(attempt, name, rng, empty=empty)
            return
        rejected = [name] if name in attempt.values else []
        if rejected:
            self._repairs += 1
            self._small.clear()
            if rng.random() < 0.5:  # one number for equal ones again, everywhere
                rejected = [other for other in self.row if other in attempt.values]
        for each in rejected or [name]:
            choices = self._choices(attempt, each)
            attempt.values[each] = self._shrunk(each, self.row[each], choices, rng)
        if isinstance(attempt.values[name], list) and name in self._sequences:
            attempt.requests = len(attempt.values[name])

    def _choices(self, attempt: Attempt, name: str) -> Sequence[int]:
        """Small extents for a name; where lengths are packed, their sums too."""
        if name in self._sequences:
            return EXTENTS
        lengths = [v for n, v in attempt.values.items() if n in self._sequences]
        sums = [sum(each) for each in lengths for _ in EXTENTS]
        blocks = BLOCKS * 2 if self._repairs > MILD else ()
        return (*EXTENTS, *sums, *attempt.multiples, *blocks)

    def _is_extent(self, _name: str, number: int) -> bool:
        """Whether a number of the row is to be replaced."""
        return number > LARGE

    def _shrunk(self, name: str, value: Any, choices: Sequence[int], rng: Random) -> Any:
        """The value of a name with its extents replaced."""
        if isinstance(value, list | tuple):
            return type(value)(self._shrunk(name, item, choices, rng) for item in value)
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        if not self._is_extent(name, value):
            return value
        if value not in self._small:
            taken = self._small.values() if self._repairs <= MILD else ()
            free = [choice for choice in choices if choice not in taken]
            self._small[value] = rng.choice(free or choices)
        return self._small[value]


class Resizing(Shrinking):
    """Draws calls of one instance that differ in extents only.

    Axes that are equal in one of them are equal in all: a compiler may take two equal extents for
    one. Extents of 1 stay, and none becomes 0 or 1, for which compilers make separate code.
    """

    _fixed: frozenset[str] = frozenset()

    def resized(self, count: int) -> tuple[DrawnCall, ...]:
        """As many calls as asked for, or fewer if no more are found."""
        if self.call() is None:
            return ()
        self._fix_instance()
        rng, groups = self._rng(f"extents {self.point}"), dict[Pattern, list[DrawnCall]]()
        best: list[DrawnCall] = []
        for _ in range(DRAWS):
            call = self.draw(self.point, rng)
            if call is None or any(
                call.tensors == o.tensors for o in groups.get(pattern(call), [])
            ):
                continue
            groups.setdefault(pattern(call), []).append(call)
            best = max(groups.values(), key=lambda found: variety(found[0]))
            if len(best) == count:
                return tuple(best)
        return tuple(max(groups.values(), key=len, default=best)[:count])

    def _fix_instance(self) -> None:
        """Keep what the last drawing found for parameters and construction-time tensors."""
        signature = self.spec.signature
        shapes = (tensor.shape for tensor in signature.held)
        names = set(signature.params) | self._rejected(*shapes).names
        names |= specialised(self.spec)
        self.row |= {name: self._found[name] for name in names & self._found.keys()}
        self._fixed = frozenset(names)

    def _complete(self, attempt: Attempt) -> DrawnCall:
        call = super()._complete(attempt)
        self._found = dict(attempt.values)
        return call

    def _draw_value(self, attempt: Attempt, name: str, rng: Random, *, empty: bool = False) -> None:
        if name in self._sequences:
            attempt.values[name] = [rng.randint(1, 6) for _ in range(attempt.requests + 1)]
        else:
            super()._draw_value(attempt, name, rng, empty=empty)

    def _choices(self, attempt: Attempt, name: str) -> Sequence[int]:
        return (*super()._choices(attempt, name), *range(2, 40))

    def _is_extent(self, name: str, number: int) -> bool:
        if name in self._fixed:
            return False
        return number > (1 if name in self.spec.signature.forall else LARGE)


def specialised(spec: OpSpec) -> set[str]:
    """Names that a built-in of a let takes as plain numbers; each of their values compiles anew."""
    calls = [
        node
        for let in spec.signature.lets.values()
        if let.node is not None
        for node in walk(let.node)
        if isinstance(node, Call) and BUILTINS[node.callee].symint == "specialises"
    ]
    return {node.id for call in calls for node in walk(call) if isinstance(node, Name)}


Pattern = tuple[tuple[int, ...], ...]


def pattern(call: DrawnCall) -> Pattern:
    """Which axes of the tensors have equal lengths, and which have length 0 or 1."""
    names: dict[int, int] = {0: 0, 1: 1}
    return tuple(
        tuple(names.setdefault(length, len(names)) for length in tensor.shape)
        for tensor in call.tensors.values()
    )


def variety(call: DrawnCall) -> int:
    """How many different lengths the axes of the tensors have."""
    return len({length for axes in pattern(call) for length in axes})


@cache
def shrunk_rows(op: str) -> Mapping[str, DrawnCall | None]:
    """The shrunk call of each case of each row, by the case's name; shrunk once per process."""
    spec = lookup(op)
    assert spec is not None
    return {name: Shrinking(spec, *case).call() for name, case in _cases(spec).items()}


@cache
def resized_calls(op: str, count: int) -> tuple[DrawnCall, ...]:
    """Calls of one instance whose extents differ, in the form of the row with most of them."""
    spec = lookup(op)
    assert spec is not None
    rows = {name: call for name, call in shrunk_rows(op).items() if call is not None}
    name = max(rows, key=lambda name: variety(rows[name]))
    return Resizing(spec, *_cases(spec)[name]).resized(count)


def _cases(spec: OpSpec) -> dict[str, tuple[Setting, Mapping[str, str]]]:
    """What each case of each row says, by the case's name."""
    reader = RowReader(Analysis(spec))
    settings = [reader.setting(row) for row in spec.workloads if row is not None]
    return {
        reader.case_id(setting, dtypes): (setting, dtypes)
        for setting in settings
        for dtypes in reader.cases(setting)
    }
