"""Plots as inline SVG: a roofline for a device, and how near its limit calls come.

Colours come from the page's style. Every mark has a title, so that its numbers can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from tileops.bench.profiles import MEMORY, Profile, unit_text
from tileops.bench.report.figures import Figure
from tileops.bench.report.text import amount, duration, percent, tag, text

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 22, 40
UNITS = ("", "k", "M", "G", "T", "P")
LINE = 13
"""From one label of a roof to the next: they are written in 11 px."""
BINS = 11
"""Bars of ten per cent each; the last holds what is above the limit."""


class _Axes:
    """Logarithmic axes over whole decades.

    Args:
        xs: positions along the first axis, all above 0.
        ys: along the second.
    """

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.x0, self.x1 = _decades(xs)
        self.y0, self.y1 = _decades(ys)

    def x(self, value: float) -> float:
        share = (log10(value) - self.x0) / (self.x1 - self.x0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (log10(value) - self.y0) / (self.y1 - self.y0)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def grid(self) -> Iterator[str]:
        """Lines and labels of the decades."""
        step = max(1, (self.x1 - self.x0) // 6)
        for power in range(self.x0, self.x1 + 1, step):
            x, label = self.x(10.0**power), _power(power)
            yield tag("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="grid")
            yield tag("text", label, x=x, y=HEIGHT - BOTTOM + 16, text_anchor="middle")
        for power in range(self.y0, self.y1 + 1):
            y = self.y(10.0**power)
            yield tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
            yield tag("text", _power(power), x=LEFT - 6, y=y + 4, text_anchor="end")


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _power(power: int) -> str:
    """A power of ten: 0.01, 10, 100 T."""
    size = max(0, min(power // 3, len(UNITS) - 1))
    return f"{10.0 ** (power - 3 * size):g} {UNITS[size]}".rstrip()


def roofline(found: Sequence[Figure], profile: Profile | None) -> str:
    """Rates over intensities, below what the device allows.

    Args:
        found: rows of one device.
        profile: what the device can do; no roofs are drawn where absent.

    Returns:
        Nothing where no row counts operations.
    """
    drawn = [
        (intensity, figure.row["flops"] / figure.seconds, figure)
        for figure in found
        if (intensity := figure.intensity) is not None
    ]
    if not drawn:
        return ""
    roofs = _roofs(profile, drawn[0][2].device, {figure.row["unit"] for _, _, figure in drawn})
    highest = [rate for _, rate in roofs[1:]]
    axes = _Axes([x for x, _, _ in drawn] + [1.0], [y for _, y, _ in drawn] + highest)
    parts = [*axes.grid(), *_roof_lines(axes, roofs, drawn[0][2].row["device"])]
    for x, y, figure in drawn:
        row = figure.row
        told = f"{row['op']} {row['case']}: {amount(y)}FLOP/s, {duration(figure.seconds)}"
        mark = tag("title", text(told))
        at = {"cx": axes.x(x), "cy": axes.y(y), "r": 3.2}
        parts.append(tag("circle", mark, **at, class_="point", data_family=row["family"]))
    bottom = HEIGHT - 6
    label = "FLOPs for each byte"
    parts.append(
        tag("text", label, x=(LEFT + WIDTH) / 2, y=bottom, text_anchor="middle", class_="axis")
    )
    parts.append(tag("text", "FLOP/s", x=LEFT - 40, y=TOP - 10, class_="axis"))
    return _svg(parts, "Rates of the rows below the device's roofs")


def _roofs(profile: Profile | None, device: str, units: set[str | None]) -> list[tuple[str, float]]:
    """The measured bandwidth, then the measured rates of the units that rows use."""
    if profile is None or profile.device != device:
        return []
    memory = profile.rates[MEMORY].effective
    rates = [(unit, profile.rates[unit].effective) for unit in sorted(filter(None, units))
             if unit in profile.rates]  # fmt: skip
    known = [(unit, rate) for unit, rate in rates if rate is not None]
    return [(MEMORY, memory), *known] if memory is not None and known else []


def _roof_lines(axes: _Axes, roofs: Sequence[tuple[str, float]], place: str) -> Iterator[str]:
    """The slope of the memory, and a level for each unit, from where they meet."""
    if not roofs:
        return
    (_, bandwidth), *units = roofs
    left, right = 10.0**axes.x0, 10.0**axes.x1
    top = max(rate for _, rate in units)
    start = max(left, 10.0**axes.y0 / bandwidth)
    ends = {"x1": axes.x(start), "y1": axes.y(start * bandwidth)}
    meet = min(top / bandwidth, right)
    told = tag("title", f"memory: {amount(bandwidth)}B/s")
    yield tag("line", told, **ends, x2=axes.x(meet), y2=axes.y(meet * bandwidth), class_="roof")
    lowest, labels = 0.0, []
    for unit, rate in sorted(units, key=lambda each: -each[1]):
        knee = max(rate / bandwidth, left)
        if knee >= right:
            continue
        y = axes.y(rate)
        told = tag("title", f"{unit_text(unit, place)}: {amount(rate)}FLOP/s")
        yield tag("line", told, x1=axes.x(knee), y1=y, x2=axes.x(right), y2=y, class_="roof")
        label = unit.partition(".")[2] + (" cores" if unit.startswith("tensor") else "")
        label = label if place != "cpu" else unit_text(unit, place)
        lowest = max(y - 4, lowest + LINE)  # labels of near roofs stand below each other
        at = {"x": WIDTH - RIGHT, "y": lowest, "text_anchor": "end"}
        labels.append(tag("text", text(label), **at, class_="roof-label"))
    yield from labels  # above all lines


def histogram(found: Sequence[Figure]) -> str:
    """How many rows reach which share of their limit; nothing where no limit is known."""
    shares = [figure.efficiency for figure in found if figure.efficiency is not None]
    if not shares:
        return ""
    counts = [0] * BINS
    for share in shares:
        counts[min(int(share * 10), BINS - 1)] += 1
    base, tallest = HEIGHT - BOTTOM, max(counts)
    slot = (WIDTH - LEFT - RIGHT) / BINS
    parts = [tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="grid")]
    for place, count in enumerate(counts):
        x, height = LEFT + place * slot, count / tallest * (base - TOP - 14)
        name = "above 100 %" if place == BINS - 1 else f"{10 * place} to {10 * place + 10} %"
        mark = tag("title", f"{name}: {count} rows")
        at = {"x": round(x + 2, 1), "width": round(slot - 4, 1)}
        bar = {"y": round(base - height, 1), "height": round(height, 1), "rx": 2}
        parts.append(tag("rect", mark, **at, **bar, class_="bar", data_bin=place))
        middle = round(x + slot / 2, 1)
        over = {"x": middle, "y": round(base - height - 4, 1), "text_anchor": "middle"}
        parts.append(tag("text", str(count or ""), **over, class_="count", data_bin=place))
        label = ">100" if place == BINS - 1 else str(10 * place)
        at_left = middle if place == BINS - 1 else round(x, 1)
        parts.append(tag("text", label, x=at_left, y=base + 16, text_anchor="middle"))
    axis = {"x": (LEFT + WIDTH) / 2, "y": HEIGHT - 6, "text_anchor": "middle", "class_": "axis"}
    parts.append(tag("text", "per cent of the device's limit", **axis))
    return _svg(parts, f"{len(shares)} rows by the share of their limit, the middle one at "
                       f"{percent(sorted(shares)[len(shares) // 2])}",
                class_="histogram", data_base=base, data_room=base - TOP - 14)  # fmt: skip


def _svg(parts: Sequence[str], label: str, **attributes: object) -> str:
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", "".join(parts), viewBox=box, role="img", aria_label=label, **attributes)
