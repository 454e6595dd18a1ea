"""Specs of tests, their classes, and what the validator finds about these."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileops
from tileops import manifest
from tileops._core.spec import registry
from tileops._core.validate.report import check_number

Spec = dict[str, Any]

SPEC: Spec = {
    "family": "norm",
    "status": "implemented",
    "signature": {
        "forall": {"N": "Dim"},
        "params": {
            "gain": {"type": "float", "default": 1.0},
            "mode": {"type": "'a' | 'b'", "default": "a", "kw_only": True},
        },
        "inputs": {
            "x": {"dtype": "float32", "shape": "[N]"},
            "w": {"dtype": "float32", "shape": "[N]", "optional": True},
        },
        "outputs": {"y": {"dtype": "float32", "shape": "[N]", "buffer": "out"}},
    },
    "workloads": [{"N": 4, "label": "four"}, {"N": 4, "some": ["w"], "label": "weighted"}],
    "roofline": {"flops": "N"},
}


@pytest.fixture(autouse=True)
def own_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Specs of the test's own beside the tree's, gone when it ends."""
    monkeypatch.setattr(registry, "_manifest", registry.manifest())


ALIVE: list[type[Any]] = []
"""Classes are found among those that live."""


def op_class(name: str, spec: Spec, **body: Any) -> type[Any]:
    """Register a spec, and define its class from a good one with some members replaced."""
    manifest.register({name: spec})

    def init(self: Any, gain: float = 1.0, *, mode: str = "a", target: Any = None) -> None:
        self.gain, self.mode = gain, mode
        tileops.Op.__init__(self, target=target)

    def forward(self: Any, x: torch.Tensor, w: Any = None, out: Any = None) -> torch.Tensor:
        return x if out is None else out

    cls = type(name, (tileops.Op,), {"__init__": init, "forward": forward, **body})
    ALIVE.append(cls)
    return cls


def findings(name: str) -> list[tuple[str, int, str]]:
    """Field, check and text of what is found about one op."""
    return [
        (found.field, check_number(found), found.message.partition("] ")[2])
        for found in manifest.validate(name).findings
    ]
