"""A live session takes the path of the simulation, and can be put away after every answer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from adaptive_pools import binary_pool, graded_pool, random_pool

from safemetry.errors import InputError
from safemetry.forms.adaptive import (
    UNSCORED,
    AdaptiveSettings,
    Balance,
    Classification,
    Exposure,
    Start,
    answer,
    make_test,
    next_item,
    resume_session,
    simulate_codes,
    simulate_sessions,
    start_session,
)

POOL = random_pool(40, 1)
ACCEPT = Exposure("acceptance", dict.fromkeys(POOL.items[::2], 0.4))
ELIGIBLE = Exposure("eligibility", dict.fromkeys(POOL.items[4:], 0.3))
SETTINGS = {
    "information": {},
    "map": {"estimator": "map"},
    "ml": {"estimator": "ml"},
    "wle": {"estimator": "wle"},
    "kl": {"rule": "kl"},
    "klp": {"rule": "klp"},
    "kl_interval": {"rule": "kl_interval"},
    "posterior": {"rule": "posterior_information"},
    "strata": {"rule": "a_stratified"},
    "random": {"rule": "random"},
    "randomesque": {"randomesque": 4},
    "balance": {"balance": Balance("category", {"kind-0": 2, "kind-1": 1, "kind-2": 1})},
    "acceptance": {"exposure": ACCEPT},
    "acceptance and balance": {"exposure": ACCEPT, "balance": Balance("category")},
    "eligibility to the end": {"exposure": ELIGIBLE, "budget": 40},
    "eligibility and balance": {"exposure": ELIGIBLE, "balance": Balance("category")},
    "precision": {"precision": 0.5, "least": 3},
    "sprt": {"classification": Classification(cut=0.2, half_width=0.5), "at_cut": True},
    "interval": {"classification": Classification(cut_score=0.6, method="interval", level=0.9)},
    "start": {"start": Start(ability=(1.0,), items=(POOL.items[3], POOL.items[30]))},
    "population": {"start": Start(population=True)},
}


def put_away(session, pool, test):
    return resume_session(json.loads(json.dumps(session.to_dict())), pool, test=test)


def play(pool, settings, seed, codes, closed=()):
    test = make_test(pool, settings)
    session = start_session(pool, settings, seed, closed=closed, test=test)
    while (item := next_item(session)) is not None:
        session = put_away(session, pool, test)
        assert next_item(session) == item
        session = answer(session, item, int(codes[pool.items.index(item)]))
    return session


def assert_same_path(pool, settings, codes, row, found):
    closed = [item for item, code in zip(pool.items, codes[row], strict=True) if code < 0]
    session = play(pool, settings, int(found.seeds[row]), codes[row], closed)
    length = int(found.lengths[row])
    assert session.items == tuple(pool.items[place] for place in found.items[row, :length])
    shape = (length, -1)
    theta = np.ma.getdata(found.theta[row, :length]).reshape(shape)
    assert np.allclose(np.array(session.theta).reshape(shape), theta, rtol=0, atol=1e-8)
    assert session.stop == found.stops[row]
    assert session.decision == (None if found.decisions is None else found.decisions[row])


@pytest.mark.parametrize("name", SETTINGS)
def test_a_session_takes_the_path_of_the_simulation(name):
    settings = replace(AdaptiveSettings(budget=12), **SETTINGS[name])
    rng = np.random.default_rng(5)
    codes = simulate_codes(POOL.parameters, rng.standard_normal((6, 1)), rng)
    codes[rng.random(codes.shape) < 0.1] = -1
    found = simulate_sessions(POOL, codes, settings, rng)
    for row in range(3):
        assert_same_path(POOL, settings, codes, row, found)


def test_graded_items_take_the_same_path():
    pool = graded_pool(20, 3)
    rng = np.random.default_rng(2)
    codes = simulate_codes(pool.parameters, rng.standard_normal((4, 1)), rng)
    for settings in (AdaptiveSettings(budget=9), AdaptiveSettings(budget=9, rule="klp")):
        found = simulate_sessions(pool, codes, settings, rng)
        for row in range(4):
            assert_same_path(pool, settings, codes, row, found)


def test_items_that_are_equal_are_taken_in_their_order_however_many_targets_there_are():
    pool = binary_pool(np.ones(30), np.repeat([-0.7, 0.1, 0.9], 10))
    rng = np.random.default_rng(4)
    codes = simulate_codes(pool.parameters, rng.standard_normal((50, 1)), rng)
    for rule in ("information", "klp", "posterior_information"):
        settings = AdaptiveSettings(budget=25, rule=rule)
        found = simulate_sessions(pool, codes, settings, rng)
        for row in (0, 17, 49):
            assert_same_path(pool, settings, codes, row, found)
        for row in found.items:
            groups = [row[row // 10 == group] for group in range(3)]
            assert all((np.diff(group) > 0).all() for group in groups)


def test_an_answer_that_could_not_be_judged_uses_the_item_up_and_nothing_else():
    settings = AdaptiveSettings(budget=3)
    session = start_session(POOL, settings, 1)
    first = next_item(session)
    after = answer(session, first, UNSCORED)
    assert after.theta[-1] == pytest.approx((0.0,), abs=1e-12)
    assert after.se[-1][0] == pytest.approx(1.0, abs=1e-4)
    second = next_item(after)
    assert second != first
    after = answer(after, second, 1)
    without = start_session(POOL, settings, 1, closed=[first])
    assert next_item(without) == second
    assert answer(without, second, 1).theta[-1] == after.theta[-1]
    assert session.items == ()  # a session is a value


def test_a_session_that_nobody_could_judge_ends_by_its_budget():
    settings = AdaptiveSettings(budget=4, classification=Classification(cut=0.0))
    session = start_session(POOL, settings, 1)
    while (item := next_item(session)) is not None:
        session = answer(session, item, UNSCORED)
    assert (session.stop, session.decision) == ("budget", "cannot_tell")


def test_a_session_without_items_has_ended():
    session = start_session(POOL, AdaptiveSettings(), 1, closed=POOL.items)
    assert session.stop == "exhausted"
    assert next_item(session) is None


def test_a_session_is_refused_with_another_calibration():
    saved = start_session(POOL, AdaptiveSettings(), 1).to_dict()
    slopes = POOL.parameters.slopes.copy()
    slopes[7] += 1e-9
    other = replace(POOL, parameters=replace(POOL.parameters, slopes=slopes))
    with pytest.raises(InputError, match="another calibration"):
        resume_session(saved, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "something"}, "no adaptive session"),
        ({"schema": 99}, "no adaptive session"),
        ({"settings": {"rule": "best"}}, "no rule 'best'"),
        ({"settings": {"colour": "red"}}, "cannot be read"),
        ({"items": ["item-1"]}, "as many answers"),
        ({"items": ["x"], "codes": [0], "theta": [[0.0]], "se": [[1.0]]}, "no item 'x'"),
        ({"items": ["item-1"], "codes": [7], "theta": [[0.0]], "se": [[1.0]]}, "cannot have"),
        ({"stop": "tired"}, "cannot be read"),
        ({"closed": None}, "cannot be read"),
    ],
)
def test_a_damaged_session_is_refused(change, message):
    saved = start_session(POOL, AdaptiveSettings(), 1).to_dict()
    with pytest.raises(InputError, match=message):
        resume_session(saved | change, POOL)


def test_wrong_answers_are_refused():
    session = start_session(POOL, AdaptiveSettings(budget=1), 1)
    item = next_item(session)
    with pytest.raises(InputError, match="was asked"):
        answer(session, next(name for name in POOL.items if name != item), 1)
    with pytest.raises(InputError, match="2 categories"):
        answer(session, item, 2)
    with pytest.raises(InputError, match="has ended"):
        answer(answer(session, item, 1), item, 1)
    with pytest.raises(InputError, match="seed"):
        start_session(POOL, AdaptiveSettings(), -1)
    with pytest.raises(InputError, match="other settings"):
        start_session(POOL, AdaptiveSettings(), 1, test=make_test(POOL, AdaptiveSettings(budget=2)))


def test_settings_come_back_from_json():
    for choice in SETTINGS.values():
        settings = replace(AdaptiveSettings(), **choice)
        assert AdaptiveSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


def test_a_saved_session_holds_no_null_without_a_reason(assert_sound):
    session = start_session(POOL, AdaptiveSettings(estimator="ml"), 1)
    session = answer(session, next_item(session), UNSCORED)
    saved = session.to_dict()
    assert saved["se"] == [[None]]
    assert {"se", "stop", "decision"} <= set(saved["why"])
