"""AIC, BIC and likelihood ratios: published values, and where there is no p-value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.information_criteria import (
    bootstrap_likelihood_ratio,
    criteria,
    exploratory_parameters,
    likelihood_ratio,
)
from safemetry.irt.parameters import ItemModel
from safemetry.irt.priors import NO_PRIORS
from safemetry.irt.unidimensional.marginal import fit_unidimensional


@pytest.fixture(scope="module")
def fits(oracle):
    responses = oracle.responses("LSAT7")
    return {
        model: fit_unidimensional(responses, ItemModel(model), NO_PRIORS)
        for model in ("rasch", "1pl", "2pl", "3pl")
    }


@pytest.mark.parametrize(
    ("model", "table"),
    [("rasch", "LSAT7_Rasch"), ("1pl", "LSAT7_1PLconstr"), ("2pl", "LSAT7_2PL_tight")],
)
def test_published_criteria(oracle, fits, model, table):
    found = criteria(fits[model])
    row = next(row for row in oracle.rows("summary_logLik_AIC_BIC") if row["fit"] == table)
    assert found.parameters == int(row["npars_est"])
    assert found.aic == pytest.approx(float(row["AIC"]), abs=0.002)
    assert found.bic_targets == pytest.approx(float(row["BIC"]), abs=0.002)
    more = found.parameters * np.log(5000 / 1000)
    assert found.bic_responses == pytest.approx(found.bic_targets + more)
    assert not found.approximate


def test_priors_make_criteria_approximate(oracle):
    assert criteria(fit_unidimensional(oracle.responses("LSAT7"))).approximate


@pytest.mark.parametrize(("dimensions", "count"), [(1, 64), (2, 95), (3, 125)])
def test_free_parameters_of_exploratory_fits(dimensions, count):
    assert exploratory_parameters(32, dimensions) == count


def test_published_likelihood_ratio(oracle, fits):
    row = oracle.rows("LSAT7_anova_1PL_v_2PL")[1]
    found = likelihood_ratio(fits["1pl"], fits["2pl"])
    assert found.statistic == pytest.approx(float(row["X2"]), abs=0.002)
    assert found.degrees == int(row["df"])
    assert found.p_value == pytest.approx(float(row["p"]), abs=2e-5)


def test_no_p_value_where_the_distribution_is_unknown(oracle, fits):
    boundary = likelihood_ratio(fits["2pl"], fits["3pl"])
    assert boundary.p_value is None
    assert "boundary" in boundary.why
    prior = fit_unidimensional(oracle.responses("LSAT7"))
    assert "priors" in likelihood_ratio(fits["1pl"], prior).why
    unfinished = replace(fits["2pl"], converged=False)
    assert "converge" in likelihood_ratio(fits["1pl"], unfinished).why
    worse = replace(fits["2pl"], loglik=fits["1pl"].loglik - 1)
    failed = likelihood_ratio(fits["1pl"], worse)
    assert failed.failed
    assert "fits worse" in failed.why


def test_bootstrap_at_the_boundary(oracle, fits):
    responses = oracle.responses("LSAT7")
    found = bootstrap_likelihood_ratio(
        responses, fits["2pl"], fits["3pl"], np.random.default_rng(1), draws=9
    )
    # The statistic is 1.5 with five asymptotes on the boundary: nothing to see.
    assert found.method == "bootstrap"
    assert found.draws == 9
    assert found.p_value > 0.1


def test_bootstrap_sees_what_is_there(oracle, fits):
    responses = oracle.responses("SAT12")
    small, large = (
        fit_unidimensional(responses, model, NO_PRIORS, errors=False)
        for model in (ItemModel.ONE_PL, ItemModel.TWO_PL)
    )
    found = bootstrap_likelihood_ratio(responses, small, large, np.random.default_rng(1), draws=9)
    assert found.p_value == pytest.approx(0.1)


def test_models_that_are_not_nested_are_refused(oracle, fits):
    with pytest.raises(InputError, match="not nested"):
        likelihood_ratio(fits["rasch"], fits["1pl"])
    with pytest.raises(InputError, match="not nested"):
        likelihood_ratio(fits["2pl"], fits["1pl"])
    other = fit_unidimensional(oracle.responses("LSAT6"), ItemModel.TWO_PL, NO_PRIORS)
    with pytest.raises(InputError, match="different responses"):
        likelihood_ratio(fits["1pl"], other)
