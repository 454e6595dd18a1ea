"""Lets that choose: what they may turn out to be, and which of it is something.

A let may be None on some branches, and it may be of an algebraic kind. Of an algebraic value there
are parameters only, so such a let names one of them, a payload, another let, or chooses between
these; what it stands for on a branch is the business of `facts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tileops._core.lang.nodes import Attribute, Conditional, Constant, Expr, Name
from tileops._core.lang.reads import read_name
from tileops._core.signature.discriminants import is_maybe
from tileops._core.spec.model import Param, Signature

NOTHING = Constant(None)


def arms(expr: Expr) -> Iterator[Expr]:
    """The outcomes of a choice, of choices within it too; anything else alone."""
    if isinstance(expr, Conditional):
        yield from (*arms(expr.then), *arms(expr.orelse))
    else:
        yield expr


def given(expr: Expr) -> Expr:
    """Whether the outcome of a choice is something."""
    if isinstance(expr, Conditional):
        return Conditional(expr.test, given(expr.then), given(expr.orelse))
    return Constant(expr != NOTHING)


def may_be_absent(name: str, signature: Signature) -> bool:
    """Whether a parameter or a let may be None."""
    let = signature.lets.get(name)
    if let is None:
        return is_maybe(signature.params.get(name))
    return let.node is not None and NOTHING in arms(let.node)


def is_payload(read: Attribute, signature: Signature) -> bool:
    """Whether an attribute is what something that may be absent holds, and no field."""
    owner = read.base
    return read.attr == "value" and isinstance(owner, Name) and may_be_absent(owner.id, signature)


def source(name: str, signature: Signature) -> Param | None:
    """The parameter of a name; of a let the first one that it names or chooses from."""
    entered: set[str] = set()
    pending = [name]
    while pending:
        found = pending.pop(0)
        param = signature.params.get(found)
        if isinstance(param, Param):
            return param
        let = signature.lets.get(found)
        if let is not None and let.node is not None and found not in entered:
            entered.add(found)
            pending[:0] = [n for arm in arms(let.node) for n in _named(arm, signature)]
    return None


def _named(arm: Expr, signature: Signature) -> Iterator[str]:
    """The name that an arm takes whole, or takes the payload of."""
    if isinstance(arm, Name) or (isinstance(arm, Attribute) and is_payload(arm, signature)):
        yield read_name(arm) or ""


def names_values(expr: Expr) -> bool:
    """Whether the outcomes of an algebraic expression are reads of a name or None."""
    return all(arm == NOTHING or read_name(arm) is not None for arm in arms(expr))


def of_arms(expr: Expr) -> Expr:
    """What is read of a choice, read of its arms: there, a branch decides it."""
    if not isinstance(expr, Attribute) or not isinstance(expr.base, Conditional):
        return expr
    then, orelse = (replace(expr, base=arm) for arm in (expr.base.then, expr.base.orelse))
    return replace(expr.base, then=of_arms(then), orelse=of_arms(orelse))
