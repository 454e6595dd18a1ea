"""Tuned mode: asked for once, kept for good, passed on to whatever is built or held later."""

from __future__ import annotations

import warnings
from typing import Any

from tileops._core.op.records import Records
from tileops._core.op.walk import each_once


class Tuned(Records):
    """How an op enters tuned mode."""

    def request_tune(self) -> None:
        """Tune every kernel of the op, its sub-ops and its gradients, later ones included.

        Kernels of a target are out of reach, which is said once per instance.
        """
        self._demand_constructed()
        for op in each_once(self, _tuned_below):
            op._enter_tuned_mode()

    def _enter_tuned_mode(self) -> None:
        """Tune the kernels of this op alone."""
        # First, since what is built from here on asks for itself.
        self._tune_requested = True
        if self._is_target_served():
            self._warn_untunable()
        for kernel in self._own_kernels():
            kernel.request_tune()

    def _warn_untunable(self) -> None:
        with self._build_lock:
            if self._tune_warned:
                return
            self._tune_warned = True
        warnings.warn(
            f"{self._name}: tuning does not reach the kernels of target {self._serving_target!r}",
            UserWarning,
            stacklevel=4,
        )


def _tuned_below(op: Tuned) -> list[Any]:
    """What an op's tuned mode is passed on to."""
    gradients = op._backward_op
    return [*op.held_delegates(), *(() if gradients is None else (gradients,))]
