"""Reporting: one page about many targets or many judges, from a file to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.timing import Row, command_row

SHAPES = ((300, 400, 1), (60, 400, 8))
"""Targets, items and judges."""


def judgements(targets: int, items: int, judges: int) -> pa.Table:
    """Half of the items harmful, in 12 categories under 9 attacks; 1% without a verdict."""
    rng = np.random.default_rng(2026)
    target, item, judge = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(targets), np.arange(items), np.arange(judges))
    )
    behaviour = item // 2
    harmful = item % 2 == 0
    holds = rng.random(len(item)) < 0.3 + 0.65 * rng.random(targets)[target]
    lost = rng.random(len(item)) < 0.01

    def named(form: str, numbers: Any) -> Any:
        names = [form.format(number) for number in range(int(numbers.max()) + 1)]
        return pa.DictionaryArray.from_arrays(numbers, names).cast(pa.string())

    return pa.table(
        {
            "target": named("organisation/model-{:03d}", target),
            "item": named("item-{:04d}", item),
            "judge": named("judge-{}", judge),
            "label": pa.array(np.where(holds == harmful, "refuse", "comply"), mask=lost),
            "status": np.where(lost, "missing", "ok"),
            "reason": pa.array(np.full(len(item), "no_response"), mask=~lost),
            "category": named("category {:02d}", behaviour % 12),
            "attack": named("attack {}", behaviour % 9),
            "behaviour": named("behaviour-{}", behaviour),
            "intent": np.where(harmful, "harmful", "benign"),
        }
    )


def measure(folder: Path, repeats: int) -> list[Row]:
    """The rows of the table about reports; the size of the page stands in the job."""
    rows = []
    for shape in SHAPES:
        targets, items, judges = shape
        source = folder / f"report_{targets}_{items}_{judges}.parquet"
        page = source.with_suffix(".html")
        if not source.exists():
            pq.write_table(judgements(*shape), source)
        command = [sys.executable, "-m", "safemetry.cli", "report", str(source), "-o", str(page)]
        row = command_row("", [*command, "--quiet"], repeats)
        size = page.stat().st_size / 1e6
        job = (
            f"`safemetry report`, {targets} targets x {items} items x {judges} "
            f"{'judge' if judges == 1 else 'judges'} ({size:.1f} MB)"
        )
        rows.append(Row(job, row.ours, ours_cpu=row.ours_cpu, peak=row.peak))
    return rows
