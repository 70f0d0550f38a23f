"""Error rates of the verdicts, with each run of a target held out in turn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from safemetry.audits.fingerprint import FingerprintSettings, Verdict, compare_with_known


@pytest.fixture(scope="module")
def refusalbench(shared):
    path = shared / "data" / "refusalbench_bio" / "trials_long.parquet"
    rows = pq.read_table(path, columns=["model", "prompt_id", "trial_idx", "ordinal"]).to_pydict()
    models, items = sorted(set(rows["model"])), sorted(set(rows["prompt_id"]))
    runs = np.full((5, len(models), len(items)), -1, np.int8)
    for model, item, trial, code in zip(*(rows[name] for name in rows), strict=True):
        if code is not None:
            runs[trial, models.index(model), items.index(item)] = code == 3
    return runs, models


def held_out(runs, models, trials, targets):
    rng = np.random.default_rng(1)
    own, other = Counter(), Counter()
    for trial in trials:
        past = np.delete(runs, trial, axis=0)
        for target in targets:
            found = compare_with_known(
                runs[trial, target],
                past,
                target="held out",
                references=models,
                settings=FingerprintSettings(simulations=200),
                rng=rng,
            )
            assert found.noise == "estimated"
            for row in found.rows:
                (own if row.reference == models[target] else other)[row.verdict] += 1
    return own, other


def assert_rates(own, other):
    runs, pairs = own.total(), other.total()
    assert own[Verdict.DIFFERENT] / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    assert other[Verdict.SAME] / pairs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / pairs)
    assert own[Verdict.SAME] / runs >= 0.5
    assert other[Verdict.DIFFERENT] / pairs > 0.9


def test_error_rates_on_one_run_of_some_targets(refusalbench):
    runs, models = refusalbench
    assert_rates(*held_out(runs, models, [2], range(0, 20, 5)))


@pytest.mark.slow
def test_error_rates_on_all_five_runs(refusalbench, study_size):
    runs, models = refusalbench
    every = max(round(1 / max(study_size, 0.05) ** 0.5), 1)
    assert_rates(*held_out(runs, models, range(5), range(0, 20, every)))
