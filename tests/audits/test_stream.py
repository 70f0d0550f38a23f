"""The drift check: fair bets, false alarms over whole streams, and how soon a change is seen."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from safemetry.audits.fingerprint import (
    DriftSettings,
    DriftState,
    DriftVerdict,
    drift_paths,
    estimated_rate,
    known_rate,
    rate_of_runs,
    resume,
    update,
)
from safemetry.audits.fingerprint.bets import direction_bets, exchange_bets, rate_bets
from safemetry.audits.fingerprint.stream import item_bets
from safemetry.errors import InputError

ITEMS = 150


@pytest.fixture(scope="module")
def streams(study_size):
    return max(round(10_000 * study_size), 200)  # a full study has 10,000 streams


def alarms(past, new, settings):
    return drift_paths(past, new, settings)[0].max(axis=1) >= settings.threshold


def first(past, new, settings):
    """Items until the alarm; the number of items plus one without."""
    over = drift_paths(past, new, settings)[0] >= settings.threshold
    return np.where(over.any(axis=1), over.argmax(axis=1) + 1, new.shape[1] + 1)


def most(level, count):
    return level + 3 * np.sqrt(level * (1 - level) / count)


def flipped(streams, rate, rng):
    past = (rng.random((streams, ITEMS, 1)) < 0.7).astype(np.int8)
    flip = rng.random((streams, ITEMS)) < rate
    return past, np.where(flip, 1 - past[..., 0], past[..., 0])


def repeated(streams, runs, rng, changed=0.0):
    """Items with chances near 0 or 1, and an endpoint that turned some of its answers round."""
    chances = rng.beta(0.15, 0.3, (streams, ITEMS, 1))
    answers = (rng.random((streams, ITEMS, runs + 1)) < chances).astype(np.int8)
    new = answers[..., runs].copy()
    turned = rng.random(new.shape) < changed
    new[turned] = 1 - new[turned]
    return answers[..., :runs], new


@pytest.mark.parametrize("answers", [(0, 0, 1), (0, 1, 2), (2, 2, 2, 2, 0), (0, 0, 1, 1)])
def test_bets_are_fair_whichever_of_the_answers_is_the_new_one(answers):
    factors, sides = [], []
    for place in range(len(answers)):
        past = np.array([answers[:place] + answers[place + 1 :]])
        counts = (past[..., None] == np.arange(3)).sum(axis=1).astype(float)
        factors.append(np.exp(exchange_bets(counts, np.array([answers[place]])))[0])
        shift = np.sign(answers[place] - past).mean(axis=1)
        sides.append(np.exp(direction_bets(shift))[0])
    assert np.allclose(np.mean(factors, axis=0), 1)
    assert np.allclose(np.mean(sides, axis=0), 1)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.4])
def test_bets_on_a_rate_are_fair_at_the_rate_and_lose_below(rate):
    factor = np.exp(rate_bets(np.array([0.0, 1.0]), rate))
    assert np.allclose((1 - rate) * factor[0] + rate * factor[1], 1)
    less = rate / 2
    assert ((1 - less) * factor[0] + less * factor[1] < 1).all()


@pytest.mark.parametrize("rate", [0.02, 0.15])
def test_false_alarms_with_a_known_rate(rate, streams):
    rng = np.random.default_rng(1)
    settings = DriftSettings(rate=known_rate(rate))
    assert alarms(*flipped(streams, rate, rng), settings).mean() <= most(0.05, streams)


@pytest.mark.parametrize(("runs", "direction"), [(2, False), (5, False), (4, True)])
def test_false_alarms_with_several_past_runs_need_no_rate(runs, direction, streams):
    rng = np.random.default_rng(2)
    settings = DriftSettings(direction=direction)
    rate = alarms(*repeated(streams, runs, rng), settings).mean()
    assert rate <= most(0.05, streams)


@pytest.mark.parametrize(("rate", "pairs"), [(0.05, 30), (0.2, 60)])
def test_false_alarms_with_a_rate_estimated_from_few_reruns(rate, pairs, streams):
    rng = np.random.default_rng(3)
    seen = rng.binomial(pairs, rate, streams)
    count = 0
    for differing in np.unique(seen):
        rows = int((seen == differing).sum())
        settings = DriftSettings(rate=estimated_rate(int(differing), pairs))
        count += int(alarms(*flipped(rows, rate, rng), settings).sum())
    assert count / streams <= most(0.05, streams)


def test_shifts_are_seen_sooner_the_larger_they_are():
    rng = np.random.default_rng(4)
    settings = DriftSettings(rate=known_rate(0.05))
    delays = [np.median(first(*flipped(200, 0.05 + by, rng), settings)) for by in (0.1, 0.2, 0.4)]
    assert delays[0] > delays[1] > delays[2]
    assert delays[2] <= 12
    several = np.median(first(*repeated(200, 5, rng, changed=0.3), DriftSettings()))
    assert several <= 40


def test_more_refusals_are_seen_by_direction_without_any_rate():
    rng = np.random.default_rng(5)
    past, new = repeated(200, 1, rng)
    new = np.where(rng.random(new.shape) < 0.6, 0, new)
    assert not alarms(past, new, DriftSettings()).any()
    assert alarms(past, new, DriftSettings(direction=True)).mean() > 0.9


def test_an_endpoint_that_differs_by_the_margin_is_rarely_called_the_same(streams):
    rng = np.random.default_rng(6)
    settings = DriftSettings(rate=known_rate(0.05), margin=0.1)
    past, new = flipped(streams, 0.15, rng)
    same = drift_paths(past, new, settings)[1].max(axis=1) >= settings.threshold
    assert same.mean() <= most(0.05, streams)
    past, new = flipped(200, 0.05, rng)
    same = drift_paths(past, new, settings)[1].max(axis=1) >= settings.threshold
    assert same.mean() > 0.8


def test_updates_give_the_same_path_as_whole_streams():
    rng = np.random.default_rng(7)
    past, new = repeated(1, 4, rng, changed=0.2)
    past[0, 3], past[0, 5, 1:], new[0, 9] = -1, -1, -1
    settings = DriftSettings(rate=estimated_rate(3, 60), direction=True)
    state = DriftState(settings)
    for item in range(ITEMS):
        state = update(state, past[0, item].tolist(), int(new[0, item]))
    changed, same = drift_paths(past, new, settings)
    used = np.delete(np.arange(ITEMS), [3, 9])
    assert state.skipped == 2
    assert np.allclose(state.log_e_values, changed[0, used])
    assert np.allclose(state.log_e_same, same[0, used])
    assert state.items == ITEMS - 2 == len(state.log_e_direction)


def test_a_state_is_stored_and_resumed_at_any_item():
    state = DriftState(DriftSettings(rate=known_rate(0.1)))
    rng = np.random.default_rng(8)
    direct = state
    for past, new in rng.integers(0, 2, (40, 2)).tolist():
        direct = update(direct, past, new)
        stored = json.dumps(state.to_dict(), allow_nan=False)
        state = update(resume(json.loads(stored)), past, new)
    assert state == direct
    assert state.verdict is DriftVerdict.DIFFERENT
    assert state.decided_at is not None
    assert state.decided_at < 40
    kept = update(state, 1, 1)
    assert (kept.verdict, kept.decided_at) == (state.verdict, state.decided_at)
    with pytest.raises(InputError, match="no stored state"):
        resume({"items": 3})
    with pytest.raises(InputError, match="another version"):
        resume({**state.to_dict(), "rate": [0.0]})


def test_a_steady_endpoint_is_called_the_same():
    state = DriftState(DriftSettings(rate=known_rate(0.02)))
    while state.decided_at is None and state.items < 200:
        state = update(state, 1, 1)
    assert state.verdict is DriftVerdict.SAME


def test_one_past_answer_without_a_rate_says_nothing_of_disagreement():
    for past, new in product((0, 1), repeat=2):
        bets = item_bets(np.array([[past]]), np.array([new]), DriftSettings())
        assert not bets.exchange.any()
        assert not bets.rate.any()
        assert not bets.same.any()


def test_rates_come_with_bounds():
    runs = np.array([[0, 1, 1, -1], [1, 1, -1, -1], [-1, 0, 1, 0]])
    rate = rate_of_runs(runs)
    assert rate == estimated_rate(1, 3)
    assert rate.lower < 1 / 3 < rate.upper
    with pytest.raises(InputError, match="run twice"):
        rate_of_runs(runs[:1])
    for wrong in (lambda: known_rate(0.0), lambda: estimated_rate(3, 2), lambda: known_rate(1.0)):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="doubt"):
        DriftSettings(level=0.01, rate=estimated_rate(1, 30))
    with pytest.raises(InputError):
        update(DriftState(), 1, -2)
