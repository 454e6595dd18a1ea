"""The page: a head that says what was measured, summaries, plots, and every row.

All rows are in the markup; the script sorts, filters and folds what is there. The page allows
itself no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from math import log2
from string import Template
from typing import Any

from tileops.bench.clock import is_spread
from tileops.bench.measuring import LEFT_OUT, WRONG
from tileops.bench.peers import Match
from tileops.bench.profiles import doubt, profile_named, unit_text
from tileops.bench.report.figures import LEVEL, Figure, Summary, families, figures, summary
from tileops.bench.report.plots import histogram, roofline
from tileops.bench.report.text import amount, duration, percent, tag, text, times
from tileops.bench.results import Results

DASH = "–"


def html_page(results: Results, peers: Sequence[Match] = (), title: str = "TileOPs") -> str:
    """Results as a page.

    Args:
        results: what a bench found.
        peers: published rows that rows of the results line up with.
        title: what it is about.
    """
    found = figures(results.environments, results.rows)
    folder = files(__package__)
    parts = {
        "title": text(title),
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "script": (folder / "page.js").read_text(encoding="utf-8"),
        "devices": _devices(results),
        "tiles": _tiles(found, results),
        "families": _families(found),
        "plots": _plots(found),
        "options": "".join(tag("option", text(name)) for name in families(found)),
        "devices_to_choose": _choice_of_devices(found),
        "rows": "".join(_row(figure) for figure in found),
        "faults": _faults(results),
        "peers": _peers(peers),
        "environments": _environments(results),
    }
    template = (folder / "page.html").read_text(encoding="utf-8")
    return Template(template).substitute(parts)


def _devices(results: Results) -> str:
    """The devices, for the head."""
    names = dict.fromkeys(each["device"] for each in results.environments)
    return " · ".join(map(text, names)) or "no device"


def _choice_of_devices(found: Sequence[Figure]) -> str:
    """A choice of the device, where rows are of several."""
    names = list(dict.fromkeys(figure.device for figure in found))
    if len(names) < 2:
        return ""
    options = tag("option", "all devices", value="")
    options += "".join(tag("option", text(name)) for name in names)
    return tag("select", options, id="device", aria_label="device")


def _tiles(found: Sequence[Figure], results: Results) -> str:
    """The whole in a few numbers."""
    whole = summary(found)
    counts = {state: results.count(state) for state in (WRONG, LEFT_OUT)}
    counts["unsteady"] = sum(figure.is_unsteady for figure in found)
    left = " · ".join(f"{count} {state}" for state, count in counts.items() if count)
    tiles = [("rows right", f"{whole.rows:,}", f"{whole.ops} ops" + (f" · {left}" if left else ""))]
    if whole.ratio is not None:
        tiles.append(
            ("against the best other", times(whole.ratio), "geometric mean, above 1 is faster")
        )
        share = percent(whole.level / whole.compared)
        tiles.append(("no slower", share, f"{whole.level} of {whole.compared} compared rows"))
    if whole.efficiency is not None:
        tiles.append(("of the device's limit", percent(whole.efficiency), "median of all rows"))
    return "".join(
        tag("div", tag("b", value) + tag("span", name) + tag("small", text(note)), class_="tile")
        for name, value, note in tiles
    )


def _families(found: Sequence[Figure]) -> str:
    """A line for each family."""
    lines = []
    for name, group in families(found).items():
        cells = (tag("th", text(name), scope="row"), *_summary_cells(summary(group)))
        lines.append(tag("tr", "".join(cells), data_family=name))
    return "".join(lines)


def _summary_cells(whole: Summary) -> Iterator[str]:
    yield tag("td", str(whole.ops), data_name="ops")
    yield tag("td", str(whole.rows), data_name="rows")
    mean = DASH if whole.ratio is None else times(whole.ratio)
    yield tag("td", tag("b", mean), data_name="mean ratio")
    span = DASH
    if whole.least is not None and whole.most is not None:
        span = f"{times(whole.least)} to {times(whole.most)}"
    yield tag("td", span, data_name="range")
    share = whole.level / whole.compared if whole.compared else None
    told = "" if share is None else f" {whole.level} of {whole.compared}"
    yield tag("td", _bar(share) + told if share is not None else DASH, data_name="no slower")
    limit = whole.efficiency
    yield tag("td", DASH if limit is None else _bar(limit) + f" {percent(limit)}",
              data_name="of the limit")  # fmt: skip


def _bar(share: float) -> str:
    """A share as a bar in a line of text."""
    width = f"width:{100 * min(share, 1):.0f}%"
    return tag("span", tag("i", style=width), class_="meter")


def _plots(found: Sequence[Figure]) -> str:
    """A roofline for each device, and one histogram."""
    drawn = []
    for device in dict.fromkeys(figure.device for figure in found):
        of_device = [figure for figure in found if figure.device == device]
        drawn.append((f"Roofline, {device}", roofline(of_device, profile_named(device))))
    drawn.append(("How near the limit", histogram(found)))
    plots = "".join(
        tag("figure", tag("figcaption", text(name)) + plot) for name, plot in drawn if plot
    )
    return plots + "".join(tag("p", text(note)) for note in _unknown_limits(found))


def _unknown_limits(found: Sequence[Figure]) -> Iterator[str]:
    """What to do for each device of which no row has a limit."""
    known = {figure.device for figure in found if figure.efficiency is not None}
    for device in dict.fromkeys(figure.device for figure in found):
        if device not in known:
            how = "`tileops doctor --measure` there finds them for the next `tileops bench`"
            yield f"Limits of {device} are unknown: {how}."


def _server(row: Mapping[str, Any]) -> str:
    """The kernels that served a row, or the target that did as a whole."""
    kernels = ", ".join(map(_short, row["kernels"]))
    return kernels or (f"target {row['target']}" if row["target"] else "none")


def _row(figure: Figure) -> str:
    """A row and, folded, all that is known of it."""
    row, best, share = figure.row, figure.best, figure.efficiency
    ratio = None if best is None else best.ratio
    taken = duration(figure.seconds) + (tag("small", " unsteady") if figure.is_unsteady else "")
    cells = [
        tag("td", tag("b", text(row["op"])) + tag("small", text(row["case"])), class_="name"),
        tag("td", taken, data_name="device time" if row["host"] else "time"),
        tag("td", _best(figure), data_name="best other"),
        tag("td", DASH if ratio is None else _ratio(ratio), data_name="ratio"),
        tag("td", DASH if share is None else _bar(share) + f" {percent(share)}",
            data_name="of the limit"),
        tag("td", text(_server(row)), data_name="kernel"),
    ]  # fmt: skip
    data = {
        "data_op": row["op"].lower(),
        "data_text": f"{row['op']} {row['case']} {' '.join(row['kernels'])}".lower(),
        "data_family": row["family"],
        "data_device": figure.device,
        "data_time": figure.seconds,
        "data_ratio": ratio,
        "data_share": share,
        "data_best": None if best is None else best.ratio * figure.seconds,
        "data_kernel": " ".join(row["kernels"]).lower(),
    }
    head = tag("tr", "".join(cells), class_="head", tabindex=0, aria_expanded="false")
    body = tag("tr", tag("td", _detail(figure), colspan=len(cells)), class_="detail", hidden="")
    return tag("tbody", head + body, **data)


def _short(kernel: str) -> str:
    return kernel.removesuffix("Kernel")


def _best(figure: Figure) -> str:
    if figure.best is None:
        return DASH
    seconds = figure.best.ratio * figure.seconds
    return f"{duration(seconds)} {tag('small', text(figure.best.name))}"


def _ratio(ratio: float) -> str:
    """A ratio with a bar that grows from the middle, a doubling to its end."""
    reach = max(-1.0, min(1.0, log2(ratio)))
    side = "fast" if ratio >= 1 else "slow"
    place = 50 if reach >= 0 else 50 + 50 * reach
    bar = tag("i", style=f"left:{place:.0f}%;width:{50 * abs(reach):.0f}%", class_=side)
    weight = "slow" if ratio < LEVEL else None
    return tag("span", bar, class_="scale") + tag("b", times(ratio), class_=weight)


def _detail(figure: Figure) -> str:
    """Everything about a row."""
    row = figure.row
    shown = [
        ("tensors", ", ".join(f"{name} {form}" for name, form in (row["tensors"] or {}).items())),
        (
            "bindings",
            ", ".join(f"{name}={value}" for name, value in (row["bindings"] or {}).items()),
        ),
        ("work", _work(row)),
        ("limit", _limit(row)),
        ("target", row["target"]),
        ("measured", f"in environment {row['environment'] + 1}, below"),
    ]
    facts = "".join(tag("dt", name) + tag("dd", text(value)) for name, value in shown if value)
    return tag("table", _contestants(row), class_="contestants") + tag("dl", facts)


def _work(row: Mapping[str, Any]) -> str:
    if None in (row["flops"], row["bytes"], row["unit"]):
        return ""
    unit = unit_text(row["unit"], row["device"])
    return f"{amount(row['flops'])}FLOP on {unit}, {amount(row['bytes'])}B"


def _limit(row: Mapping[str, Any]) -> str:
    reading = row["reading"]
    if reading is None:
        return ""
    limit = f"{duration(reading['bound'])} by {unit_text(reading['limit'], row['device'])}"
    return "; ".join(filter(None, (limit, doubt(reading["efficiency"], reading["excess"]))))


def _contestants(row: Mapping[str, Any]) -> str:
    """The op and what it is compared with, a line each."""
    header = ("", "time", "middle half", "in a graph", "host")
    lines = [tag("tr", "".join(tag("th", name) for name in header))]
    lines.append(_contestant("this op", row["timing"], row["graph"], row["host"]))
    for other in row["others"]:
        name = f"{other['name']} {other['version']}"
        if other["timing"] is None:
            told = f"{other['state']}: {(other['reason'] or '').partition(chr(10))[0]}"
            cells = tag("th", text(name), scope="row") + tag("td", text(told), colspan=4)
            lines.append(tag("tr", cells))
        else:
            lines.append(_contestant(name, other["timing"], other["graph"], other.get("host")))
    return "".join(lines)


def _contestant(
    name: str,
    timing: Mapping[str, Any],
    graph: Mapping[str, Any] | None,
    host: Mapping[str, Any] | None,
) -> str:
    half = f"{duration(timing['low'])} to {duration(timing['high'])}, {timing['calls']} calls"
    half += ", unsteady" if is_spread(timing["low"], timing["high"]) else ""
    values = [duration(timing["median"]), half]
    values += [duration(each["median"]) if each else DASH for each in (graph, host)]
    cells = "".join(tag("td", value) for value in values)
    return tag("tr", tag("th", text(name), scope="row") + cells)


def _faults(results: Results) -> str:
    """Rows that are wrong or were left out, with the reason."""
    lines = [
        tag("li", tag("b", text(f"{row['op']} {row['case']}")) + f" {row['state']}: "
            + text((row["reason"] or "").partition("\n")[0]))
        for row in results.rows
        if row["state"] in {WRONG, LEFT_OUT}
    ]  # fmt: skip
    if not lines:
        return ""
    head = tag("summary", f"{len(lines)} rows that were wrong or left out")
    return tag("details", head + tag("ul", "".join(lines)), class_="faults")


def _peers(peers: Sequence[Match]) -> str:
    """Published rows of the same op, size and dtype."""
    if not peers:
        return ""
    header = ("row", "this op", "peer", "ratio", "best other published", "ratio")
    head = tag("thead", tag("tr", "".join(tag("th", name) for name in header)))
    lines = []
    for match in peers:
        name = tag("b", text(match.op)) + tag("small", text(match.case))
        published = [(match.peer, ""), (match.other, match.other_name)]
        cells = [
            tag("td", name, class_="name"),
            tag("td", duration(match.ours), data_name="this op"),
        ]
        for (seconds, by), column in zip(published, ("peer", "best other"), strict=True):
            shown, ratio = DASH, DASH
            if seconds is not None:
                shown = f"{duration(seconds)} {tag('small', text(by))}"
                ratio = _ratio(seconds / match.ours)
            cells += [tag("td", shown, data_name=column), tag("td", ratio, data_name="ratio")]
        lines.append(tag("tr", "".join(cells)))
    table = tag("table", head + tag("tbody", "".join(lines)), class_="peers")
    title = tag("h2", "Beside the published record") + tag("p", _peer_note(peers))
    return tag("section", title + tag("div", table, class_="wide"))


def _peer_note(peers: Sequence[Match]) -> str:
    best = [min(filter(None, (match.peer, match.other))) / match.ours for match in peers]
    level = sum(ratio >= LEVEL for ratio in best)
    return (
        f"{len(peers)} published rows have the op, the size and the dtype of a row here; "
        f"in {level} of them this op is no slower than the fastest that was published. "
        "Those times were taken elsewhere, by others, with other software."
    )


def _environments(results: Results) -> str:
    """What the figures depend on."""
    lines = []
    for each in results.environments:
        shown = (f"{name} {value}" for name, value in each.items() if value is not None)
        lines.append(tag("li", text(", ".join(shown))))
    return tag("ol", "".join(lines))
