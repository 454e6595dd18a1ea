"""Guards to Python conditions, and steps that share a guard to one block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import Protocol, TypeVar, cast

from tileops._core.codegen.names import Names, spell
from tileops._core.codegen.writer import SourceWriter, identifier
from tileops._core.signature.plan import Discriminant, Guard, Value

Fields = tuple[tuple[str, bool | str], ...]
"""The finite fields of an algebraic value."""


class Guarded(Protocol):
    """Anything that holds on some branches only."""

    @property
    def guard(self) -> Guard:
        """The branches."""


G = TypeVar("G", bound=Guarded)


class Guards:
    """Prints the guards of one plan.

    Args:
        names: the spelling of names.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._discriminants: Mapping[str, Discriminant] = {
            d.name: d for d in names.plan.discriminants
        }

    def text(self, guard: Guard) -> str | None:
        """The guard as a condition; None when it always holds."""
        if guard.always:
            return None
        clauses = [
            [self._test(self._discriminants[name], values) for name, values in clause.items()]
            for clause in guard.clauses
        ]
        return _either(map(_both, clauses)) if clauses else "False"

    def cover(self, guards: Iterable[Guard]) -> bool:
        """Whether guards surely admit every branch between them.

        Looks at one discriminant at a time, so it may miss what several decide together.
        """
        admitted: dict[str, frozenset[Value]] = {}
        for guard in guards:
            if guard.always:
                return True
            for clause in guard.clauses:
                if len(clause) == 1:
                    [(name, values)] = clause.items()
                    admitted[name] = admitted.get(name, frozenset()) | values
        return any(
            values.issuperset(self._discriminants[name].values) for name, values in admitted.items()
        )

    def reads(self, guard: Guard) -> frozenset[str]:
        """The discriminants that a guard reads."""
        return frozenset() if guard.always else frozenset().union(*guard.clauses)

    def variable(self, discriminant: Discriminant) -> str:
        """The variable that holds a discriminant's value.

        For a `Maybe` of an unbounded kind it holds the payload, whose absence is the value None.
        """
        if discriminant.source != "param":
            return spell("has", discriminant.name)
        if self._names.adt(discriminant.name) is not None:
            return spell("case", discriminant.name)
        return spell("param", discriminant.name)

    def value(self, discriminant: Discriminant) -> str:
        """The discriminant's value itself, as it stands in a branch's key."""
        variable = self.variable(discriminant)
        if "given" in discriminant.values and discriminant.source == "param":
            return f"None if {variable} is None else 'given'"
        return variable

    def algebraic(self) -> tuple[Discriminant, ...]:
        """The discriminants that are values of an algebraic type."""
        return tuple(d for d in self._discriminants.values() if self._names.adt(d.name) is not None)

    def grouped(
        self, writer: SourceWriter, steps: Iterable[tuple[int, G]]
    ) -> Iterator[tuple[int, G]]:
        """Numbered steps, each while the writer stands inside the block of its guard."""
        for guard, members in groupby(steps, lambda step: step[1].guard):
            with self.block(writer, guard):
                yield from members

    @contextmanager
    def block(self, writer: SourceWriter, guard: Guard) -> Iterator[None]:
        """A block that runs where the guard holds; no block when that is everywhere."""
        condition = self.text(guard)
        if condition is None:
            yield
            return
        with writer.block(f"if {condition}"):
            yield

    def choose(self, writer: SourceWriter, forms: Iterable[G], write: Callable[[G], None]) -> None:
        """Write the one of several forms whose guard holds, as an `if` chain."""
        keyword = "if"
        for form in forms:
            condition = self.text(form.guard)
            if condition is None:
                write(form)
                return
            with writer.block(f"{keyword} {condition}"):
                write(form)
            keyword = "elif"

    def _test(self, discriminant: Discriminant, values: frozenset[Value]) -> str:
        """A test that a discriminant has one of some values."""
        if self._names.adt(discriminant.name) is not None:
            return self._algebraic_test(discriminant, values)
        variable = self.variable(discriminant)
        admitted = [value for value in discriminant.values if value in values]
        excluded = [value for value in discriminant.values if value not in values]
        if set(discriminant.values) == {True, False} and excluded:
            return variable if True in values else f"not {variable}"
        if admitted == [None]:
            return f"{variable} is None"
        if excluded == [None]:
            return f"{variable} is not None"
        if len(admitted) == 1:
            return f"{variable} {'is' if isinstance(admitted[0], bool) else '=='} {admitted[0]!r}"
        return f"{variable} in {tuple(admitted)!r}"

    def _algebraic_test(self, discriminant: Discriminant, values: frozenset[Value]) -> str:
        """A test of a value's constructor, and of its finite fields where they matter."""
        variable = spell("param", discriminant.name)
        tests = []
        for constructor, every in _by_constructor(discriminant.values).items():
            admitted = [fields for fields in every if (constructor, fields) in values]
            if admitted:
                rest = self._field_tests(discriminant.name, every, admitted)
                tests.append(_both([f"{variable}.kind == {constructor!r}", *rest]))
        if None in values:
            return _either([f"{variable} is None", *tests])
        if None in discriminant.values:
            return _both([f"{variable} is not None", _either(tests)])
        return _either(tests)

    def _field_tests(self, name: str, every: list[Fields], admitted: list[Fields]) -> list[str]:
        """Tests that single out some of a constructor's combinations of finite fields."""
        allowed = {field: {dict(c)[field] for c in admitted} for field, _ in every[0]}
        spanned = [c for c in every if all(value in allowed[field] for field, value in c)]
        if len(spanned) != len(admitted):
            singles = ([self._field_test(name, f, {v}) for f, v in c] for c in admitted)
            return [_either(map(_both, singles))]
        return [
            self._field_test(name, field, values)
            for field, values in allowed.items()
            if values != {dict(c)[field] for c in every}
        ]

    def _field_test(self, name: str, field: str, values: set[bool | str]) -> str:
        """A test that a finite field has one of some values."""
        read = f"{spell('param', name)}.{identifier(field)}"
        if self._names.is_python_enum(name, field):
            read += ".value"
        if values <= {True, False}:
            return read if True in values else f"not {read}"
        [first, *more] = sorted(map(str, values))
        return f"{read} in {(first, *more)!r}" if more else f"{read} == {first!r}"


def _both(tests: Iterable[str]) -> str:
    """A conjunction."""
    listed = list(tests)
    if len(listed) == 1:
        return listed[0]
    return " and ".join(f"({test})" if " or " in test else test for test in listed)


def _either(tests: Iterable[str]) -> str:
    """A disjunction."""
    listed = list(tests)
    if len(listed) == 1:
        return listed[0]
    return " or ".join(f"({test})" if " and " in test else test for test in listed)


def _by_constructor(values: Iterable[Value]) -> dict[str, list[Fields]]:
    """The combinations of finite fields among algebraic values, by constructor."""
    found: dict[str, list[Fields]] = {}
    for value in values:
        if isinstance(value, tuple):
            constructor, fields = cast("tuple[str, Fields]", value)
            found.setdefault(constructor, []).append(fields)
    return found
