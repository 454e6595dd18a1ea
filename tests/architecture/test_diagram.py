"""Each arrow of a diagram in ARCHITECTURE.md is an import, and each such import an arrow."""

from __future__ import annotations

import re
from pathlib import Path

import grimp
import pytest

import tileops

DIAGRAM = re.compile(r"```mermaid\n(?P<body>.*?)```", re.DOTALL)
ARROW = re.compile(r"^\s*(\w+) --> ([\w &]+)$", re.MULTILINE)


def drawn(root: Path, number: int) -> set[tuple[str, str]]:
    """Arrows of the diagram with this number; `a --> b & c` is two arrows."""
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    body = [match["body"] for match in DIAGRAM.finditer(text)][number]
    return {(start, end) for start, ends in ARROW.findall(body) for end in ends.split(" & ")}


def imported(graph: grimp.ImportGraph, nodes: dict[str, str]) -> set[tuple[str, str]]:
    """Imports between different nodes; `nodes` maps a module prefix to its node."""

    def node_of(module: str) -> str | None:
        parts = module.split(".")
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((nodes[prefix] for prefix in prefixes if prefix in nodes), None)

    edges = {
        (node_of(module), node_of(target))
        for module in graph.modules
        for target in graph.find_modules_directly_imported_by(module)
    }
    return {(start, end) for start, end in edges if start and end and start != end}


def children(graph: grimp.ImportGraph, package: str) -> dict[str, str]:
    return {child: child.rpartition(".")[2] for child in graph.find_children(package)}


def test_packages_are_drawn_as_they_import(root: Path, graph: grimp.ImportGraph) -> None:
    nodes = children(graph, "tileops")
    nodes |= {f"tileops.{family}": "families" for family in tileops.FAMILIES}
    assert drawn(root, 0) == imported(graph, nodes)


def test_core_is_drawn_as_it_imports(root: Path, graph: grimp.ImportGraph) -> None:
    assert drawn(root, 1) == imported(graph, children(graph, "tileops._core"))


@pytest.mark.parametrize("prefix", ["tileops.a", "tileops.a.deep"])
def test_an_import_below_a_node_counts_for_it(prefix: str) -> None:
    graph = grimp.ImportGraph()
    graph.add_import(importer=f"{prefix}.x", imported="tileops.b.y")
    graph.add_import(importer="tileops.b.y", imported="tileops.b.z")
    assert imported(graph, {"tileops.a": "a", "tileops.b": "b"}) == {("a", "b")}
