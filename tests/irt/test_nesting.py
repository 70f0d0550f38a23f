"""A model that contains another must not fit worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.irt.diagnostics.nesting import find_nesting_failures, is_nested
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.responses import make_responses
from safemetry.irt.structure import bifactor, make_structure

KIND = ["x"] * 15 + ["y"] * 15


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(8)
    theta = rng.standard_normal((100, 2)) @ np.array([[1, 0], [0.5, 0.8]]).T
    slopes = np.repeat(np.eye(2), 15, axis=0) * 1.4
    codes = (rng.random((100, 30)) < expit(theta @ slopes.T)).astype(int)
    responses = make_responses(codes)
    wider = [("x", "y") if place == 3 else kind for place, kind in enumerate(KIND)]
    one_slope = DimensionalSettings(model="1pl")
    return {
        "one": fit_multidimensional(responses, 1),
        "two": fit_multidimensional(responses, 2),
        "three": fit_multidimensional(responses, 3),
        "split": fit_multidimensional(responses, make_structure(responses.items, KIND)),
        "wider": fit_multidimensional(responses, make_structure(responses.items, wider)),
        "apart": fit_multidimensional(
            responses, make_structure(responses.items, KIND, correlated=False)
        ),
        "bifactor": fit_multidimensional(responses, bifactor(responses.items, KIND)),
        "one 1pl": fit_multidimensional(responses, 1, one_slope),
        "split 1pl": fit_multidimensional(
            responses, make_structure(responses.items, KIND), one_slope
        ),
    }


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("one", "two"),
        ("two", "three"),
        ("one", "split"),
        ("split", "two"),
        ("split", "wider"),
        ("apart", "split"),
        ("apart", "wider"),
        ("one", "bifactor"),
        ("one 1pl", "one"),
        ("one 1pl", "split 1pl"),
        ("split 1pl", "split"),
        ("split 1pl", "two"),
        ("bifactor", "three"),
    ],
)
def test_one_model_contains_another(fits, inner, outer):
    assert is_nested(fits[inner], fits[outer])
    assert not is_nested(fits[outer], fits[inner])


@pytest.mark.parametrize(
    ("first", "second"), [("one", "apart"), ("two", "bifactor"), ("one", "split 1pl")]
)
def test_models_that_do_not_contain_each_other(fits, first, second):
    assert not is_nested(fits[first], fits[second])
    assert not is_nested(fits[second], fits[first])


def test_no_model_contains_itself(fits):
    assert not any(is_nested(fit, fit) for fit in fits.values())


def test_a_worse_fit_with_more_freedom_is_reported(fits):
    spoiled = replace(fits["two"], loglik=fits["one"].loglik - 25.0)
    found = find_nesting_failures([fits["one"], spoiled])
    assert [(failure.nested, failure.nesting) for failure in found] == [(0, 1)]
    assert found[0].shortfall == pytest.approx(25.0)
    assert found[0].likely_cause == "optimisation or prior"
    assert "2 exploratory dimensions" in found[0].sentence
    assert "do not rank it" in found[0].sentence


def test_without_priors_only_the_optimisation_can_be_to_blame(fits):
    plain = {**fits["one"].settings, "priors": {"kind": "ItemPriors", "slope": None}}
    one = replace(fits["one"], settings=plain)
    two = replace(fits["two"], settings=plain, loglik=fits["one"].loglik - 5.0)
    assert find_nesting_failures([one, two])[0].likely_cause == "optimisation"


def test_sound_fits_pass(fits):
    names = ["one", "split", "two"]
    assert find_nesting_failures([fits[name] for name in names]) == ()


def test_numerical_errors_are_allowed_for(fits):
    worse = replace(fits["two"], loglik=fits["one"].loglik - 2.0, loglik_error=1.0)
    assert find_nesting_failures([fits["one"], worse]) == ()


def test_what_cannot_be_compared_is_refused(fits):
    with pytest.raises(InputError, match="likelihood=True"):
        find_nesting_failures([replace(fits["one"], loglik=None)])
    with pytest.raises(InputError, match="different responses"):
        find_nesting_failures([fits["one"], replace(fits["two"], responses=7)])
