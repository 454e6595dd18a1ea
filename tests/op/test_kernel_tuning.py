from __future__ import annotations

import json
import multiprocessing
import threading
import warnings
from pathlib import Path

import pytest
import torch

from tileops._core.dispatch import tuning
from tileops.kernels import Kernel


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    return tmp_path / "tuning"


@pytest.fixture
def timed(monkeypatch):
    """Time is what a configuration says it takes; the list says which were timed."""
    configs = []

    def time_launch(launch, device):
        launch()
        configs.append(dict(Tunable.last.config))
        return Tunable.last.config["cost"]

    monkeypatch.setattr(tuning, "time_launch", time_launch)
    return configs


class Tunable(Kernel):
    needs_tilelang = False
    default_config = {"cost": 5}
    autotune_configs = ({"cost": 7}, {"cost": 2}, {"cost": 3})
    last = None

    def __init__(self, n=4):
        super().__init__()
        self.n = n

    def make_program(self, config):
        if config["cost"] < 0:
            raise RuntimeError("does not compile")
        return lambda x: x + 1

    def forward(self, x):
        Tunable.last = self
        return self.program()(x)


def test_kernel_that_was_launched_tunes_at_once(timed):
    kernel = Tunable()
    kernel(torch.zeros(3))
    kernel.request_tune()
    assert kernel.config == {"cost": 2}
    assert timed == [{"cost": 7}, {"cost": 2}, {"cost": 3}]


def test_kernel_that_was_not_launched_tunes_after_its_first_launch(timed):
    kernel = Tunable()
    kernel.request_tune()
    assert timed == []
    assert kernel(torch.zeros(3)).tolist() == [1, 1, 1]
    assert kernel.config == {"cost": 2}


def test_request_is_heard_once(timed):
    kernel = Tunable()
    kernel(torch.zeros(3))
    kernel.request_tune()
    kernel.request_tune()
    kernel(torch.zeros(3))
    assert len(timed) == 3
    chosen = {**kernel.config, "by hand": 1}
    kernel.config = chosen
    kernel.request_tune()
    assert kernel.config == chosen


def test_interrupted_tuning_is_taken_up_by_the_next_launch(timed, monkeypatch):
    kernel = Tunable()
    kernel.request_tune()

    def interrupt(launch, device):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tuning, "time_launch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            kernel(torch.zeros(3))
    assert timed == []
    kernel(torch.zeros(3))
    assert len(timed) == 3
    kernel(torch.zeros(3))
    assert len(timed) == 3


def test_kernel_without_candidates_is_left_as_it_is(timed):
    class Fixed(Tunable):
        autotune_configs = None

    kernel = Fixed()
    kernel.request_tune()
    kernel(torch.zeros(3))
    assert kernel.config == {"cost": 5}
    assert timed == []


def test_candidate_that_does_not_run_is_skipped(timed):
    class Partly(Tunable):
        autotune_configs = ({"cost": -1}, {"cost": 4})

    kernel = Partly()
    kernel(torch.zeros(3))
    kernel.request_tune()
    assert kernel.config == {"cost": 4}


def test_candidate_that_is_no_key_is_skipped(timed):
    class Listed(Tunable):
        autotune_configs = ({"cost": [1]}, {"cost": 4})

    kernel = Listed()
    kernel(torch.zeros(3))
    kernel.request_tune()
    assert kernel.config == {"cost": 4}


def test_other_threads_launch_while_a_kernel_is_tuned(timed, monkeypatch):
    kernel, found = Tunable(), []
    kernel(torch.zeros(3))

    def time_launch(launch, device):
        thread = threading.Thread(target=lambda: found.append(kernel(torch.zeros(1)).item()))
        thread.start()
        thread.join(10)
        kernel.request_tune()
        return 1.0

    monkeypatch.setattr(tuning, "time_launch", time_launch)
    kernel.request_tune()
    assert found == [1] * 3


def test_candidates_may_be_generated(timed):
    class Generated(Tunable):
        @property
        def autotune_configs(self):
            return ({"cost": cost} for cost in (4, 3))

    kernel = Generated()
    kernel(torch.zeros(3))
    kernel.request_tune()
    assert kernel.config == {"cost": 3}


def test_no_candidate_runs(timed):
    class Never(Tunable):
        autotune_configs = ({"cost": -1}, {"cost": -2})

    kernel = Never()
    kernel(torch.zeros(3))
    with pytest.warns(RuntimeWarning, match="Never: none of 2 tuning candidates ran.*compile"):
        kernel.request_tune()
    assert kernel.config == {"cost": 5}
    assert kernel(torch.zeros(1)).tolist() == [1]


def test_inputs_are_new_random_floats_of_the_shapes_last_seen():
    class Inspects(Tunable):
        def tuning_inputs(self):
            self.inputs = super().tuning_inputs()
            return self.inputs

        def forward(self, x, scale, mask):
            return x

    kernel = Inspects()
    kernel(torch.zeros(3), 1.0, None)
    kernel(torch.zeros(2, 5, dtype=torch.bfloat16), 2.0, mask=None)
    kernel.request_tune()
    x, scale, mask = kernel.inputs
    assert (tuple(x.shape), x.dtype, scale, mask) == ((2, 5), torch.bfloat16, 2.0, None)
    assert x.float().std() > 0


def test_the_caller_s_random_numbers_stay_as_they_were(timed):
    class Adds(Tunable):
        def tuning_inputs(self):
            self.inputs = super().tuning_inputs()
            return self.inputs

        def forward(self, x, y):
            Tunable.last = self
            return x + y

    kernel = Adds()
    kernel(torch.zeros(3), torch.zeros(3))
    before = torch.random.get_rng_state()
    kernel.request_tune()
    assert len(timed) == 3
    assert torch.equal(torch.random.get_rng_state(), before)
    x, y = kernel.inputs
    assert not torch.equal(x, y)


def test_integer_tensors_need_inputs_of_the_class():
    kernel = Tunable()
    kernel(torch.zeros(3, dtype=torch.int32))
    with pytest.raises(ValueError, match=r"Tunable cannot be tuned .* argument 0 \(int32\)"):
        kernel.request_tune()

    class Own(Tunable):
        def tuning_inputs(self):
            return (torch.arange(3),)

    kernel = Own()
    kernel(torch.zeros(3, dtype=torch.int32))
    kernel.request_tune()
    assert kernel.config in Own.autotune_configs


def test_result_is_kept_per_constants_device_and_shape_class(timed, cache):
    def tuned(n, size, kind=Tunable):
        kernel = kind(n)
        kernel.request_tune()
        kernel(torch.zeros(size))
        return len(timed)

    assert tuned(4, 17) == 3
    assert tuned(4, 32) == 3
    assert tuned(4, 33) == 6
    assert tuned(5, 17) == 9
    kept = sorted(cache.iterdir())
    assert len(kept) == 3
    data = json.loads(kept[0].read_text())
    assert data["key"]["device"] == "cpu"
    assert data["candidate"] == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"key": 1}', "\x00\x01"])
def test_damaged_file_is_timed_again_and_written_anew(timed, cache, text):
    def tuned():
        kernel = Tunable()
        kernel.request_tune()
        kernel(torch.zeros(3))
        assert kernel.config == {"cost": 2}

    tuned()
    (file,) = cache.iterdir()
    good = file.read_text()
    file.write_text(text)
    tuned()
    assert len(timed) == 6
    assert file.read_text() == good


@pytest.mark.parametrize("place", ["9", "-1", "true", "1.0", "[1]", "null", "1e400"])
def test_stale_candidate_is_not_used(timed, cache, place):
    kernel = Tunable()
    kernel.request_tune()
    kernel(torch.zeros(3))
    (file,) = cache.iterdir()
    file.write_text(file.read_text().replace('"candidate": 1', f'"candidate": {place}'))
    kernel = Tunable()
    kernel.request_tune()
    kernel(torch.zeros(3))
    assert kernel.config == {"cost": 2}
    assert len(timed) == 6


def test_kept_candidate_that_no_longer_compiles_is_not_used(timed, monkeypatch):
    def tuned():
        kernel = Tunable()
        kernel.request_tune()
        kernel(torch.zeros(3))
        return kernel(torch.zeros(3)).sum(), kernel.config["cost"]

    assert tuned() == (3, 2)
    make_program = Tunable.make_program

    def stricter(self, config):
        if config == {"cost": 2}:
            raise RuntimeError("takes too much shared memory")
        return make_program(self, config)

    monkeypatch.setattr(Tunable, "make_program", stricter)
    assert tuned() == (3, 3)


def test_file_that_cannot_be_put_in_place_is_said_and_removed(timed, cache, monkeypatch):
    def refuse(self, *_args):
        raise PermissionError("replace refused")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        kernel = Tunable()
        kernel.request_tune()
        with pytest.warns(RuntimeWarning, match="could not be kept: replace refused"):
            kernel(torch.zeros(3))
    assert kernel.config == {"cost": 2}
    assert list(cache.iterdir()) == []


def test_user_without_a_home_tunes_anew(timed, monkeypatch):
    def homeless(*_args):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TILEOPS_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    kernel = Tunable()
    kernel.request_tune()
    with pytest.warns(RuntimeWarning, match=r"kept: Could not .* Set TILEOPS_CACHE_DIR\."):
        kernel(torch.zeros(3))
    assert kernel.config == {"cost": 2}


def test_interrupted_write_leaves_no_file(timed, cache, monkeypatch):
    def interrupt(self, *_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    kernel = Tunable()
    kernel.request_tune()
    with pytest.raises(KeyboardInterrupt):
        kernel(torch.zeros(3))
    assert list(cache.iterdir()) == []


def test_folder_that_cannot_be_written_is_said_and_costs_nothing_else(timed, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(blocked))
    kernel = Tunable()
    kernel(torch.zeros(3))
    with pytest.warns(RuntimeWarning, match="the tuning result of .*Tunable could not be kept"):
        kernel.request_tune()
    assert kernel.config == {"cost": 2}


def _tune_in_process(folder, start):
    import os

    os.environ["TILEOPS_CACHE_DIR"] = folder
    start.wait()
    for n in range(8):
        kernel = Tunable(n)
        kernel(torch.zeros(3))
        kernel.request_tune()


def test_concurrent_processes_leave_whole_files(cache):
    context = multiprocessing.get_context("fork")
    start = context.Barrier(3)
    workers = [
        context.Process(target=_tune_in_process, args=(str(cache.parent), start)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    files = sorted(cache.iterdir())
    assert len(files) == 8
    assert all(json.loads(file.read_text())["candidate"] in range(3) for file in files)


def test_launches_in_other_threads_never_meet_a_candidate(monkeypatch):
    seen, stop = set(), threading.Event()
    kernel = Tunable()
    kernel(torch.zeros(3))

    def launch():
        while not stop.is_set():
            kernel(torch.zeros(3))
            seen.add(kernel.config["cost"])

    def time_launch(launch, device):
        launch()
        threading.Event().wait(0.01)
        return 1.0

    monkeypatch.setattr(tuning, "time_launch", time_launch)
    thread = threading.Thread(target=launch)
    thread.start()
    kernel.request_tune()
    stop.set()
    thread.join()
    assert seen <= {5, 7}
    assert kernel.config == {"cost": 7}


def test_time_of_a_launch_on_the_host():
    launched = []
    seconds = tuning.time_launch(lambda: launched.append(1), torch.device("cpu"))
    assert 0 <= seconds < 1
    assert len(launched) > 2


def test_cache_folder(monkeypatch, tmp_path):
    assert tuning.cache_folder() == tmp_path
    monkeypatch.delenv("TILEOPS_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(tuning.cache_folder()) == "/somewhere/tileops"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert tuning.cache_folder().parts[-2:] == (".cache", "tileops")


def test_tuning_leaves_no_warning_behind(timed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = Tunable()
        kernel.request_tune()
        kernel(torch.zeros(3))
