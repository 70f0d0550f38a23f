"""Item correlations: oracle tables, missing cells, items without variance."""

from __future__ import annotations

import csv
import time

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from safemetry.construct.spectra.correlation import eigenvalues_of, item_correlations
from safemetry.construct.spectra.tetrachoric import tetrachoric
from safemetry.errors import InputError
from safemetry.irt.responses import make_responses


@pytest.fixture(scope="module")
def table(shared):
    def read(name, first=0):
        with (shared / "oracle" / f"{name}.csv").open(newline="") as stream:
            rows = list(csv.reader(stream))[1:]
        return np.array([[float(cell) for cell in row[first:]] for row in rows])

    return read


def smoothed(matrix):
    """The nearest proper correlations as the oracle has them: negative eigenvalues lifted to 0."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 1e-10)
    lifted = (vectors * values * len(values) / values.sum()) @ vectors.T
    scale = np.sqrt(np.diag(lifted))
    return lifted / scale / scale[:, None]


def missing_at_random(codes, share, seed=0):
    hidden = np.random.default_rng(seed).random(codes.shape) < share
    return np.where(hidden, -1, codes)


def test_pearson_eigenvalues_of_sat12(table):
    found = item_correlations(make_responses(table("data_SAT12").astype(int)))
    expected = table("SAT12_eigenvalues")[:, 1]
    assert eigenvalues_of(found.values) == pytest.approx(expected, abs=1e-12)
    assert (found.unknown_pairs, found.perfect_pairs) == (0, 0)


def test_tetrachoric_of_lsat7(table):
    found = item_correlations(
        make_responses(table("data_LSAT7").astype(int)), "tetrachoric", correction=0
    )
    assert found.values == pytest.approx(table("psych_LSAT7_tetrachoric_correct0", 1), abs=4e-5)


def test_tetrachoric_of_sat12(table):
    """The oracle repairs negative eigenvalues and searches r to about .001."""
    found = item_correlations(make_responses(table("data_SAT12").astype(int)), "tetrachoric")
    assert np.linalg.eigvalsh(found.values)[0] < -0.09  # ours are left as they are
    expected = table("psych_SAT12_tetrachoric_correct0.5", 1)
    assert smoothed(found.values) == pytest.approx(expected, abs=1e-3)


def test_tetrachoric_of_sat12_without_a_correction(table):
    found = item_correlations(
        make_responses(table("data_SAT12").astype(int)), "tetrachoric", correction=0
    )
    assert found.perfect_pairs == 1
    # Nobody passed item 6 and failed item 20; the oracle's search stops where the table is flat.
    values = np.where(np.isclose(found.values, 1) & ~np.eye(32, dtype=bool), 0.963, found.values)
    expected = table("psych_SAT12_tetrachoric_correct0", 1)
    assert smoothed(values) == pytest.approx(expected, abs=2e-3)
    assert eigenvalues_of(smoothed(values)) == pytest.approx(
        table("SAT12_eigenvalues")[:, 0], abs=2e-3
    )


def test_thresholds_of_sat12_are_the_margins(table):
    """The oracle's thresholds are normal quantiles of the failing share, as the method has them."""
    shares = 1 - table("data_SAT12").mean(axis=0)
    assert ndtri(shares) == pytest.approx(table("psych_SAT12_tetrachoric_tau", 1)[:, 0], abs=1e-9)


@pytest.mark.parametrize("correlation", [-0.999, -0.9, -0.3, 0.0, 0.5, 0.95, 0.9999])
def test_tetrachoric_inverts_the_bivariate_normal(correlation):
    tables = []
    thresholds = [(-1.5, -1.2), (-0.4, 0.3), (0.0, 0.0), (1.1, 1.0), (0.2, -0.9)]
    for h, k in thresholds:
        both = multivariate_normal.cdf(
            [h, k], cov=[[1, correlation], [correlation, 1]], abseps=1e-13, releps=1e-13
        )
        first, second = (multivariate_normal.cdf(cut) for cut in (h, k))
        tables.append([1 - first - second + both, second - both, first - both, both])
    counts = np.array(tables).T
    proper = (counts > 1e-9).all(axis=0)
    assert proper.any()
    found = tetrachoric(counts[:, proper], correction=0)
    assert found == pytest.approx(np.full(proper.sum(), correlation), abs=2e-5)


def test_tetrachoric_recovers_a_latent_correlation():
    latent = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 100_000)
    outcomes = make_responses((latent > [-1.2, 0.5]).astype(int))
    found = item_correlations(outcomes, "tetrachoric").values[0, 1]
    assert found == pytest.approx(0.6, abs=0.02)
    assert item_correlations(outcomes).values[0, 1] < 0.4


def test_empty_cells_are_perfect_without_a_correction_and_not_with_one():
    tables = np.array([[10, 0, 5, 10], [0, 10, 10, 5], [10, 0, 0, 10], [25, 0, 0, 0]]).T
    bare = tetrachoric(tables.astype(float), correction=0)
    assert bare[:3].tolist() == [1, -1, 1]
    corrected = tetrachoric(tables.astype(float))
    assert ((np.abs(corrected[:3]) > 0.8) & (np.abs(corrected[:3]) < 1)).all()
    assert np.isnan([bare[3], corrected[3]]).all()


def test_the_same_table_in_any_order_and_turned():
    rng = np.random.default_rng(3)
    tables = rng.integers(0, 30, (4, 400)).astype(float)
    tables[:, :5] += 0.25  # weights make fractions
    found = tetrachoric(tables)
    assert tetrachoric(tables[[0, 2, 1, 3]]) == pytest.approx(found, abs=1e-8, nan_ok=True)
    assert tetrachoric(tables[[1, 0, 3, 2]]) == pytest.approx(-found, abs=1e-8, nan_ok=True)
    single = np.concatenate([tetrachoric(tables[:, place : place + 1]) for place in range(400)])
    assert single == pytest.approx(found, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("kind", ["pearson", "tetrachoric"])
def test_missing_cells_leave_each_pair_the_targets_that_answered_both(kind):
    rng = np.random.default_rng(2)
    ability = rng.normal(size=(60, 1))
    codes = missing_at_random((ability + rng.normal(size=(60, 6)) > 0).astype(int), 0.3)
    found = item_correlations(make_responses(codes), kind).values
    for first in range(6):
        for second in range(first):
            both = (codes[:, [first, second]] >= 0).all(axis=1)
            pair = item_correlations(make_responses(codes[both][:, [first, second]]), kind)
            assert found[first, second] == pytest.approx(pair.values[0, 1], abs=1e-9)
            if kind == "pearson":
                expected = np.corrcoef(codes[both][:, [first, second]].T)[0, 1]
                assert found[first, second] == pytest.approx(expected)


def test_pearson_of_ordered_classes_is_that_of_the_codes():
    codes = np.random.default_rng(4).integers(0, 4, (50, 5))
    assert item_correlations(make_responses(codes)).values == pytest.approx(np.corrcoef(codes.T))


@pytest.mark.parametrize("kind", ["pearson", "tetrachoric"])
def test_a_weight_is_a_repeated_row(kind):
    rng = np.random.default_rng(5)
    codes = missing_at_random(rng.integers(0, 2, (30, 5)), 0.1)
    times = rng.integers(1, 4, 30)
    weighted = item_correlations(make_responses(codes, weights=times.astype(float)), kind)
    repeated = item_correlations(make_responses(codes.repeat(times, axis=0)), kind)
    assert weighted.values == pytest.approx(repeated.values, abs=1e-9)


@pytest.mark.parametrize("kind", ["pearson", "tetrachoric"])
def test_pairs_without_a_correlation_are_zero_and_counted(kind):
    codes = np.array(
        [
            [1, 0, 1, 1, -1],
            [1, 1, 0, -1, -1],
            [1, 0, 0, -1, -1],
            [1, 1, 1, -1, -1],
            [1, -1, -1, 0, -1],
        ]
    )
    found = item_correlations(make_responses(codes), kind)
    # Item 1 is constant, item 4 shares one target with items 2 and 3, nobody answered item 5.
    assert found.unknown_pairs == 9
    assert np.isfinite(found.values).all()
    assert np.diag(found.values).tolist() == [1] * 5
    assert (found.values[np.triu_indices(5, 1)] != 0).sum() <= 1


@pytest.mark.parametrize("kind", ["pearson", "tetrachoric"])
def test_the_order_of_targets_and_items_changes_nothing(kind):
    rng = np.random.default_rng(6)
    codes = missing_at_random(rng.integers(0, 2, (40, 8)), 0.2)
    rows, columns = rng.permutation(40), rng.permutation(8)
    found = item_correlations(make_responses(codes), kind).values
    again = item_correlations(make_responses(codes[rows][:, columns]), kind).values
    assert again == pytest.approx(found[np.ix_(columns, columns)], abs=1e-9)


def test_two_targets_give_correlations_of_plus_and_minus_one():
    found = item_correlations(make_responses([[1, 0, 1], [0, 1, 1]]))
    assert found.values.tolist() == [[1, -1, 0], [-1, 1, 0], [0, 0, 1]]
    assert (found.unknown_pairs, found.perfect_pairs) == (2, 1)


def test_78_000_tetrachoric_correlations_take_seconds(shared):
    codes = np.loadtxt(
        shared / "data/helm_safety/harmbench_matrix.csv",
        delimiter=",",
        skiprows=1,
        usecols=range(1, 401),
    ).astype(int)
    start = time.perf_counter()
    found = item_correlations(make_responses(codes), "tetrachoric")
    # About .3 s; the bound only catches a change of order.
    assert time.perf_counter() - start < 10
    assert found.unknown_pairs == 5 * 395 + 10


def test_what_has_no_correlations_is_refused():
    ordered = make_responses([[0, 1], [2, 1]])
    with pytest.raises(InputError, match="unknown correlation 'spearman'"):
        item_correlations(ordered, "spearman")
    with pytest.raises(InputError, match="takes outcomes 0 and 1, and there is a 2"):
        item_correlations(ordered, "tetrachoric")
    with pytest.raises(InputError, match="would take responses away"):
        tetrachoric(np.ones((4, 1)), correction=-1)
    for bad in ([[1, 2], [3, 1]], [[1, np.nan], [np.nan, 1]], [[1, 0]]):
        with pytest.raises(InputError, match="square, symmetric"):
            eigenvalues_of(bad)
