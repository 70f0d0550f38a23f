"""Auditing judges: many verdicts, and a panel of the usual size."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from benchmarks.timing import Row

from safemetry.judges import JudgeSettings, audit_judges
from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.agreement.agreement_table import measure_agreement
from safemetry.judges.collapse import find_collapse
from safemetry.judges.counts import count_classes
from safemetry.judges.movement import measure_movement
from safemetry.judges.panel import Column, Panel
from safemetry.judges.spread import measure_spread

CLASSES = ("refuse", "evasive", "comply")


def large_panel(judges: int = 18, responses: int = 1_000_000, targets: int = 50) -> Panel:
    """Judges that share a truth, on items that are the clusters."""
    rng = np.random.default_rng(1)
    truth = rng.choice(3, responses, p=[0.55, 0.2, 0.25]).astype(np.int8)
    labels = np.stack(
        [
            np.where(rng.random(responses) < 0.8, truth, rng.integers(0, 3, responses))
            for _ in range(judges)
        ],
        axis=1,
    ).astype(np.int8)
    unknown = Column((), np.full(responses, -1))
    items = responses // targets
    return Panel(
        judges=tuple(f"judge-{number:02d}" for number in range(judges)),
        classes=CLASSES,
        ordered=3,
        calls=labels[None],
        can_emit=np.ones((judges, 3), bool),
        declared=np.zeros(judges, bool),
        target=Column(tuple(f"m{n}" for n in range(targets)), np.arange(responses) % targets),
        item=Column(tuple(map(str, range(items))), np.arange(responses) // targets),
        run=Column(("run",), np.zeros(responses, np.int64)),
        epoch=np.ones(responses, np.int64),
        intent=unknown,
        category=unknown,
        behaviour=unknown,
    )


def usual_table(judges: int = 5, responses: int = 10_000) -> pa.Table:
    """A tidy table of ten targets."""
    panel = large_panel(judges, responses, targets=10)
    target = np.repeat(np.array(panel.target.names)[panel.target.codes], judges)
    item = np.repeat(np.array(panel.item.names)[panel.item.codes], judges)
    return pa.table(
        {
            "target": target,
            "item": item,
            "judge": list(panel.judges) * responses,
            "label": np.array(CLASSES)[panel.labels.ravel()],
        }
    )


def measure() -> list[Row]:
    """The rows of the table about judges."""
    panel = large_panel()

    def everything() -> None:
        counts = count_classes(panel)
        find_collapse(panel, counts)
        measure_movement(panel, panel.judges[0])
        measure_spread(panel, counts, set())
        measure_agreement(panel, np.random.default_rng(0), AgreementSettings(draws=1000))

    rows = [
        _timed(
            "18 judges x 1M responses: counts, movement, spread, agreement (1,000 draws)",
            everything,
        )
    ]
    table = usual_table()
    settings = JudgeSettings(gold=("judge-00",))
    rows.append(
        _timed(
            "5 judges x 10,000 responses: the whole audit",
            lambda: audit_judges(table, evidence_map={"intent": "harmful"}, settings=settings),
        )
    )
    return rows


def _timed(job: str, work: Callable[[], object]) -> Row:
    wall, used = time.perf_counter(), sum(os.times()[:4])
    work()
    wall, used = time.perf_counter() - wall, sum(os.times()[:4]) - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return Row(job, wall, ours_cpu=used, peak=peak)
