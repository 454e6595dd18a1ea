"""What README shows of the results: a roofline as a picture, and a table of comparisons.

Both follow from `benchmarks/results/h200-bench.json` alone. `make pages` writes them, `--check`
only says what is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tileops.bench.profiles import profiles
from tileops.bench.report.figures import Figure, Summary, families, figures, summary
from tileops.bench.report.plots import HEIGHT, WIDTH, roofline
from tileops.bench.report.text import times
from tileops.bench.results import Results, read_results

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "h200-bench.json"
PICTURE = ROOT / "docs" / "assets" / "roofline.svg"
README = ROOT / "README.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end of measured -->"
STYLE = """<style>
text { font: 11px system-ui, sans-serif; fill: #66645e; }
.axis, .roof-label { fill: #1d1c1a; }
.roof-label { font-size: 9px; paint-order: stroke; stroke: #faf9f7; stroke-width: 3; }
.grid { stroke: #e3e1db; }
.roof { stroke: #1d1c1a; stroke-width: 1.5; }
.point { fill: #1f6f9f; fill-opacity: 0.55; }
.paper { fill: #faf9f7; }
</style>"""


def picture(found: list[Figure]) -> str:
    """The roofline as a file of its own: it has its name space, its size, colours and a ground."""
    plot = roofline(found, profiles()[found[0].device])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{2 * HEIGHT}" '
    ground = f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"></rect>'
    opening, _, rest = plot.removeprefix("<svg ").partition(">")
    return f"{head}{opening}>{STYLE}{ground}{rest}\n"


def table(results: Results, found: list[Figure]) -> Iterator[str]:
    """The families beside the best of what their rows were compared with, and the device."""
    yield "| family | ops | rows | compared | no slower | mean ratio | least | most |"
    yield "| --- | --: | --: | --: | --: | --: | --: | --: |"
    for name, group in families(found).items():
        yield line(name, summary(group))
    yield line("all", summary(found))
    place = results.environments[-1]
    commits = ", ".join(f"`{environment['commit']}`" for environment in results.environments)
    yield ""
    yield (
        f"{place['device']} ({place['state']}), Python {place['python']}, "
        f"PyTorch {place['torch']}, TileLang {place['tilelang']}, commits {commits}."
    )


def line(name: str, told: Summary) -> str:
    """A row of the table."""
    ratios = [times(r) if r else "–" for r in (told.ratio, told.least, told.most)]
    counts = map(str, (told.ops, told.rows, told.compared, told.level))
    return f"| {' | '.join([name, *counts, *ratios])} |"


def main(arguments: list[str]) -> int:
    """Write what differs, or name it: 1 when there is some."""
    results = read_results(RESULTS)
    found = figures(results.environments, results.rows)
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    measured = "\n".join(["", *table(results, found), "", ""])
    made = {
        PICTURE: picture(found),
        README: f"{before}{BEGIN}{measured}{END}{rest.partition(END)[2]}",
    }
    stale = [path for path, content in made.items() if not holds(path, content)]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is not up to date: make pages")
        else:
            path.write_text(made[path], encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


def holds(path: Path, content: str) -> bool:
    """Whether a file is there and holds a text."""
    return path.exists() and path.read_text(encoding="utf-8") == content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
