"""Fits in several dimensions: growth with targets, items and dimensions, and the protocol.

``python -m benchmarks.dimensions [--chart growth.svg] [--protocol MATRIX.csv]`` simulates the
three-factor design, fits it, and prints processor seconds of one fit without its log-likelihood
(the fewest of three) and cycles. The protocol is K = 1..10 on five splits from 20 starts each.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from safemetry.irt.multidimensional.crossvalidation import cross_validate, split_responses
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.multidimensional.variational import fit_variational
from safemetry.irt.responses import Responses, make_responses

BASE = (81, 398, 3)
GROWTH = {
    "targets": [(n, 398, 3) for n in (81, 324, 1296, 5184)],
    "items": [(81, j, 3) for j in (398, 1592, 6368, 25472)],
    "dimensions": [(81, 398, k) for k in range(1, 11)],
}
CORRELATIONS = np.array([[1, 0.785, 0.451], [0.785, 1, 0.603], [0.451, 0.603, 1]])


def simulate(targets: int, items: int) -> Responses:
    """The three-factor design: half of the items on the first factor, a quarter on the others."""
    rng = np.random.default_rng(targets + items)
    factor = np.repeat([0, 0, 1, 2], [items - 3 * (items // 4)] + [items // 4] * 3)
    theta = rng.standard_normal((targets, 3)) @ np.linalg.cholesky(CORRELATIONS).T
    slopes = np.exp(rng.normal(0.2, 0.35, items))
    log_odds = theta[:, factor] * slopes + rng.normal(0.2, 1.2, items)
    return make_responses((rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(int))


def grow(repeats: int) -> list[dict[str, Any]]:
    """Seconds and cycles of one exploratory fit at each size."""
    rows = []
    for what, sizes in GROWTH.items():
        for targets, items, dimensions in sizes:
            responses = simulate(targets, items)
            taken = []
            for _ in range(repeats):
                start = time.process_time()
                fit = fit_variational(responses, dimensions)
                taken.append(time.process_time() - start)
            rows.append(
                {
                    "grows": what,
                    "targets": targets,
                    "items": items,
                    "dimensions": dimensions,
                    "seconds": round(min(taken), 3),
                    "cycles": len(fit.trace),
                    "ms per cycle": round(1000 * min(taken) / len(fit.trace), 2),
                }
            )
            print(rows[-1], flush=True)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds of a cycle against each size, on logarithmic axes."""
    import altair as alt

    panels = []
    for what in GROWTH:
        chosen = [row for row in rows if row["grows"] == what]
        panels.append(
            alt.Chart(alt.Data(values=chosen))
            .mark_line(point=True)
            .encode(
                x=alt.X(f"{what}:Q", scale=alt.Scale(type="log"), title=what),
                y=alt.Y("ms per cycle:Q", scale=alt.Scale(type="log"), title="ms per cycle"),
            )
            .properties(width=180, height=160)
        )
    alt.hconcat(*panels).save(str(path))


def protocol(matrix: Path, jobs: int) -> None:
    """K = 1..10 on five splits from 20 starts each."""
    with matrix.open() as lines:
        rows = list(csv.reader(lines))[1:]
    codes = np.array([[int(cell) if cell else -1 for cell in row[1:]] for row in rows])
    responses = make_responses(codes[:, np.ptp(codes, axis=0) > 0])
    start = time.perf_counter()
    settings = DimensionalSettings(restarts=20, jobs=jobs)
    fits = cross_validate(responses, range(1, 11), split_responses(responses), settings)
    taken = time.perf_counter() - start
    print(f"{len(fits)} fits in {taken:.0f} s, {sum(fit.converged for fit in fits)} converged")


def main() -> None:
    """Measure, and print one line for each size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dimensions", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--chart", type=Path)
    parser.add_argument("--protocol", type=Path, help="a wide matrix of outcomes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    rows = grow(asked.repeats)
    if asked.chart:
        draw(rows, asked.chart)
    if asked.protocol:
        protocol(asked.protocol, asked.jobs)


if __name__ == "__main__":
    main()
