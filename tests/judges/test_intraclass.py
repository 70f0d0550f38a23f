"""Intraclass correlations against published and oracle values."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.agreement.agreement_table import measure_agreement
from safemetry.judges.agreement.intraclass import (
    FORMS,
    MeanSquares,
    intraclass,
    intraclass_intervals,
    intraclass_sums,
)

# Shrout & Fleiss (1979): six targets, four judges.
RATINGS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def squares_of(ratings):
    given = np.asarray(ratings)
    return MeanSquares.of(intraclass_sums(given, np.zeros(len(given), np.int64))[0])


def test_the_papers_own_example():
    """The paper's estimates: .17 .29 .71 for one judge, .44 .62 .91 for the mean of four."""
    found = intraclass(squares_of(RATINGS), 4)
    assert found.round(2).tolist() == [0.17, 0.29, 0.71, 0.44, 0.62, 0.91]


def test_estimates_and_intervals_of_the_oracle(shared):
    path = shared / "oracle/data_raters_200x3.csv"
    squares = squares_of(np.genfromtxt(path, delimiter=",", skip_header=1).astype(int))
    estimates, intervals = intraclass(squares, 3), intraclass_intervals(squares, 3)
    with (shared / "oracle/psych_raters_ICC.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        name = row["type"].lower()
        value = estimates[FORMS.index(name)]
        assert value == pytest.approx(float(row["ICC"]), rel=1e-10)
        low, high = intervals[name]
        assert low == pytest.approx(float(row["lower bound"]), abs=1e-5)
        assert high == pytest.approx(float(row["upper bound"]), abs=1e-5)


def test_incomplete_responses_do_not_enter():
    more = [*RATINGS, [9, -1, 9, 9], [-1, -1, -1, -1]]
    assert np.allclose(intraclass(squares_of(more), 4), intraclass(squares_of(RATINGS), 4))


def test_sums_of_units_add_up():
    ratings = np.random.default_rng(1).integers(-1, 4, (300, 3)).astype(np.int8)
    units = np.random.default_rng(2).integers(0, 9, 300)
    whole = intraclass_sums(ratings, np.zeros(300, np.int64))[0]
    assert np.allclose(intraclass_sums(ratings, units).sum(0), whole)


def test_a_lenient_judge_counts_against_form_2_only():
    base = np.random.default_rng(3).integers(0, 5, (200, 1))
    found = intraclass(squares_of(np.hstack([base, base, base + 3])), 3)
    assert found[FORMS.index("icc3")] == pytest.approx(1.0)
    assert found[FORMS.index("icc2")] < 0.6


def test_a_panel_shows_them_with_cluster_intervals(panel_from):
    random = np.random.default_rng(4)
    truth = random.integers(0, 3, 300)
    labels = np.where(
        random.random((300, 3)) < 0.8, truth[:, None], random.integers(0, 3, (300, 3))
    )
    settings = AgreementSettings(draws=300, by=())
    row = measure_agreement(panel_from(labels), np.random.default_rng(1), settings).panel[0]
    ends = intraclass_intervals(squares_of(labels), 3)["icc2"]
    assert row.intraclass["icc2"].interval == pytest.approx(ends, abs=0.03)
    alpha = row.coefficients["krippendorff_interval"].estimate
    assert row.intraclass["icc1"].estimate == pytest.approx(alpha, abs=0.01)
    same = measure_agreement(panel_from([[1, 1]] * 5), np.random.default_rng(1), settings)
    assert same.panel[0].intraclass["icc2"].estimate is None
    assert same.panel[0].intraclass["icc2"].why["estimate"]
