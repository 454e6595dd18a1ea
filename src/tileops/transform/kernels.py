"""Kernel interface of the transform family and its plain-torch implementation."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class HadamardCall(CallSpec):
    """The Hadamard transform of rows of `n = 2^k * base` elements."""

    n: int
    base: int
    dtype: torch.dtype


class HadamardFwdInterface(KernelInterface):
    """`x @ H.T / sqrt(n)` with `H` the Kronecker product of Sylvester's matrix and the base's."""

    request = HadamardCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Transform every row.

        Args:
            x: `[M, n]` in `call.dtype`, contiguous, on `call.device`; read.

        Returns:
            A new contiguous `[M, n]` in `call.dtype`; sums are float32, rounded once. `M` is
            positive and varies between calls. `paley` gives the matrix of the base.
        """

    @classmethod
    def paley(cls, order: int) -> Tensor:
        """The Hadamard matrix of order 1, 12, 20, 28 or 40, in the default dtype.

        `chi(a)` is 1 for squares modulo a prime `q`, -1 for others, 0 for multiples, and
        `Q[i, j] = chi(i - j)`. Orders 12 and 20 are `I + [[0, 1], [-1, Q]]` with `q` = 11 and 19.
        Order 28 is `S (x) [[1, 1], [1, -1]] + I (x) [[1, -1], [-1, -1]]` with
        `S = [[0, 1], [1, Q]]` and `q` = 13. Order 40 is `[[1, 1], [1, -1]] (x) H(20)`.
        """
        if order == 1:
            return torch.ones(1, 1)
        if order == 40:
            return torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), cls.paley(20))
        q = {12: 11, 20: 19, 28: 13}[order]
        squares = {place * place % q for place in range(1, q)}
        chi = torch.tensor([0.0, *(1.0 if place in squares else -1.0 for place in range(1, q))])
        places = torch.arange(q)
        bordered = torch.zeros(q + 1, q + 1)
        bordered[1:, 1:] = chi[(places[:, None] - places) % q]
        bordered[0, 1:] = 1
        bordered[1:, 0] = 1 if order == 28 else -1
        if order != 28:
            return torch.eye(order) + bordered
        first, second = torch.tensor([[[1.0, 1.0], [1.0, -1.0]], [[1.0, -1.0], [-1.0, -1.0]]])
        return torch.kron(bordered, first) + torch.kron(torch.eye(q + 1), second)


class HadamardPortableKernel(PortableKernel[HadamardCall], HadamardFwdInterface):
    """The transform by torch, as products with small orthonormal matrices, an axis each."""

    LARGEST = 64
    """Order of the largest factor of Sylvester's matrix."""

    def __init__(self, call: HadamardCall) -> None:
        super().__init__(call)
        self._factors = [
            matrix.to(call.device or "cpu", torch.float32) / math.sqrt(len(matrix))
            for matrix in self._matrices()
        ]

    def _matrices(self) -> list[Tensor]:
        """Hadamard matrices whose Kronecker product is the transform's, none of order 1."""
        found, left = [], self.call.n // self.call.base
        while left > 1:
            order = min(left, self.LARGEST)
            matrix = torch.ones(1, 1)
            while len(matrix) < order:
                matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
            found.append(matrix)
            left //= order
        return found if self.call.base == 1 else [*found, self.paley(self.call.base)]

    def forward(self, x: Tensor) -> Tensor:
        """Transform every row."""
        if not self._factors:
            return x.clone()
        y, right = x.float(), self.call.n
        for factor in self._factors:
            right //= len(factor)
            if right > 1:
                y = torch.matmul(factor, y.view(-1, len(factor), right))
            else:
                y = y.view(-1, len(factor)) @ factor.T
        return y.view(x.shape).to(x.dtype)
