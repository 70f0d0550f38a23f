"""Rotated loadings against other programs, and what a rotation must not change."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.multidimensional.criteria import geomin, oblimin, varimax
from safemetry.irt.multidimensional.rotation import rotate, standardised_loadings


def read_table(path: Path) -> np.ndarray:
    with path.open() as lines:
        rows = list(csv.reader(lines))[1:]
    return np.array([[float(value) for value in row[1:3]] for row in rows])


def distance_up_to_order_and_sign(found: np.ndarray, expected: np.ndarray) -> float:
    distances = []
    for order in ([0, 1], [1, 0]):
        turned = found[:, order]
        signs = np.sign((turned * expected).sum(axis=0))
        distances.append(np.abs(turned * signs - expected).max())
    return min(distances)


@pytest.mark.parametrize(
    ("name", "rotation"),
    [
        ("Varimax", "varimax"),
        ("quartimax", "quartimax"),
        ("oblimin", "oblimin"),
        ("quartimin", "quartimin"),
        ("geominQ", "geomin"),
    ],
)
def test_factor_loadings_of_tetrachoric_correlations(shared, name, rotation):
    unrotated = read_table(shared / "oracle/psych_SAT12_fa2_minres_unrotated.csv")
    expected = read_table(shared / f"oracle/GPArotation_SAT12_fa2_{name}.csv")
    found = rotate(unrotated, rotation)
    # The other program stops at a gradient of 1e-5, which is about 1e-5 in a loading.
    assert distance_up_to_order_and_sign(found.loadings, expected) < 5e-5
    assert found.converged
    table = shared / f"oracle/GPArotation_SAT12_fa2_{name}_Phi.csv"
    if table.exists():
        assert found.correlations[0, 1] == pytest.approx(read_table(table)[0, 1], abs=5e-5)


@pytest.mark.parametrize(
    ("name", "kaiser"),
    [("varimax", False), ("oblimin", False), ("quartimin", False), ("geominQ", False),
     ("promax", True)],
)  # fmt: skip
def test_loadings_of_an_item_response_model(shared, name, kaiser):
    unrotated = read_table(shared / "oracle/SAT12_2PL_2dim_loadings_none.csv")
    expected = read_table(shared / f"oracle/SAT12_2PL_2dim_loadings_{name}.csv")
    found = rotate(unrotated, name.removesuffix("Q"), kaiser=kaiser)
    assert distance_up_to_order_and_sign(found.loadings, expected) < 5e-5
    correlation = read_table(shared / f"oracle/SAT12_2PL_2dim_fcor_{name}.csv")[0, 1]
    assert found.correlations[0, 1] == pytest.approx(correlation, abs=5e-5)


def test_promax_and_varimax_with_kaiser_weights(shared):
    unrotated = read_table(shared / "oracle/psych_SAT12_fa2_minres_unrotated.csv")
    for rotation in ("varimax", "promax"):
        expected = read_table(shared / f"oracle/stats_{rotation}_SAT12_fa2.csv")
        found = rotate(unrotated, rotation, kaiser=True).loadings
        # Its varimax stops at a relative change of 1e-5 of the criterion.
        assert distance_up_to_order_and_sign(found, expected) < 5e-4


def test_standardised_loadings_come_from_slopes(shared):
    slopes = read_table(shared / "oracle/SAT12_2PL_2dim_coef_slopeint.csv")
    expected = read_table(shared / "oracle/SAT12_2PL_2dim_loadings_none.csv")
    assert standardised_loadings(slopes, np.eye(2)) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    "rotation", ["none", "varimax", "quartimax", "oblimin", "geomin", "promax"]
)
def test_a_rotation_leaves_what_is_common_unchanged(rotation):
    loadings = np.random.default_rng(3).normal(0.3, 0.4, (40, 4))
    found = rotate(loadings, rotation)
    common = found.loadings @ found.correlations @ found.loadings.T
    assert common == pytest.approx(loadings @ loadings.T, abs=1e-9)
    assert found.loadings @ found.transform.T == pytest.approx(loadings, abs=1e-9)
    assert np.diag(found.correlations) == pytest.approx(np.ones(4))
    strength = np.square(found.loadings).sum(axis=0)
    assert (np.diff(strength) <= 1e-9).all()
    assert (found.loadings.sum(axis=0) >= 0).all()


@pytest.mark.parametrize("rotation", ["varimax", "oblimin", "geomin", "promax"])
def test_where_the_axes_start_and_how_items_are_ordered_does_not_matter(rotation):
    rng = np.random.default_rng(4)
    simple = np.repeat(np.eye(3), 12, axis=0) * rng.uniform(0.4, 0.9, (36, 1))
    loadings = simple + rng.normal(0, 0.05, simple.shape)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    order = rng.permutation(36)
    found = rotate(loadings, rotation).loadings
    again = rotate(loadings[order] @ turn, rotation, seed=9).loadings
    assert again == pytest.approx(found[order], abs=1e-4)


@pytest.mark.parametrize("criterion", [oblimin(0.0), oblimin(-0.5), varimax(), geomin()])
def test_gradients_are_derivatives(criterion):
    loadings = np.random.default_rng(5).normal(0, 0.5, (9, 3))
    gradient = criterion(loadings)[1]
    step = 1e-6
    for place in np.ndindex(loadings.shape):
        moved = np.zeros_like(loadings)
        moved[place] = step
        slope = (criterion(loadings + moved)[0] - criterion(loadings - moved)[0]) / (2 * step)
        assert gradient[place] == pytest.approx(slope, abs=1e-7)


def test_simple_structure_is_found_again():
    simple = np.repeat(np.eye(3), 10, axis=0) * np.linspace(0.8, 0.5, 30)[:, None]
    turn = np.linalg.qr(np.random.default_rng(6).standard_normal((3, 3)))[0]
    found = rotate(simple @ turn, "oblimin")
    assert found.loadings == pytest.approx(simple, abs=1e-5)
    assert found.agreeing[0] >= 10


@pytest.mark.parametrize(
    ("loadings", "options", "word"),
    [
        (np.ones((4, 2)), {"rotation": "twist"}, "twist"),
        (np.full((4, 2), np.nan), {}, "finite"),
        (np.ones((4, 2)), {"gamma": 0.5}, "gamma"),
        (np.ones(4), {}, "matrix"),
    ],
)
def test_impossible_rotations_are_refused(loadings, options, word):
    with pytest.raises(InputError, match=word):
        rotate(loadings, **options)
