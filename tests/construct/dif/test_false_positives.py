"""The family-wise error rate of the whole procedure, and its power on planted differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dif.audit import audit_differences
from safemetry.construct.dif.choices import NULL_PRIORS, TERTILES
from safemetry.construct.dif.settings import DifferencesSettings
from safemetry.irt.responses import make_responses

SIZES = (40, 20)
ITEMS = 40
METHODS = ("mantel_haenszel", "ridge_logistic")


def audited(rng, prior, *, sizes=SIZES, impact=1.0, planted=0.0, copies=0, clustered=False):
    """One simulated data set without differences (but for a planted one), fitted and audited."""
    count = sum(sizes)
    focal = np.arange(count) >= sizes[0]
    theta = rng.normal(size=count) + np.where(focal, -impact / 2, impact / 2)
    logits = theta[:, None] * np.exp(rng.normal(0, 0.4, ITEMS)) + rng.normal(0, 1.2, ITEMS)
    logits[focal, 0] -= planted
    codes = (rng.random(logits.shape) < expit(logits)).astype(np.int8)
    names = [f"t{place}" for place in range(count)]
    clusters = {}
    for start in range(sizes[0], sizes[0] + 4 * copies, 4):
        codes[start + 1 : start + 4] = codes[start]
        clusters |= {names[place]: names[start] for place in range(start, start + 4)}
    audit = audit_differences(
        make_responses(codes, targets=names),
        {name: "f" if is_f else "r" for name, is_f in zip(names, focal, strict=True)},
        cluster=clusters if clustered else None,
        settings=DifferencesSettings(
            bands=(TERTILES,),
            penalties=(1.0,),
            priors={prior: NULL_PRIORS[prior]},
            simulations=200,
            further_simulations=200,
            seed=int(rng.integers(2**31)),
        ),
    )
    first = audit.rows[0].items[0].item
    rows = {
        method: next(row for row in audit.rows if row.method == method and row.matching == "score")
        for method in METHODS
    }
    assert first == "1" or "1" in audit.constant_items
    return [(row.flags > 0, "1" in row.flagged) for row in rows.values()]


def rates(repetitions, seed, prior="regularised", **choices):
    """Share of data sets with a flag, and with the planted item flagged, for each method."""
    rng = np.random.default_rng(seed)
    found = [audited(rng, prior, **choices) for _ in range(repetitions)]
    return np.mean(found, axis=0)


def slack(rate, repetitions):
    return 3 * np.sqrt(rate * (1 - rate) / repetitions)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["regularised", "engine default"])
def test_family_wise_false_positives_are_between_3_and_7_percent(
    prior, study_size, record_property
):
    repetitions = max(round(1000 * study_size), 50)
    found = rates(repetitions, 2026, prior)[:, 0]
    record_property("family-wise", found.tolist())
    # The full study is held to the stated range; a smaller one adds what it cannot see.
    extra = 0.0 if repetitions >= 1000 else slack(0.05, repetitions)
    assert (found >= 0.03 - extra).all()
    assert (found <= 0.07 + extra).all()


@pytest.mark.slow
def test_a_planted_difference_is_found_more_often_the_larger_it_is(study_size, record_property):
    repetitions = max(round(300 * study_size), 40)
    power = np.array([rates(repetitions, 7, planted=shift)[:, 1] for shift in (1.5, 3.0)])
    record_property("power at 1.5 and 3 logits", power.tolist())
    extra = slack(0.4, repetitions)
    assert (power[1] > power[0]).all()
    assert (power[1] > 0.35 - extra).all()
    larger = rates(repetitions, 8, sizes=(150, 50), planted=2.0)[:, 1]
    record_property("power at 2 logits with 150 and 50 targets", larger.tolist())
    assert (larger > 0.45 - extra).all()


@pytest.mark.slow
def test_copies_ruin_the_rate_and_clusters_repair_it(study_size, record_property):
    repetitions = max(round(300 * study_size), 40)
    apart = rates(repetitions, 9, impact=0.0, copies=4)[:, 0]
    together = rates(repetitions, 9, impact=0.0, copies=4, clustered=True)[:, 0]
    record_property("with copies, and clustered", [apart.tolist(), together.tolist()])
    assert (apart > 0.4).all()
    assert (together < 0.08 + slack(0.05, repetitions)).all()
