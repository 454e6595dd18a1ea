"""Numbers and tags as text: the few rules by which the page writes them."""

from __future__ import annotations

from html import escape

STEPS = ((1e-3, 1e6, "μs"), (1.0, 1e3, "ms"), (float("inf"), 1.0, "s"))
LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; `content` is markup, attributes are escaped, `_` in their names is `-`.

    A trailing `_` keeps a name from being Python's, and an attribute that is None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{content}</{name}>"


def text(value: object) -> str:
    """A value as text that is no markup."""
    return escape(str(value), quote=False)


def duration(seconds: float) -> str:
    """Seconds with three figures: 12.3 μs, 1.23 ms."""
    factor, unit = next((factor, unit) for limit, factor, unit in STEPS if seconds < limit)
    return f"{figures(seconds * factor)} {unit}"


def figures(value: float) -> str:
    """A number with three figures, never fewer than it has before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def amount(value: float) -> str:
    """A large number by its thousands: 4.28 T."""
    for size, name in LARGE:
        if value >= size:
            return f"{figures(value / size)} {name}".rstrip()
    return figures(value)


def times(ratio: float) -> str:
    """A ratio: 1.23×."""
    return f"{figures(ratio)}×"


def percent(share: float) -> str:
    """A share: 87 %."""
    return f"{share:.0%}".replace("%", " %")
