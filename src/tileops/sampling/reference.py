"""References of the sampling family: a row at a time, in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def topk_mask(logits: Tensor, k: Tensor) -> Tensor:
    """What is at least the k-th largest stays, NaN being above all and never at least it."""
    result = logits.clone()
    for row, count in zip(result, k.tolist(), strict=True):
        if count < len(row):
            threshold = row.sort(descending=True).values[count - 1]
            row[~(row >= threshold)] = -torch.inf
    return result


def minp_mask(logits: Tensor, min_p: Tensor) -> Tensor:
    """What is at least `max + log(min_p)` in float32 stays."""
    result = logits.clone()
    for row, least in zip(result, min_p, strict=True):
        if least != 0:
            row[~(row.float() >= row.float().max() + least.log())] = -torch.inf
    return result


def topp_mask(logits: Tensor, p: Tensor) -> Tensor:
    """What has less than `p` of the probability above it stays, all where `p` is 1 or more."""
    result = logits.clone()
    for row, most in zip(result, p.tolist(), strict=True):
        if most >= 1:
            continue
        values, places, counts = row.double().unique(return_inverse=True, return_counts=True)
        mass = (values - values[-1]).exp() * counts
        above = mass.flip(0).cumsum(0).flip(0) - mass
        row[~(above / mass.sum() < most)[places]] = -torch.inf
    return result


def topk_topp_mask(logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
    """Top-p on what top-k leaves."""
    return topp_mask(topk_mask(logits, k), p)


def sampling_from_probs(probs: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
    """The first place whose running sum exceeds `u` times the total, or the last."""
    drawn = []
    for number, row in enumerate(probs.clamp(min=0).tolist()):
        word = _philox(int(seed) % 2**64, int(offset) % 2**64, number)
        target, running, place = (word >> 8) / 2**24 * math.fsum(row), 0.0, len(row) - 1
        for i, weight in enumerate(row):
            running += weight
            if running > target:
                place = i
                break
        drawn.append(place)
    return torch.tensor(drawn, dtype=torch.int32, device=probs.device)


def _philox(key: int, low: int, high: int) -> int:
    """The first word of Philox4x32-10; the counter's halves have 64 bits each."""
    a, b, c, d = low % 2**32, low >> 32, high % 2**32, high >> 32
    first, second = key % 2**32, key >> 32
    for _ in range(10):
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = (right >> 32) ^ b ^ first, right % 2**32
        c, d = (left >> 32) ^ d ^ second, left % 2**32
        first, second = (first + 0x9E3779B9) % 2**32, (second + 0xBB67AE85) % 2**32
    return a
