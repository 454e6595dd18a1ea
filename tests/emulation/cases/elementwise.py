"""Pointwise functions: every function, every access pattern, every element type and width."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.elementwise import reference
from tileops.elementwise.kernels import (
    FUNCTIONS,
    AlibiTileKernel,
    DropoutTileKernel,
    GatedTileKernel,
    PointwiseTileKernel,
    SinusoidalTileKernel,
)
from tileops.elementwise.kernels.layout import arrange

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
TRUTHS = {"gt", "logical_and"}
MASKS = {"where": 0, "masked_fill": 1}


def _values(shape, dtype, generator) -> Tensor:
    values = torch.randn(shape, generator=generator) * 30
    return values > 0 if dtype is torch.bool else values.to(dtype)


def _case(name, function, shapes, dtype, view=None, inplace=False, **more):
    """`shapes` of the operands, None for an absent one; `view` changes an operand's strides."""
    out_dtype = torch.bool if function in TRUTHS else dtype
    settings = {"alpha": 3} if function in ("add", "sub") else {}
    mask = MASKS.get(function)

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        kinds = [torch.bool if place == mask else dtype for place in range(len(shapes))]
        found = [
            None if shape is None else _values(shape, kind, generator)
            for shape, kind in zip(shapes, kinds, strict=True)
        ]
        return tuple(view(item) if view else item for item in found)

    def expected(*operands: Tensor | None) -> Tensor:
        exact = [
            item
            if item is None
            else item.bool() if place == mask
            else item if dtype.is_floating_point else item.to(dtype)
            for place, item in enumerate(operands)
        ]  # fmt: skip
        return FUNCTIONS[function](*exact, **settings)

    given = inputs(torch.Generator().manual_seed(1))
    layout = arrange(given, out_dtype.itemsize).layout
    constants = (function, dtype, out_dtype, tuple(settings.items()), layout, inplace)
    return Case(name, PointwiseTileKernel, constants, inputs, expected, writes=inplace, **more)


ONCE = "read_once<uint4>"
N = 2 * 8 * 256 + 37
CASES = (
    _case("clamp from above", "clamp", ((4, 64), None, (64,)), F16),
    _case("several tiles", "add", ((N,), (N,)), BF16, contains=(ONCE, "store_global_128")),
    _case("several tiles, float32", "mul", ((N,), (N,)), F32, contains=("store_global_128",)),
    _case("several tiles, truths", "logical_and", ((N,), (N,)), torch.bool, contains=(ONCE,)),
    _case("pairs of truths", "gt", ((2000,), (2000,)), torch.int64, contains=(ONCE,)),
    _case("comparison", "gt", ((N,), (N,)), F16, contains=("store_global_64",)),
    _case("one element for all", "add", ((N,), ()), BF16),
    _case("one element", "add", ((), ()), BF16),
    _case("rows", "add", ((9, 264), (1, 264)), BF16, contains=("store_global_128",)),
    _case("columns", "mul", ((264, 1), (1, 72)), F32, contains=("store_global_128",)),
    _case("channels", "prelu", ((3, 5, 40), (5, 1)), F16, contains=("store_global_128",)),
    _case("four axes", "sub", ((3, 1, 5, 1), (1, 4, 1, 24)), BF16),
    _case("narrow accesses", "add", ((9, 12), (12,)), BF16, contains=("store_global_64",)),
    _case("odd rows", "add", ((70, 33), (33,)), BF16, contains=("store_global_128",)),
    _case("odd rows, one element each", "mul", ((9, 33), (9, 1)), F32, contains=("float4",)),
    _case("odd rows of all operands", "sub", ((9, 1), (33,)), BF16),
    _case("odd channels", "prelu", ((3, 5, 49), (5, 1)), F16, contains=("uint4",)),
    _case("odd mask", "where", ((7, 33), (7, 33), (33,)), BF16, contains=("uint2",)),
    _case("odd truths", "logical_and", ((5, 67), (67,)), torch.bool, contains=("uint4",)),
    _case("mask of positions", "where", ((1, 8, 16), (3, 8, 16), ()), BF16),
    _case("strided", "abs", ((20, 64),), BF16, view=lambda x: x[::2, 8:40]),
    _case("transposed", "abs", ((20, 64),), F32, view=lambda x: x.T),
    _case("in place", "silu", ((7, 100),), BF16, inplace=True),
    *(_case(f"int {dtype}", "add", ((N,), (N,)), dtype)
      for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)),
)  # fmt: skip


def _gated(name, rows, n, dtype, function="silu", vector=None, **more):
    def inputs(generator: torch.Generator) -> tuple[Tensor]:
        return ((torch.randn(rows, 2 * n, generator=generator) * 2).to(dtype),)

    def expected(x: Tensor) -> Tensor:
        return FUNCTIONS[function](x[:, :n]) * x[:, n:]

    vector = math.gcd(16 // dtype.itemsize, n)
    return Case(name, GatedTileKernel, (function, dtype, vector), inputs, expected, **more)


CASES += (
    _gated("several tiles", 3, 2 * 256 * 8 + 80, BF16, contains=("store_global_128",)),
    _gated("gelu", 5, 64, F16, "gelu"),
    _gated("gelu by tanh", 5, 64, F32, "gelu_tanh"),
    _gated("odd rows", 5, 63, BF16),
    _gated("two accesses", 2, 1000, F16, config={"threads": 32, "unroll": 2}),
)


def _fill(kernel, name, function, shape, dtype, **more):
    """A tensor made of its extents; `function` is the reference's."""

    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        return ()

    def expected() -> Tensor:
        wide = {"out_dtype": torch.float64}
        if kernel is AlibiTileKernel:
            return function(num_heads=shape[0], seq_len=shape[1], **wide)
        return function(seq_len=shape[0], d_model=shape[1], **wide)

    device = torch.device("cpu")
    return Case(name, kernel, (shape, dtype, device), inputs, expected, **more)


def _dropout(name, n, dtype, p, seed):
    def inputs(generator: torch.Generator) -> tuple[Tensor, float, int]:
        return torch.randn(n, generator=generator).to(dtype), p, seed

    def expected(x: Tensor, p: float, seed: int) -> Tensor:
        return reference.dropout(x, p=p, seed=seed)

    return Case(name, DropoutTileKernel, (dtype,), inputs, expected, contains=(ONCE,))


CASES += (
    _dropout("several tiles", N, BF16, 0.3, 2**40 + 3),
    _dropout("float32", 128 * 4 + 7, F32, 0.75, -1),
    _dropout("one element", 1, F16, 0.5, 0),
    _dropout("almost all", 999, F16, 1 - 2.0**-32, 5),
)


STORED = {"contains": ("store_global_128",)}
CASES += (
    _fill(AlibiTileKernel, "half", reference.alibi, (6, 40, 40), F16, **STORED),
    _fill(AlibiTileKernel, "odd", reference.alibi, (3, 33, 33), BF16),
    _fill(AlibiTileKernel, "several tiles", reference.alibi, (2, 520, 520), F32, **STORED),
    _fill(SinusoidalTileKernel, "half", reference.sinusoidal, (100, 64), F16, **STORED),
    _fill(SinusoidalTileKernel, "pairs", reference.sinusoidal, (9, 34), F32),
    _fill(SinusoidalTileKernel, "several tiles", reference.sinusoidal, (20, 2080), BF16),
)
