"""Estimates, errors and paths of published software on a bank of 85 items with fixed responses."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.forms.adaptive import AdaptiveSettings, Lattice, simulate_sessions
from safemetry.forms.adaptive.process import begin, make_test
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import ItemParameters

LATTICE = Lattice(-4.0, 4.0, 33)


@pytest.fixture(scope="module")
def oracle(shared):
    def read(name):
        with (shared / "oracle" / name).open(newline="") as stream:
            return list(csv.DictReader(stream))

    return read


@pytest.fixture(scope="module")
def bank(oracle):
    rows = oracle("catR_tcals_responses.csv")
    groups = tuple(row["Group"] for row in oracle("data_tcals_catR.csv"))
    slope, place, lower, upper = (
        np.array([float(row[name]) for row in rows]) for name in ("a", "b", "c", "d")
    )
    parameters = ItemParameters(slope[:, None], (-slope * place)[:, None], lower, upper)
    names = tuple(row["item"] for row in rows)
    pool = ItemPool(names, parameters, np.zeros(1), np.eye(1), {"content": groups})
    return pool, np.array([[int(row["resp"]) for row in rows]], np.int8)


def path(bank, settings):
    pool, codes = bank
    found = simulate_sessions(pool, codes, settings, np.random.default_rng(0))
    names = [pool.items[place] for place in found.items[0] if place >= 0]
    return names, found.theta[0].compressed(), found.se[0].compressed(), found


def test_information_of_every_item_at_thirteen_abilities(oracle, bank):
    rows = oracle("catR_item_information.csv")
    theta = np.array([float(row["theta"]) for row in rows])
    expected = np.array([[float(row[f"X{j + 1}"]) for j in range(85)] for row in rows])
    assert np.allclose(bank[0].information(theta), expected, rtol=0, atol=1e-12)
    test = make_test(bank[0], AdaptiveSettings(lattice=LATTICE))
    looked_up = test.engine.criterion(test.engine.begin(13), theta[:, None], 1)
    assert np.allclose(looked_up, expected, rtol=0, atol=2e-5)


# The other program stops its search for a maximum at 1e-4 or so; sums over its grid are exact.
@pytest.mark.parametrize(
    ("method", "estimator", "close"),
    [("ML", "ml", 3e-5), ("BM", "map", 3e-5), ("EAP", "eap", 1e-12), ("WL", "wle", 3e-5)],
)
def test_estimates_and_errors_from_the_first_items(oracle, bank, method, estimator, close):
    pool, codes = bank
    test = make_test(pool, AdaptiveSettings(estimator=estimator, lattice=LATTICE))
    progress = begin(test, np.array([0]), np.zeros((1, 85), bool))
    table = oracle("catR_thetaEst_semTheta.csv")
    expected = {int(row["n"]): row for row in table if row["method"] == method}
    for place in range(85):
        test.engine.observe(progress.evidence, np.array([place]), codes[:, place].astype(int))
        if place + 1 in expected:
            theta, se = test.engine.estimate(progress.evidence)
            row = expected[place + 1]
            assert theta[0, 0] == pytest.approx(float(row["theta"]), abs=close)
            assert se[0, 0] == pytest.approx(float(row["se"]), rel=max(close, 1e-12))


def test_kullback_leibler_path_to_a_standard_error(oracle, bank):
    rows = oracle("catR_KL_EAP_SE035_path.csv")
    settings = AdaptiveSettings(rule="kl", budget=85, precision=0.35, lattice=LATTICE)
    names, theta, se, found = path(bank, settings)
    assert names == [row["item"] for row in rows]
    assert np.allclose(theta, [float(row["theta"]) for row in rows], rtol=0, atol=1e-12)
    assert np.allclose(se, [float(row["se"]) for row in rows], rtol=0, atol=1e-12)
    assert found.stops == ("precision",)


def test_maximum_information_path_at_the_mode(oracle, bank):
    rows = oracle("catR_MFI_BM_path20.csv")
    settings = AdaptiveSettings(estimator="map", budget=20, lattice=LATTICE)
    names, theta, se, found = path(bank, settings)
    assert names == [row["item"] for row in rows]
    assert np.allclose(theta, [float(row["theta"]) for row in rows], rtol=0, atol=5e-5)
    assert np.allclose(se, [float(row["se"]) for row in rows], rtol=0, atol=5e-5)
    assert found.stops == ("budget",)
