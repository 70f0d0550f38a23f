"""The fast 3PL and 4PL give what the general family gives."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.irt.parameters import ItemModel
from safemetry.irt.unidimensional.asymptote_likelihood import AsymptoteCells
from safemetry.irt.unidimensional.category_likelihood import CategoryCells
from safemetry.irt.unidimensional.grid import make_lattice, make_posterior


def both(model, codes, weights):
    categories = np.full(codes.shape[1], 2)
    return (kind(codes, weights, model, categories) for kind in (CategoryCells, AsymptoteCells))


@pytest.mark.parametrize("model", [ItemModel.THREE_PL, ItemModel.FOUR_PL])
def test_likelihood_gradient_and_information_agree(model):
    rng = np.random.default_rng(1)
    codes = rng.integers(-1, 2, (20, 300)).astype(np.int8)
    general, fast = both(model, codes, rng.integers(1, 4, 20).astype(float))
    natural = np.stack(
        [
            np.exp(rng.normal(0, 1, 300)),
            rng.normal(0, 5, 300),
            rng.normal(-2, 2, 300),
            rng.normal(3, 2, 300),
        ]
    )[: 3 if model is ItemModel.THREE_PL else 4]
    lattice = make_lattice(0.05, -4, 4)
    values = general.log_likelihood(natural, lattice)
    assert np.allclose(fast.log_likelihood(natural, lattice), values, rtol=1e-12)
    posterior = make_posterior(values, lattice.nodes, lattice.spacing)
    for expected, found in zip(
        general.expected(natural, posterior), fast.expected(natural, posterior), strict=True
    ):
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", [ItemModel.THREE_PL, ItemModel.FOUR_PL])
def test_parameters_at_their_bounds_stay_finite(model):
    natural = np.array([[20.0, 20.0, 1e-3], [200.0, -200.0, 0.0], [-13.0, 3.0, -13.0], [13.0] * 3])
    natural = natural[: 3 if model is ItemModel.THREE_PL else 4]
    codes = np.array([[0, 1, -1], [1, 0, 1]], np.int8)
    _, fast = both(model, codes, np.ones(2))
    lattice = make_lattice(0.05, -6.5, 6.5)
    values = fast.log_likelihood(natural, lattice)
    posterior = make_posterior(values, lattice.nodes, lattice.spacing)
    assert np.isfinite(values).all()
    assert all(np.isfinite(part).all() for part in fast.expected(natural, posterior))
