"""Eigenvalues against their nulls: published figures, false positives, hostile matrices."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from safemetry.construct.dimensions.null_models import OneDimension
from safemetry.construct.spectra.eigenvalues import outcome_eigenvalues, outcome_spectrum
from safemetry.construct.spectra.null_matrices import draw_outcomes, permute_within_items
from safemetry.construct.spectra.spectrum import measure_spectrum, score_spectrum
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.parameters import ItemModel, ItemParameters
from safemetry.irt.priors import ItemPriors, LogNormal, Normal
from safemetry.irt.responses import make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.simulate.matrix import MatrixSettings, simulate_matrix
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)
TWO_FACTORS = {
    "structure": tuple([0] * 30 + [1] * 30),
    "correlations": ((1.0, 0.6), (0.6, 1.0)),
}


@pytest.fixture(scope="module")
def harmbench(shared):
    with (shared / "data/helm_safety/harmbench_matrix.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    codes = np.array([row[1:] for row in rows[1:]]).astype(int)
    return make_responses(codes, items=rows[0][1:])


@pytest.fixture(scope="module")
def harmbench_spectrum(harmbench):
    varies = harmbench.codes.std(axis=0) > 0
    priors = ItemPriors(slope=LogNormal(0, 0.5), intercept=Normal(0, 1))
    fit = fit_unidimensional(harmbench.select_items(varies), ItemModel.TWO_PL, priors, errors=False)
    return measure_spectrum(harmbench, one_dimension=fit, seed=1, tasks=ALONE)


def simulated(seed, **settings):
    drawn = simulate_matrix(MatrixSettings(**settings), seed)
    return make_responses(drawn.outcomes)


def fitted(responses):
    codes = responses.codes
    varies = (codes == 1).any(axis=0) & (codes == 0).any(axis=0)
    return fit_unidimensional(responses.select_items(varies), errors=False)


def test_published_eigenvalues_of_harmbench(harmbench_spectrum):
    found = harmbench_spectrum
    assert (found.items, found.targets, len(found.dropped_items)) == (395, 77, 5)
    assert np.round(found.observed[:6], 1).tolist() == [139.2, 59.0, 28.9, 10.9, 10.4, 9.5]
    assert len(found.observed) == 395
    assert sum(found.observed) == pytest.approx(395)
    assert found.null[:6] == pytest.approx([10.7, 10.2, 9.8, 9.5, 9.3, 9.1], abs=0.2)
    assert (found.exceed, found.exceed_parallel) == (6, 6)


def test_one_dimension_does_not_explain_harmbench(harmbench_spectrum):
    found = harmbench_spectrum
    assert 24 <= found.one_dimension[1] <= 32
    assert 7 <= found.one_dimension[2] <= 10.5
    assert found.exceed_one_dimension >= 2
    assert "more than one dimension shows" in found.sentence()


def test_set_scores_of_speechmap_have_two_dimensions(shared):
    folder = shared / "data" / "speechmap_criticism"
    with (folder / "items.csv").open(newline="") as stream:
        sets = {row["item_id"]: row["item_id"].rsplit("_", 1)[0] for row in csv.DictReader(stream)}
    with (folder / "matrix_ordinal_grok41fast.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    values = np.array([[float(cell or "nan") for cell in row[1:]] for row in rows])
    labels = np.array([sets[item] for item in header[1:]])
    known = ~np.isnan(values)
    scores = np.column_stack(
        [
            np.where(known, values, 0)[:, labels == name].sum(axis=1)
            / np.where(
                known[:, labels == name].any(axis=1), known[:, labels == name].sum(axis=1), np.nan
            )
            for name in dict.fromkeys(labels)
        ]
    )
    assert np.isfinite(scores).all(axis=1).sum() == 36
    assert score_spectrum(scores)[:3] == pytest.approx([3.88, 1.47, 0.34], abs=0.005)


def test_independent_items_exceed_their_null_in_one_of_twenty_sets():
    rates = np.random.default_rng(0).uniform(0.1, 0.9, 30)
    found = []
    for seed in range(40):
        codes = (np.random.default_rng(seed).random((50, 30)) < rates).astype(int)
        result = measure_spectrum(make_responses(codes), replicates=100, seed=seed, tasks=ALONE)
        found.append((result.exceed > 0, result.exceed_parallel > 0))
    assert np.sum(found, axis=0).max() <= 7  # 2 expected; more than 7 has a chance of .003


def test_only_the_first_eigenvalue_stands_out_in_one_dimension():
    beyond = []
    for seed in range(20):
        responses = simulated(seed, targets=77, items=60, discrimination=1.5)
        result = measure_spectrum(
            responses, replicates=60, one_dimension=fitted(responses), seed=seed, tasks=ALONE
        )
        assert result.exceed >= 1
        beyond.append(result.exceed_one_dimension > 0)
    assert sum(beyond) <= 5


def test_two_factors_that_correlate_by_6_stand_out():
    beyond = []
    for seed in range(8):
        responses = simulated(seed, targets=77, items=60, discrimination=1.5, **TWO_FACTORS)
        result = measure_spectrum(
            responses, replicates=60, one_dimension=fitted(responses), seed=seed, tasks=ALONE
        )
        beyond.append(result.exceed_one_dimension)
    assert sum(count >= 1 for count in beyond) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.7, 1.5, 2.5])
def test_false_positives_of_the_one_dimensional_null(strength, study_size):
    sets = max(20, int(200 * study_size))
    beyond = 0
    for seed in range(sets):
        responses = simulated(1000 + seed, targets=77, items=100, discrimination=strength)
        beyond += (
            measure_spectrum(
                responses, replicates=100, one_dimension=fitted(responses), seed=seed, tasks=ALONE
            ).exceed_one_dimension
            > 0
        )
    # Items are estimated, so that the rate is not exactly .05: 10 of 80 at two weaker strengths.
    assert beyond <= sets * 0.15 + 3 * np.sqrt(sets * 0.15 * 0.85)


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (30, 30)])
def test_the_smaller_product_has_the_eigenvalues_of_the_correlations(shape):
    codes = np.random.default_rng(1).integers(0, 2, shape)
    seen = np.ones(shape, bool)
    expected = np.linalg.eigvalsh(np.corrcoef(codes.T))[::-1]
    assert outcome_spectrum(codes, seen, "pearson")[0] == pytest.approx(expected, abs=1e-10)
    batch = outcome_eigenvalues(np.stack([codes, codes]), seen, "pearson", depth=10)
    assert batch == pytest.approx(np.stack([expected, expected])[:, :10], abs=1e-10)


def test_few_eigenvalues_of_a_large_matrix_are_those_of_all():
    rng = np.random.default_rng(2)
    codes = (rng.normal(size=(40, 1)) + rng.normal(size=(40, 320)) > 0).astype(int)
    seen = rng.random(codes.shape) > 0.1
    few = outcome_eigenvalues(codes[None], seen, "pearson", depth=20)[0]
    assert few == pytest.approx(outcome_spectrum(codes, seen, "pearson")[0][:20], abs=1e-8)


def test_missing_cells_stay_and_items_vary_in_every_draw():
    rng = np.random.default_rng(3)
    observed = rng.random((12, 6)) > 0.4
    observed[:2] = True
    rates = np.array([0.01, 0.5, 0.99, 1e-12, 1 - 1e-12, 0.0])
    drawn = draw_outcomes(rates, observed, 200, rng)
    ones = (drawn & observed).sum(axis=1)
    assert ((ones > 0) & (ones < observed.sum(axis=0))).all()
    codes = np.where(observed, rng.integers(0, 2, observed.shape), -1).astype(np.int8)
    shuffled = permute_within_items(codes, observed, 50, rng)
    assert ((shuffled >= 0) == observed).all()
    assert ((shuffled == 1).sum(axis=1) == (codes == 1).sum(axis=0)).all()
    assert (shuffled != codes).any()


def test_a_rare_outcome_is_equally_likely_at_every_target():
    observed = np.ones((4, 1), bool)
    drawn = draw_outcomes(np.array([0.02]), observed, 20_000, np.random.default_rng(4))[:, :, 0]
    expected = 0.02 / (1 - 0.98**4 - 0.02**4)
    assert drawn.mean(axis=0) == pytest.approx(np.full(4, expected), abs=0.02)


def test_every_order_of_an_item_is_equally_likely_with_missing_cells():
    codes = np.array([[1], [-1], [0], [0]], np.int8)
    shuffled = permute_within_items(codes, codes >= 0, 6000, np.random.default_rng(5))[:, :, 0]
    assert (shuffled == 1).mean(axis=0) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=0.03)


@pytest.mark.parametrize("correlation", ["pearson", "tetrachoric"])
def test_missing_cells_and_tetrachoric_correlations(correlation):
    responses = simulated(6, targets=60, items=25, discrimination=1.5, missing=0.2)
    found = measure_spectrum(
        responses,
        replicates=40,
        correlation=correlation,
        one_dimension=fitted(responses),
        tasks=ALONE,
    )
    assert found.exceed >= 1
    assert sum(found.observed) == pytest.approx(found.items)
    assert found.smallest < 0
    assert any("smallest eigenvalue" in warning for warning in found.warnings)


def test_the_order_of_targets_and_items_changes_no_observed_eigenvalue():
    responses = simulated(7, targets=30, items=20, missing=0.1)
    rng = np.random.default_rng(7)
    turned = responses.codes[rng.permutation(30)][:, rng.permutation(20)]
    first = measure_spectrum(responses, replicates=20, tasks=ALONE)
    second = measure_spectrum(make_responses(turned), replicates=20, tasks=ALONE)
    assert first.observed == pytest.approx(second.observed, abs=1e-9)


def test_workers_and_a_restart_change_nothing(tmp_path):
    responses = simulated(8, targets=30, items=20)
    model = fitted(responses)
    kept = TaskSettings(jobs=1, quiet=True, resume=tmp_path)
    settings = {"replicates": 30, "seed": 3, "one_dimension": model}
    first = measure_spectrum(responses, **settings, tasks=ALONE)
    assert measure_spectrum(responses, **settings, tasks=kept) == first
    assert len(list(tmp_path.iterdir())) == 3
    assert measure_spectrum(responses, **settings, tasks=kept) == first
    assert measure_spectrum(responses, **settings | {"seed": 4}, tasks=ALONE) != first


def test_items_without_variance_and_empty_targets_are_left_out_and_named():
    codes = np.random.default_rng(9).integers(0, 2, (20, 8))
    codes[:, 2], codes[5], codes[:, 6] = 1, -1, -1
    responses = make_responses(codes)
    found = measure_spectrum(responses, replicates=20, one_dimension=fitted(responses), tasks=ALONE)
    assert found.dropped_items == ("3", "7")
    assert found.dropped_targets == ("6",)
    assert (found.items, found.targets) == (6, 19)


def test_models_in_other_forms_are_those_of_the_items_that_vary():
    codes = np.random.default_rng(10).integers(0, 2, (20, 4))
    codes[:, 1] = 1
    every = ItemParameters(np.ones((4, 1)), np.zeros((4, 1)), np.zeros(4), np.ones(4))
    chosen = every.select(np.array([0, 2, 3]))
    forms = [
        OneDimension(every),
        OneDimension(chosen),
        OneDimension(chosen, ability_mean=np.zeros(20), ability_sd=np.ones(20)),
    ]
    found = [
        measure_spectrum(
            make_responses(codes), replicates=30, one_dimension=form, tasks=ALONE
        ).one_dimension
        for form in forms
    ]
    assert found[0] == found[1]
    assert found[2] != found[0]
    population = measure_spectrum(
        make_responses(codes),
        replicates=30,
        one_dimension=forms[0],
        abilities="population",
        tasks=ALONE,
    )
    assert population.one_dimension != found[0]
    with pytest.raises(InputError, match="the model has 2 items, of which 3 vary"):
        measure_spectrum(
            make_responses(codes), one_dimension=OneDimension(every.select(np.array([0, 2])))
        )


def test_hostile_matrices_give_no_nan():
    cases = [
        [[1, 0], [0, 1]],
        [[1, 0, 1], [0, 1, 1], [-1, -1, -1]],
        [[1, 0, -1, -1], [0, 1, -1, -1], [-1, -1, 1, 0], [-1, -1, 0, 1]],
    ]
    for codes in cases:
        data = plain(measure_spectrum(make_responses(codes), replicates=20, tasks=ALONE))
        json.dumps(data, allow_nan=False)
        assert data["null_q95_one_dimension"] is None
        assert set(data["why"]) == {"null_q95_one_dimension", "exceed_one_dimension"}
    assert data["unknown_pairs"] == 4


def test_what_has_no_spectrum_is_refused():
    good = make_responses([[0, 1], [1, 0]])
    cases = [
        (make_responses([[0, 2], [1, 1]]), {}, "takes outcomes 0 and 1"),
        (make_responses([[0, 1], [1, 1]]), {}, "1 of 2 items vary"),
        (make_responses([[0, 1], [1, 0]], weights=[1.0, 2.0]), {}, "its own row"),
        (good, {"replicates": 5}, "20 or more"),
        (good, {"percentile": 100}, "between 0 and 100"),
        (good, {"correlation": "kendall"}, "unknown correlation"),
    ]
    for responses, settings, message in cases:
        with pytest.raises(InputError, match=message):
            measure_spectrum(responses, **settings)
    with pytest.raises(InputError, match="2 targets have all 2 scores"):
        score_spectrum([[1, 2], [2, 1], [np.nan, 1]])
    with pytest.raises(InputError, match="the same for all targets"):
        score_spectrum([[1, 2], [1, 1], [1, 4]])
