"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from torch import Tensor

from tileops.linear_attention.ops import forward as _forward
from tileops.linear_attention.ops import gradients as _gradients

__all__ = [
    "DeltaNetInferenceBwdOp",
    "DeltaNetInferenceFwdOp",
    "GLAInferenceBwdOp",
    "GLAInferenceFwdOp",
    "GatedDeltaNetBwdOp",
    "GatedDeltaNetFwdOp",
    "KimiDeltaAttentionBwdOp",
    "KimiDeltaAttentionFwdOp",
]

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
