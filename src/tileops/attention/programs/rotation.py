"""Angles of rotary position embeddings, exact at every position.

A turn is 2 ** 64 units: what a pair of channels turns at a position is a product of integers, out
of which whole turns overflow.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from math import pi

import tilelang.language as T

_TURN = 1 << 64


@dataclass(frozen=True)
class Rotation:
    """What is turned.

    Args:
        width: leading channels of a head, which are turned in halves; even.
        last_position: the position as which later ones turn.
    """

    width: int
    last_position: int


def angles(rotation: Rotation | None):
    """Makes the expression of the angle, in radians, by which a position turns a pair.

    The expression takes the buffer of `turns`, the pair and the position.
    """

    def angle(Turns, pair, position):
        units = T.cast(T.min(position, rotation.last_position), "uint64") * T.reinterpret(
            Turns[pair], "uint64"
        )
        # The upper half, signed: between half a turn back and half a turn forward.
        upper = T.cast(T.shift_right(units, T.uint64(32)), "uint32")
        return T.cast(T.reinterpret(upper, "int32"), "float32") * (2 * pi / 2**32)

    return angle


def tables(rotation: Rotation | None):
    """Makes the macro that tabulates cosines and sines of a position's angles."""
    angle = angles(rotation)

    @T.macro
    def tabulate(Turns, cos, sin, position):
        for i in T.Parallel(rotation.width // 2):
            cos[i] = T.cos(angle(Turns, i, position))
            sin[i] = T.sin(angle(Turns, i, position))

    return tabulate


def turner(rotation: Rotation | None, rows: int, threads: int, *, spread: bool):
    """Makes the macro that turns the rows of a buffer where they lie.

    The macro takes the buffer, its slot, `Turns`, the number of the thread among `threads`, and the
    position of the first row. A pair of channels is one thread's alone; what follows needs a
    barrier of them.

    Args:
        rotation: how a position turns.
        rows: rows of a slot.
        threads: threads that share the work.
        spread: whether each row stands one position further, and not all at the same.
    """
    half = rotation.width // 2 if rotation is not None else 1
    angle = angles(rotation)

    @T.macro
    def turn(Xs, slot, Turns, thread, position):
        row = T.alloc_var("int32", init=0)
        pair = T.alloc_var("int32", init=0)
        radians = T.alloc_var("float32", init=0.0)
        one = T.alloc_var("float32", init=0.0)
        other = T.alloc_var("float32", init=0.0)
        for step in T.serial(T.ceildiv(rows * half, threads)):
            row = (step * threads + thread) // half
            pair = (step * threads + thread) % half
            if row < rows:
                radians = angle(Turns, pair, position + (row if spread else 0))
                one = T.cast(Xs[slot, row, pair], "float32")
                other = T.cast(Xs[slot, row, pair + half], "float32")
                Xs[slot, row, pair] = one * T.cos(radians) - other * T.sin(radians)
                Xs[slot, row, pair + half] = other * T.cos(radians) + one * T.sin(radians)

    return turn


def turns(width: int, base: float) -> list[int]:
    """What each pair of channels turns at position 1, as signed units."""
    exact = [base ** (-2 * i / width) / (2 * pi) for i in range(width // 2)]
    units = [int(turn % 1.0 * _TURN) for turn in exact]
    return [unit - _TURN if unit >= _TURN // 2 else unit for unit in units]
