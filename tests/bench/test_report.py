"""The page: complete without a network, right in its numbers, and at work in a browser.

What a browser does is tested where one is found; everything else is tested always.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench.samples import H200, other, results, row
from docs.browser import BROWSER, browser
from tileops.bench.peers import Match
from tileops.bench.profiles import Profile, Rate, profiles, unit_text
from tileops.bench.report import html_page
from tileops.bench.report.figures import families, figures, summary
from tileops.bench.report.plots import histogram, roofline
from tileops.bench.report.text import amount, duration, percent, tag, times
from tileops.bench.results import Results, merged

VOID = {"meta", "link", "input", "br"}
MATCH = Match("RMSNormFwdOp", "prefill-bfloat16", 1e-5, ("RMSNorm", "x"), 2e-5, None, "")


class Outline(HTMLParser):
    """Checks that elements close in order, and collects what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        if name not in VOID:
            self.open.append(name)
        self.fetched += [value or "" for key, value in attributes if key in {"src", "href"}]

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return html_page(results(), [MATCH], "Sample & more")


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    return found


def test_elements_are_nested_and_closed(outline: Outline) -> None:
    assert outline.open == []


def test_nothing_is_fetched(page: str, outline: Outline) -> None:
    assert outline.fetched == ["data:,"]
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|https?:", page)


def test_what_was_measured_is_said(page: str) -> None:
    for value in filter(None, H200.values()):
        assert value in page
    assert "<h1>Sample &amp; more</h1>" in page


def test_texts_of_results_are_no_markup(page: str) -> None:
    assert "it is &lt;b&gt;not&lt;/b&gt; the same" in page
    assert "AssertionError: 3 &lt; 4 &amp; more" in page


def test_every_row_is_there_or_named_as_missing(page: str) -> None:
    assert page.count('<tbody data-op="') == 4
    assert "2 rows that were wrong or left out" in page
    assert "square-bfloat16" in page
    assert "too large" in page


def test_published_rows_stand_beside_ours(page: str) -> None:
    assert "Beside the published record" in page
    assert "1 published rows have the op" in page


def test_a_device_is_chosen_where_there_are_several(page: str) -> None:
    assert 'id="device"' not in page
    both = Results([H200, {**H200, "device": "Abacus"}], [*results().rows[:1]])
    both.rows.append({**row("SumFwdOp", "x"), "environment": 1})
    several = html_page(both)
    assert '<select id="device" aria-label="device">' in several
    assert several.count("<figcaption>Roofline, ") == 2


def test_results_without_rows_make_a_page() -> None:
    found = Outline()
    found.feed(html_page(Results()))
    assert found.open == []
    assert "no device" in found.texts


def test_a_summary_is_worked_out_of_ratios() -> None:
    found = figures([H200], results().rows)
    norm = summary(families(found)["norm"])
    assert (norm.ops, norm.rows, norm.compared, norm.level) == (1, 2, 2, 1)
    assert norm.ratio == pytest.approx((2.0 * 0.5) ** 0.5)
    assert (norm.least, norm.most) == pytest.approx((0.5, 2.0))
    assert norm.efficiency == pytest.approx((0.78 + 0.195) / 2)
    alone = summary([figure for figure in found if figure.best is None])
    assert (alone.compared, alone.ratio) == (0, None)


def test_points_lie_below_the_roofs() -> None:
    found = figures([H200], results().rows)
    drawn = roofline(found, profiles()["NVIDIA H200"])
    assert drawn.count("<circle") == 4
    assert "memory: 4.28 TB/s" in drawn
    assert "tensor_core.bf16: 787 TFLOP/s" in drawn
    assert 'class="roof"' not in roofline(found, None)
    without = figures([H200], [row("CopyFwdOp", "x", flops=0)])
    assert roofline(without, None) == ""


def test_times_that_say_little_are_marked() -> None:
    steady = row("SumFwdOp", "steady")
    apart = {"median": 1e-5, "low": 5e-6, "high": 2e-5, "calls": 50}
    rows = [steady, {**row("SumFwdOp", "apart"), "timing": apart}]
    compared = {**row("SumFwdOp", "beside"), "others": [{**other("torch", 1e-5), "timing": apart}]}
    page = html_page(Results([H200], [*rows, compared]))
    assert page.count("<small> unsteady</small>") == 2
    assert "5.00 μs to 20.0 μs, 50 calls, unsteady" in page
    assert "2 unsteady" in page
    assert "unsteady<" not in html_page(Results([H200], [steady]))


def test_rows_of_several_targets_are_all_shown() -> None:
    ours = row("SumFwdOp", "rows")
    theirs = {**ours, "target": "acme", "kernels": []}
    both = merged([Results([H200], [ours]), Results([H200], [theirs])])
    assert both.rows == [ours, theirs]
    assert "target acme</td>" in html_page(both)


def test_limits_that_nobody_knows_are_told() -> None:
    known, unknown = row("SumFwdOp", "x"), row("SumFwdOp", "y", reading=None)
    told = "Limits of NVIDIA H200 are unknown: `tileops doctor --measure` there finds them"
    assert told in html_page(Results([H200], [unknown]))
    assert told not in html_page(Results([H200], [unknown, known]))


@pytest.mark.parametrize(
    ("reading", "remark"),
    [
        ({"efficiency": 0.99, "excess": None}, None),
        ({"efficiency": 1.2, "excess": None}, "above what was measured of the device"),
        ({"efficiency": 3.0, "excess": "memory: 9e+12 a second"}, "the roofline counts too much"),
    ],
)
def test_a_row_above_its_limit_is_doubted(reading: dict[str, Any], remark: str | None) -> None:
    above = {**row("A", "one")["reading"], **reading}
    page = html_page(Results([H200], [row("A", "one", reading=above)]))
    remarks = ("above what was measured of the device", "the roofline counts too much")
    assert [text for text in remarks if text in page] == ([remark] if remark else [])


def test_a_cpu_has_no_cores_of_a_gpu() -> None:
    assert unit_text("tensor_core.bf16", "cpu") == "matrix bf16"
    assert unit_text("memory", "cpu") == "memory"
    assert unit_text("cuda_core.fp32", "cuda:0") == "cuda_core.fp32"
    on_cpu = row("SumFwdOp", "x", device="cpu")
    rates = {"memory": Rate(None, 1e12), "cuda_core.fp32": Rate(None, 1e12)}
    profile = Profile(H200["device"], "here", rates)
    assert "vector fp32: 1.00 TFLOP/s" in roofline(figures([H200], [on_cpu]), profile)
    page = html_page(Results([H200], [on_cpu]))
    assert "FLOP on vector fp32" in page
    assert "cuda_core" not in page


def test_a_histogram_counts_shares() -> None:
    found = figures([H200], results().rows)
    drawn = histogram(found)
    assert "70 to 80 %: 1 rows" in drawn
    assert "10 to 20 %: 1 rows" in drawn
    assert histogram(figures([H200], [row("CopyFwdOp", "x", reading=None)])) == ""
    fast = replace(found[0], row={**found[0].row, "reading": {"efficiency": 1.3}})
    assert "above 100 %: 1 rows" in histogram([fast])


def test_numbers_have_three_figures() -> None:
    assert [duration(s) for s in (1.234e-7, 1.234e-5, 1.234e-2, 12.0)] == [
        "0.12 μs", "12.3 μs", "12.3 ms", "12.0 s",
    ]  # fmt: skip
    assert [amount(v) for v in (4.28e12, 12_345, 7)] == ["4.28 T", "12.3 k", "7.00"]
    assert (times(1.234), percent(0.876)) == ("1.23×", "88 %")
    assert tag("td", "x", class_="a", data_name='"', none=None) == (
        '<td class="a" data-name="&quot;">x</td>'
    )


PROBE = """
<script>
const told = [];
const shown = () => [...document.querySelectorAll("#rows > tbody:not([hidden])")]
  .map((row) => row.querySelector("small").textContent);
const use = (id, value) => {
  document.getElementById(id).value = value;
  document.getElementById("filter").dispatchEvent(new Event("input"));
};
told.push(shown().length);
use("words", "rms dec"); told.push(shown().join());
use("words", ""); use("family", "gemm"); told.push(shown().join());
told.push(document.querySelectorAll(".point.faded").length);
told.push([...document.querySelectorAll(".count")].map((bar) => bar.textContent).join(""));
use("family", ""); use("which", "slow"); told.push(shown().join());
use("which", "alone"); told.push(shown().join());
use("which", ""); told.push(document.getElementById("shown").textContent);
const by = (key) => document.querySelector(`[data-key=${key}]`).click();
by("time"); told.push(shown().map((name) => name[0]).join(""));
by("time"); told.push(shown().map((name) => name[0]).join(""));
by("ratio"); told.push(shown().map((name) => name[0]).join(""));
const head = document.querySelector(".head");
head.click(); told.push(head.nextElementSibling.hidden);
head.click(); told.push(head.nextElementSibling.hidden);
document.getElementById("theme").click();
told.push(document.documentElement.dataset.theme);
told.push(getComputedStyle(document.body).backgroundColor);
told.push(document.documentElement.scrollWidth <= innerWidth);
document.title = told.join("; ");
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
@pytest.mark.parametrize("size", ["1280,900", "500,900"])
def test_a_browser_opens_filters_sorts_and_finds_no_fault(
    page: str, size: str, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    done = subprocess.run(
        [
            *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--enable-logging=stderr", f"--window-size={size}", f"--user-data-dir={tmp_path}"),
            file.as_uri(),
        ],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title[1].split("; ") == [
        "4", "decode-bfloat16", "square-bfloat16,alone-bfloat16", "2", "11",
        "decode-bfloat16,square-bfloat16", "alone-bfloat16", "4 of 4 rows",
        "psda", "adsp", "dspa", "false", "true", "dark", "rgb(21, 21, 19)", "true",
    ]  # fmt: skip


CROWDED = [
    row(f"{unit}FwdOp", "WordsThatGoOnAndOnWithoutASpaceToBreakThemAt", unit=unit, flops=1 << 36,
        kernels=["GroupedQueryAttentionDecodeSplitKernel"])
    for unit in ("tensor_core.fp8", "tensor_core.bf16", "tensor_core.fp16", "tensor_core.tf32",
                 "tensor_core.int8", "cuda_core.fp32")
]  # fmt: skip
OVERLAPS = """(() => {
  const boxes = [...document.querySelectorAll(".roof-label")]
    .map((label) => label.getBoundingClientRect()).sort((a, b) => a.top - b.top);
  const size = parseFloat(getComputedStyle(document.querySelector(".roof-label")).fontSize);
  const scale = document.querySelector("svg").getBoundingClientRect().width / 460;
  return boxes.slice(1).map((box, place) => box.top - boxes[place].top < size * scale);
})()"""


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_phone_shows_all_sorts_and_tells_roofs_apart(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(html_page(Results([H200], CROWDED), [MATCH]), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open(file.as_uri())
        for width in (320, 390, 1200):
            tab.resize(width, 800)
            assert tab.value("document.documentElement.scrollWidth") <= width
            sizes = tab.value("[...document.querySelectorAll('#rows thead button')]"
                              ".map((button) => button.offsetHeight)")  # fmt: skip
            assert len(sizes) == 6
            assert min(sizes) > 10, "what cannot be seen cannot sort"
            assert tab.value(OVERLAPS) == [False] * 5
        assert not tab.faults
