"""A factor that one judge made is said to be possible; one that all see is not put down to them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from safemetry.construct.dimensions.by_judge import by_judge
from safemetry.construct.dimensions.judge_cells import common_cells
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)
TARGETS, ITEMS = 50, 40
KINDS = {f"i{place}": "plain" if place < ITEMS // 2 else "poetry" for place in range(ITEMS)}


def named(codes):
    rows, columns = np.shape(codes)
    return make_responses(
        codes, targets=[f"t{n}" for n in range(rows)], items=[f"i{n}" for n in range(columns)]
    )


def behaviour(rng, correlation):
    """True outcomes, with two traits of the targets that correlate."""
    covariance = [[1, correlation], [correlation, 1]]
    theta = rng.multivariate_normal([0, 0], covariance, TARGETS)
    traits = np.repeat(theta, ITEMS // 2, axis=1)
    chance = 1 / (1 + np.exp(-2 * traits - rng.normal(0, 1, ITEMS)))
    return (rng.random(chance.shape) < chance).astype(int)


def noisy(codes, rng, share=0.03):
    return np.where(rng.random(codes.shape) < share, 1 - codes, codes)


def style_judge(codes, rng):
    """Rewards the poems of some targets whatever they say: a trait that only this judge sees."""
    liked = rng.random(TARGETS) < 0.5
    read = rng.random(codes.shape) < 0.85
    poems = np.arange(ITEMS) >= ITEMS // 2
    return np.where(read & poems, liked[:, None], codes).astype(int)


def test_a_factor_that_one_judge_made_is_called_possible():
    rng = np.random.default_rng(1)
    truth = behaviour(rng, 1.0)
    judges = {"careful": named(noisy(truth, rng)), "style": named(style_judge(truth, rng))}
    found = by_judge(judges, KINDS, resamples=20, tasks=ALONE)
    assert found.judge_made == "possible"
    assert "missing under careful" in found.sentence
    (shift,) = found.shifts
    assert shift.beyond_chance
    assert shift.correlations[0] > 0.9 > shift.correlations[1]
    assert "plain and poetry correlate" in found.sentence


def test_a_factor_of_the_targets_is_seen_by_every_judge():
    rng = np.random.default_rng(2)
    truth = behaviour(rng, 0.3)
    judges = {name: named(noisy(truth, rng)) for name in ("first", "second")}
    found = by_judge(judges, KINDS, resamples=20, tasks=ALONE)
    assert found.judge_made == "not_seen"
    assert not any(shift.beyond_chance for shift in found.shifts)
    assert all(row.gain.interval[0] > 0 for row in found.judges)
    assert "A bias that the judges share would not show." in found.sentence
    assert found.agreement == pytest.approx(0.94, abs=0.02)


def test_one_dimension_has_no_factor_to_ascribe():
    rng = np.random.default_rng(3)
    truth = behaviour(rng, 1.0)
    judges = {name: named(noisy(truth, rng)) for name in ("first", "second")}
    found = by_judge(judges, tasks=ALONE)
    assert found.judge_made == "not_seen"
    assert found.sentence.startswith("Under no judge")
    assert found.shifts == ()
    assert found.judges[0].correlations is None


def test_a_judge_compared_with_itself_agrees():
    labels = named(behaviour(np.random.default_rng(4), 0.3))
    found = by_judge({"a": labels, "b": labels}, KINDS, resamples=5, tasks=ALONE)
    first, second = found.judges
    assert found.agreement == 1
    assert first.gain.splits == second.gain.splits
    assert first.correlations == second.correlations
    assert found.judge_made == "not_seen"


def test_one_judge_cannot_be_told():
    labels = named(behaviour(np.random.default_rng(5), 0.3))
    found = by_judge({"only": labels}, KINDS, tasks=ALONE)
    assert found.judge_made == "cannot_tell"
    assert "one judge (only) labelled everything" in found.sentence
    assert len(found.judges) == 1
    assert found.agreement is None


def test_only_cells_that_all_judges_labelled_are_compared():
    rng = np.random.default_rng(6)
    codes = behaviour(rng, 0.5)
    first, second = named(codes), named(np.where(rng.random(codes.shape) < 0.1, -1, codes))
    order = rng.permutation(TARGETS)[: TARGETS - 5]
    turned = make_responses(
        second.codes[order],
        targets=[second.targets[place] for place in order],
        items=second.items,
    )
    constant = codes.copy()
    constant[:, 7] = 1
    held = common_cells({"a": named(constant), "b": turned})
    assert held["a"].targets == held["b"].targets
    assert len(held["a"].targets) == TARGETS - 5
    assert "i7" not in held["a"].items
    assert (held["a"].observed == held["b"].observed).all()
    assert (held["a"].codes == held["b"].codes).all()
    assert first.codes.shape == (TARGETS, ITEMS)


def test_the_result_is_json_with_reasons_for_what_is_unknown():
    labels = named(behaviour(np.random.default_rng(7), 0.5))
    for judges, structure in (({"a": labels}, None), ({"a": labels, "b": labels}, KINDS)):
        found = plain(by_judge(judges, structure, resamples=3, tasks=ALONE))
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        for part in (found, *found["judges"]):
            for name, value in part.items():
                assert value is not None or part["why"][name]


def test_too_few_common_labels_cannot_be_told():
    rng = np.random.default_rng(8)
    codes = behaviour(rng, 0.5)
    first = named(codes)
    other = make_responses(codes, targets=[f"other {n}" for n in range(TARGETS)], items=first.items)
    for judges in ({"a": first, "b": other}, {"a": named(codes[:3]), "b": named(codes[:3])}):
        found = by_judge(judges, KINDS, tasks=ALONE)
        assert found.judge_made == "cannot_tell"
        assert "are needed" in found.sentence
    with pytest.raises(InputError, match="no judge"):
        by_judge({}, KINDS, tasks=ALONE)


def test_the_china_factor_of_speechmap_is_seen_by_both_judges(shared):
    folder = shared / "data/speechmap_criticism"
    judges = {}
    for judge in ("grok41fast", "gpt4o"):
        with (folder / f"matrix_ordinal_{judge}.csv").open() as stream:
            header, *rows = csv.reader(stream)
        complete = [
            [-1 if cell == "" else int(float(cell) == 2) for cell in row[1:]] for row in rows
        ]
        judges[judge] = make_responses(complete, targets=[row[0] for row in rows], items=header[1:])
    with (folder / "items.csv").open() as stream:
        about = {
            row["item_id"]: "China" if "china" in row["item_id"] else "other"
            for row in csv.DictReader(stream)
        }
    found = by_judge(judges, about, splits=3, resamples=20, tasks=ALONE)
    assert found.dimensions == ("China", "other")
    assert found.targets == 37
    assert found.agreement == pytest.approx(0.973, abs=0.005)
    assert found.judge_made == "not_seen"
    assert all(row.gain.gain > 0.02 for row in found.judges)
    for row in found.judges:
        assert row.correlations[0][1] == pytest.approx(0.56, abs=0.05)
        assert row.first_eigenvalue == pytest.approx(0.33, abs=0.01)
