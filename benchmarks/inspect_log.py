"""Reading an Inspect log: our judgements against Inspect's own sample summaries alone.

Run ``python benchmarks/inspect_log.py [FOLDER]``. The log is made once, by Inspect itself with its
mock model (some minutes), and kept in the folder.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SAMPLES = 20_000
REPEATS = 7


def make_log(folder: Path, samples: int = SAMPLES) -> Path:
    """A log with two scorers, one of grades and one of numbers, from a run with a mock model.

    Parameters
    ----------
    folder
        Where the log is kept; one that is there already is used again.
    samples
        Samples of the log.
    """
    kept = Path(folder) / f"inspect_{samples}.eval"
    if kept.exists():
        return kept
    from inspect_ai import Task, eval  # noqa: A004
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, match, mean, scorer

    def replies() -> Iterator[ModelOutput]:
        for number in range(samples):
            output = ModelOutput.from_content("mockllm/model", "Yes" if number % 3 else "No")
            # without a usage Inspect counts tokens, for which it would fetch a tokenizer
            output.usage = ModelUsage(input_tokens=60, output_tokens=1, total_tokens=61)
            yield output

    @scorer(metrics=[mean()])
    def severity() -> Any:
        async def score(state: Any, _target: Any) -> Score:
            return Score(value=state.metadata["number"] % 7 / 7, explanation="by rule")

        return score

    dataset = MemoryDataset(
        [
            Sample(
                id=f"item-{number:06d}",
                input=f"Is {number} a whole number? " + "Think about it. " * 12,
                target="Yes",
                metadata={
                    "category": f"category-{number % 10}",
                    "domain": f"domain-{number % 4}",
                    "number": number,
                },
            )
            for number in range(samples)
        ]
    )
    with tempfile.TemporaryDirectory() as scratch:
        (log,) = eval(
            Task(dataset=dataset, scorer=[match(), severity()], name="whole_numbers"),
            model=get_model("mockllm/model", custom_outputs=replies()),
            log_dir=scratch,
            log_realtime=False,
            max_samples=100,
            score_display=False,
            display="none",
        )
        assert log.status == "success"
        kept.parent.mkdir(parents=True, exist_ok=True)
        Path(log.location.removeprefix("file://")).replace(kept)
    return kept


def ours(path: Path) -> int:
    """Rows of the judgements table, one metadata key mapped."""
    from safemetry.evidence.maps import make_map
    from safemetry.readers.inspect_log import InspectReader
    from safemetry.readers.source import Source

    evidence_map = make_map({"columns": {"category": "metadata.category"}})
    return len(InspectReader().read(Source(str(path)), evidence_map).judgements)


def peer(path: Path) -> int:
    """Sample summaries as Inspect reads them, two scores in each."""
    from inspect_ai.log import read_eval_log_sample_summaries

    return 2 * len(read_eval_log_sample_summaries(str(path)))


def _seconds(job: Callable[[Path], int], path: Path, rows: int) -> float:
    start = time.perf_counter()
    assert job(path) == rows
    return time.perf_counter() - start


def _peak_megabytes(job: Callable[[Path], int], path: Path) -> float:
    """Growth of a fresh process through one job; the libraries are loaded before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grown, (job, path))


def _grown(job: Callable[[Path], int], path: Path) -> float:
    import inspect_ai.log  # noqa: F401

    import safemetry.readers.inspect_log  # noqa: F401

    before = _high_water()
    job(path)
    return (_high_water() - before) / 1024


def _high_water() -> int:
    """Most kilobytes held so far; `getrusage` would count those of the parent too (Linux)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise OSError("the system does not state the memory of a process")


def measure(folder: Path | None = None, samples: int = SAMPLES) -> list[dict[str, Any]]:
    """Medians of both jobs, run alternately.

    Parameters
    ----------
    folder
        Where the log is kept; a folder of the system's temporary files if None.
    samples
        Samples of the log.
    """
    path = make_log(folder or Path(tempfile.gettempdir()) / "safemetry-benchmarks", samples)
    rows = 2 * samples
    for job in (ours, peer):
        _seconds(job, path, rows)  # imports, and the file into the cache of the system
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(REPEATS):
        times["peer"].append(_seconds(peer, path, rows))
        times["ours"].append(_seconds(ours, path, rows))
    mine, theirs = statistics.median(times["ours"]), statistics.median(times["peer"])
    return [
        {
            "job": f"read an Inspect log, {samples:,} samples, 2 scorers",
            "ours_seconds": round(mine, 3),
            "peer": "inspect_ai.log.read_eval_log_sample_summaries",
            "peer_seconds": round(theirs, 3),
            "ratio": round(mine / theirs, 3),
            "peak_mb": round(_peak_megabytes(ours, path), 1),
            "peer_peak_mb": round(_peak_megabytes(peer, path), 1),
        }
    ]


if __name__ == "__main__":
    for row in measure(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(row)
