"""Composition: holding sub-ops, and filing what they report under their stages."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from tileops._core.devices import building_on
from tileops._core.lang.values import shown
from tileops._core.locks import make_lock
from tileops._core.notes import add_note
from tileops._core.op.entries import Entries
from tileops._core.op.walk import paths_down
from tileops._core.runtime.tracing import is_compiled

if TYPE_CHECKING:
    from tileops._core.op.base import Op
    from tileops._core.op.stack import Report
    from tileops._core.runtime.record import SignatureCall


HeldOps = list[tuple[str, Hashable, Any]]
"""Sub-ops with the stages and identities under which they are held."""

_holding = make_lock()
"""Held while an op is checked and taken in, so that no two ops come to hold each other.

The innermost lock: what runs under it takes no other.
"""


class UnrunStage(tuple[Any, ...]):
    """The records of a stage that a target's kernel for the whole op leaves out: there are none."""

    target: str

    @classmethod
    def under(cls, target: str) -> UnrunStage:
        """A stage that this target leaves out."""
        stage = cls()
        stage.target = target
        return stage


class Composite(Entries):
    """The holding side of an op; an op without `delegate_types` holds nothing."""

    def delegate_for(
        self, stage: str, identity: Hashable, given: Op | None = None, /, **params: Any
    ) -> Op:
        """The sub-op held for a stage and an identity; the only way to hold one.

        Args:
            stage: a key of `delegate_types`.
            identity: every argument that changes what is built; None when construction settles
                them all.
            given: an op to hold instead of building one; it keeps its own target.
            params: constructor arguments of a sub-op that is built.

        Raises:
            KeyError: the stage is not declared.
            RuntimeError: a compiler traces the call, and nothing is held yet.
            TypeError: `given` is no op, or the identity cannot be hashed.
            ValueError: `given` is held elsewhere in this op, another op is held here, holding it
                would form a cycle, or a target that would bypass it serves the op already.
        """
        try:
            held = self._delegates[stage][identity]
        except (KeyError, TypeError, AttributeError):
            return self._hold(stage, identity, given, params)
        if given is None or given is held:
            return held
        raise ValueError(
            f"{self._name}: stage {stage!r} holds a {type(held).__name__} for the identity "
            f"{shown(identity)}; it cannot hold another {type(given).__name__} there"
        )

    def _hold(self, stage: str, identity: Hashable, given: Any, params: dict[str, Any]) -> Op:
        """Hold a sub-op that is not held yet."""
        if is_compiled():  # The identity is not shown: Dynamo cannot trace that.
            raise RuntimeError(
                f"{self._name}: stage {stage!r} holds no sub-op for this call, and a compiler "
                "cannot make one: call the op once before it is compiled"
            )
        self._demand_constructed()
        self._check_place(stage, identity)
        with self._turn((stage, identity)):
            held = self._delegates.get(stage, {}).get(identity)
            if held is not None:
                return self.delegate_for(stage, identity, given)
            if given is None:
                op = self._built_sub_op(stage, params)
                with self._build_lock:
                    self._keep(stage, identity, op)
            else:
                op = given
                with self._build_lock, _holding:
                    self._check_given(stage, identity, op)
                    self.composition_only = True  # No target bypasses what is held from here on.
                    self._keep(stage, identity, op)
            if self._tune_requested:
                op.request_tune()
            return op

    def _built_sub_op(self, stage: str, params: dict[str, Any]) -> Op:
        """A new sub-op for a stage; what its constructor raises gets a note."""
        try:
            with building_on(None):
                return self.delegate_types[stage](**params, target=self.target)
        except Exception as error:
            add_note(error, f"while {self._name} built the sub-op of its stage {stage!r}")
            raise

    def _keep(self, stage: str, identity: Hashable, op: Op) -> None:
        """Hold an op; a stage whose spec names another as its backward op gets that one."""
        self._delegate_stages[id(op)] = stage
        self._delegates.setdefault(stage, {})[identity] = op
        for beside in [ops[identity] for ops in self._delegates.values() if identity in ops]:
            for one, other in ((op, beside), (beside, op)):
                if one._spec.backward is not None and one._spec.backward.op == other._spec.name:
                    one._backward_op = other

    def _check_place(self, stage: str, identity: Hashable) -> None:
        asked: object = stage
        if not (isinstance(asked, str) and asked in self.delegate_types):
            declared = ", ".join(map(repr, self.delegate_types)) or "none"
            raise KeyError(f"{self._name} declares no stage {stage!r}; declared: {declared}")
        try:
            hash(identity)
        except TypeError as error:
            raise TypeError(
                f"{self._name}: stage {stage!r}: the identity cannot be hashed, it is a "
                f"{type(identity).__name__}"
            ) from error

    def _check_given(self, stage: str, identity: Hashable, given: Any) -> None:
        """`given` is an op that this one can hold at this place."""
        if self._is_target_served():
            raise ValueError(
                f"{self._name}: stage {stage!r} cannot take an op any more: target "
                f"{self._serving_target!r} serves this one as a whole since an earlier call"
            )
        if not isinstance(given, Composite):
            raise TypeError(
                f"{self._name}: stage {stage!r} takes an op, got a {type(given).__name__}"
            )
        for place, known, op in self._held():
            if op is given:
                raise ValueError(
                    f"{self._name}: this {type(given).__name__} is held for stage {place!r} "
                    f"and identity {shown(known)}, asked for stage {stage!r} and identity "
                    f"{shown(identity)}"
                )
        path = next((path for path in paths_down(given) if path[-1] is self), None)
        if path:
            names = " holds ".join(type(op).__name__ for op in path)
            raise ValueError(
                f"{self._name}: stage {stage!r} cannot hold an op that is or holds this one: "
                f"{names}"
            )

    def _filed(
        self, reports: list[Report], target: str | None
    ) -> Mapping[str, tuple[SignatureCall, ...]]:
        """The reported records by stage, in completion order."""
        stages: dict[str, list[SignatureCall]] = {stage: [] for stage in self.delegate_types}
        for op, record in reports:
            stage = self._delegate_stages.get(id(op))
            if stage is None:
                raise RuntimeError(
                    f"{type(op).__name__} completed a call inside a call of {self._name}, which "
                    "does not hold it: hold it through delegate_for"
                )
            stages[stage].append(record)
        if target is not None:
            return {stage: UnrunStage.under(target) for stage in stages}
        return {stage: tuple(records) for stage, records in stages.items()}

    def _held(self) -> HeldOps:
        """What is held at this instant, read without a lock, in stage and holding order."""
        self._demand_constructed()
        return [
            (stage, identity, op)
            for stage in self.delegate_types
            for identity, op in list(self._delegates.get(stage, {}).items())
        ]

    def held_delegates(self) -> tuple[Op, ...]:
        """The sub-ops that the op holds, in stage order and in order of holding."""
        return tuple(op for _, _, op in self._held())
