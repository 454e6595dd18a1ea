"""The cases of every family; a kernel that TileLang makes and no case runs fails a test."""

from emulation.cases import (
    attention,
    elementwise,
    gemm,
    linear_attention,
    moe,
    norm,
    quantization,
    reduction,
    rope,
    sampling,
    sequence_modeling,
)
from emulation.cases.case import Case

CASES: tuple[Case, ...] = (
    *norm.CASES,
    *gemm.CASES,
    *moe.CASES,
    *attention.CASES,
    *linear_attention.CASES,
    *elementwise.CASES,
    *quantization.CASES,
    *reduction.CASES,
    *rope.CASES,
    *sampling.CASES,
    *sequence_modeling.CASES,
)

__all__ = ["CASES", "Case"]
