"""Independent tasks in parallel: the only parallel map of the package.

A task is a function call with an id. Its random numbers depend on the seed and on its id alone, so
that the results are the same for any number of workers, in any order, and after a restart. Local
processes run them by default; under ``joblib.parallel_config`` the backend that the user has set
does, such as Dask or Ray.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from importlib.metadata import version
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, Final, TextIO
from zipfile import BadZipFile

import numpy as np

from safemetry.errors import InputError

_TREE: Final = "tree"
_BATCH: Final = 4
"""Tasks for each worker that are sent at once to a backend that returns all results together."""
_REFRESH: Final = 0.2
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Task:
    """One call of the function.

    Parameters
    ----------
    id
        Unique among the tasks; it decides the random numbers, and is shown where the task fails.
    arguments
        Keyword arguments of this call.
    """

    id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskSettings:
    """How tasks are run; none of this changes a result.

    Parameters
    ----------
    jobs
        Worker processes, at least 1; 1 runs in this process. None takes as many as
        ``joblib.parallel_config`` says, or all cores (of a cluster: all workers).
    resume
        Directory in which finished tasks are kept. A task found there under the digest of its
        function, arguments and seed is not run again.
    quiet
        Whether to leave out progress, which is otherwise shown on standard error on a terminal.
    label
        What the tasks are, for the line of progress.
    """

    jobs: int | None = None
    resume: Path | None = None
    quiet: bool = False
    label: str = "tasks"

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"{self.jobs} jobs cannot do anything", fix="give 1 or more")


def run_tasks(
    function: Callable[..., Any],
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    shared: Mapping[str, Any] | None = None,
    settings: TaskSettings | None = None,
) -> list[Any]:
    """Call a function once for each task, and return the results in the order of the tasks.

    Parameters
    ----------
    function
        Called as ``function(rng=..., **shared, **arguments)`` with a `numpy.random.Generator`; it
        must be importable by name to run in other processes. Under `TaskSettings.resume` it takes
        and returns plain values: None, booleans, numbers, texts, lists, tuples, mappings with text
        keys, and NumPy arrays of numbers.
    tasks
        With ids that differ.
    seed
        Not negative; together with the id of a task it decides the random numbers of the task.
    shared
        Arguments that every task has; large arrays are handed to the workers once.
    settings
        Workers, resuming, progress.

    Raises
    ------
    InputError
        For repeated ids or a negative seed.
    Exception
        What a task raised, with a note that names the task. Tasks that finished before are kept.

    Notes
    -----
    Worker processes use one thread each for linear algebra, so that they do not crowd one another
    out. In this process (``jobs=1``) the library's own number of threads stays, and the last digits
    of large matrix products may depend on it.

    Examples
    --------
    >>> def draw(rng, low):
    ...     return low + int(rng.integers(10))
    >>> tasks = [Task(f"start {low}", {"low": low}) for low in (0, 100)]
    >>> alone = TaskSettings(jobs=1)
    >>> first = run_tasks(draw, tasks, seed=1, settings=alone)
    >>> first == run_tasks(draw, tasks[::-1], seed=1, settings=alone)[::-1]
    True
    """
    chosen = settings or TaskSettings()
    common = dict(shared or {})
    if seed < 0:
        raise InputError(f"the seed is {seed}", fix="give a whole number from 0")
    ids = [task.id for task in tasks]
    if len(set(ids)) < len(ids):
        repeated = next(name for name in ids if ids.count(name) > 1)
        raise InputError(f"two tasks have the id {repeated!r}")
    store = _Kept(chosen.resume, function, common, seed) if chosen.resume is not None else None
    results: dict[int, Any] = {}
    if store is not None:
        results = {
            place: found[0]
            for place, task in enumerate(tasks)
            if (found := store.find(task)) is not None
        }
    waiting = [place for place in range(len(tasks)) if place not in results]
    progress = _Progress(chosen, len(tasks), len(results))
    with progress:
        for place, result in _computed(function, tasks, waiting, seed, common, chosen.jobs):
            if store is not None:
                store.keep(tasks[place], result)
            results[place] = result
            progress.advance()
    return [results[place] for place in range(len(tasks))]


def task_generator(seed: int, task_id: str) -> np.random.Generator:
    """The random numbers of a task, from the seed and the id of the task only."""
    digest = hashlib.sha256(task_id.encode()).digest()
    words = [int.from_bytes(digest[at : at + 4], "little") for at in range(0, 32, 4)]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))


def _computed(
    function: Callable[..., Any],
    tasks: Sequence[Task],
    places: Sequence[int],
    seed: int,
    shared: Mapping[str, Any],
    jobs: int | None,
) -> Iterator[tuple[int, Any]]:
    """Places and results, as they are finished where the backend allows that."""
    if not places:
        return
    is_set, streams, configured = _backend()
    if not is_set and (jobs == 1 or len(places) == 1):
        yield from (_call(place, function, tasks[place], seed, shared) for place in places)
        return
    workers = next((number for number in (jobs, configured) if number is not None), -1)
    with nullcontext() if is_set else _local_processes():
        for batch in _batches(places, workers, streams=streams):
            calls = (_delayed(place, function, tasks[place], seed, shared) for place in batch)
            yield from _parallel(workers, streams=streams)(calls)


def _batches(places: Sequence[int], workers: int, *, streams: bool) -> Iterator[Sequence[int]]:
    """All places at once; in small batches where a backend returns all results together."""
    import joblib

    size = len(places) if streams else _BATCH * max(joblib.effective_n_jobs(workers), 1)
    for start in range(0, len(places), size):
        yield places[start : start + size]


def _parallel(workers: int, *, streams: bool) -> Any:
    import joblib

    return joblib.Parallel(n_jobs=workers, return_as="generator_unordered" if streams else "list")


def _delayed(*arguments: Any) -> Any:
    import joblib

    return joblib.delayed(_call)(*arguments)


def _local_processes() -> AbstractContextManager[Any]:
    """Local processes, each with one thread for linear algebra."""
    import joblib

    context: AbstractContextManager[Any] = joblib.parallel_config(
        backend="loky", inner_max_num_threads=1
    )
    return context


def _backend() -> tuple[bool, bool, int | None]:
    """Whether a backend other than local processes is set, gives results singly, and its jobs."""
    from joblib.parallel import get_active_backend

    backend, jobs = get_active_backend()
    is_set = type(backend).__name__ != "LokyBackend"
    return is_set, bool(getattr(backend, "supports_return_generator", False)), jobs


def _call(
    place: int, function: Callable[..., Any], task: Task, seed: int, shared: Mapping[str, Any]
) -> tuple[int, Any]:
    """Run in a worker: one task with its own random numbers."""
    try:
        return place, function(rng=task_generator(seed, task.id), **shared, **task.arguments)
    except Exception as error:
        error.add_note(f"in task {task.id!r}")
        raise


# --- progress ------------------------------------------------------------------------------------


class _Progress:
    """A line on standard error that is written over, on a terminal only."""

    def __init__(self, settings: TaskSettings, total: int, done: int) -> None:
        self._stream: TextIO | None = None
        if total and not settings.quiet and sys.stderr.isatty():
            self._stream = sys.stderr
        self._label, self._total = settings.label, total
        self._before, self._done = done, done
        self._start = self._shown = time.monotonic()

    def __enter__(self) -> None:
        self._show()

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def advance(self) -> None:
        """One task more is done."""
        self._done += 1
        if time.monotonic() - self._shown >= _REFRESH:
            self._show()

    def _show(self) -> None:
        if self._stream is None:
            return
        self._shown = time.monotonic()
        fresh, left = self._done - self._before, self._total - self._done
        remaining = ""
        if fresh and left:
            seconds = round((self._shown - self._start) / fresh * left)
            remaining = f", about {seconds // 60}:{seconds % 60:02d} left"
        self._stream.write(f"\r\x1b[K{self._label}: {self._done} of {self._total}{remaining}")
        self._stream.flush()


# --- finished tasks ------------------------------------------------------------------------------


class _Kept:
    """Results of finished tasks, one file each, named by all that decides the result."""

    def __init__(
        self, folder: Path, function: Callable[..., Any], shared: Mapping[str, Any], seed: int
    ) -> None:
        self._folder = folder
        name = f"{function.__module__}.{function.__qualname__}"
        self._common = [version("safemetry"), name, seed, _fingerprint(shared)]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"finished tasks cannot be kept here ({error.strerror})", file=str(folder)
            ) from error

    def find(self, task: Task) -> tuple[Any] | None:
        """The result of a task in a tuple, or None where it is not kept whole."""
        path = self._path(task)
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                tree = json.loads(bytes(archive[_TREE]))
                return (_decoded(tree, archive),)
        except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile):
            return None

    def keep(self, task: Task, result: Any) -> None:
        """Write the result of a task, whole or not at all."""
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        tree = json.dumps(_encoded(result, arrays)).encode()
        buffer = BytesIO()
        np.savez(buffer, allow_pickle=False, **{_TREE: np.frombuffer(tree, np.uint8)}, **arrays)
        path = self._path(task)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            draft.write_bytes(buffer.getvalue())
            draft.replace(path)
        except OSError as error:
            raise InputError(
                f"a finished task cannot be kept ({error.strerror})", file=str(self._folder)
            ) from error
        finally:
            draft.unlink(missing_ok=True)

    def _path(self, task: Task) -> Path:
        content = [*self._common, task.id, _fingerprint(task.arguments)]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return self._folder / f"{digest[:40]}.npz"


def _encoded(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """Plain values as JSON, with the arrays beside it."""
    if value is None or isinstance(value, bool | int | float | str):
        # Subclasses such as enumerations would come back as something else.
        if type(value) in {type(None), bool, int, float, str}:
            return value
    elif isinstance(value, list | tuple) and type(value) in {list, tuple}:
        return {type(value).__name__: [_encoded(entry, arrays) for entry in value]}
    elif type(value) is dict and all(type(key) is str for key in value):
        return {"dict": [[key, _encoded(entry, arrays)] for key, entry in value.items()]}
    if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "biufcU":
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array" if isinstance(value, np.ndarray) else "scalar": name}
    msg = f"a task that can be kept returns plain values and arrays, not {type(value).__name__}"
    raise TypeError(msg)


def _decoded(tree: Any, archive: Mapping[str, Any]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        return archive[content]
    if kind == "scalar":
        return archive[content][()]
    if kind == "dict":
        return {key: _decoded(entry, archive) for key, entry in content}
    entries = [_decoded(entry, archive) for entry in content]
    return tuple(entries) if kind == "tuple" else entries


def _fingerprint(value: Any) -> Any:
    """Arguments as JSON that differs where they differ; arrays by their digest."""
    if value is None or type(value) in {bool, int, float, str}:
        return value
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        if array.dtype.kind not in "biufcUS":
            msg = "arrays of objects cannot be arguments of a task that is kept"
            raise TypeError(msg)
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        return {name: [array.dtype.str, list(np.shape(value)), digest]}
    return {name: [_fingerprint(part) for part in _contents(value, name)]}


def _contents(value: Any, name: str) -> Sequence[Any]:
    """The parts of a composite argument, in an order that belongs to it."""
    if isinstance(value, Enum):
        return [value.value]
    if isinstance(value, PurePath):
        return [str(value)]
    if isinstance(value, Mapping):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, list | tuple):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, item.name) for item in fields(value)]
    msg = f"an argument of type {name} has no digest; a task that is kept takes plain values"
    raise TypeError(msg)
