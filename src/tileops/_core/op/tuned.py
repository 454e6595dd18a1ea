"""Tuned mode: asked for once, kept for good, passed on to whatever is built or held later."""

from __future__ import annotations

import warnings

from tileops._core.op.entries import kernels_in
from tileops._core.op.records import Records


class Tuned(Records):
    """How an op enters tuned mode."""

    def request_tune(self) -> None:
        """Tune every kernel of the op, its sub-ops and its gradients, later ones included.

        Kernels of a target are out of reach, which is said once per instance.
        """
        self._demand_constructed()
        with self._build_lock:
            self._tune_requested = True
            if self._is_target_served():
                self._warn_untunable()
            entries = self._all_entries()
            backward = self._backward_op
        for entry in entries:
            for kernel in kernels_in(entry):
                kernel.request_tune()
        for op in self.held_delegates():
            op.request_tune()
        if backward is not None:
            backward.request_tune()

    def _warn_untunable(self) -> None:
        with self._build_lock:
            if self._tune_warned:
                return
            self._tune_warned = True
        warnings.warn(
            f"{self._name}: tuning does not reach the kernels of target {self._serving_target!r}",
            UserWarning,
            stacklevel=3,
        )
