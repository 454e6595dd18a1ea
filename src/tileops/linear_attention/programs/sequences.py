"""Where sequences and their chunks lie, of batches and of packed sequences.

Packed sequences that begin anywhere have no more chunks than there are slots: the chunks of
sequence `n` begin at slot `starts[n] // CHUNK + n`, some slots stay empty.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

CHUNK = 64
"""Tokens of a chunk: rows of a product on the tensor cores."""


def slot_count(starts, length, is_packed: bool):
    """Slots for the chunks of a head in one batch entry."""
    return length // CHUNK + starts.shape[0] - 1 if is_packed else T.ceildiv(length, CHUNK)


def chunk_locator(is_packed: bool):
    """Makes the macro that finds the first token of a slot's chunk, and where its sequence ends.

    An empty slot begins at or behind the end of a sequence.
    """

    @T.macro
    def locate(starts, slot, length, first: T.Ref, stop: T.Ref):
        if is_packed:
            low = T.alloc_var("int32", init=0)
            high = T.alloc_var("int32", init=0)
            high = starts.shape[0] - 2
            while low < high:
                middle = (low + high + 1) // 2
                if T.cast(starts[middle], "int32") // CHUNK + middle <= slot:
                    low = middle
                else:
                    high = middle - 1
            first = T.cast(starts[low], "int32")
            first += (slot - first // CHUNK - low) * CHUNK
            stop = T.cast(starts[low + 1], "int32")
        else:
            first = slot * CHUNK
            stop = length  # noqa: F841

    return locate


def sequence_locator(is_packed: bool):
    """Makes the macro that finds the first token of a sequence, its length and its first slot."""

    @T.macro
    def locate(starts, n, length, first: T.Ref, count: T.Ref, slot: T.Ref):
        if is_packed:
            first = T.cast(starts[n], "int32")
            count = T.cast(starts[n + 1], "int32") - first
            slot = first // CHUNK + n  # noqa: F841
        else:
            count = length  # noqa: F841

    return locate


def tail_cleaner(columns: int):
    """Makes the macro that puts zeros behind a chunk's last token; the caller meets afterwards.

    It takes shared memory and the leading indices of the chunk's rows in it. A factor of 0 would
    let NaN of the next sequence through.
    """

    @T.macro
    def clean(Xs, where, count):
        for i, d in T.Parallel(CHUNK, columns):
            if i >= count:
                T.buffer_store(Xs, T.cast(0, Xs.dtype), [*where, i, d])
        T.fence_proxy_async()

    return clean
