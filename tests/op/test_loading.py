from __future__ import annotations

import subprocess
import sys
import threading
from importlib.metadata import EntryPoint

import pytest

from tileops import backend
from tileops._core.plugins import entry_points, loaded, unreadable
from tileops._core.targets import loading, registry

GOOD = """
from tileops import backend
backend.register_detector(target={name!r}, detect=lambda device: False)
"""

HALF = """
from tileops import backend
backend.register_detector(target="half", detect=lambda device: False)
backend.register_kernel_builder(op="A", target="half", build_kernel=print)
backend.register_kernel_type("A", "k", int)
raise {error}
"""


def test_packages_are_loaded_once_in_order_of_name(packages):
    source = (
        GOOD + "import builtins\nbuiltins.loaded_order = getattr(builtins, 'loaded_order', [])\n"
    )
    source += "builtins.loaded_order.append(__name__)\n"
    packages(pkg_b=source.format(name="b"), pkg_a=source.format(name="a"))
    assert backend.registered_targets() == ("a", "b")
    assert backend.registered_targets() == ("a", "b")
    import builtins

    assert builtins.loaded_order == ["pkg_a", "pkg_b"]
    del builtins.loaded_order


def test_default_target_loads_nothing(packages):
    packages(pkg_c=GOOD.format(name="c"))
    assert backend.default_target() is None
    assert "pkg_c" not in sys.modules
    backend.set_default_target("c")
    assert backend.default_target() == "c"


def test_failed_package_leaves_nothing_and_is_reported(packages, tmp_path):
    packages(pkg_d=HALF.format(error="OSError('no driver')"), pkg_e=GOOD.format(name="e"))
    with pytest.warns(RuntimeWarning, match="pkg_d = pkg_d: OSError: no driver.*load_failures"):
        assert backend.registered_targets() == ("e",)
    assert backend.registered_targets("A") == ()
    assert registry.added_kernel_types("A") == {}
    source = tmp_path / "pkg_d.py"
    last = len(source.read_text().splitlines())
    assert backend.load_failures() == (
        f"pkg_d = pkg_d: OSError: no driver (at {source}:{last}; to see the traceback: "
        "python -c 'import pkg_d')",
    )
    assert loading.hint() == "; see tileops.backend.load_failures()"


@pytest.mark.parametrize(
    ("helper", "place"),
    [
        ("import json\ndef start():\n    json.loads('{')", "half_help.py:3"),
        ("def", "half_help.py:1"),
        ("def start():\n    compile('def', '<text>', 'exec')", "half_help.py:2"),
    ],
    ids=["library", "syntax", "syntax of a text"],
)
def test_a_failure_says_where_in_the_package(packages, tmp_path, helper, place):
    folder = tmp_path / "half"
    folder.mkdir()
    (folder / "__init__.py").write_text("from half.half_help import start\nstart()")
    (folder / "half_help.py").write_text(helper)
    packages(half="")
    with pytest.warns(RuntimeWarning, match="could not be loaded"):
        (line,) = backend.load_failures()
    assert f"(at {folder / place}; to see the traceback: python -c 'import half')" in line


def test_missing_module_is_a_failure_like_any_other(packages):
    packages(pkg_f="import no_such_module_anywhere")
    with pytest.warns(RuntimeWarning, match="ModuleNotFoundError") as warned:
        assert len(backend.load_failures()) == 1
    assert warned[0].filename == __file__, "it points at who asked, however deep that was"


SPEECHLESS = """
class Speechless(Exception):
    def __str__(self):
        raise RuntimeError
raise Speechless
"""


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import sys; sys.exit()", "SystemExit: "),
        ("raise GeneratorExit", "GeneratorExit: "),
        ("raise type('Abort', (BaseException,), {})('leave')", "Abort: leave"),
        (SPEECHLESS, "Speechless: (its text cannot be made)"),
        (r"raise ValueError('a\n  b\x1b[31m')", r"ValueError: a b\x1b[31m"),
        ("raise ValueError('x' * 9000)", f"ValueError: {'x' * 500}…"),
    ],
    ids=[
        "exit",
        "quiet exit",
        "generator's exit",
        "no exception",
        "speechless",
        "unprintable",
        "long",
    ],
)
def test_every_failure_is_one_printable_line(packages, source, failure):
    half = HALF.format(error="").replace("raise ", source)
    packages(pkg_q=half, pkg_r=GOOD.format(name="r"))
    with pytest.warns(RuntimeWarning, match="could not be loaded"):
        assert backend.registered_targets() == ("r",)
    (line,) = backend.load_failures()
    assert line.startswith(f"pkg_q = pkg_q: {failure} (at ")
    assert line.isprintable()


@pytest.mark.parametrize("value", ["", "a b c!!", "-"])
def test_value_that_names_no_module(value):
    point = EntryPoint("broken", value, loading.GROUP)
    with pytest.raises(ValueError, match="is MODULE or MODULE:NAME"):
        loaded(point)


UNREADABLE = {
    "no_value": b"[tileops.backends]\nfoo\n",
    "no_text": b"[tileops.backends]\nf\xffoo = bar\n",
}


def test_metadata_that_cannot_be_read_hides_no_other_package(monkeypatch, tmp_path):
    sound = {"sound": b"[tileops.backends]\nsound = json\n[other]\nx = y\n", "bare": b""}
    for name, data in {**UNREADABLE, **sound}.items():
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_bytes(data)
        (info / "METADATA").write_text(f"Name: {name}\n" if name != "bare" else "")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [point.name for point in entry_points(loading.GROUP)]
    assert found.count("sound") == 1
    assert not {"foo", "x"} & set(found)
    lines = [line for line in unreadable() if any(name in line for name in UNREADABLE)]
    assert len(lines) == 2
    assert any(
        "entry points of no_text cannot be read: UnicodeDecodeError" in line for line in lines
    )


def test_a_name_is_shown_in_one_printable_line(packages, monkeypatch):
    packages()
    point = EntryPoint("\x1b[31mred", "no_such_module", loading.GROUP)
    monkeypatch.setattr(loading, "entry_points", lambda group: [point, point])
    with pytest.warns(RuntimeWarning, match="could not be loaded"):
        (line,) = backend.load_failures()
    assert line.startswith(r"\x1b[31mred = no_such_module: ModuleNotFoundError")


def test_interrupted_package_is_tried_again(packages):
    source = """
import builtins
from tileops import backend
backend.register_detector(target="g", detect=lambda device: False)
if builtins.interrupt:
    raise KeyboardInterrupt
"""
    import builtins

    packages(pkg_f=GOOD.format(name="f"), pkg_g=source, pkg_h=GOOD.format(name="h"))
    builtins.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        backend.registered_targets()
    assert registry.current.targets() == ("f",)
    builtins.interrupt = False
    assert backend.registered_targets() == ("f", "g", "h")
    assert backend.load_failures() == ()
    assert [each.name for each in loading.loadings()] == ["pkg_f", "pkg_g", "pkg_h"]
    del builtins.interrupt


def test_interrupted_package_runs_its_submodules_again(packages, tmp_path):
    import builtins

    folder = tmp_path / "pkg_i"
    folder.mkdir()
    (folder / "part.py").write_text(GOOD.format(name="i"))
    packages(pkg_i="")
    (tmp_path / "pkg_i.py").unlink()
    (folder / "__init__.py").write_text(
        "import builtins\nimport pkg_i.part\nif builtins.interrupt: raise KeyboardInterrupt"
    )
    builtins.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        backend.registered_targets()
    builtins.interrupt = False
    assert backend.registered_targets() == ("i",)
    del builtins.interrupt


@pytest.mark.filterwarnings("error")
def test_warnings_as_errors_come_after_everything_is_loaded(packages):
    packages(pkg_j=HALF.format(error="ValueError(1)"), pkg_k=GOOD.format(name="k"))
    with pytest.raises(RuntimeWarning):
        backend.registered_targets()
    assert backend.registered_targets() == ("k",)
    assert len(backend.load_failures()) == 1


def test_loading_thread_may_ask_and_others_wait(packages):
    source = """
import builtins, threading
from tileops import backend
backend.register_detector(target="l", detect=lambda device: False)
builtins.early = backend.registered_targets()
builtins.begun.set()
builtins.go.wait(10)
backend.register_detector(target="m", detect=lambda device: False)
"""
    import builtins

    builtins.begun, builtins.go = threading.Event(), threading.Event()
    packages(pkg_l=source)
    answers = []
    first = threading.Thread(target=lambda: answers.append(backend.registered_targets()))
    first.start()
    assert builtins.begun.wait(10)
    second = threading.Thread(target=lambda: answers.append(backend.registered_targets()))
    second.start()
    second.join(0.05)
    assert second.is_alive()
    builtins.go.set()
    first.join(10)
    second.join(10)
    assert builtins.early == ("l",)
    assert answers == [("l", "m"), ("l", "m")]
    del builtins.begun, builtins.go, builtins.early


def test_importing_the_package_loads_no_entry_point():
    code = """
import sys
from importlib import metadata
known = metadata.entry_points
def refuse(**asked):
    if asked["group"].startswith("tileops."):
        raise SystemExit("entry points were asked for")
    return known(**asked)
metadata.entry_points = refuse
import tileops
assert "torch" not in sys.modules
import tileops.backend
assert "tilelang" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
