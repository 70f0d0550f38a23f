"""Parallel tasks: the same results for any number of workers, and nothing is computed twice."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass

import joblib
import numpy as np
import pytest

from safemetry import tasks as module
from safemetry.errors import InputError
from safemetry.tasks import Task, TaskSettings, run_tasks, task_generator

ALONE = TaskSettings(jobs=1)


def draw(rng, low=0, matrix=None):
    base = 0.0 if matrix is None else float(matrix.sum())
    return base + low + rng.normal(size=3)


def threads(rng):
    return os.environ.get("OPENBLAS_NUM_THREADS"), os.environ.get("OMP_NUM_THREADS"), os.getpid()


def fail(rng, place):
    if place == 2:
        raise InputError("no response", column="item", fix="look again")
    return place


def count(rng, folder, name):
    with open(f"{folder}/{name}.calls", "a") as stream:  # noqa: PTH123
        stream.write("x")
    return {"name": name, "values": (1, 2.5, None, [True]), "matrix": rng.normal(size=(2, 3))}


def count_or_fail(rng, folder, name):
    if name == "c":
        raise RuntimeError("interrupted")
    return count(rng, folder, name)


def many(number):
    return [Task(f"task {place}", {"low": place}) for place in range(number)]


def test_results_are_the_same_for_any_number_of_workers_and_in_any_order():
    shared = {"matrix": np.arange(400_000.0)}
    alone = run_tasks(draw, many(7), seed=3, shared=shared, settings=ALONE)
    together = run_tasks(draw, many(7)[::-1], seed=3, shared=shared, settings=TaskSettings(jobs=2))
    assert np.array_equal(alone, together[::-1])
    threaded = TaskSettings(jobs=3)
    with joblib.parallel_config(backend="threading"):
        assert np.array_equal(
            alone, run_tasks(draw, many(7), seed=3, shared=shared, settings=threaded)
        )


def test_random_numbers_depend_on_the_seed_and_the_id_only():
    numbers = task_generator(0, "a").integers(2**62, size=4)
    assert np.array_equal(numbers, task_generator(0, "a").integers(2**62, size=4))
    for other in (task_generator(1, "a"), task_generator(0, "b")):
        assert not np.array_equal(numbers, other.integers(2**62, size=4))
    few, more = (run_tasks(draw, many(number), settings=ALONE) for number in (2, 5))
    assert np.array_equal(few, more[:2])


def test_each_worker_uses_one_thread_for_linear_algebra():
    found = run_tasks(threads, [Task("a"), Task("b")], settings=TaskSettings(jobs=2))
    for openblas, openmp, process in found:
        assert (openblas, openmp) == ("1", "1")
        assert process != os.getpid()


def test_a_backend_that_the_user_sets_is_used_also_where_results_come_in_batches():
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        found = run_tasks(threads, [Task(str(place)) for place in range(20)])
    assert all(process != os.getpid() for *_, process in found)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        found = run_tasks(threads, [Task("a"), Task("b")])
    assert all(process == os.getpid() for *_, process in found)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_keeps_its_kind_and_names_its_task(jobs):
    tasks = [Task(f"split {place}", {"place": place}) for place in range(4)]
    with pytest.raises(InputError, match="no response; look again") as caught:
        run_tasks(fail, tasks, settings=TaskSettings(jobs=jobs))
    assert "in task 'split 2'" in caught.value.__notes__


def test_what_cannot_be_run_is_refused():
    with pytest.raises(InputError, match="two tasks have the id 'a'"):
        run_tasks(draw, [Task("a"), Task("a")])
    with pytest.raises(InputError, match="seed"):
        run_tasks(draw, [Task("a")], seed=-1)
    with pytest.raises(InputError, match="1 or more"):
        TaskSettings(jobs=0)
    assert run_tasks(draw, []) == []


def calls(folder):
    return {path.stem: len(path.read_text()) for path in folder.glob("*.calls")}


def test_finished_tasks_are_kept_and_not_run_again(tmp_path):
    kept = TaskSettings(jobs=1, resume=tmp_path / "kept")
    tasks = [Task(name, {"folder": str(tmp_path), "name": name}) for name in "abcd"]
    with pytest.raises(RuntimeError, match="interrupted"):
        run_tasks(count_or_fail, tasks, settings=kept)
    assert calls(tmp_path) == {"a": 1, "b": 1}
    first = run_tasks(count, tasks, settings=kept)
    again = run_tasks(count, tasks, settings=kept)
    assert calls(tmp_path) == {"a": 2, "b": 2, "c": 1, "d": 1}, "another function is another task"
    for one, other in zip(first, again, strict=True):
        assert one["name"] == other["name"]
        assert one["values"] == other["values"]
        assert type(other["values"]) is tuple
        assert np.array_equal(one["matrix"], other["matrix"])


def test_whatever_decides_a_result_decides_whether_it_is_found(tmp_path):
    kept = TaskSettings(jobs=1, resume=tmp_path / "kept")

    def run(seed=0, task="a", low=1, matrix=np.ones(3)):  # noqa: B008
        before = set((tmp_path / "kept").glob("*.npz"))
        run_tasks(draw, [Task(task, {"low": low})], seed=seed, shared={"matrix": matrix},
                  settings=kept)  # fmt: skip
        return len(set((tmp_path / "kept").glob("*.npz")) - before)

    assert run() == 1
    assert run() == 0
    assert [run(seed=1), run(task="b"), run(low=2), run(matrix=np.ones(4))] == [1, 1, 1, 1]
    assert run(matrix=np.ones(3, np.float32)) == 1


def test_a_damaged_file_is_computed_again(tmp_path):
    kept = TaskSettings(jobs=1, resume=tmp_path)
    first = run_tasks(draw, many(2), settings=kept)
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:40])
    assert np.array_equal(first, run_tasks(draw, many(2), settings=kept))
    assert np.array_equal(first, run_tasks(draw, many(2), settings=kept))


def test_a_kept_file_never_runs_code(tmp_path):
    kept = TaskSettings(jobs=1, resume=tmp_path)
    first = run_tasks(draw, many(1), settings=kept)
    (path,) = tmp_path.glob("*.npz")
    with path.open("wb") as stream:
        np.savez(stream, tree=np.array([Task], dtype=object))
    assert np.array_equal(first, run_tasks(draw, many(1), settings=kept))


@dataclass(frozen=True)
class Choice:
    folder: object


def unplain(rng, choice=None):
    return {1, 2}


def test_what_cannot_be_kept_is_said(tmp_path):
    kept = TaskSettings(jobs=1, resume=tmp_path)
    with pytest.raises(TypeError, match="not set"):
        run_tasks(unplain, [Task("a")], settings=kept)
    with pytest.raises(TypeError, match="no digest"):
        run_tasks(unplain, [Task("a", {"choice": Choice(object())})], settings=kept)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be kept here"):
        run_tasks(draw, [Task("a")], settings=TaskSettings(jobs=1, resume=tmp_path / "file"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    run_tasks(draw, many(3), settings=ALONE)
    assert capsys.readouterr() == ("", "")
    screen = Terminal()
    monkeypatch.setattr(module.sys, "stderr", screen)
    monkeypatch.setattr(module, "_REFRESH", 0.0)
    run_tasks(draw, many(3), settings=TaskSettings(jobs=1, label="fits"))
    assert "fits: 0 of 3" in screen.getvalue()
    assert "fits: 3 of 3" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[K"), "the line is cleared"
    shown = len(screen.getvalue())
    run_tasks(draw, many(3), settings=TaskSettings(jobs=1, quiet=True))
    assert len(screen.getvalue()) == shown
