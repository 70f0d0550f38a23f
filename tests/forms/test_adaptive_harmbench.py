"""Held-out targets of a real benchmark: what ten chosen items are worth beside ten random ones."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.forms.adaptive import (
    AdaptiveSettings,
    Balance,
    predicted_scores,
    simulate_sessions,
)
from safemetry.forms.pool import ItemPool
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.responses import make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional

LENGTHS = (10, 25)


@pytest.fixture(scope="module")
def harmbench(shared):
    folder = shared / "data" / "helm_safety"
    with (folder / "harmbench_matrix.csv").open(newline="") as stream:
        names, *rows = [row[1:] for row in csv.reader(stream)]
    with (folder / "harmbench_items.csv").open(newline="") as stream:
        kinds = {row["item_id"]: row["type"] for row in csv.DictReader(stream)}
    codes = np.array([[int(value) if value else -1 for value in row] for row in rows], np.int8)
    return codes, [kinds[name] for name in names]


def split_of(harmbench, seed, dims=1):
    """A pool calibrated on four fifths of the targets, and the responses of the others."""
    codes, kinds = harmbench
    order = np.random.default_rng(100 + seed).permutation(len(codes))
    held, known = order[: len(codes) // 5], order[len(codes) // 5 :]
    varied = [place for place in range(codes.shape[1]) if len({*codes[known, place]} - {-1}) > 1]
    responses = make_responses(codes[np.ix_(known, varied)])
    if dims == 1:
        fit = fit_unidimensional(responses, errors=False)
        covariance = np.array([[fit.latent_sd**2]])
    else:
        fit = fit_multidimensional(responses, dims, DimensionalSettings(likelihood=False))
        covariance = fit.factor_correlations
    pool = ItemPool(
        tuple(map(str, varied)),
        fit.parameters,
        np.zeros(dims),
        covariance,
        {"type": tuple(kinds[place] for place in varied)},
    )
    return pool, codes[np.ix_(held, varied)]


def squared_error(pool, codes, settings, rng):
    truth = np.ma.masked_less(codes, 0).mean(axis=1).data
    found = simulate_sessions(pool, codes, settings, rng)
    return ((predicted_scores(pool, codes, found, LENGTHS) - truth[:, None]) ** 2).mean(axis=0)


@pytest.mark.slow
def test_balanced_adaptive_items_predict_held_out_scores_better_than_random_ones(
    harmbench, study_size
):
    balanced = AdaptiveSettings(budget=25, balance=Balance("type"))
    at_random = AdaptiveSettings(budget=25, rule="random")
    four = AdaptiveSettings(budget=25, balance=Balance("type"), rule="determinant")
    chosen, drawn, in_four = [], [], []
    for seed in range(max(round(20 * study_size), 8)):
        pool, codes = split_of(harmbench, seed)
        rng = np.random.default_rng(seed)
        chosen.append(squared_error(pool, codes, balanced, rng))
        in_four.append(squared_error(*split_of(harmbench, seed, 4), four, rng))
        drawn += [squared_error(pool, codes, at_random, rng) for _ in range(10)]
    ratio = np.sqrt(np.mean(chosen, axis=0) / np.mean(drawn, axis=0))
    assert (ratio < 0.92).all()
    ratio = np.sqrt(np.mean(in_four, axis=0) / np.mean(drawn, axis=0))
    assert (ratio < [0.92, 0.85]).all()
