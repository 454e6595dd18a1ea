"""Linear attention in chunks of a given length, as training calls it, and its gradients."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.linear_attention.kernels import (
    DeltaChunksBwdInterface,
    DeltaChunksBwdPortableKernel,
    DeltaChunksCall,
    DeltaChunksFwdInterface,
    DeltaChunksKernel,
    DeltaChunksPortableKernel,
    GatedChunksBwdInterface,
    GatedChunksBwdPortableKernel,
    GatedChunksCall,
    StateRecurrenceFwdInterface,
    StateRecurrencePortableKernel,
    StateRecurrenceTokensKernel,
)
from tileops.linear_attention.ops.recurrence import TrainedLinearOp

__all__ = [
    "DeltaNetFwdOp",
    "DeltaNetBwdOp",
    "DeltaNetAutogradFwdOp",
    "GLAFwdOp",
    "GLABwdOp",
]


class _DeltaChunksOp(Op):
    """The delta rule in chunks, or its gradients."""

    def __init__(self, chunk_size: int = 64, *, target: str | None = None) -> None:
        self.chunk_size = chunk_size
        super().__init__(target=target)

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])

    def _call(self, q: Tensor, v: Tensor) -> DeltaChunksCall:
        """The call spec of these tensors."""
        return DeltaChunksCall(
            key_dim=q.shape[3],
            value_dim=v.shape[3],
            chunk=self.chunk_size,
            dtype=q.dtype,
            device=q.device,
        )


class DeltaNetFwdOp(_DeltaChunksOp):
    """The delta rule in chunks, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = qᵀ S`, from a state of zeros.

    Returns `(o, S, Aw, Au, w, u)`. `S` holds the states at the bounds of chunks. With
    `A = (1 + tril(beta k kᵀ, -1))⁻¹` of each chunk, `Aw` and `Au` are `A`, `w = A (beta k)` and
    `u = A (beta v)`: what `DeltaNetBwdOp` reuses. Arithmetic is float32. There is a gradient
    through `o` only.

    Source: Yang et al., Parallelizing Linear Transformers with the Delta Rule over Sequence
    Length, 2024.
    """

    kernel_types = {"chunks": DeltaChunksKernel, "portable": DeltaChunksPortableKernel}
    interfaces = {"delta_chunks": DeltaChunksFwdInterface}

    def forward(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        """Run each head."""
        return self.kernel_for("delta_chunks", self._call(q, v))(q, k, v, beta)


class DeltaNetBwdOp(_DeltaChunksOp):
    """Gradients of `DeltaNetFwdOp`: returns `(dq, dk, dv, dbeta)`.

    Each chunk starts from the state that `S` holds of it; of `Aw` and `Au` only what lies below the
    diagonal is read. Sums are float32 and rounded once.

    Source: the derivative of the forward op.
    """

    kernel_types = {"portable": DeltaChunksBwdPortableKernel}
    interfaces = {"delta_chunks_bwd": DeltaChunksBwdInterface}

    def forward(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        S: Tensor,  # noqa: N803
        Aw: Tensor,  # noqa: N803
        Au: Tensor,  # noqa: N803
        w: Tensor,
        u: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        kernel = self.kernel_for("delta_chunks_bwd", self._call(q, v))
        return kernel(do, q, k, v, beta, S, Aw, Au, w, u)


class DeltaNetAutogradFwdOp(_DeltaChunksOp):
    """The delta rule in chunks, as `DeltaNetFwdOp`, of which it returns `o` alone.

    What the gradients reuse lives as long as autograd may ask for them; without gradients it is
    dropped at once.
    """

    delegate_types = {"forward": DeltaNetFwdOp, "backward": DeltaNetBwdOp}

    def __init__(self, chunk_size: int = 64, *, target: str | None = None) -> None:
        super().__init__(chunk_size, target=target)
        for stage in self.delegate_types:
            self.delegate_for(stage, None, chunk_size=chunk_size)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
        """Run each head."""
        o: Tensor
        o, *_ = self.delegate_for("forward", None)(q, k, v, beta)
        return o


class GLAFwdOp(TrainedLinearOp):
    """Gated linear attention in chunks, `S ← diag(exp(g)) S + k vᵀ`, `o = scale * qᵀ S`.

    Returns `(o, final_state)`. `scale` is `DK ** -0.5` unless above 0; the initial state is zeros
    unless given. Arithmetic is float32. Autograd goes through `GLAInferenceFwdOp`, which forms the
    states again; `GLABwdOp` takes them. Source: Yang et al. 2023.
    """

    kernel_types = {
        "tokens": StateRecurrenceTokensKernel,
        "portable": StateRecurrencePortableKernel,
    }
    interfaces = {"state_recurrence": StateRecurrenceFwdInterface}

    def __init__(
        self, chunk_size: int = 64, scale: float = -1.0, *, target: str | None = None
    ) -> None:
        self.chunk_size = chunk_size
        self.scale = scale
        super().__init__(target=target)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, initial_state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run each sequence."""
        kernel = self.kernel_for("state_recurrence", self._call(q, v, initial_state))
        return kernel(q, k, v, g, None, initial_state, None, None, None, None)


class GLABwdOp(TrainedLinearOp):
    """Gradients of `GLAFwdOp`: returns `(dq, dk, dg, dv)`, float32.

    Each chunk starts from the state that `h` holds of it, the first from zeros unless
    `has_initial_state`; the last state is not read. `dht` is the gradient of the final state, and
    `scale` is `DK ** -0.5` unless above 0. Source: the derivative of the forward op.
    """

    kernel_types = {"portable": GatedChunksBwdPortableKernel}
    interfaces = {"gated_chunks_bwd": GatedChunksBwdInterface}

    def __init__(
        self,
        chunk_size: int = 64,
        scale: float = -1.0,
        has_initial_state: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        self.chunk_size = chunk_size
        self.scale = scale
        self.has_initial_state = has_initial_state
        super().__init__(target=target)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, h: Tensor, do: Tensor, dht: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        call = GatedChunksCall(
            key_dim=q.shape[3],
            value_dim=v.shape[3],
            scale=self._factor(q.shape[3]),
            chunk=self.chunk_size,
            has_initial_state=self.has_initial_state,
            dtype=q.dtype,
            device=q.device,
        )
        return self.kernel_for("gated_chunks_bwd", call)(q, k, v, g, h, do, dht)
