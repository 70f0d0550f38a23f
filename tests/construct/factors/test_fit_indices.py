"""Indices of fit: published figures, known distributions, and what cannot be computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from safemetry.construct.factors.extraction import extract
from safemetry.construct.factors.fit_indices import fit_indices
from safemetry.readers.correlation import read_correlations

OF_CHI_SQUARE = ("chi_square", "p_value", "rmsea", "cfi", "tli")


def planted(loadings: np.ndarray) -> np.ndarray:
    shared = loadings @ loadings.T
    return shared + np.diag(1 - np.diag(shared))


@pytest.mark.parametrize(
    ("factors", "rmsea", "cfi"),
    [(1, ".319", ".651"), (2, ".232", ".881"), (3, ".148", ".974"), (4, ".100", ".997")],
)
def test_published_figures_to_the_printed_digits(shared: Path, factors: int, rmsea: str, cfi: str):
    matrix = read_correlations(str(shared / "data" / "ability_correlations.csv")).values
    found = fit_indices(matrix, extract(matrix, factors).loadings, 134)
    assert f"{found.rmsea:.3f}".lstrip("0") == rmsea
    assert f"{found.cfi:.3f}".lstrip("0") == cfi
    assert found.df == {1: 20, 2: 13, 3: 7, 4: 2}[factors]


def test_a_matrix_that_the_factors_explain_fits_perfectly():
    loadings = np.array([[0.9], [0.8], [0.7], [0.6], [0.5]])
    found = fit_indices(planted(loadings), loadings, 200)
    assert (found.chi_square, found.rmsea, found.srmr) == pytest.approx((0, 0, 0), abs=1e-9)
    assert found.cfi == 1
    assert found.p_value == pytest.approx(1)


def test_the_chi_square_of_a_true_model_has_its_distribution():
    rng = np.random.default_rng(1)
    truth = planted(np.full((6, 1), 0.7))
    values = []
    for _ in range(150):
        data = rng.multivariate_normal(np.zeros(6), truth, 200)
        matrix = np.corrcoef(data, rowvar=False)
        loadings = extract(matrix, 1, "ml", starts=1).loadings
        values.append(fit_indices(matrix, loadings, 200).p_value)
    assert kstest(values, "uniform").pvalue > 0.01


def test_srmr_is_the_root_mean_square_of_the_residuals():
    matrix = np.array([[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1]])
    found = fit_indices(matrix, np.zeros((3, 1)), 50)
    assert found.srmr == pytest.approx(np.sqrt((0.25 + 0.04 + 0.09) / 6))


def test_without_degrees_of_freedom_what_needs_them_is_unknown_and_says_so():
    matrix = planted(np.array([[0.8], [0.7], [0.6]]))
    found = fit_indices(matrix, extract(matrix, 1).loadings, 50)
    assert found.df == 0
    assert all(getattr(found, name) is None and found.why[name] for name in OF_CHI_SQUARE)
    assert found.discrepancy == pytest.approx(0, abs=1e-6)


def test_a_singular_matrix_has_no_likelihood_and_says_so():
    matrix = planted(np.full((5, 1), 0.7))
    matrix[0, 1] = matrix[1, 0] = 1.0
    found = fit_indices(matrix, extract(matrix, 1).loadings, 50)
    assert all(getattr(found, name) is None and found.why[name] for name in OF_CHI_SQUARE)
    assert np.isfinite(found.srmr)


def test_few_subjects_are_said_to_be_few():
    matrix = planted(np.full((12, 1), 0.3))
    found = fit_indices(matrix, extract(matrix, 1).loadings, 5)
    assert found.cfi is None
    assert "5 subjects are too few" in found.why["cfi"]


def test_independent_variables_leave_nothing_to_compare_with():
    found = fit_indices(np.eye(6), np.zeros((6, 1)), 100)
    assert (found.cfi, found.tli) == (None, None)
    assert found.why.keys() == {"cfi", "tli"}


def test_a_communality_above_one_does_not_break_the_indices():
    matrix = planted(np.full((6, 1), 0.6))
    loadings = np.full((6, 1), 0.6)
    loadings[0] = 1.02
    found = fit_indices(matrix, loadings, 100)
    assert found.rmsea is not None
    assert found.rmsea > 0
