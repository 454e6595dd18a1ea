"""Whose a registration is: nothing of a plug-in that failed stays or comes later, nothing hangs."""

from __future__ import annotations

import builtins
import importlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tileops import backend
from tileops._core import owners
from tileops._core.targets import loading, registry
from tileops.errors import BackendError

Packages = Any


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """What packages and the test tell each other; every event is set at the end."""
    shared = SimpleNamespace(go=threading.Event(), done=threading.Event(), seen=[], fail=True)
    monkeypatch.setattr(builtins, "world", shared, raising=False)
    yield shared
    shared.go.set()


HEAD = "import threading\nfrom builtins import world\nfrom tileops import backend\n"

LATE = (
    HEAD
    + """
def detect(device):
    return False

def late():
    world.go.wait(10)
    for register in (
        lambda: backend.register_detector(target="late", detect=detect),
        lambda: backend.register_kernel_builder(op="A", target="late", build_kernel=print),
        lambda: backend.register_kernel_type("A", "late", type("K", (), {})),
    ):
        try:
            register()
        except Exception as error:
            world.seen.append(error)
    world.done.set()

threading.Thread(target=late, daemon=True).start()
raise OSError("no driver")
"""
)


def test_what_a_thread_of_a_failed_package_registers_later_is_refused(
    packages: Packages, world: SimpleNamespace
) -> None:
    packages(pkg_late=LATE)
    with pytest.warns(RuntimeWarning, match="no driver"):
        assert backend.registered_targets() == ()
    world.go.set()
    assert world.done.wait(10)
    assert [type(error) for error in world.seen] == [BackendError] * 3
    assert re.fullmatch(
        r"a detector of target 'late': entry point pkg_late \(pkg_late\) failed to load \(OSError: "
        r"no driver \(at .*pkg_late\.py:\d+; .*\)\), so that what it registers is refused until "
        r"the process ends",
        str(world.seen[0]),
    )
    assert backend.registered_targets() == ()
    assert registry.added_kernel_types("A") == {}


@pytest.mark.parametrize("value", ["detect", "functools.partial(detect)", "Detect()", "Detect.ask"])
def test_a_foreign_thread_is_known_by_what_it_registers(
    packages: Packages, world: SimpleNamespace, value: str
) -> None:
    source = """
import functools
def detect(device):
    return False
class Detect:
    def __call__(self, device):
        return False
    ask = __call__
"""
    packages(pkg_given=f"{HEAD}{source}world.value = {value}\nraise OSError('no driver')")
    with pytest.warns(RuntimeWarning, match="no driver"):
        backend.registered_targets()
    with pytest.raises(BackendError, match=r"entry point pkg_given .* failed to load"):
        backend.register_detector(target="given", detect=world.value)


def test_an_import_of_a_failed_package_is_refused_by_name(packages: Packages) -> None:
    packages(pkg_no=HEAD + "backend.register_detector(target='no', detect=print)\n1 / 0")
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        backend.registered_targets()
    with pytest.raises(BackendError, match="failed to load .ZeroDivisionError: division by zero."):
        importlib.import_module("pkg_no")


@pytest.mark.parametrize(
    "value", ["tileops.nowhere", "tileops.backend:nothing", "__main__:nothing", "threading:nothing"]
)
def test_code_that_everybody_runs_is_no_packages(
    packages: Packages, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    from importlib.metadata import EntryPoint

    packages()
    monkeypatch.setattr(
        loading, "entry_points", lambda group: [EntryPoint("lost", value, loading.GROUP)]
    )
    with pytest.warns(RuntimeWarning, match="lost = "):
        assert len(backend.load_failures()) == 1
    space = {"__name__": value.partition(":")[0], "backend": backend}
    exec("backend.register_detector(target='mine', detect=print)", space)
    thread = threading.Thread(
        target=backend.register_kernel_type, args=("A", "k", type("K", (), {}))
    )
    thread.start()
    thread.join(10)
    assert backend.registered_targets() == ("mine",)
    assert list(registry.added_kernel_types("A")) == ["k"]


WAITS = (
    HEAD
    + """
def detect(device):
    return False

def work():
    {work}

thread = threading.Thread(target=work, daemon=True)
thread.start()
thread.join(10)
world.seen.append(thread.is_alive())
{end}
"""
)


@pytest.mark.parametrize(
    "work",
    [
        "backend.register_detector(target='own', detect=detect)",
        "world.seen.append(backend.registered_targets())",
        "world.seen.append(backend.load_failures())",
    ],
)
@pytest.mark.parametrize("end", ["", "raise OSError('no driver')"])
def test_a_package_may_wait_for_its_own_thread(
    packages: Packages, world: SimpleNamespace, work: str, end: str
) -> None:
    packages(pkg_own=WAITS.format(work=work, end=end))
    if end:
        with pytest.warns(RuntimeWarning, match="no driver"):
            targets = backend.registered_targets()
    else:
        targets = backend.registered_targets()
    assert world.seen == ([()] if "seen" in work else []) + [False]
    assert targets == (("own",) if "own" in work and not end else ())


def test_registering_through_a_pool_does_not_wait(
    packages: Packages, world: SimpleNamespace
) -> None:
    source = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    pool.submit(backend.register_detector, target="pool", detect=print).result(10)
"""
    packages(pkg_pool=HEAD + source)
    assert backend.registered_targets() == ("pool",)


def test_a_package_that_waits_for_a_thread_nobody_knows_is_named(
    packages: Packages, world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "PATIENCE", 0.1)
    source = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    world.seen.append(pool.submit(backend.registered_targets).exception(10))
"""
    packages(pkg_ask=HEAD + source)
    assert backend.registered_targets() == ()
    (error,) = world.seen
    assert isinstance(error, BackendError)
    assert str(error) == (
        "another thread has been importing entry point pkg_ask (pkg_ask) for more than 0 seconds; "
        "a backend package registers at import and waits for no other thread"
    )


def test_two_threads_that_import_one_package_do_not_wait_for_each_other(
    packages: Packages, world: SimpleNamespace
) -> None:
    packages(
        pkg_both=HEAD
        + """
world.done.set()
world.go.wait(10)
backend.register_detector(target="both", detect=print)
world.seen.append(backend.registered_targets())
"""
    )
    user = threading.Thread(target=importlib.import_module, args=("pkg_both",))
    user.start()
    assert world.done.wait(10)
    loader = threading.Thread(target=lambda: world.seen.append(backend.registered_targets()))
    loader.start()
    while loading._current is None:
        loader.join(0.001)
    world.go.set()
    user.join(10)
    loader.join(10)
    assert world.seen == [("both",)] * 2
    assert [each.failure for each in loading.loadings()] == [None]


def test_what_an_imported_package_registers_is_its_own(
    packages: Packages, world: SimpleNamespace
) -> None:
    packages(
        pkg_a_above=HEAD
        + "backend.register_detector(target='above', detect=print)\nimport pkg_b_below\n1 / 0",
        pkg_b_below=HEAD + "backend.register_detector(target='below', detect=print)",
    )
    with pytest.warns(RuntimeWarning, match="pkg_a_above"):
        assert backend.registered_targets() == ("below",)
    assert [each.name for each in loading.loadings() if each.failure] == ["pkg_a_above"]


def test_what_another_package_catches_is_withdrawn_all_the_same(packages: Packages) -> None:
    packages(
        pkg_a_careful="try:\n    import pkg_b_broken\nexcept ImportError:\n    pass\n"
        + HEAD
        + "backend.register_detector(target='careful', detect=print)",
        pkg_b_broken=HEAD
        + "backend.register_detector(target='broken', detect=print)\nimport no_such_module",
    )
    with pytest.warns(RuntimeWarning, match="pkg_b_broken = .* No module named 'no_such_module'"):
        assert backend.registered_targets() == ("careful",)


def test_an_import_that_failed_before_loading_leaves_nothing(
    packages: Packages, world: SimpleNamespace
) -> None:
    packages(
        pkg_again=HEAD
        + "backend.register_detector(target='again', detect=print)\nif world.fail: 1 / 0"
    )
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("pkg_again")
    world.fail = False
    assert backend.registered_targets() == ("again",)
    assert backend.load_failures() == ()


def test_a_package_that_asks_while_the_user_imports_it_is_loaded_afterwards(
    packages: Packages, world: SimpleNamespace
) -> None:
    packages(
        pkg_asks=HEAD
        + "world.seen.append(backend.registered_targets())\n"
        + "backend.register_detector(target='asks', detect=print)\n1 / 0"
    )
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("pkg_asks")
    with pytest.warns(RuntimeWarning, match="pkg_asks"):
        assert backend.registered_targets() == ()
    assert world.seen == [(), ()]


def test_modules_of_one_package_are_told_apart(
    packages: Packages, world: SimpleNamespace, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    folder = tmp_path / "pkg_two"
    folder.mkdir()
    register = "backend.register_detector(target={0!r}, detect=print)\n"
    (folder / "__init__.py").write_text(
        HEAD + "def add(t):\n    " + register.format("T").replace("'T'", "t")
    )
    (folder / "bad.py").write_text("from pkg_two import *\nadd('bad')\n1 / 0")
    (folder / "good.py").write_text("from pkg_two import *\nadd('good')")
    packages()
    points = [EntryPoint(name, f"pkg_two.{name}", loading.GROUP) for name in ("bad", "good")]
    monkeypatch.setattr(loading, "entry_points", lambda group: points)
    with pytest.warns(RuntimeWarning, match=r"pkg_two\.bad"):
        assert backend.registered_targets() == ("good",)
    sys.modules["pkg_two"].add("later")
    assert backend.registered_targets() == ("good", "later")
    for name in [name for name in sys.modules if name.startswith("pkg_two")]:
        del sys.modules[name]


def test_a_fork_waits_for_the_end_of_loading(packages: Packages, world: SimpleNamespace) -> None:
    source = "backend.register_detector(target='slow', detect=print)"
    packages(pkg_forked=f"{HEAD}world.done.set()\nworld.go.wait(10)\n{source}")
    loader = threading.Thread(target=backend.registered_targets)
    loader.start()
    assert world.done.wait(10)
    threading.Timer(0.1, world.go.set).start()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if backend.registered_targets() == ("slow",) else 1)
    loader.join(10)
    assert os.waitpid(child, 0) == (child, 0)
    assert owners._changing.acquire(blocking=False)
    owners._changing.release()


def test_a_package_may_wait_for_a_thread_that_forks(
    packages: Packages, world: SimpleNamespace
) -> None:
    source = """
import os
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    world.seen.append(os.waitpid(child, 0)[1])
thread = threading.Thread(target=fork)
thread.start()
thread.join(10)
"""
    packages(pkg_forks=HEAD + source)
    assert backend.load_failures() == ()
    assert world.seen == [0]


@pytest.mark.parametrize("thread", [False, True])
def test_the_default_is_not_a_packages_to_set(
    packages: Packages, world: SimpleNamespace, thread: bool
) -> None:
    source = """
backend.register_detector(target="vain", detect=print)
def work():
    for target in ("vain", None, backend.BUILTIN):
        try:
            backend.set_default_target(target)
        except backend_error as error:
            world.seen.append(error)
"""
    run = "t = threading.Thread(target=work)\nt.start()\nt.join(10)" if thread else "work()"
    head = HEAD + "from tileops.errors import BackendError as backend_error\n"
    packages(pkg_vain=head + source + run)
    assert backend.registered_targets() == ("vain",)
    refusal = "user's choice; entry point pkg_vain (pkg_vain) may not set it while it is imported"
    assert [type(error) for error in world.seen] == [BackendError] * 3
    assert {str(error) for error in world.seen} == {f"the default target is the {refusal}"}
    assert backend.default_target() is None
    sys.modules["pkg_vain"].backend.set_default_target("vain")
    assert backend.default_target() == "vain"
    backend.set_default_target(None)


def test_a_package_that_sets_the_default_and_does_not_catch_fails(packages: Packages) -> None:
    packages(
        pkg_sets=HEAD.replace("from builtins import world\n", "")
        + "backend.set_default_target(None)"
    )
    with pytest.warns(RuntimeWarning, match="the default target is the user's choice"):
        assert len(backend.load_failures()) == 1


@pytest.mark.parametrize("thread", [False, True])
def test_an_op_cannot_be_constructed_while_a_package_is_imported(
    packages: Packages, world: SimpleNamespace, thread: bool
) -> None:
    source = """
from tileops.norm import RMSNormFwdOp
def work():
    try:
        RMSNormFwdOp([4])
    except Exception as error:
        world.seen.append(error)
"""
    run = "t = threading.Thread(target=work)\nt.start()\nt.join(10)" if thread else "work()"
    packages(pkg_hasty=HEAD + source + run)
    assert backend.load_failures() == ()
    (error,) = world.seen
    assert isinstance(error, BackendError)
    assert str(error) == (
        "RMSNormFwdOp cannot be constructed while entry point pkg_hasty (pkg_hasty) is imported, "
        "which registers and does nothing more: not all implementations are known yet"
    )


def test_a_fork_leaves_a_package_behind_that_never_ends(
    packages: Packages, world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "PATIENCE", 0.1)
    packages(pkg_hangs=f"{HEAD}world.done.set()\nworld.go.wait(20)")
    loader = threading.Thread(target=backend.registered_targets)
    loader.start()
    assert world.done.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with pytest.warns(RuntimeWarning, match="pkg_hangs"):
            backend.registered_targets()
        expected = (
            "pkg_hangs = pkg_hangs: ImportError: the process was forked while another thread was "
            "importing it"
        )
        os._exit(0 if backend.load_failures() == (expected,) else 1)
    assert os.waitpid(child, 0) == (child, 0)
    world.go.set()
    loader.join(10)
    assert backend.load_failures() == ()


def test_a_finaliser_may_construct_ops_while_packages_are_loaded(
    packages: Packages, world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages(
        pkg_a=HEAD + "backend.register_detector(target='a', detect=print)",
        pkg_b=HEAD + "backend.register_detector(target='b', detect=print)",
    )
    begun = owners.under_way

    def after_a_finaliser(point: Any) -> Any:
        monkeypatch.setattr(owners, "under_way", begun)
        loading.ensure_complete("AddFwdOp")  # As if one ran between two steps.
        world.seen.append(backend.registered_targets())
        return begun(point)

    monkeypatch.setattr(owners, "under_way", after_a_finaliser)
    assert backend.registered_targets() == ("a", "b")
    assert world.seen == [("a", "b")]
    assert [each.name for each in loading.loadings()] == ["pkg_a", "pkg_b"]
