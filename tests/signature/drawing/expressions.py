"""Random expressions of every kind over what a case knows, all of which can be evaluated."""

from __future__ import annotations

from collections.abc import Callable

from signature.drawing.case import Case

Draw = Callable[[], str]

_COMPARED = ("mode", "side.value", "kern", "pad")
"""What comparisons narrow; compared again where one is decided, it may have nothing in common."""


def apart(a: str, b: str, instead: str = "flag") -> str:
    """`b`, for a place that `a` guards."""
    return instead if any(name in a and name in b for name in _COMPARED) else b


class Expressions:
    """Draws texts over the names that a case has so far.

    Args:
        case: the case; lengths and runs are those that are solved already.
        early: read nothing that only a call knows.
    """

    def __init__(self, case: Case, early: bool = False) -> None:
        self.case = case
        self.rng = case.rng
        self.early = early

    def _any(self, *draws: Draw | str) -> str:
        chosen = self.rng.choice(draws)
        return chosen if isinstance(chosen, str) else chosen()

    def has(self, name: str) -> bool:
        """Whether a parameter or a let is declared."""
        return name in self.case.params or name in self.case.lets

    def either(self, *texts: str) -> str:
        """One of several texts."""
        return self.rng.choice(texts)

    # Numbers

    def length(self, depth: int = 2) -> str:
        """An integer of at least 0."""
        if depth == 0:
            return self._any(*self._plain_lengths())
        a, b = (lambda: self.length(depth - 1)), (lambda: self._any(*self._plain_lengths()))
        draws: list[Draw | str] = [
            *self._plain_lengths(),
            lambda: f"{b()} + {a()}",
            lambda: f"{b()} * {self.rng.randint(0, 3)}",
            lambda: f"({a()}) // {self.rng.randint(1, 3)}",
            lambda: f"({a()}) % {self.rng.randint(1, 3)}",
            lambda: f"ceil_div({a()}, {self.rng.randint(1, 3)})",
            lambda: self._conditional(self.choice(), a(), b()),
            lambda: self._conditional(self.truth(0), a(), b()),
            lambda: f"max(({a()}, {b()}))",
            lambda: f"min(({a()}, {b()}, 6))",
            lambda: f"pool.out({a()} + 2, 2, 1, 0, 1, {self.choice(0)})",
            lambda: f"max((0, conv.out({a()}, {self.rng.randint(1, 3)}, 2, 1, 1)))",
            lambda: f"len({self.run()})",
            lambda: f"prod({self.run()})",
            lambda: f"sum({self.run()})",
            lambda: f"sum(n * 2 for n in {self.run()})",
            lambda: f"max({self.run()}, default={b()})",
        ]
        return self._any(*draws)

    @staticmethod
    def _conditional(test: str, then: str, orelse: str) -> str:
        return f"({apart(test, then, 'k')} if {test} else {apart(test, orelse, '1')})"

    def _plain_lengths(self) -> list[Draw | str]:
        draws: list[Draw | str] = [*self.case.dims, str(self.rng.randint(0, 4)), "k"]
        by_param = {
            "cap": lambda: f"(cap.value if present(cap) else {self.rng.randint(0, 3)})",
            "pad": "(0 if pad == 'same' else pad)",
            "kern": lambda: f"per_axis(kern, {self.rng.randint(0, 1)}, 2)",
            "opt": lambda: f"per_axis(opt, {self.rng.randint(0, 1)}, 2, fallback=k)",
            "lims": lambda: "(sum(lims.value) if present(lims) else 1)",
            "window": "window[-1]",
            "gaps": "len(gaps)",
            "layout": "(layout.tile if layout.kind == 'tiled' else layout.cols)",
            "store": lambda: (
                "(store.value.cols if present(store) and store.value.kind == 'dense' else 2)"
            ),
            "kept": lambda: "(kept.tile if kept.kind == 'tiled' else kept.cols)",
            "pick": lambda: (
                "(pick.value.cols if present(pick) and pick.value.kind == 'dense' else 2)"
            ),
            "groups": lambda: self._capacity("groups"),
            "plan": lambda: self._capacity("plan"),
            "rest": lambda: self.either(
                "per_axis(rest, 0, 2, k)", "(rest.value if present(rest) else k)"
            ),
        }
        return draws + [draw for name, draw in by_param.items() if self.has(name)]

    def _capacity(self, layout: str) -> str:
        rows = self._any(*self.case.dims, "5")
        return f"moe.capacity({layout}, {rows}, {self.rng.randint(0, 3)})"

    # Runs of lengths

    def run(self) -> str:
        """A sequence of integers of at least 0."""
        draws: list[Draw | str] = [
            lambda: f"({self.length(0)}, {self.length(0)})",
            lambda: f"({self.length(0)},)",
            *self.case.runs,
            *(f"{run}[{s}]" for run in self.case.runs for s in ("1:", ":-1", "::2", "-1:")),
            *(f"broadcast({run}, (1,))" for run in self.case.runs),
            *(
                f"reduced({run}, {axes}, {keep}, '{mode}')"
                for run in self.case.runs
                if self.case.values[run]
                for axes, keep, mode in (("-1", "flag", "full"), ("(0,)", "True", "noop"))
            ),
        ]
        if self.has("size"):
            draws += ["size", "size[:1]"]
        if self.has("axes") and self.case.runs:
            draws += [
                f"reduced({run}, axes, flag, 'full')" for run in self.case.runs if self._admits(run)
            ]
        return self._any(*draws)

    def _admits(self, run: str) -> bool:
        """Whether the parameter `axes` names distinct axes of a run."""
        rank, axes = len(self.case.values[run]), self.case.values["axes"]
        listed = [axes] if isinstance(axes, int) else axes or []
        within = all(-max(rank, 1) <= axis < max(rank, 1) for axis in listed)
        return within and len({axis % max(rank, 1) for axis in listed}) == len(listed)

    # Choices, and truths

    def choice(self, depth: int = 2) -> str:
        """A truth that the discriminants decide."""
        if depth == 0:
            return self._any(*self._plain_choices())
        a = self._any(*self._plain_choices())
        return self._any(
            *self._plain_choices(),
            lambda: f"not {a}" if " " not in a else f"not ({a})",
            lambda: f"({a} and {apart(a, self.choice(depth - 1))})",
            lambda: f"({a} or {apart(a, self.choice(depth - 1))})",
            lambda: f"({a}) == ({self.choice(0)})",
            lambda: self._conditional("flag", a, self.choice(0)),
            lambda: f"({apart(a, self.choice(0))} if {a} else flag)",
        )

    def _plain_choices(self) -> list[Draw | str]:
        draws: list[Draw | str] = ["flag"]
        by_param = {
            "mode": ["mode == 'row'", "mode != 'both'", "mode in ('row', 'col')"],
            "soft": ["present(soft)", "(present(soft) and soft.value)",
                     "(not present(soft) or soft.value)"],
            "side": ["present(side)", "(present(side) and side.value == 'left')"],
            "cap": ["present(cap)"],
            "lims": ["present(lims)"],
            "wish": ["present(wish)"],
            "limit": ["present(limit)"],
            "options": ["present(options)"],
            "layout": ["layout.kind == 'dense'", "(layout.kind == 'tiled' and layout.padded)"],
            "store": ["present(store)", "(present(store) and store.value.kind == 'tiled')"],
            "groups": ["groups.kind == 'masked'",
                       "(groups.kind == 'contiguous' and groups.packing == 'tight')"],
            "kept": ["kept.kind == 'dense'", "(kept.kind == 'tiled' and kept.padded)"],
            "pick": ["present(pick)", "(present(pick) and pick.value.kind == 'tiled')",
                     "(not present(pick) or pick.value.kind != 'tiled' or pick.value.padded)"],
            "plan": ["plan.kind == 'masked'"],
            "rest": ["present(rest)"],
        }  # fmt: skip
        draws += [text for name, texts in by_param.items() if self.has(name) for text in texts]
        late = {} if self.early else {**self.case.inputs, **self.case.outputs}
        tensors = {**self.case.params, **late}
        is_free = {name for name, t in tensors.items() if "optional" in t or "nullable" in t}
        draws += [f"present({name})" for name in sorted(is_free)]
        return draws

    def truth(self, depth: int = 1) -> str:
        """A truth about anything that refinements may read but opaque parameters."""
        a, b = (lambda: self.length(0)), (lambda: self.length(depth))
        draws: list[Draw | str] = [
            lambda: self.choice(0),
            lambda: f"{a()} <= {b()}",
            lambda: f"{a()} < {b()} + 1 <= {a()} + 9",
            lambda: f"{a()} != {b()}",
            lambda: f"{a()} in {self.run()}",
            lambda: f"all(n >= {self.rng.randint(0, 1)} for n in {self.run()})",
            lambda: f"len({self.run()}) > 1",
        ]
        runs = [*self.case.runs, *(name for name in ("size",) if self.has(name))]
        draws += [f"{run} {op} {runs[-1]}[1:]" for run in runs for op in ("==", "!=")]
        if self.has("window"):
            draws += [lambda: f"window == ({a()}, {a()})"]
        if self.has("late"):
            draws += ["late.kind == 'dense'", "late.kind in ('tiled', 'dense')"]
        if depth:
            draws += [
                lambda: self._both("and", self.truth(depth - 1), self.truth(depth - 1)),
                lambda: self._both("or", self.truth(depth - 1), self.truth(depth - 1)),
                lambda: f"not ({self.truth(depth - 1)})",
            ]
        return self._any(*draws)

    @staticmethod
    def _both(op: str, a: str, b: str) -> str:
        return f"({a}) {op} ({apart(a, b)})"

    def rule(self) -> str:
        """A truth about anything that a refinement may read."""
        draws: list[Draw | str] = [lambda: self.truth(2)] * 3
        draws += ["T == 'float16'", "T in ('float32', 'float64')", "category(U) == 'int'",
                  "representable(k * 1000, U)", "category(k) == 'int'"]  # fmt: skip
        by_param = {
            "gain": ["gain > 0.5", "0 < gain <= inf", "representable(gain, T)",
                     "category(gain) == 'float'"],
            "limit": ["(not present(limit) or limit.value > 1.0)"],
            "title": ["title == 'x'", "title != 'y'"],
            "wish": ["(not present(wish) or wish.value == 'float16')"],
            "fixed": ["fixed == 'float32'", "category(fixed) == 'float'"],
            "side": ["(side.value == 'left' if present(side) else flag)"],
            "axes": ["valid_axes(axes, 2)", "(valid_axes(axes, 3) and unique_axes(axes, 3))"],
            "kern": ["(kern == 2 or per_axis(kern, 1, 2) > 1)"],
        }  # fmt: skip
        draws += [text for name, texts in by_param.items() if self.has(name) for text in texts]
        return self._any(*draws)

    def dtype(self) -> str:
        """A dtype expression."""
        draws: list[Draw | str] = ["T", "U", "int32", "promote_int_to_float(U)"]
        if self.has("wish"):
            draws += ["coalesce_dtype(wish, T)", "coalesce_dtype(wish, promote_int_to_float(U))"]
        if self.has("fixed"):
            draws += ["fixed", "promote_int_to_float(fixed)"]
        return self._any(*draws)
