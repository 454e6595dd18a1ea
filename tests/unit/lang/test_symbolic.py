"""Primitives on symbolic sizes: a stand-in that refuses to be a Python truth value."""

from __future__ import annotations

import pytest

from tileops._core.lang.primitives import symbolic
from tileops._core.lang.primitives.table import BUILTINS
from tileops.manifest import primitives as p


class Size:
    """A size known only to the algebra."""

    def __init__(self, value):
        self.value = value

    def __bool__(self):
        raise AssertionError("asked for a truth value")

    def _combined(self, other, operation):
        return Size(operation(self.value, plain(other)))

    def __add__(self, other):
        return self._combined(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._combined(other, lambda a, b: a - b)

    def __mul__(self, other):
        return self._combined(other, lambda a, b: a * b)

    def __floordiv__(self, other):
        return self._combined(other, lambda a, b: a // b)

    def __rsub__(self, other):
        return self._combined(other, lambda a, b: b - a)

    __radd__, __rmul__ = __add__, __mul__

    def __rfloordiv__(self, other):
        return self._combined(other, lambda a, b: b // a)

    def __neg__(self):
        return Size(-self.value)

    def __gt__(self, other):
        return self._combined(other, lambda a, b: a > b)

    def __ge__(self, other):
        return self._combined(other, lambda a, b: a >= b)

    def __eq__(self, other):
        return self._combined(other, lambda a, b: a == b)

    def __int__(self):
        return self.value

    __hash__ = None


def plain(value):
    if isinstance(value, Size):
        return value.value
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


class Algebra:
    """Computes with the hidden values."""

    def __init__(self):
        self.required = []

    def require(self, condition, reason):
        self.required.append(condition.value)
        if not condition.value:
            raise ValueError(reason())

    def select(self, condition, then, orelse):
        return Size(plain(then if condition.value else orelse))

    def both(self, a, b):
        return Size(a.value and b.value)

    def either(self, a, b):
        return Size(a.value or b.value)

    def maximum(self, a, b):
        return Size(max(plain(a), plain(b)))

    def minimum(self, a, b):
        return Size(min(plain(a), plain(b)))


@pytest.fixture
def algebra(monkeypatch):
    monkeypatch.setattr(symbolic, "_installed", [])
    algebra = Algebra()
    symbolic.install(algebra)
    return algebra


def hidden(arguments):
    """The arguments with each integer hidden."""
    if isinstance(arguments, tuple):
        return tuple(map(hidden, arguments))
    return Size(arguments) if type(arguments) is int else arguments


LAYOUT = type("Aligned", (), {"kind": "contiguous", "packing": "aligned", "alignment": 4})()
CALLS = [
    ("broadcast", ((2, 1, 4), (3, 1)), {}),
    ("broadcast", ((2,), (2,)), {}),
    ("broadcast", ((1,), (0,)), {}),
    ("ceil_div", (7, 2), {}),
    ("prod", ((2, 3),), {}),
    ("sum", ((2, 3),), {}),
    ("max", ((2, 5, 3),), {}),
    ("min", ((4, 2, 3),), {}),
    ("conv.out", (9, 3, 2, 1, 1), {}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), CALLS)
def test_symbolic_result_equals_the_plain_one(algebra, name, arguments, options):
    function = BUILTINS[name].function
    assert plain(function(*hidden(arguments), **options)) == function(*arguments, **options)


def test_arguments_known_at_construction_stay_plain(algebra):
    assert plain(p.reduced(hidden((2, 3, 4)), (0, -1), True, "full")) == (1, 3, 1)
    for ceil_mode in (False, True):
        for length in range(8):
            sizes = (length, 3, 2, 1, 1)
            assert plain(p.pool.out(*hidden(sizes), ceil_mode)) == p.pool.out(*sizes, ceil_mode)
    assert plain(p.moe.capacity(LAYOUT, Size(9), Size(3))) == p.moe.capacity(LAYOUT, 9, 3)
    assert p.mhc.expansion(Size(24)) == 4
    assert p.per_axis((1, 2), 1, 2) == 2
    assert p.category(3) == "int"


def test_mixed_operands(algebra):
    assert plain(p.broadcast((1, 4), (Size(3), Size(1)))) == (3, 4)
    assert p.broadcast((5,), (Size(1),)) == (5,)
    assert p.broadcast((Size(5),), (5,)) == (5,)
    assert plain(p.max((3, Size(5)))) == 5
    assert plain(p.all((True, Size(True), Size(False)))) is False
    assert p.all((Size(True), False)) is False
    assert p.all((True, True)) is True


def test_symbolic_domain_is_required_of_the_algebra(algebra):
    with pytest.raises(ValueError, match="ceil_div needs b > 0"):
        p.ceil_div(3, Size(0))
    with pytest.raises(ValueError, match=r"broadcast: sizes .* do not agree"):
        p.broadcast((Size(2),), (Size(3),))
    assert algebra.required == [False, True, True, False]


def test_connectives():
    assert symbolic.both() is True
    assert symbolic.either() is False
    assert symbolic.either(False, True) is True
    assert symbolic.select(True, 1, 2) == 1
    assert symbolic.select(False, 1, 2) == 2


def test_connectives_of_symbolic_operands(algebra):
    assert plain(symbolic.both(True, Size(True), Size(True))) is True
    assert plain(symbolic.either(False, Size(False), Size(True))) is True
    assert symbolic.either(True, Size(False)) is True


def test_without_an_algebra_no_symbolic_value_is_served(monkeypatch):
    monkeypatch.setattr(symbolic, "_installed", [])
    with pytest.raises(RuntimeError, match="no algebra of symbolic sizes is installed"):
        p.ceil_div(3, Size(2))
