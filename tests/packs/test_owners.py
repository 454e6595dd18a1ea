"""What a pack that fails registered goes with it, and a pack may wait for its own threads."""

from __future__ import annotations

import builtins
import importlib
import os
import re
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from sources import pack

from tileops import backend, manifest
from tileops._core.spec import registry
from tileops._core.targets import registry as backends
from tileops.errors import BackendError, ManifestError

SPEC = {"signature": {"inputs": {"x": {"dtype": "float32", "shape": "[N]"}}}}

HEAD = f"""\
import threading
from builtins import world
from pathlib import Path
from tileops import backend, manifest
SPEC = Path(__file__).with_name("spec.yaml")
EXTRA = {{"ExtraFwdOp": {SPEC!r}}}
"""


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What packs and the test tell each other."""
    shared = SimpleNamespace(go=threading.Event(), done=threading.Event(), seen=[], fail=True)
    monkeypatch.setattr(builtins, "world", shared, raising=False)
    monkeypatch.setattr(backends, "current", backends.Registry())
    return shared


def written(package: str, init: str) -> dict[str, str]:
    """A pack whose package has a module of its own."""
    return {**pack(package), f"{package}/__init__.py": HEAD + init}


def test_a_pack_that_fails_leaves_no_spec_and_no_kernel(install: Any) -> None:
    init = """
manifest.register(EXTRA)
backend.register_kernel_type("A", "k", int)
1 / 0
"""
    install(written("acme_half", init), acme="acme_half:SPEC")
    with pytest.warns(RuntimeWarning, match="acme_half.* cannot be loaded: ZeroDivisionError"):
        names = manifest.specs()
    assert {"ExtraFwdOp", "TwiceFwdOp"}.isdisjoint(names)
    assert backends.current.kernel_types == {}


@pytest.mark.parametrize("first", ["manifest", "package"])
def test_a_pack_that_fails_after_its_classes_leaves_no_spec(
    install: Any, world: SimpleNamespace, first: str
) -> None:
    package = f"acme_after_{first}"
    files = written(package, f"from {package}.ops import *\n1 / 0")
    install(files, acme=f"{package}:SPEC")
    if first == "package":
        with pytest.raises(ZeroDivisionError):
            importlib.import_module(package)
    with pytest.warns(RuntimeWarning, match=f"{package}.* cannot be loaded: ZeroDivisionError"):
        assert registry.lookup("TwiceFwdOp") is None
    (loading,) = registry.loadings()
    reason = rf"ZeroDivisionError: division by zero \(at .*/{package}/__init__.py:\d+; to see the "
    assert re.fullmatch(rf"{reason}traceback: python -c 'import {package}'\)", loading.failure)


def test_a_pack_whose_import_fails_once_is_tried_again(
    install: Any, world: SimpleNamespace
) -> None:
    files = written("acme_once", "from acme_once.ops import *\nif world.fail: 1 / 0")
    install(files, acme="acme_once:SPEC")
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("acme_once")
    world.fail = False
    assert registry.lookup("TwiceFwdOp") is not None
    (loading,) = registry.loadings()
    assert loading.failure is None


def test_an_interrupted_pack_leaves_nothing(install: Any, world: SimpleNamespace) -> None:
    init = "manifest.register(EXTRA)\nif world.fail: raise KeyboardInterrupt"
    install(written("acme_stopped", init), acme="acme_stopped:SPEC")
    with pytest.raises(KeyboardInterrupt):
        manifest.specs()
    world.fail = False
    assert {"ExtraFwdOp", "TwiceFwdOp"} <= set(manifest.specs())


def test_what_a_thread_of_a_failed_pack_registers_later_is_refused(
    install: Any, world: SimpleNamespace
) -> None:
    init = """
def late():
    world.go.wait(10)
    for register in (
        lambda: manifest.register(EXTRA),
        lambda: backend.register_detector(target="late", detect=print),
    ):
        try:
            register()
        except Exception as error:
            world.seen.append(error)
    world.done.set()
threading.Thread(target=late, daemon=True).start()
1 / 0
"""
    install(written("acme_later", init), acme="acme_later:SPEC")
    with pytest.warns(RuntimeWarning, match="acme_later"):
        manifest.specs()
    world.go.set()
    assert world.done.wait(10)
    assert [type(error) for error in world.seen] == [ManifestError, BackendError]
    assert re.fullmatch(
        r"register\(mapping\): entry point acme \(acme_later:SPEC\) failed to load "
        r"\(ZeroDivisionError: division by zero \(at .*/acme_later/__init__.py:20; .*\)\), so that "
        "what it registers is refused until the process ends",
        str(world.seen[0]),
    )
    assert "ExtraFwdOp" not in manifest.specs()


WORK = {
    "look-up": "world.seen.append('RMSNormFwdOp' in manifest.specs())",
    "register": "manifest.register(EXTRA); world.seen.append('ExtraFwdOp' in manifest.specs())",
}


@pytest.mark.parametrize("first", ["manifest", "package"])
@pytest.mark.parametrize("work", ["look-up", "register"])
@pytest.mark.parametrize("function", [False, True])
def test_a_pack_may_wait_for_its_own_thread(
    install: Any, world: SimpleNamespace, work: str, first: str, function: bool
) -> None:
    package = f"acme_waits_{work.replace('-', '_')}_{first}_{function}".lower()
    body = f"""
def work():
    {WORK[work]}
def run():
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    world.seen.append(thread.is_alive())
"""
    body += "def specs():\n    run()\n    return SPEC\n" if function else "run()\n"
    install(written(package, body), acme=f"{package}:{'specs' if function else 'SPEC'}")
    if first == "package":
        importlib.import_module(package)
    assert "TwiceFwdOp" in manifest.specs()
    assert world.seen == [True, False]


def test_a_thread_of_a_half_imported_pack_finds_its_specs(
    install: Any, world: SimpleNamespace
) -> None:
    body = """
def work():
    world.seen.append('TwiceFwdOp' in manifest.specs())
thread = threading.Thread(target=work, daemon=True)
thread.start()
thread.join(10)
"""
    install(written("acme_finds", body), acme="acme_finds:SPEC")
    assert "TwiceFwdOp" in manifest.specs()
    assert world.seen == [True]


def test_a_fork_waits_for_a_pack_that_another_thread_imports(
    install: Any, world: SimpleNamespace
) -> None:
    init = "world.done.set()\nworld.go.wait(10)"
    install(written("acme_forked", init), acme="acme_forked:SPEC")
    loader = threading.Thread(target=manifest.specs)
    loader.start()
    assert world.done.wait(10)
    threading.Timer(0.1, world.go.set).start()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if "TwiceFwdOp" in manifest.specs() else 1)
    loader.join(10)
    assert os.waitpid(child, 0) == (child, 0)


@pytest.mark.parametrize("first", ["manifest", "package"])
@pytest.mark.parametrize("where", ["body", "thread", "function"])
def test_what_specs_may_name_is_not_a_packs_to_widen(
    install: Any, world: SimpleNamespace, where: str, first: str
) -> None:
    package = f"acme_wide_{where}_{first}"
    body = """
def work():
    try:
        manifest.allow("os")
    except Exception as error:
        world.seen.append(error)
"""
    body += {
        "body": "work()\n",
        "thread": "t = threading.Thread(target=work)\nt.start()\nt.join(10)\n",
        "function": "def specs():\n    work()\n    return SPEC\n",
    }[where]
    value = f"{package}:{'specs' if where == 'function' else 'SPEC'}"
    install(written(package, body), acme=value)
    if first == "package":
        importlib.import_module(package)
    assert "TwiceFwdOp" in manifest.specs()
    (error,) = world.seen
    assert isinstance(error, ManifestError)
    assert str(error) == (
        f"allow('os'): what specs may name is the user's choice; entry point acme ({value}) may "
        "not widen it while it is imported"
    )
    assert registry.manifest().allowed == frozenset()


def test_the_default_target_is_not_a_packs_to_set(install: Any, world: SimpleNamespace) -> None:
    body = """
try:
    backend.set_default_target(backend.BUILTIN)
except Exception as error:
    world.seen.append(str(error))
"""
    install(written("acme_sets", body), acme="acme_sets:SPEC")
    assert "TwiceFwdOp" in manifest.specs()
    (text,) = world.seen
    assert "entry point acme (acme_sets:SPEC) may not set it" in text
    assert backend.default_target() is None
