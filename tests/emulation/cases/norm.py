"""Norms: every kind of row, weights present and absent, odd row counts."""

from __future__ import annotations

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.norm.kernels import (
    AdaLayerNormOnChipKernel,
    AddLayerNormOnChipKernel,
    AddLayerNormStreamingKernel,
    AddRMSNormOnChipKernel,
    AddRMSNormStreamingKernel,
    BatchNormBwdTileKernel,
    GroupNormOnChipKernel,
    InstanceNormOnChipKernel,
    LayerNormOnChipKernel,
    LayerNormStreamingKernel,
    RMSNormOnChipKernel,
    RMSNormStreamingKernel,
)
from tileops.norm.reference import batch_norm_bwd, group_norm, instance_norm, layer_norm, rms_norm

EPS = 1e-5


def _case(kernel, name, rows, n, dtype, weighted, constants, **more):
    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        x = torch.randn(rows, n, generator=generator).to(dtype)
        weight = torch.randn(n, generator=generator).to(dtype)
        return x, (weight if weighted else None)

    def expected(x: Tensor, weight: Tensor | None) -> Tensor:
        return rms_norm(x, weight, normalized_shape=(n,), eps=EPS)

    return Case(name, kernel, constants, inputs, expected, **more)


def _on_chip(name, rows, n, dtype, weighted, **more):
    constants = (n, dtype, EPS, weighted)
    return _case(RMSNormOnChipKernel, name, rows, n, dtype, weighted, constants, **more)


def _streamed(name, rows, n, dtype, weighted, vector, **more):
    constants = (vector, dtype, EPS, weighted)
    return _case(RMSNormStreamingKernel, name, rows, n, dtype, weighted, constants, **more)


def _layer(kernel, name, rows, n, dtype, weighted, biased, length, **more):
    """LayerNorm of rows far from zero, whose variance a sum of squares would lose."""

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        x = (torch.randn(rows, n, generator=generator) + 8).to(dtype)
        weight, bias = torch.randn(2, n, generator=generator).to(dtype)
        return x, (weight if weighted else None), (bias if biased else None)

    def expected(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return layer_norm(x, weight, bias, normalized_shape=(n,), eps=EPS)

    constants = (length, dtype, EPS, weighted, biased)
    return Case(name, kernel, constants, inputs, expected, **more)


def _added(kernel, name, rows, n, dtype, length, biased=False, **more):
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        x, residual = torch.randn(2, rows, n, generator=generator).to(dtype)
        affine = torch.randn(2, n, generator=generator).to(dtype)
        return x, residual, *affine[: 1 + biased]

    def expected(x: Tensor, residual: Tensor, *affine: Tensor) -> tuple[Tensor, Tensor]:
        total = (x + residual).to(dtype).double()
        norm = layer_norm if biased else rms_norm
        return norm(total, *affine, normalized_shape=(n,), eps=EPS), total

    return Case(name, kernel, (length, dtype, EPS, True, biased), inputs, expected, **more)


def _adaptive(name, rows, n, dtype, gated, **more):
    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        x, scale, shift, gate = torch.randn(4, rows, n, generator=generator).to(dtype)
        return x, scale, shift, gate if gated else None

    def expected(x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor | None) -> Tensor:
        normed = layer_norm(x, normalized_shape=(n,), eps=EPS) * scale + shift
        return normed if gate is None else normed * gate

    return Case(name, AdaLayerNormOnChipKernel, (n, dtype, EPS, gated), inputs, expected, **more)


def _channels(kernel, name, samples, split, dtype, weighted, biased, **more):
    """Samples of groups of channels, far from zero."""
    groups, count, length = split
    channels = groups * count

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        x = (torch.randn(samples, channels, length, generator=generator) + 3).to(dtype)
        weight, bias = torch.randn(2, channels, generator=generator).to(dtype)
        affine = weight if weighted else None, bias if biased else None
        return (x, None, None, *affine) if count == 1 else (x, *affine)

    def expected(x: Tensor, *others: Tensor | None) -> Tensor:
        if count == 1:
            return instance_norm(x, *others, eps=EPS)
        return group_norm(x, *others, num_groups=groups, eps=EPS)

    return Case(name, kernel, (split, dtype, EPS, weighted, biased), inputs, expected, **more)


def _batch(name, shape, dtype, vector, **more):
    """Gradients of BatchNorm of channels far from zero."""

    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        x = (torch.randn(shape, generator=generator) + 3).to(dtype)
        grad = torch.randn(shape, generator=generator).to(dtype)
        weight, rstd = torch.rand(2, shape[1], generator=generator) + 0.5
        return grad, x, weight, 3 + 0.1 * torch.randn(shape[1], generator=generator), rstd

    constants = (vector, dtype)
    return Case(name, BatchNormBwdTileKernel, constants, inputs, batch_norm_bwd, **more)


WIDE = ("uint4", "store_global_128")
SMALL = {"config": {"threads": 64, "unroll": 1}, "absolute": 1e-3}

CASES = (
    _on_chip("row of a block", 3, 4096, torch.bfloat16, True, contains=WIDE),
    _on_chip("no weight", 2, 4096, torch.float16, False, contains=WIDE),
    _on_chip("float32", 2, 2048, torch.float32, True, contains=("float4", "store_global_128")),
    _on_chip("rows of a warp", 21, 128, torch.float16, True, contains=WIDE),
    _on_chip("rows of several warps", 5, 768, torch.bfloat16, True, contains=WIDE),
    _on_chip("ragged last vector", 3, 1000, torch.bfloat16, True, contains=WIDE),
    _on_chip("narrow vectors", 3, 2052, torch.float16, True, contains=("store_global_64",)),
    _on_chip("odd width", 3, 1001, torch.bfloat16, True),
    _on_chip("one element", 130, 1, torch.float32, True),
    _on_chip("longest row", 1, 1 << 15, torch.bfloat16, True, contains=WIDE),
    _on_chip("other threads", 3, 4096, torch.float16, True, config={"lanes": 128, "rows": 1}),
    _streamed("whole steps", 2, 32768, torch.bfloat16, True, 8, contains=WIDE),
    _streamed("no weight", 2, 16384, torch.float16, False, 8, contains=WIDE),
    _streamed("part of a step", 3, 5000, torch.float32, True, 4, contains=("store_global_128",)),
    _streamed("odd width", 2, 5001, torch.bfloat16, True, 1),
    _layer(LayerNormOnChipKernel, "row of a block", 3, 4096, torch.float32, True, True, 4096),
    _layer(LayerNormOnChipKernel, "ragged", 5, 1000, torch.float32, True, False, 1000),
    _layer(LayerNormOnChipKernel, "no weight", 5, 64, torch.float32, False, True, 64),
    _layer(LayerNormStreamingKernel, "part of a step", 2, 40000, torch.float32, True, True, 4),
    _layer(LayerNormStreamingKernel, "odd width", 2, 4097, torch.float32, False, False, 1),
    _adaptive("gated", 3, 4096, torch.bfloat16, True, contains=WIDE),
    _adaptive("rows of several warps", 5, 1152, torch.float16, False, contains=WIDE),
    _adaptive("long row", 2, 12000, torch.float32, True),
    _adaptive("odd width", 3, 77, torch.float32, False),
    _added(AddRMSNormOnChipKernel, "row of a block", 3, 4096, torch.bfloat16, 4096),
    _added(AddRMSNormOnChipKernel, "rows of a warp", 9, 200, torch.float16, 200),
    _added(AddRMSNormStreamingKernel, "part of a step", 2, 33000, torch.bfloat16, 8),
    _added(AddLayerNormOnChipKernel, "row of a block", 3, 4096, torch.bfloat16, 4096, True),
    _added(AddLayerNormStreamingKernel, "part of a step", 2, 33000, torch.float32, 4, True),
    _channels(
        GroupNormOnChipKernel, "wide", 2, (4, 4, 256), torch.bfloat16, True, True, contains=WIDE
    ),
    _channels(GroupNormOnChipKernel, "ends inside", 3, (3, 8, 49), torch.float16, True, True),
    _channels(GroupNormOnChipKernel, "features", 5, (2, 3, 1), torch.float32, True, False),
    _channels(GroupNormOnChipKernel, "long", 1, (2, 8, 900), torch.float32, True, True),
    _channels(InstanceNormOnChipKernel, "wide", 3, (6, 1, 1024), torch.bfloat16, True, True),
    _channels(InstanceNormOnChipKernel, "no weight", 2, (3, 1, 900), torch.float16, False, False),
    _batch("several parts", (3, 2, 8800), torch.bfloat16, 8, contains=WIDE, **SMALL),
    _batch("two in flight", (2, 3, 1200), torch.float32, 4, absolute=1e-3),
    _batch("ends inside", (5, 3, 49), torch.float16, 1, **SMALL),
    _batch("features", (300, 7, 1), torch.float32, 1, **SMALL),
)
