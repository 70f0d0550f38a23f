"""Prediction-powered means: the classical mean, published code, edges, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from safemetry.judges.correction.prediction_powered import prediction_powered
from safemetry.judges.correction.stratified_sum import mid_p, stratified_sum
from safemetry.judges.correction.weighted_labels import (
    effective_counts,
    labelled_rows,
    prediction_powered_mean,
)
from safemetry.rates.intervals import clopper_pearson

TABLE, REST = np.array([[25, 2], [4, 29]]), np.array([100, 140])
LABELS = [0.13, -0.13, 0.64, 0.1, -0.54, 0.36, 1.3, 0.95, -0.7, -1.27, -0.62, 0.04]
SAID = [-1.03, -0.24, 0.02, -0.27, -0.81, 0.2, 1.51, 1.47, -0.76, -0.59, -0.95, 0.22]
MORE = [
    *(0.9, 0.09, -0.74, -0.92, -0.46, 0.22, -1.01, -0.21, -0.16, 0.54, 0.21, 0.36, -0.65, -0.13),
    *(0.78, 1.49, -1.26, 1.51, 1.35, 0.78, 0.26, -0.31, 1.46, 1.96, 1.8, 1.32, 0.36, -1.21, 0.0),
    0.66,
]


def rows_of(table, rest):
    """The rows behind tables."""
    gold = np.repeat([0.0, 0.0, 1.0, 1.0], table.ravel())
    said = np.repeat([0.0, 1.0, 0.0, 1.0], table.ravel())
    return (
        np.concatenate([gold, np.full(rest.sum(), np.nan)]),
        np.concatenate([said, np.repeat([0.0, 1.0], rest)]),
    )


def ends(found):
    return float(found.estimate), float(found.lower), float(found.upper)


# Estimates of ppi-python 0.2.3 (ppi_mean_pointestimate) for the same numbers.
@pytest.mark.parametrize(
    ("tuning", "estimate", "within"),
    [(1, 0.61666667, 1e-8), (0.5, 0.58333333, 1e-8), (None, 0.59319386, 1e-3)],
)
def test_yes_no_labels_agree_with_the_authors_code(tuning, estimate, within):
    found = prediction_powered(TABLE, REST, tuning=tuning)
    assert float(found.estimate) == pytest.approx(estimate, abs=within)


# The same package's intervals, with normal quantiles and population variances.
@pytest.mark.parametrize(
    ("tuning", "estimate", "low", "high"),
    [(None, 0.18735713, -0.10992881, 0.48464308), (1, 0.42383333, 0.0054392, 0.84222747)],
)
def test_means_agree_with_the_authors_code(tuning, estimate, low, high):
    labels = np.array([*LABELS, *[np.nan] * len(MORE)])
    found = prediction_powered_mean(labels, [*SAID, *MORE], tuning=tuning)
    # Their tuning divides the covariance of 12 labels by 12, ours by 11.
    assert float(found.estimate) == pytest.approx(estimate, abs=1e-6 if tuning else 0.02)
    # A t quantile with 10 or 11 degrees of freedom and the sample variance: 14 to 26% wider.
    assert 1.1 < float(found.upper - found.lower) / (high - low) < 1.3


def test_without_the_judge_it_is_the_classical_mean():
    labels = np.array([*LABELS, *[np.nan] * len(MORE)])
    found = prediction_powered_mean(labels, [*SAID, *MORE], tuning=0)
    n, mean, deviation = len(LABELS), np.mean(LABELS), np.std(LABELS, ddof=1)
    half = stats.t.ppf(0.975, n - 1) * deviation / np.sqrt(n)
    assert ends(found) == pytest.approx((mean, mean - half, mean + half))
    assert float(found.effective_labels) == pytest.approx(n)
    rate = prediction_powered(TABLE, REST, tuning=0)
    assert float(rate.estimate) == pytest.approx(33 / 60)
    assert float(rate.effective_labels) == pytest.approx(60)


def test_a_useless_judge_gets_no_weight_and_a_good_one_much():
    useless = prediction_powered([[15, 15], [15, 15]], [120, 120])
    assert float(useless.tuning) == 0.0
    assert float(useless.estimate) == 0.5
    good = prediction_powered([[30, 1], [1, 28]], [1200, 1200])
    assert float(good.tuning) > 0.8
    assert float(good.effective_labels) > 200


@pytest.mark.parametrize("population", ["sample", "fixed"])
@pytest.mark.parametrize("tuning", [None, 0, 0.5, 1])
def test_rows_and_tables_say_the_same(population, tuning):
    chosen = {"tuning": tuning, "population": population}
    by_table = prediction_powered(TABLE, REST, **chosen)
    by_rows = prediction_powered_mean(*rows_of(TABLE, REST), **chosen)
    assert ends(by_rows) == pytest.approx(ends(by_table), abs=5e-4)
    equal = prediction_powered_mean(*rows_of(TABLE, REST), probability=np.full(300, 0.2), **chosen)
    assert ends(equal) == pytest.approx(ends(by_table), abs=5e-4)


def test_the_order_of_rows_and_the_names_of_clusters_do_not_matter():
    labels, said = rows_of(TABLE, REST)
    cluster = np.arange(300) // 3
    rng = np.random.default_rng(3)
    order, names = rng.permutation(300), rng.permutation(100) * 1000
    one = prediction_powered_mean(labels, said, cluster=cluster)
    other = prediction_powered_mean(labels[order], said[order], cluster=names[cluster[order]])
    assert ends(one) == pytest.approx(ends(other))
    assert one.upper - one.lower > np.ptp(ends(prediction_powered(TABLE, REST))[1:])


@pytest.mark.parametrize("population", ["sample", "fixed"])
def test_few_unanimous_labels_never_make_a_point(population):
    found = prediction_powered([[18, 2], [0, 0]], [70, 10], population=population)
    assert bool(found.exact)
    assert float(found.estimate) == 0.0
    assert 0.1 < float(found.upper) <= float(clopper_pearson(0, 20).upper)
    mirrored = prediction_powered([[0, 0], [2, 18]], [70, 10], population=population)
    assert float(mirrored.lower) == pytest.approx(1 - float(found.upper))
    agreeing = prediction_powered([[10, 0], [0, 10]], [400, 400], population=population)
    assert float(agreeing.upper - agreeing.lower) > 0.1


def test_the_exact_end_of_a_fixed_set_is_hypergeometric():
    found = prediction_powered([[40, 0], [0, 0]], [160, 0], population="fixed")
    events = round(float(found.upper) * 200)
    assert stats.hypergeom(200, events, 40).pmf(0) >= 0.025
    assert stats.hypergeom(200, events + 1, 40).pmf(0) < 0.025


def test_a_fixed_set_that_is_labelled_in_full_leaves_nothing_open():
    found = prediction_powered([[50, 9], [4, 37]], [0, 0], population="fixed")
    assert ends(found) == pytest.approx((0.41, 0.41, 0.41))
    sample = prediction_powered([[50, 9], [4, 37]], [0, 0])
    assert sample.lower < 0.41 < sample.upper
    labels = np.arange(6.0)
    assert ends(prediction_powered_mean(labels, labels, population="fixed")) == (2.5, 2.5, 2.5)


def test_nothing_labelled_is_not_a_number_and_one_label_is_next_to_nothing():
    none = prediction_powered([[0, 0], [0, 0]], [5, 5])
    assert np.isnan(ends(none)).all()
    assert np.isnan(ends(prediction_powered_mean([np.nan] * 3, [0, 1, 1]))).all()
    one = prediction_powered([[1, 0], [0, 0]], [5, 5])
    assert ends(one) == pytest.approx((0.0, 0.0, 0.975))
    # Labels that are not yes/no have no exact interval to fall back on.
    same = prediction_powered_mean([2.0, 2.0, np.nan], [1, 3, 2])
    assert float(same.estimate) == 2.0
    assert np.isnan([same.lower, same.upper]).all()


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ([0, 1], {}),
        ([0, 1, np.nan], {"probability": [0.5, 0, 1]}),
        ([0, 1, np.nan], {"probability": [0.5]}),
        ([0, 1, np.nan], {"level": 1.0}),
    ],
)
def test_impossible_input_is_refused(labels, options):
    with pytest.raises(ValueError, match=r"rows of one shape|probabilities|level"):
        prediction_powered_mean(labels, [0, 1, 1], **options)


def test_strata_of_one_are_the_stratum_and_mid_p_ends_are_lancasters():
    assert [float(part) for part in stratified_sum([1.0], [0.3], [0.1], [0.6])] == pytest.approx(
        [0.3, 0.1, 0.6]
    )
    exact = float(clopper_pearson(0, 20).upper)
    assert float(mid_p(exact)) == pytest.approx(1 - 0.05 ** (1 / 20))


def test_counts_of_clustered_labels_shrink_and_keep_their_shares():
    labels, said = rows_of(TABLE, REST)
    alone, rest = effective_counts(labelled_rows(labels, said))
    assert alone / alone.sum() == pytest.approx(TABLE / TABLE.sum())
    fewer, _ = effective_counts(labelled_rows(labels, said, cluster=np.arange(300) // 6))
    assert fewer.sum() < alone.sum() <= TABLE.sum()
    assert (alone.sum(0) + rest)[1] / (alone.sum() + rest.sum()) == pytest.approx(said.mean())


@pytest.mark.slow
@pytest.mark.parametrize("total_and_labels", [(300, 30), (1000, 60), (10000, 200)])
@pytest.mark.parametrize("accuracy", [(0.95, 0.95), (0.8, 0.9), (0.99, 0.99), (0.6, 0.7)])
def test_coverage(total_and_labels, accuracy, study_size):
    total, labels = total_and_labels
    sensitivity, specificity = accuracy
    draws = max(2000, int(20_000 * study_size))
    rng = np.random.default_rng(2)
    for rate in (0.02, 0.05, 0.1, 0.3, 0.5):
        no, yes = 1 - rate, rate
        cells = [
            no * specificity,
            no * (1 - specificity),
            yes * (1 - sensitivity),
            yes * sensitivity,
        ]
        labelled = rng.multinomial(labels, cells, size=draws).reshape(draws, 2, 2)
        others = rng.multinomial(total - labels, cells, size=draws).reshape(draws, 2, 2).sum(1)
        found = prediction_powered(labelled, others)
        coverage = ((found.lower <= rate) & (rate <= found.upper)).mean()
        assert coverage >= 0.925


def unequal_study(draws, population):
    """Errors that go with the chance of a label: the plain mean of the labels is far off."""
    rng = np.random.default_rng(6)
    hard = rng.random(600) < 0.3
    gold = (rng.random(600) < np.where(hard, 0.7, 0.2)).astype(float)
    said = np.where(rng.random(600) < np.where(hard, 0.3, 0.05), 1 - gold, gold)
    chance = np.where(hard, 0.3, 0.08)
    found, plain = [], []
    for _ in range(draws):
        rows = np.arange(600) if population == "fixed" else rng.integers(0, 600, 600)
        chosen = rng.random(600) < chance[rows]
        labels = np.where(chosen, gold[rows], np.nan)
        options = {"probability": chance[rows], "population": population}
        found.append(ends(prediction_powered_mean(labels, said[rows], **options)))
        plain.append(np.nanmean(labels))
    return np.array(found), np.array(plain), gold.mean()


@pytest.mark.slow
@pytest.mark.parametrize("population", ["sample", "fixed"])
def test_unequal_probabilities_are_unbiased(population, study_size):
    draws = max(600, int(6000 * study_size))
    found, plain, truth = unequal_study(draws, population)
    standard_error = found[:, 0].std() / np.sqrt(draws)
    assert abs(found[:, 0].mean() - truth) < 4 * standard_error + 0.003
    assert plain.mean() - truth > 0.05
    coverage = ((found[:, 1] <= truth) & (truth <= found[:, 2])).mean()
    assert 0.92 <= coverage <= 0.985


@pytest.mark.slow
def test_clusters_keep_their_coverage(study_size):
    rng = np.random.default_rng(9)
    draws = max(400, int(4000 * study_size))
    inside = np.zeros((draws, 2), bool)
    cluster = np.repeat(np.arange(60), 5)
    for draw in range(draws):
        ability = rng.beta(0.8, 1.2, 60)  # mean .4
        gold = (rng.random(300) < ability[cluster]).astype(float)
        said = np.where(rng.random(300) < 0.15, 1 - gold, gold)
        labels = np.where(rng.permutation(300) < 90, gold, np.nan)
        for place, units in enumerate((cluster, None)):
            _, low, high = ends(prediction_powered_mean(labels, said, cluster=units))
            inside[draw, place] = low <= 0.4 <= high
    with_clusters, without = inside.mean(axis=0)
    assert 0.925 <= with_clusters <= 0.98
    assert without < 0.92
