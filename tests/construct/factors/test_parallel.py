"""Parallel analysis: published counts, false alarms, planted factors, seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from safemetry.construct.factors.parallel import Kind, parallel_analysis
from safemetry.errors import InputError
from safemetry.readers.correlation import read_correlations


def sample(rng: np.random.Generator, matrix: np.ndarray, subjects: int) -> np.ndarray:
    data = rng.multivariate_normal(np.zeros(len(matrix)), matrix, subjects)
    return np.corrcoef(data, rowvar=False)


def blocks(count: int, size: int, correlation: float, between: float = 0.0) -> np.ndarray:
    made = np.full((count * size, count * size), between)
    for block in range(count):
        part = slice(block * size, (block + 1) * size)
        made[part, part] = correlation
    np.fill_diagonal(made, 1.0)
    return made


@pytest.mark.parametrize("percentile", [95.0, None])
@pytest.mark.parametrize("seed", range(5))
def test_published_counts_whatever_the_seed(shared: Path, seed: int, percentile: float | None):
    matrix = read_correlations(str(shared / "data" / "ability_correlations.csv")).values
    counts = {
        kind: parallel_analysis(matrix, 134, kind, percentile=percentile, seed=seed)
        for kind in (Kind.MINRES, Kind.PCA)
    }
    assert counts[Kind.PCA].factors == 2
    assert counts[Kind.MINRES].factors_by_mean == 3
    assert counts[Kind.MINRES].factors == 3
    assert counts[Kind.MINRES].p_values[2] < 0.02
    assert not counts[Kind.MINRES].close


def test_maximum_likelihood_finds_the_published_count_too(shared: Path):
    matrix = read_correlations(str(shared / "data" / "ability_correlations.csv")).values
    found = parallel_analysis(matrix, 134, "ml", replicates=200, percentile=None)
    assert found.factors == 3


def test_independent_variables_seldom_show_a_component():
    rng = np.random.default_rng(7)
    alarms = [
        parallel_analysis(sample(rng, np.eye(8), 60), 60, "pca", replicates=200, seed=s).factors > 0
        for s in range(200)
    ]
    assert 0.01 <= np.mean(alarms) <= 0.10


def test_independent_variables_seldom_show_a_factor():
    rng = np.random.default_rng(8)
    alarms = [
        parallel_analysis(sample(rng, np.eye(8), 60), 60, replicates=200, seed=s).factors > 0
        for s in range(60)
    ]
    assert np.mean(alarms) <= 0.12


@pytest.mark.parametrize("kind", ["minres", "pca"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_planted_factors_are_counted(kind: str, count: int):
    rng = np.random.default_rng(count)
    truth = blocks(count, 12 // count, 0.5, between=0.1)
    counts = [
        parallel_analysis(sample(rng, truth, 200), 200, kind, replicates=100, seed=s).factors
        for s in range(15)
    ]
    assert np.mean(np.array(counts) == count) >= 0.9


def test_the_order_of_variables_does_not_matter():
    rng = np.random.default_rng(3)
    matrix = sample(rng, blocks(2, 4, 0.5), 100)
    order = rng.permutation(8)
    first, other = (parallel_analysis(m, 100) for m in (matrix, matrix[order][:, order]))
    assert other.observed == pytest.approx(first.observed, abs=1e-4)
    assert other.factors == first.factors


def test_the_same_seed_gives_the_same_and_a_block_size_does_not_matter(
    monkeypatch: pytest.MonkeyPatch,
):
    matrix = blocks(2, 4, 0.5)
    first = parallel_analysis(matrix, 100, seed=4)
    monkeypatch.setattr("safemetry.construct.factors.parallel._BLOCK_NUMBERS", 8 * 100 * 7)
    again = parallel_analysis(matrix, 100, seed=4)
    assert again.threshold == pytest.approx(first.threshold, abs=1e-12)


def test_an_eigenvalue_at_its_threshold_is_a_close_call():
    matrix = blocks(2, 4, 0.5)
    far = parallel_analysis(matrix, 100, "pca")
    assert not far.close
    limit = far.threshold[0]
    # One factor whose eigenvalue lies just above what random data reach.
    near = parallel_analysis(blocks(1, 8, (limit + 0.001 - 1) / 7), 100, "pca")
    assert near.close
    assert near.margin < 3 * near.margin_error


def test_fewer_subjects_than_variables_are_no_obstacle():
    rng = np.random.default_rng(6)
    found = parallel_analysis(np.corrcoef(rng.normal(size=(10, 15)), rowvar=False), 10)
    assert np.isfinite(found.observed).all()
    assert found.factors <= 1


@pytest.mark.parametrize(
    "options", [{"replicates": 5}, {"percentile": 0.0}, {"percentile": 100.0}, {"subjects": 2}]
)
def test_settings_that_say_nothing_are_refused(options: dict[str, float]):
    given = {"subjects": 100, **options}
    with pytest.raises(InputError):
        parallel_analysis(np.eye(4), **given)
