"""Actions: steps before their guards are known, and the one order that serves every branch.

Each branch contributes a set of actions. An action says which names it reads and which one it
binds, and where it stands when nothing else decides. `schedule` puts the actions of all branches
in one list such that on each branch everything is bound before it is read; phases are kept, and
within a phase the order is that of the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tileops._core.lang.kinds import DimKind, DTypeKind, SeqKind
from tileops._core.lang.nodes import Each, Expr, Name, Present
from tileops._core.lang.walk import walk
from tileops._core.signature.facts import Facts
from tileops._core.signature.plan import CallStep, ConstructionStep
from tileops._core.spec.model import TensorInput

Step = ConstructionStep | CallStep


class Phase(IntEnum):
    """The stages of a construction and of a call, in the order in which they run."""

    PARAMS = 0
    PRESENCE = 1
    DOMAIN = 2
    DEVICES = 3
    LAYOUT = 4
    DTYPE = 5
    COMBOS = 6
    PLACE = 7
    BIND = 8
    EQUAL = 9
    LET = 10
    SIGN = 11
    REFINE = 12
    OUT = 13


LAST = 1 << 30
"""A place after all declarations of a phase."""


@dataclass(frozen=True, eq=False)
class Action:
    """A step without its guard.

    Attributes:
        order: phase and place in it.
        reads: names that must have a value; besides indices and lets, ranks that were checked.
        binds: the name that it gives a value.
        step: the step, its guard not yet set.
        near: discriminants by which its guard is best expressed.
    """

    order: tuple[int, ...]
    reads: frozenset[str]
    binds: str | None
    step: Step
    near: frozenset[str] = frozenset()


class Catalogue:
    """The actions met so far, one object for each, and what names stand for.

    Args:
        facts: what the spec's expressions are worth.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        forall = facts.signature.forall.values()
        self.dims = {i.name for i in forall if isinstance(i.kind, DimKind)}
        self.shapes = {i.name for i in forall if isinstance(i.kind, SeqKind) and not i.is_sequence}
        self.dtypes = {i.name for i in forall if isinstance(i.kind, DTypeKind)}
        self.indices = frozenset(self.dims | self.shapes | self.dtypes)
        lets = {name for name, let in facts.signature.lets.items() if let.node is not None}
        self._bindable = self.indices | (lets - facts.cyclic_lets)
        self.let_places = {name: place for place, name in enumerate(facts.signature.lets)}
        self._actions: dict[tuple[object, ...], Action] = {}
        self._names: dict[int, tuple[Expr, frozenset[str]]] = {}

    def action(self, key: tuple[object, ...], make: Callable[[], Action]) -> Action:
        """The one action of a key."""
        if key not in self._actions:
            self._actions[key] = make()
        return self._actions[key]

    def tensor_action(
        self,
        tensor: TensorInput,
        key: tuple[object, ...],
        order: tuple[int, ...],
        *,
        make: Callable[[], Step],
        reads: tuple[Expr, ...] = (),
        after: str = "",
        binds: str | None = None,
    ) -> Action:
        """An action on a tensor; `after` names the rank check that it relies on."""

        def made() -> Action:
            names = frozenset[str]().union(*map(self.names, reads))
            near = frozenset(self.facts.presence_reads(tensor.name))
            return Action(order, names | ({after} if after else set()), binds, make(), near)

        return self.action((tensor.name, after, *key), made)

    def names(self, expr: Expr) -> frozenset[str]:
        """What an expression reads that may lack a value; a presence left open is a name too."""
        kept = self._names.get(id(expr))
        if kept is None:
            kept = self._names[id(expr)] = (expr, self.values(expr) | _presences(expr))
        return kept[1]

    def values(self, expr: Expr) -> frozenset[str]:
        """The indices and lets whose values an expression reads.

        A parameter always has one, and so has, lest one fault be reported as two, a name that
        could not be read.
        """
        local = {node.variable for node in walk(expr) if isinstance(node, Each)}
        found = {node.id for node in walk(expr) if isinstance(node, Name)}
        return frozenset(found & self._bindable - local)


def _presences(expr: Expr) -> frozenset[str]:
    return frozenset(f"present({n.name})" for n in walk(expr) if isinstance(n, Present))


def schedule(actions: Mapping[Action, int], known: Mapping[str, int]) -> list[tuple[Action, int]]:
    """One order for the actions of all branches.

    Args:
        actions: the branches on which each action occurs, as a set of bits.
        known: the branches on which a name has a value from the start.

    Returns:
        The actions with the branches of each. An action stands twice only when no single place
        suits all its branches.
    """
    places = promote_lets(actions)
    waiting = dict(sorted(actions.items(), key=lambda item: places[item[0]]))
    bound = dict(known)
    ordered: list[tuple[Action, int]] = []
    while waiting:
        action, branches = _next(waiting, bound, ordered[-1:], places)
        rest = waiting[action] & ~branches
        if rest:
            waiting[action] = rest
        else:
            del waiting[action]
        ordered.append((action, branches))
        if action.binds is not None:
            bound[action.binds] = bound.get(action.binds, 0) | branches
    return ordered


def _next(
    waiting: Mapping[Action, int],
    bound: Mapping[str, int],
    last: Sequence[tuple[Action, int]],
    places: Mapping[Action, tuple[int, ...]],
) -> tuple[Action, int]:
    """The action to come after `last`, with the branches on which it is ready.

    That is the first one ready on all its branches; but one of the same declaration and the same
    branches as the last goes before others that no branch shares with it, so that what belongs to
    one condition stays together. When none is ready on all its branches, a part of one must do.
    """
    fallback: tuple[Action, int] | None = None
    first: tuple[Action, int] | None = None
    passed = 0
    for action, branches in waiting.items():
        ready = branches
        for name in action.reads:
            ready &= bound.get(name, 0)
        if ready == branches:
            joins = any(places[a][:2] == places[action][:2] and b == branches for a, b in last)
            if joins and not branches & passed:
                return action, branches
            first = first or (action, branches)
        elif ready:
            fallback = fallback or (action, ready)
        passed |= branches
        if first is not None and not any(places[a][:2] == places[action][:2] for a, _ in last):
            break
    chosen = first or fallback
    if chosen is None:
        raise AssertionError("a branch reads a name that it never binds")
    return chosen


def promote_lets(actions: Mapping[Action, int]) -> dict[Action, tuple[int, ...]]:
    """The place of every action, lets moved up to the first phase that reads them."""
    needed: dict[str, int] = {}
    pending = [(name, action.order[0]) for action in actions for name in action.reads]
    lets = [action for action in actions if action.order[0] == Phase.LET]
    while pending:
        name, phase = pending.pop()
        if phase < needed.get(name, Phase.LET):
            needed[name] = phase
            pending += [(read, phase) for let in lets if let.binds == name for read in let.reads]
    places: dict[Action, tuple[int, ...]] = {}
    for action in actions:
        phase = needed.get(action.binds or "", Phase.LET)
        moved = action.order[0] == Phase.LET and phase < Phase.LET
        places[action] = (phase, LAST, *action.order[1:]) if moved else action.order
    return places
