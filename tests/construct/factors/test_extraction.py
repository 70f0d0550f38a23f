"""Common factors: published figures, other programs, and what must not matter."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from safemetry.construct.factors import extraction
from safemetry.construct.factors.extraction import Extraction, extract, principal
from safemetry.construct.factors.one_factor import one_factor_communalities
from safemetry.errors import InputError
from safemetry.readers.correlation import read_correlations


def read_numbers(path: Path) -> np.ndarray:
    with path.open() as lines:
        return np.array([row[1:] for row in list(csv.reader(lines))[1:]], float)


@pytest.fixture(scope="module")
def abilities(shared: Path) -> np.ndarray:
    """Correlations of the abilities of 134 models on eight safety benchmarks."""
    return read_correlations(str(shared / "data" / "ability_correlations.csv")).values


def planted(loadings: np.ndarray) -> np.ndarray:
    shared = loadings @ loadings.T
    return shared + np.diag(1 - np.diag(shared))


def congruence(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    products = np.abs(one.T @ other)
    return products / np.outer(np.linalg.norm(one, axis=0), np.linalg.norm(other, axis=0))


# --- published figures and other programs --------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "variance"), [(1, ".471"), (2, ".689"), (3, ".770"), (4, ".814")]
)
def test_published_variance_to_the_printed_digits(
    abilities: np.ndarray, factors: int, variance: str
):
    found = extract(abilities, factors)
    assert f"{found.variance:.3f}".lstrip("0") == variance
    assert found.converged
    assert found.agreeing == (6, 6)


def test_published_solution_of_three_factors_has_heywood_cases(abilities: np.ndarray):
    found = extract(abilities, 3)
    assert np.flatnonzero(found.heywood).tolist() == [0, 6]  # sorry_bench, health_orsc
    assert not extract(abilities, 2).heywood.any()


def test_minres_agrees_with_psych(shared: Path):
    oracle = shared / "oracle"
    matrix = read_numbers(oracle / "psych_SAT12_tetrachoric_correct0.csv")
    loadings = read_numbers(oracle / "psych_SAT12_fa2_minres_unrotated.csv")
    found = extract(matrix, 2)
    assert np.abs(found.loadings) == pytest.approx(np.abs(loadings), abs=2e-6)
    assert not found.heywood.any()


@pytest.mark.parametrize("factors", [1, 2])
def test_maximum_likelihood_agrees_with_statsmodels(abilities: np.ndarray, factors: int):
    from statsmodels.multivariate.factor import Factor

    other = Factor(corr=abilities, n_factor=factors, method="ml", nobs=134).fit(
        start=(np.linspace(0.2, 0.6, 8 * factors).reshape(8, factors), np.full(8, 0.5)),
        opt={"gtol": 1e-7},
    )
    found = extract(abilities, factors, Extraction.ML)
    assert found.uniqueness == pytest.approx(other.uniqueness, abs=1e-4)


# --- what it must find, and what must not matter -------------------------------------------------


@pytest.mark.parametrize("method", list(Extraction))
def test_planted_factors_are_found_exactly_in_a_matrix_without_error(method: Extraction):
    rng = np.random.default_rng(3)
    loadings = rng.uniform(0.1, 0.65, (12, 2)) * rng.choice([-1, 1], (12, 2))
    found = extract(planted(loadings), 2, method)
    # Only the space of the factors is known.
    assert found.loadings @ found.loadings.T == pytest.approx(loadings @ loadings.T, abs=1e-5)
    assert found.value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("method", list(Extraction))
def test_planted_factors_are_found_in_a_sample(method: Extraction):
    rng = np.random.default_rng(4)
    loadings = np.kron(np.eye(3), np.full((4, 1), 0.7))
    data = rng.multivariate_normal(np.zeros(12), planted(loadings), 2000)
    found = extract(np.corrcoef(data, rowvar=False), 3, method)
    spaces = np.linalg.svd(np.linalg.qr(found.loadings)[0].T @ np.linalg.qr(loadings)[0])[1]
    assert spaces.min() > 0.99


@pytest.mark.parametrize("method", list(Extraction))
def test_the_order_and_the_sign_of_variables_do_not_matter(
    abilities: np.ndarray, method: Extraction
):
    order = np.random.default_rng(1).permutation(8)
    signs = np.array([1, -1, 1, 1, -1, 1, -1, 1.0])
    first = extract(abilities, 2, method)
    other = extract((abilities * np.outer(signs, signs))[order][:, order], 2, method)
    shared = first.loadings @ first.loadings.T * np.outer(signs, signs)
    assert other.loadings @ other.loadings.T == pytest.approx(shared[order][:, order], abs=1e-5)
    assert other.variance == pytest.approx(first.variance, abs=1e-7)


def test_axes_are_principal_and_point_to_positive_sums(abilities: np.ndarray):
    for method in Extraction:
        loadings = extract(abilities, 3, method).loadings
        products = loadings.T @ loadings
        assert products - np.diag(np.diag(products)) == pytest.approx(0, abs=1e-8)
        assert (np.diff(np.diag(products)) <= 0).all()
        assert (loadings.sum(axis=0) >= 0).all()


def test_principal_axes_leave_the_fitted_correlations_alone():
    loadings = np.random.default_rng(2).normal(size=(6, 3))
    turned = principal(loadings)
    assert turned @ turned.T == pytest.approx(loadings @ loadings.T)


@pytest.mark.parametrize("objective", [extraction._minres, extraction._ml])
@pytest.mark.parametrize("factors", [1, 3, 6])
def test_gradients_are_those_of_the_criteria(abilities: np.ndarray, objective, factors: int):
    made = objective(abilities, factors)
    place = np.random.default_rng(factors).uniform(0.1, 0.9, 8)
    slope = approx_fprime(place, lambda value: made(value)[0], 1e-7)
    assert made(place)[1] == pytest.approx(slope, abs=2e-5)


# --- edges ---------------------------------------------------------------------------------------


def test_equal_eigenvalues_do_not_break_the_gradient():
    found = extract(np.eye(5), 2)
    assert np.isfinite(found.loadings).all()
    assert found.value == pytest.approx(0, abs=1e-9)


def test_a_matrix_that_is_not_definite_has_minres_and_no_likelihood():
    matrix = np.array(
        [[1, 0.9, 0.9, 0.1], [0.9, 1, -0.6, 0.2], [0.9, -0.6, 1, 0], [0.1, 0.2, 0, 1]]
    )
    assert np.linalg.eigvalsh(matrix)[0] < 0
    assert np.isfinite(extract(matrix, 1).loadings).all()
    with pytest.raises(InputError, match="positive definite"):
        extract(matrix, 1, "ml")


@pytest.mark.parametrize("factors", [0, 8])
def test_impossible_numbers_of_factors_are_refused(abilities: np.ndarray, factors: int):
    with pytest.raises(InputError, match=f"{factors} factors are asked of 8 variables"):
        extract(abilities, factors)


def test_one_factor_of_many_matrices_is_that_of_each(abilities: np.ndarray):
    rng = np.random.default_rng(5)
    matrices = np.array(
        [abilities, *(np.corrcoef(rng.normal(size=(60, 8)), rowvar=False) for _ in range(20))]
    )
    found = one_factor_communalities(matrices)
    alone = np.array([extract(matrix, 1).communalities for matrix in matrices])
    assert found[0] == pytest.approx(alone[0], abs=1e-4)
    # Noise may have several local optima, of which one start finds one.
    assert (np.abs(found - alone).max(axis=1) < 0.02).mean() >= 0.85
