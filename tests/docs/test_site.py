"""The site: it builds without a warning, every link leads somewhere, and a browser finds no fault.

What a browser does is tested where one is found; everything else is tested always.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import BROWSER, browser
from pages import ROOT

FETCHING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
DESKTOP, PHONE = (1280, 900), (390, 844)
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"
# The search is a form that looks while one types; what it found is a list of links.
SEARCH = """new Promise((found) => {
  document.querySelector("[data-md-toggle=search]").click();
  const field = document.querySelector("[data-md-component=search-query]");
  field.focus();
  field.value = "%s";
  field.dispatchEvent(new Event("keyup"));
  const look = setInterval(() => {
    const links = document.querySelectorAll("a.md-search-result__link");
    if (links.length) { clearInterval(look); found([...links].map((link) => link.href)); }
  }, 50);
})"""


class Outline(HTMLParser):
    """Where a page's links lead, what it fetches, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.anchors: set[str] = set()
        self.code = 0
        self.cells = 0
        self.prose = ""
        self.tables = ""
        self.feed(text)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.code += name in {"code", "script"}
        self.cells += name == "td"
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        if name == "a" and (link := given.get("href")):
            self.links.add(link)
        if (fetched := given.get(FETCHING.get(name, ""))) is not None:
            self.fetched.add(fetched)

    def handle_endtag(self, name: str) -> None:
        self.code -= name in {"code", "script"}
        self.cells -= name == "td"

    def handle_data(self, text: str) -> None:
        if not self.code:
            self.prose += text
        if self.cells:
            self.tables += text


def build(*options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run what `make docs` runs, with more options."""
    command = re.search(r"-m mkdocs (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert command is not None
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *shlex.split(command[1]), *map(str, options)],
        check=False, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    done = build("--site-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def outlines(site: Path) -> dict[Path, Outline]:
    """The pages, read. The page for addresses that lead nowhere is a server's matter."""
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    return {path: Outline(path.read_text(encoding="utf-8")) for path in pages}


@pytest.mark.parametrize("link", ["nowhere.md", "index.md#nowhere", "../src/none.py", "/index.md"])
def test_a_broken_link_fails_the_build(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n[broken]({link})\n", encoding="utf-8")
    config = tmp_path / "mkdocs.yml"
    own = "docs_dir: docs\nhooks: []\nnav: [index.md]\nextra_css: []\n"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\n{own}", encoding="utf-8")
    done = build("--config-file", config, "--site-dir", tmp_path / "site")
    assert done.returncode == 1
    assert f"link '{link}'" in done.stderr


def test_every_link_leads_somewhere(site: Path, outlines: dict[Path, Outline]) -> None:
    broken = []
    for path, outline in outlines.items():
        for link in outline.links | outline.fetched:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = outlines[target].anchors if target in outlines else {""}
            if not target.is_file() or unquote(parts.fragment) not in anchors | {""}:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(outlines: dict[Path, Outline]) -> None:
    addresses = {address for outline in outlines.values() for address in outline.fetched}
    assert {
        address for address in addresses if urlsplit(address).scheme or "//" in address
    } == set()


def test_no_markup_is_left_in_the_text(site: Path, outlines: dict[Path, Outline]) -> None:
    marks = ("```", "](", "\n- ", "| ---")
    left = []
    for path, outline in outlines.items():
        found = [mark for mark in marks if mark in outline.prose]
        found += ["\\|"] if "\\|" in outline.tables else []
        left += [f"{path.relative_to(site)}: {mark!r}" for mark in found]
    assert left == []


def test_names_in_tables_break_between_their_parts(site: Path) -> None:
    errors = (site / "op-errors.html").read_text(encoding="utf-8")
    assert "<code>Signature<wbr>Type<wbr>Error</code>" in errors
    assert "test_<wbr>construction.<wbr>py::<wbr>test_<wbr>" in errors
    norm = (site / "ops" / "norm.html").read_text(encoding="utf-8")
    assert "<code>RMSNorm<wbr>Portable<wbr>Kernel</code>" in norm
    assert "<wbr>" not in "".join(re.findall("<pre.*?</pre>|<p>.*?</p>", norm, re.DOTALL))
    assert "wbr" not in (site / "search" / "search_index.json").read_text(encoding="utf-8")


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_browser_opens_every_page(outlines: dict[Path, Outline], tmp_path: Path) -> None:
    """Without a fault on the console, a request to elsewhere, or a page wider than the window."""
    wide = []
    with browser(tmp_path) as tab:
        for path in outlines:
            tab.resize(*DESKTOP)
            tab.open(path.as_uri())
            wide += [path.name] if tab.value(TOO_WIDE) else []
            tab.resize(*PHONE)
            wide += [f"{path.name} on a phone"] if tab.value(TOO_WIDE) else []
    assert tab.faults == []
    assert {urlsplit(address).scheme for address in tab.fetched} <= {"file", "data"}
    assert wide == []


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_search_finds_ops_codes_and_words(site: Path, tmp_path: Path) -> None:
    wanted = {
        "签名": "glossary.html#specs",
        "RMSNormFwdOp": "ops/norm.html#rmsnormfwdop",
        "V13": "errors.html#v13",
        "refinement": "glossary.html#specs",
    }
    with browser(tmp_path) as tab:
        for words, place in wanted.items():
            tab.open((site / "index.html").as_uri())
            found = [
                urlsplit(link)._replace(query="").geturl() for link in tab.value(SEARCH % words)
            ]
            assert f"{site.as_uri()}/{place}" in found
    assert tab.faults == []
