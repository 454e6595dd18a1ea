"""Parameters of every type, each with a value in the forms of a constructor, a row and a text."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from signature.drawing.case import Case, Contiguous, Dense, Masked, Tiled


class Side(enum.Enum):
    """Members stand for the literals of an enum."""

    LEFT = "left"
    RIGHT = "right"


class Drawn(NamedTuple):
    """A value as expressions see it, as the constructor takes it, and as a row has it."""

    seen: Any
    argument: Any
    written: Any


class Kind(NamedTuple):
    """A type, how a value of it is drawn, values that it refuses, and the branches it makes."""

    type: str
    draw: Callable[[random.Random], Drawn]
    wrong: tuple[Any, ...]
    branches: int = 1


def same(value: Any) -> Drawn:
    return Drawn(value, value, value)


def absent(rng: random.Random, draw: Callable[[random.Random], Drawn]) -> Drawn:
    return same(None) if rng.random() < 0.4 else draw(rng)


def number(low: int, high: int) -> Callable[[random.Random], Drawn]:
    return lambda rng: same(rng.randint(low, high))


def one_of(*values: Any) -> Callable[[random.Random], Drawn]:
    return lambda rng: same(rng.choice(values))


def sequence(low: int, high: int, length: int | None = None) -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        count = rng.randint(0, 2) if length is None else length
        items = [rng.randint(low, high) for _ in range(count)]
        return Drawn(tuple(items), rng.choice([list, tuple])(items), items)

    return draw


def dtype(*names: str) -> Callable[[random.Random], Drawn]:
    def draw(rng: random.Random) -> Drawn:
        name = rng.choice(names)
        return Drawn(name, getattr(torch, name), name)

    return draw


def side(rng: random.Random) -> Drawn:
    name = rng.choice(["left", "right"])
    return Drawn(name, rng.choice([name, Side(name)]), name)


def store(rng: random.Random) -> Drawn:
    if rng.random() < 0.5:
        cols = rng.randint(0, 4)
        return Drawn(Dense(cols), Dense(cols), {"dense": {"cols": cols}})
    tile, padded = rng.randint(1, 4), rng.random() < 0.5
    return Drawn(
        Tiled(tile, padded), Tiled(tile, padded), {"tiled": {"tile": tile, "padded": padded}}
    )


def groups(rng: random.Random) -> Drawn:
    if rng.random() < 0.3:
        size = rng.randint(0, 3)
        return Drawn(Masked(size), Masked(size), {"masked": {"max_m": size}})
    alignment = rng.randint(1, 3)
    fields = {
        "packing": "tight" if alignment == 1 else "aligned",
        "metadata_kind": rng.choice(["physical_psum", "per_row"]),
        "alignment": alignment,
    }
    layout = Contiguous(**fields)
    return Drawn(layout, layout, {"contiguous": fields})


def axes(rng: random.Random) -> Drawn:
    return rng.choice([number(-1, 0), sequence(0, 1), one_of(-2, 1)])(rng)


def either(*draws: Callable[[random.Random], Drawn]) -> Callable[[random.Random], Drawn]:
    return lambda rng: rng.choice(draws)(rng)


def maybe(draw: Callable[[random.Random], Drawn]) -> Callable[[random.Random], Drawn]:
    return lambda rng: absent(rng, draw)


def pair_with_gaps(rng: random.Random) -> Drawn:
    items = [rng.choice([None, rng.randint(0, 4)]) for _ in range(2)]
    return Drawn(tuple(items), tuple(items), items)


def gaps(rng: random.Random) -> Drawn:
    items = [rng.choice([None, rng.randint(0, 4)]) for _ in range(rng.randint(0, 3))]
    return Drawn(tuple(items), items, items)


KINDS: dict[str, Kind] = {
    "mode": Kind("'row' | 'col' | 'both'", one_of("row", "col", "both"), ("diag", 1, None), 3),
    "soft": Kind("bool | None", maybe(one_of(False, True)), (1, "yes"), 3),
    "side": Kind("'left' | 'right' | None", maybe(side), ("both", True), 3),
    "cap": Kind("int | None", maybe(number(0, 5)), (True, 1.5, "1"), 2),
    "pad": Kind("int | 'same'", either(number(0, 3), one_of("same")), (None, "valid", False)),
    "kern": Kind(
        "int | tuple[int, int]",
        either(number(0, 3), sequence(0, 3, 2)),
        ((1, 2, 3), None, [True, 1]),
    ),
    "opt": Kind(
        "int | tuple[int | None, int | None] | None",
        maybe(either(number(0, 3), pair_with_gaps)),
        ((1,), "1"),
        2,
    ),
    "lims": Kind("list[int] | None", maybe(sequence(0, 3)), (3, ["1"], [1.0]), 2),
    "axes": Kind("int | list[int] | None", maybe(axes), ("0", [None]), 2),
    "gaps": Kind("list[int | None]", gaps, (None, [1.0], 2)),
    "options": Kind("dict | None", maybe(one_of({"a": 1}, {})), ([], "a"), 2),
    "size": Kind("list[int] | tuple[int, ...]", sequence(0, 3), (3, None, [[1]])),
    "window": Kind("tuple[int, int]", sequence(0, 3, 2), ((1,), 1, (1, False))),
    "wish": Kind(
        "float16 | float32 | None", maybe(dtype("float16", "float32")), (torch.int8, 1), 2
    ),
    "fixed": Kind("float32 | int8", dtype("float32", "int8"), (torch.float64, "float32", None)),
    "open": Kind("torch.dtype", dtype("float64", "uint8"), ("float64", None)),
    "gain": Kind("float", one_of(0.25, 1, 2.5, float("inf")), ("1", True, None, 1j)),
    "limit": Kind("float | None", maybe(one_of(0.5, 2, -1.0)), (False, "1"), 2),
    "title": Kind("str", one_of("", "x", "y"), (3, None)),
    "extra": Kind("Number", one_of(True, 2, 0.5), ("1", None)),
    "where": Kind("torch.device | str | None", one_of(None, "cpu"), (3,)),
    "layout": Kind("RowStore", store, (3, None, Tiled(0, False), Dense(1, "tiled")), 3),
    "store": Kind("RowStore | None", maybe(store), ("dense", Dense(-1)), 4),
    "groups": Kind(
        "MGroupedLayout",
        groups,
        (3, None, Contiguous("tight", "per_row", 2), Contiguous("loose", "per_row", 1), Masked(-1)),
        5,
    ),
}


def add_parameters(case: Case) -> None:
    """A flag, a small number, and some of every other type, with and without defaults."""
    rng = case.rng
    case.params = {"flag": {"type": "bool"}, "k": {"type": "int"}}
    case.values |= {"flag": rng.random() < 0.5, "k": rng.randint(1, 4)}
    for name in ("flag", "k"):
        case.arguments[name] = case.written[name] = case.values[name]
    case.wrong |= {"flag": [0, None, "True"], "k": [True, 1.0, None, "1"]}
    branches, most = 2, rng.choice([2, 4, 8, 24])
    for name in rng.sample(sorted(KINDS), rng.randint(1, 6)):
        kind = KINDS[name]
        if branches * kind.branches <= most:
            branches *= kind.branches
            _add(case, name, kind)


def _add(case: Case, name: str, kind: Kind) -> None:
    rng, drawn = case.rng, kind.draw(case.rng)
    case.values[name], case.arguments[name] = drawn.seen, drawn.argument
    case.wrong[name] = list(kind.wrong)
    case.params[name] = {"type": kind.type, "kw_only": True}
    if rng.random() < 0.5:
        case.params[name]["default"] = (
            kind.draw(rng).written if rng.random() < 0.5 else drawn.written
        )
        if rng.random() < 0.5 and case.params[name]["default"] == drawn.written:
            return
    case.written[name] = drawn.written
