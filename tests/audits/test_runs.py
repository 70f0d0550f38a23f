"""Answers of every run by themselves, and how many runs of a target count."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from safemetry.audits.runs import MOST_RUNS, answers_of_runs
from safemetry.evidence.evidence import as_evidence

ITEMS = [f"i{item:03d}" for item in range(12)]


def with_runs(rows):
    """Evidence of rows ``(target, run, outcomes)``; all items are benign."""
    cells = [
        (target, run, item, ("refuse", "comply")[outcome])
        for target, run, outcomes in rows
        for item, outcome in zip(ITEMS, outcomes, strict=True)
    ]
    names = ("target", "run", "item", "label")
    columns = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
    count = len(cells)
    return as_evidence(pa.table({**columns, "judge": ["j"] * count, "intent": ["benign"] * count}))


def test_targets_with_runs_of_their_own_lose_no_answer():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (3 * MOST_RUNS, 12))
    names = [f"t{row:03d}" for row in range(len(codes))]
    rows = [(name, f"run of {name}", row) for name, row in zip(names, codes, strict=True)]
    evidence = with_runs(rows)
    found, said = answers_of_runs(evidence, names, ITEMS)
    assert said is None
    assert found.shape == (1, *codes.shape)
    # The lowest class of the scale is refusal, 0 here as there.
    assert (found[0] == codes).all() or (found[0] == 1 - codes).all()


def test_runs_are_cut_for_the_target_that_has_too_many():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (MOST_RUNS + 6, 12))
    rows = [("often", f"a{place:02d}", row) for place, row in enumerate(codes[:-1])]
    evidence = with_runs([*rows, ("once", "z", codes[-1])])
    found, said = answers_of_runs(evidence, ["often", "once"], ITEMS)
    assert found.shape == (MOST_RUNS, 2, 12)
    assert "1 has more" in said
    assert (found[0, 1] >= 0).all()
    assert (found[1:, 1] == -1).all()
