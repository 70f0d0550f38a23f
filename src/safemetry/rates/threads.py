"""Independent steps side by side: NumPy and Arrow leave the interpreter free while they compute."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Found = TypeVar("Found")


def side_by_side(steps: Iterable[Callable[[], Found]], threads: int) -> list[Found]:
    """The results of some steps, in their order, whatever the number of threads.

    Parameters
    ----------
    steps
        What to do, none of which depends on another.
    threads
        How many may run at a time; with 1, all run in the thread of the caller.

    >>> side_by_side([lambda: 1, lambda: 2], threads=2)
    [1, 2]
    """
    waiting = list(steps)
    if threads < 2 or len(waiting) < 2:
        return [step() for step in waiting]
    with ThreadPoolExecutor(min(threads, len(waiting))) as pool:
        return list(pool.map(lambda step: step(), waiting))


@contextmanager
def collecting_later() -> Iterator[None]:
    """Put off the search for cycles of objects, here where many are made and none forms a cycle.

    Each search walks over all the objects there are, which takes a sixth of the time of a hundred
    thousand claims.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
