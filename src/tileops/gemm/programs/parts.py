"""Parts of products whose depth blocks share: kept in float32, added up by a second launch.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

_ADDERS = 256  # threads of a block that adds parts


@T.macro
def keep_part(acc, P, part, top, left, rows, columns, M, N):
    """Stores a tile of the product, rows of the weight by rows of the activation, as a part."""
    for j, i in T.Parallel(rows, columns):
        if left + i < M and top + j < N:
            P[part, left + i, top + j] = acc[j, i]


@T.macro
def add_parts(P, D, splits, M, N):
    """The launch that adds the parts; it begins while the one before it ends."""
    with T.Kernel(T.ceildiv(N, _ADDERS), M, threads=_ADDERS) as (block, row):
        column = block * _ADDERS + T.get_thread_binding()
        total = T.alloc_local((1,), "float32")
        T.pdl_sync()
        if column < N:
            total[0] = 0.0
            for part in T.serial(splits):
                total[0] += P[part, row, column]
            D[row, column] = total[0]
