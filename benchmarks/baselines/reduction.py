"""Reductions, scans and softmax as torch has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.bench.baselines import baseline


def axes(op: Any) -> Any:
    """The reduced axes; none named is all of them."""
    return None if op.dim is None or op.dim in ((), []) else op.dim


def cast(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A reduction that can cast its input first."""

    def reduced(op: Any, x: Tensor) -> Tensor:
        return function(x, axes(op), keepdim=op.keepdim, dtype=op.dtype or x.dtype)

    return reduced


baseline("torch", "SumFwdOp")(cast(torch.sum))
baseline("torch", "MeanFwdOp")(cast(torch.mean))
baseline("torch", "ProdFwdOp")(cast(torch.prod))


def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction over axes, all of them by default."""

    def reduced(op: Any, x: Tensor) -> Any:
        dim = axes(op)
        return function(x, tuple(range(x.dim())) if dim is None else dim, keepdim=op.keepdim)

    return reduced


for _name in ("Amax", "Amin", "LogSumExp"):
    baseline("torch", f"{_name}FwdOp")(reduction(getattr(torch, _name.lower())))


def place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The place of an extreme along an axis, or among all elements."""

    def found(op: Any, x: Tensor) -> Tensor:
        return function(x, op.dim, keepdim=op.keepdim)

    return found


baseline("torch", "ArgmaxFwdOp")(place(torch.argmax))
baseline("torch", "ArgminFwdOp")(place(torch.argmin))


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Variance and its kin."""

    def found(op: Any, x: Tensor) -> Any:
        correction = 1 if op.correction is None else op.correction
        return function(x, axes(op), correction=correction, keepdim=op.keepdim)

    return found


baseline("torch", "VarFwdOp")(spread(torch.var))
baseline("torch", "StdFwdOp")(spread(torch.std))
baseline("torch", "VarMeanFwdOp")(spread(torch.var_mean))


def truth(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Whether all or some elements are nonzero."""

    def found(op: Any, x: Tensor) -> Tensor:
        if op.dim is None:
            every = function(x)
            return every.reshape([1] * x.dim()) if op.keepdim else every
        return function(x, op.dim, keepdim=op.keepdim)

    return found


baseline("torch", "AllFwdOp")(truth(torch.all))
baseline("torch", "AnyFwdOp")(truth(torch.any))


@baseline("torch", "CountNonzeroFwdOp")
def count_nonzero(op: Any, x: Tensor) -> Tensor:
    return torch.count_nonzero(x, axes(op))


@baseline("torch", "VectorNormFwdOp")
def vector_norm(op: Any, x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, op.ord, axes(op), op.keepdim, dtype=op.dtype)


def along(x: Tensor, dim: int | None) -> int:
    """The axis of a softmax; none named is chosen as torch does by rank."""
    return dim if dim is not None else 0 if x.dim() in {0, 1, 3} else 1


@baseline("torch", "SoftmaxFwdOp")
def softmax(op: Any, x: Tensor) -> Tensor:
    return F.softmax(x, along(x, op.dim), dtype=op.dtype)


@baseline("liger", "SoftmaxFwdOp")
def liger_softmax(op: Any, x: Tensor) -> Tensor:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    if along(x, op.dim) not in {-1, x.dim() - 1} or op.dtype not in {None, x.dtype}:
        raise NotImplementedError("liger has softmax along the last axis, in the input's dtype")
    return LigerSoftmaxFunction.apply(x)


@baseline("torch", "LogSoftmaxFwdOp")
def log_softmax(op: Any, x: Tensor) -> Tensor:
    return F.log_softmax(x, along(x, op.dim), dtype=op.dtype)


@baseline("torch", "CumsumFwdOp")
def cumsum(op: Any, x: Tensor) -> Tensor:
    return torch.cumsum(x, op.dim).to(x.dtype)


@baseline("torch", "CumprodFwdOp")
def cumprod(op: Any, x: Tensor) -> Tensor:
    return torch.cumprod(x, op.dim).to(x.dtype)


@baseline("torch", "SoftmaxBwdOp")
def softmax_backward(op: Any, grad: Tensor, output: Tensor) -> Tensor:
    axis = along(output, op.dim)
    return torch.ops.aten._softmax_backward_data(grad, output, axis, output.dtype)


@baseline("torch", "LogSoftmaxBwdOp")
def log_softmax_backward(op: Any, grad: Tensor, output: Tensor) -> Tensor:
    axis = along(output, op.dim)
    return torch.ops.aten._log_softmax_backward_data(grad, output, axis, output.dtype)
