"""References of the sequence_modeling family: float64 from the inputs as given, rounded once."""

from __future__ import annotations

import torch
from torch import Tensor


def mhc_pre(
    phi: Tensor,
    x: Tensor,
    b: Tensor,
    *,
    alpha_pre: float,
    alpha_post: float,
    alpha_res: float,
    sinkhorn_repeat: int,
    sinkhorn_eps: float = 0.02,
) -> tuple[Tensor, Tensor, Tensor]:
    """The mixed stream, the layer's input and the gates of its result, a token at a time."""
    n = round((1 + phi.shape[1]) ** 0.5) - 1
    mixed, layer, gates = [], [], []
    for token in x.double():
        r = token.square().mean().sqrt() + 1e-4
        h = token @ phi.double() / r
        pre = torch.sigmoid(alpha_pre * h[:n] + b[:n])
        gates.append(2 * torch.sigmoid(alpha_post * h[n : 2 * n] + b[n : 2 * n]))
        logits = (alpha_res * h[2 * n :] + b[2 * n :]).view(n, n)
        matrix = torch.exp(logits - logits.amax(1, keepdim=True))
        for _ in range(sinkhorn_repeat):
            matrix = matrix / (matrix.sum(1, keepdim=True) + sinkhorn_eps)
            matrix = matrix / (matrix.sum(0, keepdim=True) + sinkhorn_eps)
        copies = token.view(n, -1)
        mixed.append((matrix @ copies).flatten())
        layer.append(pre @ copies)
    return (
        torch.stack(mixed).to(x.dtype),
        torch.stack(layer).to(x.dtype),
        torch.stack(gates).float(),
    )


def mhc_post(x_layer_out: Tensor, h_post: Tensor, x_res: Tensor) -> Tensor:
    """The layer's result times the gate of each copy, added to the stream."""
    spread = h_post.double()[:, :, None] * x_layer_out.double()[:, None]
    return (x_res.double() + spread.flatten(1)).to(x_res.dtype)
