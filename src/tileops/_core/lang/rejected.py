"""Forms of Python that the language leaves out, each with what to write instead.

Only the wording lives here; the parser and the kind checker find the forms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPERATORS = {
    "/": "`/` is not in the language; use `//`",
    "**": "`**` is not in the language; repeat `*`",
    "@": "`@` is not in the language",
    "=": "assignment is not in the language; compare with `==`, define names in `let`",
    ":=": "assignment is not in the language; define names in `let`",
    "->": "`->` is not in the language",
    "!": "`!` is not in the language; use `not`",
    "&": "bit operators are not in the language; use `and`",
    "|": "bit operators are not in the language; use `or`",
    "~": "bit operators are not in the language; use `not`",
    "^": "bit operators are not in the language",
    "<<": "bit operators are not in the language; use `*`",
    ">>": "bit operators are not in the language; use `//`",
}
WORDS = {
    "for": "a `for` form is the only positional argument of all, sum, max or min",
    "lambda": "lambda is not in the language",
}
"""Words of Python that the language leaves out or admits in one place only."""

_UNIQUE_AXES = re.compile(r"\{\s*(\w+)\s*%\s*(\w+)\s+for\s+\1\s+in\s+(\w+)\s*\}")


def operator(text: str) -> str:
    """An operator of Python that the language leaves out."""
    return _OPERATORS[text]


def compared_with_none(subject: str, negated: bool) -> str:
    """`x is None`, `x == None` and their negations."""
    rewrite = f"present({subject})" if negated else f"not present({subject})"
    return f"nothing is compared with None; write `{rewrite}`"


def isinstance_test(subject: str) -> str:
    """`isinstance(x, …)`."""
    return (
        f"isinstance is not in the language; `per_axis({subject}, i, n)` takes item i of n "
        f"or the one number, as in `per_axis({subject}, 1, 2)`"
    )


def braces(text: str) -> str:
    """A set, a dict or a comprehension of one; `text` starts at the brace."""
    match = _UNIQUE_AXES.match(text)
    if match:
        _, rank, axes = match.groups()
        return f"a set comprehension is not in the language; write `unique_axes({axes}, {rank})`"
    body = text.partition("}")[0]
    if re.search(r"\bfor\b", body):
        return (
            "a set comprehension is not in the language; `unique_axes(dim, rank)` tells whether "
            "axes are distinct"
        )
    return "a set or dict is not in the language; use a tuple, such as `(1, 1)`"


def list_literal(body: str) -> str:
    """`[a, b]` where an expression is needed; `body` is the text between the brackets."""
    items = body.strip().rstrip(",").strip()
    rewrite = f"({items})" if "," in items or not items else f"({items},)"
    return f"a list is not in the language; use a tuple, `{rewrite}`"


def several_scalars(callee: str, arguments: Sequence[str]) -> str:
    """`max(a, b)`."""
    listed = ", ".join(arguments)
    return f"{callee} takes one sequence; write `{callee}(({listed}))`"


def tensor_shape(tensor: str, shape: str | None) -> str:
    """`w.shape == (N, K)`, or any other read of a tensor's shape."""
    declared = f"`shape: {shape}`" if shape else "its `shape`"
    return f"the shape of a tensor is not read; declare {declared} on {tensor}"


def equal_shapes(first: str, second: str) -> str:
    """`y.shape == x.shape`."""
    return (
        f"shapes of tensors are not compared; give {first} and {second} the same term, "
        "such as `[*S]`"
    )


def defining_equation(name: str, definition: str) -> str:
    """`half == C // 2` with `half` undeclared."""
    return f'{name} is not declared; a definition is written `let: {{{name}: "{definition}"}}`'


def attribute(base: str, name: str) -> str:
    """Attributes other than those of algebraic types and `.value`."""
    hint = {
        "ndim": "; use `len(S)` of a shape index S",
        "dtype": "; use the dtype index",
    }.get(name, "; use a primitive")
    return f"{base}.{name} is not in the language{hint}"
