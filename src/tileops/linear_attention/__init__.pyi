"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from torch import Tensor

from tileops.linear_attention.ops import chunked as _chunked
from tileops.linear_attention.ops import decode as _decode
from tileops.linear_attention.ops import forward as _forward
from tileops.linear_attention.ops import gradients as _gradients

__all__ = [
    "DeltaNetAutogradFwdOp",
    "DeltaNetBwdOp",
    "DeltaNetDecodeFwdOp",
    "DeltaNetFwdOp",
    "DeltaNetInferenceBwdOp",
    "DeltaNetInferenceFwdOp",
    "GLABwdOp",
    "GLADecodeFwdOp",
    "GLAFwdOp",
    "GLAInferenceBwdOp",
    "GLAInferenceFwdOp",
    "GatedDeltaNetBwdOp",
    "GatedDeltaNetFwdOp",
    "KimiDeltaAttentionBwdOp",
    "KimiDeltaAttentionFwdOp",
]

class DeltaNetAutogradFwdOp(_chunked.DeltaNetAutogradFwdOp):
    """The delta rule in chunks, as `DeltaNetFwdOp`, of which it returns `o` alone.

    What the gradients reuse lives as long as autograd may ask for them; without gradients it is
    dropped at once.
    """

    def __init__(self, chunk_size: int = 64, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            chunk_size: `int`, 64
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, H, L, DK]`
            k: `T[B, H, L, DK]`
            v: `T[B, H, L, DV]`
            beta: `T[B, H, L]`

        Calls return:
            o: `T[B, H, L, DV]`
        """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
        """Call the op.

        Args:
            q: `T[B, H, L, DK]`
            k: `T[B, H, L, DK]`
            v: `T[B, H, L, DV]`
            beta: `T[B, H, L]`

        Returns:
            o: `T[B, H, L, DV]`

        ∀ B, H, L, DK, DV : Dim, T ∈ {float16, bfloat16, float32}
        let NC = L // chunk_size
        where B > 0 and H > 0 and L > 0 and DK > 0 and DV > 0
          and chunk_size > 0 and L % chunk_size == 0
        """

class DeltaNetBwdOp(_chunked.DeltaNetBwdOp):
    """Gradients of `DeltaNetFwdOp`: returns `(dq, dk, dv, dbeta)`.

    Each chunk starts from the state that `S` holds of it; of `Aw` and `Au` only what lies below the
    diagonal is read. Sums are float32 and rounded once.

    Source: the derivative of the forward op.
    """

    def __init__(self, chunk_size: int = 64, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            chunk_size: `int`, 64
            target: what serves the instance; by default the device decides

        Calls take:
            do: `T[B, H, L, DV]`
            q: `T[B, H, L, DK]`
            k: `T[B, H, L, DK]`
            v: `T[B, H, L, DV]`
            beta: `T[B, H, L]`
            S: `float32[B, H, NC + 1, DK, DV]`
            Aw: `T[B, H, L, chunk_size]`
            Au: `T[B, H, L, chunk_size]`
            w: `T[B, H, L, DK]`
            u: `T[B, H, L, DV]`

        Calls return:
            dq: `T[B, H, L, DK]`
            dk: `T[B, H, L, DK]`
            dv: `T[B, H, L, DV]`
            dbeta: `T[B, H, L]`
        """

    def __call__(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        S: Tensor,
        Aw: Tensor,
        Au: Tensor,
        w: Tensor,
        u: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            do: `T[B, H, L, DV]`
            q: `T[B, H, L, DK]`
            k: `T[B, H, L, DK]`
            v: `T[B, H, L, DV]`
            beta: `T[B, H, L]`
            S: `float32[B, H, NC + 1, DK, DV]`
            Aw: `T[B, H, L, chunk_size]`
            Au: `T[B, H, L, chunk_size]`
            w: `T[B, H, L, DK]`
            u: `T[B, H, L, DV]`

        Returns:
            dq: `T[B, H, L, DK]`
            dk: `T[B, H, L, DK]`
            dv: `T[B, H, L, DV]`
            dbeta: `T[B, H, L]`

        ∀ B, H, L, DK, DV : Dim, T ∈ {float16, bfloat16, float32}
        let NC = L // chunk_size
        where B > 0 and H > 0 and L > 0 and DK > 0 and DV > 0
          and chunk_size > 0 and L % chunk_size == 0
        """

class DeltaNetDecodeFwdOp(_decode.DeltaNetDecodeFwdOp):
    """One token of the delta rule, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = qᵀ S`: `(o, new_state)`.

    The state that is given stays as it is. Arithmetic is float32; the new state is rounded once.
    Source: DeltaNet, Yang et al. 2024.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, H, DK]`
            k: `T[B, H, DK]`
            v: `T[B, H, DV]`
            beta: `T[B, H]`
            state: `T[B, H, DK, DV]`

        Calls return:
            o: `T[B, H, DV]`
            new_state: `T[B, H, DK, DV]`
        """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, H, DK]`
            k: `T[B, H, DK]`
            v: `T[B, H, DV]`
            beta: `T[B, H]`
            state: `T[B, H, DK, DV]`

        Returns:
            o: `T[B, H, DV]`
            new_state: `T[B, H, DK, DV]`

        ∀ B, H, DK, DV : Dim, T ∈ {float16, bfloat16, float32}
        where B > 0 and H > 0 and DK > 0 and DV > 0
        """

class DeltaNetFwdOp(_chunked.DeltaNetFwdOp):
    """The delta rule in chunks, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = qᵀ S`, from a state of zeros.

    Returns `(o, S, Aw, Au, w, u)`. `S` holds the states at the bounds of chunks. With
    `A = (1 + tril(beta k kᵀ, -1))⁻¹` of each chunk, `Aw` and `Au` are `A`, `w = A (beta k)` and
    `u = A (beta v)`: what `DeltaNetBwdOp` reuses. Arithmetic is float32. There is a gradient
    through `o` only.

    Source: Yang et al., Parallelizing Linear Transformers with the Delta Rule over Sequence
    Length, 2024.
    """

    def __init__(self, chunk_size: int = 64, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            chunk_size: `int`, 64
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, H, L, DK]`
            k: `T[B, H, L, DK]`
            v: `T[B, H, L, DV]`
            beta: `T[B, H, L]`

        Calls return:
            o: `T[B, H, L, DV]`
            S: `float32[B, H, NC + 1, DK, DV]`
            Aw: `T[B, H, L, chunk_size]`
            Au: `T[B, H, L, chunk_size]`
            w: `T[B, H, L, DK]`
            u: `T[B, H, L, DV]`
        """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, H, L, DK]`
            k: `T[B, H, L, DK]`
            v: `T[B, H, L, DV]`
            beta: `T[B, H, L]`

        Returns:
            o: `T[B, H, L, DV]`
            S: `float32[B, H, NC + 1, DK, DV]`
            Aw: `T[B, H, L, chunk_size]`
            Au: `T[B, H, L, chunk_size]`
            w: `T[B, H, L, DK]`
            u: `T[B, H, L, DV]`

        ∀ B, H, L, DK, DV : Dim, T ∈ {float16, bfloat16, float32}
        let NC = L // chunk_size
        where B > 0 and H > 0 and L > 0 and DK > 0 and DV > 0
          and chunk_size > 0 and L % chunk_size == 0
        """

class DeltaNetInferenceBwdOp(_gradients.DeltaNetInferenceBwdOp):
    """Gradients of `DeltaNetInferenceFwdOp`: returns `(dq, dk, dv, dbeta, dinitial_state)`.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            use_qk_l2norm_in_kernel: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            do: `T[B, S, H, V]`
            dfinal_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            beta: `T[B, S, H]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Calls return:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dv: `T[B, S, H, V]`
            dbeta: `T[B, S, H]`
            dinitial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`, None unless present(initial_state)
        """

    def __call__(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Call the op.

        Args:
            do: `T[B, S, H, V]`
            dfinal_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            beta: `T[B, S, H]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Returns:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dv: `T[B, S, H, V]`
            dbeta: `T[B, S, H]`
            dinitial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`, None unless present(initial_state)

        ∀ B, S, H, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type State[packed: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed
          false ⇒ [B, H, K, V]
          true ⇒ [N, H, K, V]
        where K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
          and not present(scale) or -inf < scale.value and scale.value < inf
        """

class DeltaNetInferenceFwdOp(_forward.DeltaNetInferenceFwdOp):
    """The delta rule, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = scale * qᵀ S`.

    States, packing and flags are those of `GatedDeltaNetFwdOp`. Source: DeltaNet, Yang et al. 2024.
    """

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            use_qk_l2norm_in_kernel: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            beta: `T[B, S, H]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Calls return:
            o: `T[B, S, H, V]`
            final_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
        """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            beta: `T[B, S, H]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Returns:
            o: `T[B, S, H, V]`
            final_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`

        ∀ B, S, H, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type State[packed: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed
          false ⇒ [B, H, K, V]
          true ⇒ [N, H, K, V]
        where K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
          and not present(scale) or -inf < scale.value and scale.value < inf
        """

class GLABwdOp(_chunked.GLABwdOp):
    """Gradients of `GLAFwdOp`: returns `(dq, dk, dg, dv)`, float32.

    Each chunk starts from the state that `h` holds of it, the first from zeros unless
    `has_initial_state`; the last state is not read. `dht` is the gradient of the final state, and
    `scale` is `DK ** -0.5` unless above 0. Source: the derivative of the forward op.
    """

    def __init__(
        self,
        chunk_size: int = 64,
        scale: float = -1.0,
        has_initial_state: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            chunk_size: `int`, 64
            scale: `float`, -1.0
            has_initial_state: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, DK]`
            k: `T[B, S, H, DK]`
            v: `T[B, S, H, DV]`
            g: `T[B, S, H, DK]`
            h: `float32[B, NC + 1, H, DK, DV]`
            do: `T[B, S, H, DV]`
            dht: `float32[B, H, DK, DV]`

        Calls return:
            dq: `float32[B, S, H, DK]`
            dk: `float32[B, S, H, DK]`
            dg: `float32[B, S, H, DK]`
            dv: `float32[B, S, H, DV]`
        """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, h: Tensor, do: Tensor, dht: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, DK]`
            k: `T[B, S, H, DK]`
            v: `T[B, S, H, DV]`
            g: `T[B, S, H, DK]`
            h: `float32[B, NC + 1, H, DK, DV]`
            do: `T[B, S, H, DV]`
            dht: `float32[B, H, DK, DV]`

        Returns:
            dq: `float32[B, S, H, DK]`
            dk: `float32[B, S, H, DK]`
            dg: `float32[B, S, H, DK]`
            dv: `float32[B, S, H, DV]`

        ∀ B, S, H, DK, DV : Dim, T ∈ {float16, bfloat16, float32}
        let NC = S // chunk_size
        where B > 0 and S > 0 and H > 0 and DK > 0 and DV > 0
          and chunk_size > 0 and S % chunk_size == 0
        """

class GLADecodeFwdOp(_decode.GLADecodeFwdOp):
    """One token of gated linear attention, `S ← diag(exp(gk)) S + k vᵀ`, `o = scale * qᵀ S`.

    Returns `(o, new_state)`; the state that is given stays as it is. `scale` is `DK ** -0.5` unless
    above 0. Arithmetic is float32; the new state is rounded once. Source: Yang et al. 2023.
    """

    def __init__(self, scale: float = -1.0, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            scale: `float`, -1.0
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, H, DK]`
            k: `T[B, H, DK]`
            gk: `T[B, H, DK]`
            v: `T[B, H, DV]`
            state: `T[B, H, DK, DV]`

        Calls return:
            o: `T[B, H, DV]`
            new_state: `T[B, H, DK, DV]`
        """

    def __call__(
        self, q: Tensor, k: Tensor, gk: Tensor, v: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, H, DK]`
            k: `T[B, H, DK]`
            gk: `T[B, H, DK]`
            v: `T[B, H, DV]`
            state: `T[B, H, DK, DV]`

        Returns:
            o: `T[B, H, DV]`
            new_state: `T[B, H, DK, DV]`

        ∀ B, H, DK, DV : Dim, T ∈ {float16, bfloat16, float32}
        where B > 0 and H > 0 and DK > 0 and DV > 0
        """

class GLAFwdOp(_chunked.GLAFwdOp):
    """Gated linear attention in chunks, `S ← diag(exp(g)) S + k vᵀ`, `o = scale * qᵀ S`.

    Returns `(o, final_state)`. `scale` is `DK ** -0.5` unless above 0; the initial state is zeros
    unless given. Arithmetic is float32. Autograd goes through `GLAInferenceFwdOp`, which forms the
    states again; `GLABwdOp` takes them. Source: Yang et al. 2023.
    """

    def __init__(
        self, chunk_size: int = 64, scale: float = -1.0, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            chunk_size: `int`, 64
            scale: `float`, -1.0
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, DK]`
            k: `T[B, S, H, DK]`
            v: `T[B, S, H, DV]`
            g: `T[B, S, H, DK]`
            initial_state: `float32[B, H, DK, DV]`

        Calls return:
            o: `T[B, S, H, DV]`
            final_state: `float32[B, H, DK, DV]`
        """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, initial_state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, DK]`
            k: `T[B, S, H, DK]`
            v: `T[B, S, H, DV]`
            g: `T[B, S, H, DK]`
            initial_state: `float32[B, H, DK, DV]`

        Returns:
            o: `T[B, S, H, DV]`
            final_state: `float32[B, H, DK, DV]`

        ∀ B, S, H, DK, DV : Dim, T ∈ {float16, bfloat16, float32}
        where B > 0 and S > 0 and H > 0 and DK > 0 and DV > 0
          and chunk_size > 0 and S % chunk_size == 0
        """

class GLAInferenceBwdOp(_gradients.GLAInferenceBwdOp):
    """Gradients of `GLAInferenceFwdOp`: returns `(dq, dk, dg, dv, dinitial_state)`.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """

    def __init__(self, scale: float | None = None, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            do: `T[B, S, H, V]`
            dfinal_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            g: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Calls return:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dg: `T[B, S, H, K]`
            dv: `T[B, S, H, V]`
            dinitial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`, None unless present(initial_state)
        """

    def __call__(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        g: Tensor,
        v: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Call the op.

        Args:
            do: `T[B, S, H, V]`
            dfinal_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            g: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Returns:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dg: `T[B, S, H, K]`
            dv: `T[B, S, H, V]`
            dinitial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`, None unless present(initial_state)

        ∀ B, S, H, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type State[packed: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed
          false ⇒ [B, H, K, V]
          true ⇒ [N, H, K, V]
        where K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
        """

class GLAInferenceFwdOp(_forward.GLAInferenceFwdOp):
    """Gated linear attention, `S ← diag(exp(g)) S + k vᵀ`, `o = scale * qᵀ S`.

    States and packing are those of `GatedDeltaNetFwdOp`. Source: Yang et al. 2023.
    """

    def __init__(self, scale: float | None = None, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            g: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Calls return:
            o: `T[B, S, H, V]`
            final_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
        """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        g: Tensor,
        v: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            g: `T[B, S, H, K]`
            v: `T[B, S, H, V]`
            initial_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)

        Returns:
            o: `T[B, S, H, V]`
            final_state: `float32 State[present(cu_seqlens), B, N, H, K, V]`

        ∀ B, S, H, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type State[packed: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed
          false ⇒ [B, H, K, V]
          true ⇒ [N, H, K, V]
        where K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
        """

class GatedDeltaNetBwdOp(_gradients.GatedDeltaNetBwdOp):
    """Gradients of `GatedDeltaNetFwdOp`: of its tensors in the order of its inputs.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False,
        state_v_first: bool = False,
        use_gate_in_kernel: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            use_qk_l2norm_in_kernel: `bool`, False
            use_beta_sigmoid_in_kernel: `bool`, False
            allow_neg_eigval: `bool`, False
            state_v_first: `bool`, False
            use_gate_in_kernel: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            do: `T[B, S, HV, V]`
            dfinal_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV]`, given exactly when use_gate_in_kernel

        Calls return:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dv: `T[B, S, HV, V]`
            dg: `T[B, S, HV]`
            dbeta: `T[B, S, HV]`
            dinitial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`, None unless present(initial_state)
            dA_log: `float32[HV]`, None unless use_gate_in_kernel
            ddt_bias: `float32[HV]`, None unless use_gate_in_kernel
        """

    def __call__(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
        A_log: Tensor | None = None,
        dt_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """Call the op.

        Args:
            do: `T[B, S, HV, V]`
            dfinal_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV]`, given exactly when use_gate_in_kernel

        Returns:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dv: `T[B, S, HV, V]`
            dg: `T[B, S, HV]`
            dbeta: `T[B, S, HV]`
            dinitial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`, None unless present(initial_state)
            dA_log: `float32[HV]`, None unless use_gate_in_kernel
            ddt_bias: `float32[HV]`, None unless use_gate_in_kernel

        ∀ B, S, H, HV, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type StateV[packed: Bool, vf: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed, vf
          false, false ⇒ [B, H, K, V]
          false, true ⇒ [B, H, V, K]
          true, false ⇒ [N, H, K, V]
          true, true ⇒ [N, H, V, K]
        where H > 0 and HV % H == 0
          and K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
          and not allow_neg_eigval or use_beta_sigmoid_in_kernel
          and not present(scale) or -inf < scale.value and scale.value < inf
        """

class GatedDeltaNetFwdOp(_forward.GatedDeltaNetFwdOp):
    """The gated delta rule, `S ← exp(g) S`, `S ← S + beta k (v - kᵀ S)ᵀ`, `o = scale * qᵀ S`.

    One state for each value head, which uses the query and key head `hv // (HV / H)`; `scale` is
    `K ** -0.5` unless given. `use_qk_l2norm_in_kernel` divides q and k by their lengths,
    `use_beta_sigmoid_in_kernel` passes `beta` through a sigmoid, doubled by `allow_neg_eigval`,
    `use_gate_in_kernel` makes the log decay `-exp(A_log) softplus(g + dt_bias)` of a raw `g`, and
    `state_v_first` stores states as `[V, K]`.

    `cu_seqlens` packs sequences into the one batch entry, each with a state; `cu_seqlens_cpu` is a
    copy of them on the host, which a kernel may plan by. An empty sequence keeps its state.

    Source: Gated DeltaNet, Yang et al. 2024; flash-linear-attention.
    """

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False,
        state_v_first: bool = False,
        use_gate_in_kernel: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            use_qk_l2norm_in_kernel: `bool`, False
            use_beta_sigmoid_in_kernel: `bool`, False
            allow_neg_eigval: `bool`, False
            state_v_first: `bool`, False
            use_gate_in_kernel: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV]`, given exactly when use_gate_in_kernel

        Calls return:
            o: `T[B, S, HV, V]`
            final_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
        """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
        A_log: Tensor | None = None,
        dt_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV]`, given exactly when use_gate_in_kernel

        Returns:
            o: `T[B, S, HV, V]`
            final_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`

        ∀ B, S, H, HV, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type StateV[packed: Bool, vf: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed, vf
          false, false ⇒ [B, H, K, V]
          false, true ⇒ [B, H, V, K]
          true, false ⇒ [N, H, K, V]
          true, true ⇒ [N, H, V, K]
        where H > 0 and HV % H == 0
          and K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
          and not allow_neg_eigval or use_beta_sigmoid_in_kernel
          and not present(scale) or -inf < scale.value and scale.value < inf
        """

class KimiDeltaAttentionBwdOp(_gradients.KimiDeltaAttentionBwdOp):
    """Gradients of `KimiDeltaAttentionFwdOp`: of its tensors in the order of its inputs.

    Gradients of tensors that are left out are None. Sums are float32 and rounded once. Source: the
    derivative of the forward op.
    """

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False,
        state_v_first: bool = False,
        use_gate_in_kernel: bool = False,
        lower_bound: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            use_qk_l2norm_in_kernel: `bool`, False
            use_beta_sigmoid_in_kernel: `bool`, False
            allow_neg_eigval: `bool`, False
            state_v_first: `bool`, False
            use_gate_in_kernel: `bool`, False
            lower_bound: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            do: `T[B, S, HV, V]`
            dfinal_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV, K]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV * K]`

        Calls return:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dv: `T[B, S, HV, V]`
            dg: `T[B, S, HV, K]`
            dbeta: `T[B, S, HV]`
            dinitial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`, None unless present(initial_state)
            dA_log: `float32[HV]`, None unless use_gate_in_kernel
            ddt_bias: `float32[HV * K]`, None unless present(dt_bias)
        """

    def __call__(
        self,
        do: Tensor,
        dfinal_state: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
        A_log: Tensor | None = None,
        dt_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
        """Call the op.

        Args:
            do: `T[B, S, HV, V]`
            dfinal_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV, K]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV * K]`

        Returns:
            dq: `T[B, S, H, K]`
            dk: `T[B, S, H, K]`
            dv: `T[B, S, HV, V]`
            dg: `T[B, S, HV, K]`
            dbeta: `T[B, S, HV]`
            dinitial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`, None unless present(initial_state)
            dA_log: `float32[HV]`, None unless use_gate_in_kernel
            ddt_bias: `float32[HV * K]`, None unless present(dt_bias)

        ∀ B, S, H, HV, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type StateV[packed: Bool, vf: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed, vf
          false, false ⇒ [B, H, K, V]
          false, true ⇒ [B, H, V, K]
          true, false ⇒ [N, H, K, V]
          true, true ⇒ [N, H, V, K]
        where H > 0 and HV % H == 0
          and K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
          and not allow_neg_eigval or use_beta_sigmoid_in_kernel
          and not present(dt_bias) or use_gate_in_kernel
          and not present(lower_bound) or use_gate_in_kernel
        """

class KimiDeltaAttentionFwdOp(_forward.KimiDeltaAttentionFwdOp):
    """The gated delta rule with a decay for each channel of the key, `S ← diag(exp(g)) S`.

    Flags are those of `GatedDeltaNetFwdOp`; with a `lower_bound` the log decay of a raw gate is
    `lower_bound * sigmoid(exp(A_log) (g + dt_bias))`. Source: Kimi Linear, 2025.
    """

    def __init__(
        self,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        use_beta_sigmoid_in_kernel: bool = False,
        allow_neg_eigval: bool = False,
        state_v_first: bool = False,
        use_gate_in_kernel: bool = False,
        lower_bound: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            scale: `float | None`, None
            use_qk_l2norm_in_kernel: `bool`, False
            use_beta_sigmoid_in_kernel: `bool`, False
            allow_neg_eigval: `bool`, False
            state_v_first: `bool`, False
            use_gate_in_kernel: `bool`, False
            lower_bound: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV, K]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV * K]`

        Calls return:
            o: `T[B, S, HV, V]`
            final_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
        """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor,
        beta: Tensor,
        initial_state: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cu_seqlens_cpu: Tensor | None = None,
        A_log: Tensor | None = None,
        dt_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, K]`
            k: `T[B, S, H, K]`
            v: `T[B, S, HV, V]`
            g: `T[B, S, HV, K]`
            beta: `T[B, S, HV]`
            initial_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`
            cu_seqlens: `int64[N + 1]`, prefix_offsets(S)
            cu_seqlens_cpu: `int64[N + 1]`, on the CPU; prefix_offsets(S)
            A_log: `float32[HV]`, given exactly when use_gate_in_kernel
            dt_bias: `float32[HV * K]`

        Returns:
            o: `T[B, S, HV, V]`
            final_state: `float32 StateV[present(cu_seqlens), state_v_first, B, N, HV, K, V]`

        ∀ B, S, H, HV, K, V, N : Dim, T ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        type StateV[packed: Bool, vf: Bool, B: Dim, N: Dim, H: Dim, K: Dim, V: Dim] = match packed, vf
          false, false ⇒ [B, H, K, V]
          false, true ⇒ [B, H, V, K]
          true, false ⇒ [N, H, K, V]
          true, true ⇒ [N, H, V, K]
        where H > 0 and HV % H == 0
          and K > 0 and V > 0
          and not present(cu_seqlens_cpu) or present(cu_seqlens)
          and not present(cu_seqlens) or B == 1
          and not allow_neg_eigval or use_beta_sigmoid_in_kernel
          and not present(dt_bias) or use_gate_in_kernel
          and not present(lower_bound) or use_gate_in_kernel
        """
