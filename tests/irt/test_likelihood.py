"""Tables of chances and their derivatives, in all the forms in which they are computed."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.irt.parameters import ItemModel, ItemParameters, category_probabilities
from safemetry.irt.unidimensional.category_likelihood import CategoryCells
from safemetry.irt.unidimensional.grid import (
    FINE,
    Lattice,
    discretisation_error,
    make_lattice,
    make_posterior,
)
from safemetry.irt.unidimensional.likelihood import LogisticCells, chance_table

STEP = 1e-5


@pytest.fixture(params=["2pl", "2pl missing", "3pl", "4pl", "grm"])
def problem(request):
    """Cells, natural parameters, and the same parameters as the public object."""
    rng = np.random.default_rng(6)
    name, items, targets = request.param.split()[0], 7, 30
    slopes, steps = rng.normal(1, 0.4, items), rng.normal(size=items)
    weights = rng.uniform(0.5, 2, targets)
    lower, upper = np.zeros(items), np.ones(items)
    codes = rng.integers(0, 4 if name == "grm" else 2, (targets, items)).astype(np.int8)
    rows = [slopes, steps]
    if name == "grm":
        categories = np.array([2, 3, 4, 4, 4, 3, 2])
        codes = np.minimum(codes, categories - 1).astype(np.int8)
        rows = [slopes, steps, steps - 0.7, steps - 1.5]
        shown = np.where(np.arange(3)[:, None] < categories - 1, np.array(rows[1:]), -np.inf)
        intercepts = shown.T
        rows = [slopes, *np.where(np.isfinite(shown), shown, 0.0)]
    else:
        intercepts = steps[:, None]
    if name in ("3pl", "4pl"):
        lower = rng.uniform(0.1, 0.3, items)
        rows.append(np.log(lower / (1 - lower)))
    if name == "4pl":
        upper = rng.uniform(0.8, 0.95, items)
        rows.append(np.log(upper / (1 - upper)))
    if request.param != "2pl":
        codes[rng.random(codes.shape) < 0.2] = -1
    parameters = ItemParameters(slopes[:, None], intercepts, lower, upper)
    if name == "2pl":
        cells = LogisticCells(codes, weights)
    else:
        cells = CategoryCells(codes, weights, ItemModel(name), parameters.categories)
    return cells, np.array(rows), parameters, codes


def direct(codes, parameters, nodes):
    chances = category_probabilities(parameters, nodes[:, None])
    found = np.zeros((len(codes), len(nodes)))
    for target, given in enumerate(codes):
        for item, code in enumerate(given):
            if code >= 0:
                found[target] += np.log(chances[code, :, item])
    return found


def test_likelihood_is_the_sum_over_observed_cells(problem):
    cells, natural, parameters, codes = problem
    lattice = make_lattice(0.3, -3, 3)
    expected = direct(codes, parameters, lattice.nodes)
    assert np.allclose(cells.log_likelihood(natural, lattice), expected, atol=1e-10)


def evidence(cells, natural, lattice):
    posterior = make_posterior(
        cells.log_likelihood(natural, lattice), lattice.nodes, lattice.spacing
    )
    return float(cells.weights @ posterior.log_evidence), posterior


def test_gradient_of_the_marginal_likelihood(problem):
    """Fisher's identity: it is the expected gradient of the completed data."""
    cells, natural, parameters, _ = problem
    lattice = make_lattice(0.3, -6, 6)
    exists = np.ones(natural.shape, bool)
    if parameters.intercepts.shape[1] > 1:
        exists[1:] = np.isfinite(parameters.intercepts.T)
    gradient = cells.expected(natural, evidence(cells, natural, lattice)[1])[0]
    for row, item in np.argwhere(exists):
        sides = []
        for sign in (1, -1):
            moved = natural.copy()
            moved[row, item] += sign * STEP
            sides.append(evidence(cells, moved, lattice)[0])
        assert gradient[row, item] == pytest.approx((sides[0] - sides[1]) / (2 * STEP), abs=1e-5)
    assert np.abs(gradient[~exists]).max(initial=0) < 1e-12


def test_scores_agree_in_every_form(problem):
    cells, natural, _, _ = problem
    lattice = make_lattice(0.3, -4, 4)
    posterior = evidence(cells, natural, lattice)[1]
    projection = posterior.weights * np.sin(np.arange(posterior.weights.shape[1]))
    by_cell = cells.projected_scores(natural, lattice.nodes, projection)
    summed = cells.score_sums(natural, lattice.nodes, projection)
    assert np.allclose(np.einsum("i,ipj->pj", cells.weights, by_cell), summed, atol=1e-10)
    whole = cells.score_sums(natural, lattice.nodes, posterior.weights)
    assert np.allclose(whole, cells.expected(natural, posterior)[0], atol=1e-10)


def test_slopes_by_ability(problem):
    cells, natural, _, _ = problem
    nodes = np.linspace(-2, 2, 9)
    ahead, behind = (
        cells.log_likelihood(natural, Lattice(nodes + shift, 0.5)) for shift in (STEP, -STEP)
    )
    found = cells.ability_slopes(natural, nodes)
    assert np.allclose(found, (ahead - behind) / (2 * STEP), atol=1e-6)


def test_information_of_the_completed_data(problem):
    """Expected information is not negative; the observed one is the change of the gradient."""
    cells, natural, _, _ = problem
    lattice = make_lattice(0.3, -5, 5)
    posterior = evidence(cells, natural, lattice)[1]
    expected = cells.expected(natural, posterior)[1].transpose(2, 0, 1)
    assert np.linalg.eigvalsh(expected).min() > -1e-10
    observed = cells.observed(natural, posterior)[1]
    for row in range(len(natural)):
        moved = natural.copy()
        moved[row] += STEP
        change = cells.expected(moved, posterior)[0] - cells.expected(natural, posterior)[0]
        assert np.allclose(-change / STEP, observed[row], atol=2e-3)


@pytest.mark.parametrize("by_item", [True, False])
def test_geometric_tables_are_exact(by_item):
    rng = np.random.default_rng(1)
    slopes, intercepts = rng.normal(0, 4, 333), rng.normal(0, 30, 333)
    lattice = make_lattice(0.11, -6.5, 6.5)
    chances, softplus = chance_table(slopes, intercepts, lattice, by_item=by_item)
    eta = np.multiply.outer(lattice.nodes, slopes) + intercepts
    assert np.allclose(chances, 1 / (1 + np.exp(-eta)), rtol=1e-10, atol=1e-14)
    exact = np.logaddexp(0, eta)
    assert np.allclose(softplus, exact if by_item else exact.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize(("share", "error"), [(1.0, 1e-7), (FINE, 1e-8), (2.0, 0.03)])
def test_error_of_the_lattice_falls_with_its_spacing(share, error):
    """A Gaussian likelihood of width s has the evidence of N(m; 0, 1 + s^2)."""
    width, means = 0.05, np.linspace(-1, 1, 41)
    lattice = make_lattice(width, -6, 6, share=share)
    values = -(((means[:, None] - lattice.nodes) / width) ** 2) / 2
    posterior = make_posterior(values.copy(), lattice.nodes, lattice.spacing)
    variance = 1 + width**2
    expected = np.log(width / np.sqrt(variance)) - means**2 / variance / 2
    assert np.allclose(posterior.log_evidence, expected, atol=error)
    if share < 1.5:
        assert np.allclose(posterior.mean, means / variance, atol=1e-6)
        assert np.allclose(posterior.sd, width / np.sqrt(variance), rtol=1e-4)
    # The self-check sees the coarser half; its fourth power bounds the whole lattice.
    seen = discretisation_error(values, lattice)
    assert seen > error / 10
