"""Inputs that may be left out and whose presence decides about themselves alone.

Nothing else reads whether such an input is passed, it gives no name a value and it is not written.
Whatever the other choices are, its own checks are the same, so no branch is needed to tell them
apart: it is planned as passed, and its checks stand under its presence.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from tileops._core.lang.dtypes import BITS
from tileops._core.lang.nodes import Arithmetic, Constant, Name, Node, ShapeList, Splice
from tileops._core.lang.walk import walk
from tileops._core.signature.facts import Facts
from tileops._core.signature.sites import Role, sites
from tileops._core.signature.unify import value_of
from tileops._core.spec.model import TensorInput


def independent_inputs(facts: Facts) -> frozenset[str]:
    """The names of these inputs."""
    given = {name for tensor in _always_alike(facts) for name in _gives(tensor)}
    given &= facts.signature.forall.keys()
    read = {
        name
        for site in sites(facts.spec)
        if site.node is not None and site.role not in {Role.SUBJECT, Role.CASE}
        for name in facts.reads(site.node)
    }
    return frozenset(
        tensor.name
        for tensor in facts.signature.inputs.values()
        if tensor.optional is True
        and tensor.mutated is False
        and tensor.values is None
        and tensor.name not in read
        and _reads_only(tensor, given)
    )


def _always_alike(facts: Facts) -> Iterator[TensorInput]:
    """The inputs that every call passes in one form."""
    for tensor in facts.signature.inputs.values():
        trees = (tensor.dtype.node, tensor.shape.node)
        if tensor.optional is False and not any(facts.reads(tree) for tree in trees if tree):
            yield tensor


def _gives(tensor: TensorInput) -> Iterator[str]:
    """The names that a tensor gives a value by itself: every axis is located from one side."""
    if isinstance(tensor.dtype.node, Name):
        yield tensor.dtype.node.id
    axes = tensor.shape.node.axes if isinstance(tensor.shape.node, ShapeList) else ()
    if sum(isinstance(axis, Splice) for axis in axes) <= 1:
        parts = map(value_of, axes)
        yield from (part.id for part in parts if isinstance(part, Name))


def _reads_only(tensor: TensorInput, given: Set[str]) -> bool:
    """Whether dtype and shape are made of given names, and no length could be negative."""
    dtype, shape = tensor.dtype.node, tensor.shape.node
    if not isinstance(dtype, Name) or dtype.id not in given | BITS.keys():
        return False
    return isinstance(shape, ShapeList) and all(_is_length(node, given) for node in walk(shape))


def _is_length(node: Node, given: Set[str]) -> bool:
    """Whether a part of a shape keeps it at least 0 where its names are."""
    if isinstance(node, Name):
        return node.id in given
    if isinstance(node, Arithmetic):
        return node.op in {"+", "*"}
    return isinstance(node, ShapeList | Splice | Constant)
