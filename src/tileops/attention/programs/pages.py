"""Macros that read tiles of rows which lie in pages, found through a table.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops.attention.programs.softmax import PANEL


def piece_count(columns: int, page: int) -> int:
    """Pages that a tile of `columns` rows touches; 1 for rows that lie in no pages."""
    return max(1, columns // page) if page else 1


def page_reader(columns: int, size: int, page: int):
    """Makes the macros that look up a tile's rows, and that copy them.

    Args:
        columns: rows of a tile.
        size: channels of a row.
        page: rows of a page: a divisor of `columns` from 8 on, or a multiple.
    """
    pieces = piece_count(columns, page)
    piece = columns // pieces

    @T.macro
    def look_up(table, rows, b, tile, keys):
        """The rows where the pieces of a tile begin; a piece behind the last key is its page's."""
        position = T.alloc_var("int32", init=0)
        for p in T.unroll(pieces):
            position = T.max(T.min(tile * columns + p * piece, keys - 1), 0)
            rows[p] = table[b, position // page] * page + position % page // piece * piece

    @T.macro
    def copy_tile(X, rows, Xs, slot, full, h):
        for p in range(pieces):
            for c in tuple(range(0, size, PANEL)):
                T.tma_copy(
                    X[rows[p] : rows[p] + piece, h, c : c + PANEL],
                    Xs[slot, p * piece : (p + 1) * piece, c : c + PANEL],
                    barrier=full[slot],
                )

    return look_up, copy_tile
