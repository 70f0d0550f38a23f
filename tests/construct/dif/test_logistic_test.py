"""Classical logistic tests: the values of difR, and where its Wald statistics differ."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.construct.dif.logistic_test import logistic_test
from safemetry.construct.dif.undefined import Undefined

KINDS = {"uniform": "udif", "non_uniform": "nudif", "both": "both"}


@pytest.fixture(scope="module")
def verbal(shared):
    rows = np.loadtxt(shared / "oracle/data_verbal_difR.csv", delimiter=",", skiprows=1, dtype=int)
    codes = rows[:, :24].astype(np.int8)
    return codes, codes.sum(axis=1).astype(float), rows[:, 25] == 1


@pytest.fixture(scope="module")
def table(shared):
    def read(kind, test):
        path = shared / f"oracle/difR_verbal_logistic_{KINDS[kind]}_{test}.csv"
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {name: [row[name] for row in rows] for name in rows[0] if name != "item"}
        flagged = np.array(columns.pop("flagged")) == "TRUE"
        numbers = {name: np.array(column, float) for name, column in columns.items()}
        return numbers | {"flagged": flagged}

    return read


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_ratios_of_difr(verbal, table, kind):
    expected = table(kind, "LRT")
    found = logistic_test(*verbal, kind=kind)
    assert found.defined.all()
    np.testing.assert_allclose(found.statistic, expected["stat"], atol=1e-10)
    np.testing.assert_allclose(found.p_value, expected["p"], atol=1e-10)
    np.testing.assert_allclose(found.r2_change, expected["deltaR2"], atol=1e-12)


def test_coefficients_of_difr(verbal, table):
    """On the raw score and with the group coded 0 and 1, where difR keeps the larger model."""
    codes, score, focal = verbal
    expected = table("both", "LRT")
    constant, slope, group, product = logistic_test(codes, score, focal).coefficients
    mean, spread = score.mean(), score.std()
    flagged = expected["flagged"]
    assert flagged.sum() >= 3
    raw = {
        "SCORE": (slope - product / 2) / spread,
        "GROUP": group - product * mean / spread,
        "SCORE.GROUP": product / spread,
        "X.Intercept.": constant - group / 2 - (slope - product / 2) * mean / spread,
    }
    for name, value in raw.items():
        np.testing.assert_allclose(value[flagged], expected[name][flagged], atol=1e-5)


def least_squares_of_r(answers, design):
    """Coefficients and covariance as iteratively reweighted least squares stops in R's `glm`."""
    chance = (answers + 0.5) / 2
    logits = np.log(chance / (1 - chance))
    before = np.inf
    for _ in range(25):
        weight = chance * (1 - chance)
        covariance = np.linalg.inv(design.T @ (weight[:, None] * design))
        place = covariance @ (design.T @ (weight * logits + answers - chance))
        logits = design @ place
        chance = 1 / (1 + np.exp(-logits))
        deviance = -2 * np.log(np.where(answers > 0, chance, 1 - chance)).sum()
        if abs(deviance - before) / (abs(deviance) + 0.1) < 1e-8:
            break
        before = deviance
    return place, covariance


@pytest.mark.parametrize("kind", KINDS)
def test_wald_statistics_of_difr_use_the_covariance_before_the_last_step(verbal, table, kind):
    """R stops at a relative change of the deviance of 1e-8, with the weights of the step before.

    At the maximum itself the statistics differ from its by at most .0008 (3e-4 of their size).
    """
    codes, score, focal = verbal
    expected = table(kind, "Wald")
    columns = [np.ones(len(score)), score, focal, score * focal]
    design = np.column_stack(columns[: 3 if kind == "uniform" else 4])
    first = 3 if kind == "non_uniform" else 2
    stopped = []
    for item in codes.T:
        place, covariance = least_squares_of_r(item.astype(float), design)
        tested = place[first:]
        stopped.append(tested @ np.linalg.solve(covariance[first:, first:], tested))
    np.testing.assert_allclose(stopped, expected["stat"], atol=1e-9)
    found = logistic_test(codes, score, focal, kind=kind, test="wald")
    np.testing.assert_allclose(found.statistic, expected["stat"], atol=8e-4, rtol=3e-4)
    np.testing.assert_allclose(found.p_value, expected["p"], atol=7e-5)


def test_wald_statistics_at_the_maximum(verbal):
    codes, score, focal = verbal
    for kind, first in (("uniform", 2), ("non_uniform", 3), ("both", 2)):
        found = logistic_test(codes, score, focal, kind=kind, test="wald")
        scaled = (score - score.mean()) / score.std()
        group = focal - 0.5
        design = np.column_stack([np.ones(len(score)), scaled, group, scaled * group])
        design = design[:, : len(found.coefficients)]
        for item in range(codes.shape[1]):
            place = found.coefficients[:, item]
            chance = 1 / (1 + np.exp(-design @ place))
            np.testing.assert_allclose(design.T @ (codes[:, item] - chance), 0, atol=1e-6)
            covariance = np.linalg.inv(design.T @ ((chance * (1 - chance))[:, None] * design))
            tested = place[first:]
            wald = tested @ np.linalg.solve(covariance[first:, first:], tested)
            np.testing.assert_allclose(found.statistic[item], wald, rtol=1e-6, atol=1e-9)


def test_the_error_rate_without_a_difference(study_size):
    rng = np.random.default_rng(5)
    focal = np.arange(400) < 160
    theta = rng.normal(size=400) - 0.5 * focal
    items = round(20_000 * study_size)
    codes = rng.random((400, items)) < 1 / (1 + np.exp(-theta - rng.normal(size=items)[:, None]).T)
    for kind in KINDS:
        found = logistic_test(codes.astype(np.int8), theta, focal, kind=kind)
        assert abs((found.p_value < 0.05).mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / items) + 0.003


def test_swapped_groups_change_no_test(verbal):
    codes, score, focal = verbal
    for test in ("likelihood_ratio", "wald"):
        found = logistic_test(codes, score, focal, test=test)
        assert (found.statistic == logistic_test(codes, score, ~focal, test=test).statistic).all()


def test_every_item_without_a_value_says_why():
    score = np.linspace(-1, 1, 12)
    focal = np.arange(12) % 2 == 0
    codes = np.array(
        [[1] * 12, [-1] * 12, focal, [1, 0, 1] + [-1] * 9, [0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1]]
    ).T.astype(np.int8)
    for test in ("likelihood_ratio", "wald"):
        found = logistic_test(codes, score, focal, kind="uniform", test=test)
        assert found.undefined.tolist() == [
            Undefined.CONSTANT,
            Undefined.NO_RESPONSE,
            Undefined.UNBOUNDED,
            Undefined.SMALL_GROUP,
            Undefined.DEFINED,
        ]
        assert np.isfinite(found.statistic).all()
        assert (found.p_value[:4] == 1).all()


def test_scores_by_item(verbal):
    codes, score, focal = verbal
    rest = score[:, None] - codes
    found = logistic_test(codes, rest, focal, kind="uniform")
    for item in (0, 11):
        alone = logistic_test(codes[:, [item]], rest[:, item], focal, kind="uniform")
        np.testing.assert_allclose(found.statistic[item], alone.statistic[0], atol=1e-8)
