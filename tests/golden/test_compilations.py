"""The table of compilations in docs/compile.md has every op; `make golden` renews it.

That the last column is true is what `test_one_graph_serves_all_extents` shows.
"""

from __future__ import annotations

import re
from pathlib import Path

import tileops
from tileops._core.lang.kinds import DTypeKind
from tileops.testing.calling import class_of, construct, spec_of
from tileops.testing.choice import chosen_ops
from tileops.testing.compiling import COMPILATIONS, makes_ops_of_extents, proof_calls
from tileops.testing.shrinking import specialised

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compile.md"
TABLE = re.compile(r"(?<=<!-- compilations -->\n).*?(?=<!-- end of compilations -->)", re.DOTALL)


def row(op: str) -> str:
    """The row of an op: its operators, the indices of its signature, its compilations."""
    indices, plain = spec_of(op).signature.forall, specialised(spec_of(op))
    sizes = [
        f"`{name}`"
        for name, index in indices.items()
        if not isinstance(index.kind, DTypeKind) and name not in plain
    ]
    each = f" for each {' '.join(f'`{name}`' for name in sorted(plain))}" if plain else ""
    if spec_of(op).composition is not None:
        call = proof_calls(op)[0]
        each = " for each choice of ops" if makes_ops_of_extents(construct(call), call) else ""
    operators = len(class_of(op).compile_op_names)
    return f"| `{op}` | {operators} | {' '.join(sizes)} | {COMPILATIONS}{each} |\n"


def table() -> str:
    """The ops, family by family in the package's order."""
    ops = [op for op in chosen_ops(None) if spec_of(op).signature.inputs]
    ops.sort(key=lambda op: tileops.FAMILIES.index(spec_of(op).family or ""))
    return "| op | operators | indices | compilations |\n| --- | --- | --- | --- |\n" + "".join(
        map(row, ops)
    )


def test_the_table_of_compilations_is_complete(rewrite: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if rewrite:
        PAGE.write_text(TABLE.sub(table(), text), encoding="utf-8")
        return
    found = TABLE.search(text)
    assert found is not None
    assert found[0] == table(), "the ops have changed: run `make golden`"
