"""Reference of the transform family: a dense product in float64, rounded once."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def hadamard_transform(x: Tensor, *, base_order: int = 1) -> Tensor:
    """`x @ H.T / sqrt(n)`."""
    matrix = _base(base_order)
    while len(matrix) < x.shape[-1]:
        matrix = [row + row for row in matrix] + [row + [-v for v in row] for row in matrix]
    dense = torch.tensor(matrix, dtype=torch.float64, device=x.device)
    product: Tensor = x.double() @ dense.T
    return (product / math.sqrt(x.shape[-1])).to(x.dtype)


def _base(order: int) -> list[list[int]]:
    """Paley's matrix of an order, as the op publishes it."""
    if order == 1:
        return [[1]]
    if order == 40:
        half = _base(20)
        return [row + row for row in half] + [row + [-v for v in row] for row in half]
    q = {12: 11, 20: 19, 28: 13}[order]
    residues = [[_chi(i - j, q) for j in range(q)] for i in range(q)]
    if order != 28:
        rows = [[1] * (q + 1)] + [[-1, *row] for row in residues]
        return [[v + (i == j and i > 0) for j, v in enumerate(row)] for i, row in enumerate(rows)]
    bordered = [[0] + [1] * q] + [[1, *row] for row in residues]
    matrix = [[0] * order for _ in range(order)]
    for i, row in enumerate(bordered):
        for j, v in enumerate(row):
            block = [[v, v], [v, -v]] if i != j else [[1, -1], [-1, -1]]
            for a in range(2):
                for b in range(2):
                    matrix[2 * i + a][2 * j + b] = block[a][b]
    return matrix


def _chi(a: int, q: int) -> int:
    """Euler's criterion: 1 for squares modulo `q`, -1 for others, 0 for multiples."""
    power = pow(a, (q - 1) // 2, q)
    return -1 if power == q - 1 else power
