"""Two jobs side by side: medians of alternating repeats, and the peak memory of each alone."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Parameters
    ----------
    job
        What was done.
    ours, peer
        Median seconds; None where there is no peer.
    ours_cpu, peer_cpu
        Median processor seconds, which say more on a machine that others use as well.
    peak, peer_peak
        Peak memory of a fresh process that does the job once, in MB (10^6 bytes).
    peer_name
        What stands beside it.
    """

    job: str
    ours: float
    peer: float | None = None
    ours_cpu: float | None = None
    peer_cpu: float | None = None
    peak: float | None = None
    peer_peak: float | None = None
    peer_name: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's, wall clock."""
        return None if self.peer is None else self.ours / self.peer

    @property
    def cpu_ratio(self) -> float | None:
        """Ours over the peer's, processor time."""
        if self.peer_cpu is None or self.ours_cpu is None:
            return None
        return self.ours_cpu / self.peer_cpu

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values."""
        return asdict(self) | {"ratio": self.ratio, "cpu_ratio": self.cpu_ratio}


class PeakMemory:
    """The peak of resident memory of this process and all that it started, in MB, by sampling."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(0.2):
            self.peak = max(self.peak, _resident(os.getpid()) / 1e6)


def _resident(process: int) -> float:
    """Bytes of a process and of its children."""
    parents: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents.setdefault(int(fields[1]), []).append(int(folder.name))
        pages[int(folder.name)] = int(fields[21])
    waiting, found = [process], 0
    while waiting:
        one = waiting.pop()
        found += pages.get(one, 0)
        waiting += parents.get(one, [])
    return float(found * os.sysconf("SC_PAGE_SIZE"))


def alternate(jobs: Sequence[Callable[[], object]], repeats: int) -> list[tuple[float, float]]:
    """Median wall and processor seconds of each job, one after the other in every round."""
    found: list[list[tuple[float, float]]] = [[] for _ in jobs]
    for _ in range(repeats):
        for place, job in enumerate(jobs):
            wall, used = time.perf_counter(), _processor_seconds()
            job()
            found[place].append((time.perf_counter() - wall, _processor_seconds() - used))
    return [
        (statistics.median(w for w, _ in times), statistics.median(c for _, c in times))
        for times in found
    ]


def _processor_seconds() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def compare(
    job: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    repeats: int,
    *,
    peer_name: str = "hand-written SQL",
    peaks: tuple[float | None, float | None] = (None, None),
) -> Row:
    """Two jobs of one process, by alternating repeats."""
    (mine, my_cpu), (theirs, their_cpu) = alternate([ours, peer], repeats)
    return Row(job, mine, theirs, my_cpu, their_cpu, *peaks, peer_name)


# A process counts the memory of the one that started it as its own, so a small one has to.
_LAUNCHER = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
wall = time.perf_counter() - start
print(os.waitstatus_to_exitcode(status), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""


def run_command(command: Sequence[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak memory in MB (10^6 bytes) of a command."""
    launch = [sys.executable, "-S", "-E", "-c", _LAUNCHER, *command]
    done = subprocess.run(launch, capture_output=True, text=True, check=True)
    code, wall, used, peak = done.stdout.split()
    if int(code):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    # Linux counts in units of 1024 bytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return float(wall), float(used), float(peak) * unit / 1e6


def command_row(job: str, command: Sequence[str], repeats: int) -> Row:
    """Medians of a command."""
    runs = [run_command(command) for _ in range(repeats)]
    wall, used, peak = (statistics.median(part) for part in zip(*runs, strict=True))
    return Row(job, wall, ours_cpu=used, peak=peak)


def printed(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = ["job", "ours", "peer", "ratio", "CPU ratio", "peak", "peer's peak", "peer"]
    lines = [head, ["---", *["---:"] * (len(head) - 2), "---"]]
    lines += [
        [
            row.job,
            _seconds(row.ours),
            _seconds(row.peer),
            _number(row.ratio),
            _number(row.cpu_ratio),
            _megabytes(row.peak),
            _megabytes(row.peer_peak),
            row.peer_name,
        ]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.0f} ms"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _megabytes(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} MB"
