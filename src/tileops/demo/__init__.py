"""The library's main job on real input: sentences to embeddings with the all-MiniLM-L6-v2 weights.

For showing that the ops carry a real model, and for measuring where its time goes. Not a serving
stack: one packed batch, no cache. `model` computes with TileOPs ops alone, `reference` with plain
PyTorch alone; the two share the weights and the token numbers, and nothing else.
"""

from __future__ import annotations

from tileops.demo.errors import DemoInputError
from tileops.demo.run import DIFFERENCE_LIMIT, DemoReport, run_demo
from tileops.demo.sentences import BUILT_IN_SENTENCES, read_sentences

__all__ = [
    "BUILT_IN_SENTENCES",
    "DIFFERENCE_LIMIT",
    "DemoInputError",
    "DemoReport",
    "read_sentences",
    "run_demo",
]
