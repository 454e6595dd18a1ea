"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from torch import Tensor

from tileops.sampling import ops as _ops

__all__ = [
    "MinPMaskFwdOp",
    "SamplingFromProbsFwdOp",
    "TopKMaskFwdOp",
    "TopKTopPMaskFwdOp",
    "TopPMaskFwdOp",
]

class MinPMaskFwdOp(_ops.MinPMaskFwdOp):
    """Keep the logits of each row that are at least `max + log(min_p)`, compared in float32.

    `min_p = 0` masks nothing, `min_p = 1` keeps the maxima only.

    Source: min-p sampling as vLLM has it.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            logits: `T[B, V]`
            min_p: `float32[B]`

        Calls return:
            masked_logits: `T[B, V]`
        """

    def __call__(self, logits: Tensor, min_p: Tensor) -> Tensor:
        """Call the op.

        Args:
            logits: `T[B, V]`
            min_p: `float32[B]`

        Returns:
            masked_logits: `T[B, V]`

        ∀ B, V : Dim, T ∈ {float16, bfloat16, float32}
        where V > 0
        """

class SamplingFromProbsFwdOp(_ops.SamplingFromProbsFwdOp):
    """Draw a place of each row with probability in proportion to its weight.

    It is the first whose running sum exceeds `u` times the row's sum, `u` in `[0, 1)` being drawn
    by Philox4x32-10 from `seed`, `offset` and the row's number: the same state gives the same draw
    of a row, whatever the other rows hold. Weights below 0 count as 0, which is never drawn; a row
    without any other gives its last place.

    Source: FlashInfer's `sampling_from_probs`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            probs: `float32[B, V]`
            seed: `int64[1]`
            offset: `int64[1]`

        Calls return:
            samples: `int32[B]`
        """

    def __call__(self, probs: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        """Call the op.

        Args:
            probs: `float32[B, V]`
            seed: `int64[1]`
            offset: `int64[1]`

        Returns:
            samples: `int32[B]`

        ∀ B, V : Dim
        """

class TopKMaskFwdOp(_ops.TopKMaskFwdOp):
    """Keep the `k` largest logits of each row and all that equal the last of them.

    `k` is positive; from the row's length on it leaves the row untouched. Below, a NaN counts as
    larger than all numbers, and is masked.

    Source: FlashInfer's `top_k_mask_logits`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            logits: `T[B, V]`
            k: `int32[B]`, in_range(1, 2147483648)

        Calls return:
            masked_logits: `T[B, V]`
        """

    def __call__(self, logits: Tensor, k: Tensor) -> Tensor:
        """Call the op.

        Args:
            logits: `T[B, V]`
            k: `int32[B]`, in_range(1, 2147483648)

        Returns:
            masked_logits: `T[B, V]`

        ∀ B, V : Dim, T ∈ {float16, bfloat16, float32}, k_list : Seq[Int]
        """

class TopKTopPMaskFwdOp(_ops.TopKTopPMaskFwdOp):
    """`TopPMaskFwdOp` on what `TopKMaskFwdOp` leaves, with probabilities over the survivors.

    Source: FlashInfer's `top_k_mask_logits` and `top_p_renorm_probs`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            logits: `T[B, V]`
            k: `int32[B]`, in_range(1, 2147483648)
            p: `float32[B]`

        Calls return:
            masked_logits: `T[B, V]`
        """

    def __call__(self, logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
        """Call the op.

        Args:
            logits: `T[B, V]`
            k: `int32[B]`, in_range(1, 2147483648)
            p: `float32[B]`

        Returns:
            masked_logits: `T[B, V]`

        ∀ B, V : Dim, T ∈ {float16, bfloat16, float32}, k_list : Seq[Int]
        where V > 0
        """

class TopPMaskFwdOp(_ops.TopPMaskFwdOp):
    """Keep each logit while the total probability of strictly larger ones is less than `p`.

    Equal logits stay or go together; `p = 0` masks the whole row, `p = 1` leaves it untouched.
    Sums of probabilities are float32 or wider. A row whose softmax is not a number, since it holds
    a NaN or infinity or nothing but -inf, is masked whole where `p < 1`.

    Source: FlashInfer's `top_p_renorm_probs`, on logits.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            logits: `T[B, V]`
            p: `float32[B]`

        Calls return:
            masked_logits: `T[B, V]`
        """

    def __call__(self, logits: Tensor, p: Tensor) -> Tensor:
        """Call the op.

        Args:
            logits: `T[B, V]`
            p: `float32[B]`

        Returns:
            masked_logits: `T[B, V]`

        ∀ B, V : Dim, T ∈ {float16, bfloat16, float32}
        where V > 0
        """
