"""How good adaptive tests are: lengths, errors, exposure, decisions, and predicted scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from safemetry.errors import InputError
from safemetry.findings import resolved
from safemetry.forms.adaptive.multidimensional import Multidimensional
from safemetry.forms.adaptive.process import make_test
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.forms.adaptive.simulation import Codes, Sessions, run_sessions, simulate_codes
from safemetry.forms.adaptive.stopping import Decision
from safemetry.forms.pool import ItemPool
from safemetry.forms.recovery.expectation import expected_own_scores
from safemetry.forms.recovery.table import score_table
from safemetry.irt.parameters import FloatArray, IntArray
from safemetry.irt.predict import integrated_probabilities
from safemetry.rates.intervals import clopper_pearson


@dataclass(frozen=True)
class AdaptiveEvaluation:
    """How adaptive tests went.

    Parameters
    ----------
    sessions
        How many.
    mean_length, shortest, longest
        In items.
    bias, rmse
        Of the last ability against the reference, in the unit of the scale; None without sessions
        that have an estimate.
    highest_exposure
        Largest share of sessions in which one item was given.
    never_given
        Items that no session was given.
    overlap
        Mean share of its items that a session has in common with another; None for fewer than two.
    stops
        Reason -> sessions.
    decided
        Share of sessions with a decision; None without a cut.
    wrong
        Share of decisions on another side of the cut than the reference; None without decisions.
    why
        Reasons of what is None.
    """

    sessions: int
    mean_length: float
    shortest: int
    longest: int
    bias: float | None
    rmse: float | None
    highest_exposure: float
    never_given: int
    overlap: float | None
    stops: dict[str, int]
    decided: float | None
    wrong: float | None
    why: dict[str, str]


def evaluate_sessions(
    sessions: Sessions, reference: FloatArray, cut: float | None = None
) -> AdaptiveEvaluation:
    """Compare sessions in one dimension with the abilities that all items give.

    Parameters
    ----------
    sessions
        Of N targets.
    reference
        Ability of each target from all its responses (or the true one, where it is known), shape
        ``(N,)``.
    cut
        Of the classification.

    Raises
    ------
    InputError
        For another number of targets, or several dimensions.
    """
    if sessions.theta.ndim != 2 or reference.shape != (len(sessions.items),):
        raise InputError("sessions in one dimension are compared with one ability each")
    lengths = sessions.lengths
    have = lengths > 0
    off = np.ma.getdata(sessions.final_theta)[have] - reference[have]
    why: dict[str, str] = {}
    bias = rmse = None
    if off.size:
        bias, rmse = float(off.mean()), float(np.sqrt((off**2).mean()))
    else:
        why |= dict.fromkeys(("bias", "rmse"), "no session has an answer")
    overlap = overlap_rate(sessions)
    if overlap is None:
        why["overlap"] = "there are fewer than two sessions with items"
    decided, wrong = _decisions(sessions, reference, cut, why)
    names = [str(stop) for stop in sessions.stops]
    return AdaptiveEvaluation(
        len(lengths),
        float(lengths.mean()),
        int(lengths.min()),
        int(lengths.max()),
        bias,
        rmse,
        float(sessions.given.max() / len(lengths)),
        int((sessions.given == 0).sum()),
        overlap,
        {name: names.count(name) for name in sorted(set(names))},
        decided,
        wrong,
        why,
    )


def _decisions(
    sessions: Sessions, reference: FloatArray, cut: float | None, why: dict[str, str]
) -> tuple[float | None, float | None]:
    if sessions.decisions is None:
        why |= dict.fromkeys(("decided", "wrong"), "no cut was given")
        return None, None
    sides = np.array([str(side) for side in sessions.decisions])
    made = sides != str(Decision.CANNOT_TELL)
    if cut is None or not made.any():
        why["wrong"] = "no session has a decision" if cut is not None else "no cut was given"
        return float(made.mean()), None
    above = reference > cut
    wrong = made & (above != (sides == str(Decision.ABOVE)))
    return float(made.mean()), float(wrong.sum() / made.sum())


def exposure_rates(sessions: Sessions) -> FloatArray:
    """Share of sessions in which each item was given, shape ``(J,)``."""
    return sessions.given / len(sessions.items)


def overlap_rate(sessions: Sessions) -> float | None:
    """Mean share of items that two sessions have in common.

    The expected number of common items of two different sessions over the mean length (Chen,
    Ankenmann & Spray 2003, for sessions of equal length).
    """
    count = len(sessions.items)
    given = sessions.given.astype(np.float64)
    if count < 2 or not given.any():
        return None
    common = (given * (given - 1)).sum() / (count * (count - 1))
    return float(common / (given.sum() / count))


@dataclass(frozen=True)
class ClassificationErrors:
    """How often a classification decides what, for targets of one ability.

    Parameters
    ----------
    theta
        The true ability.
    sessions
        Simulated.
    above, below, cannot_tell
        Shares.
    wrong
        Share on the wrong side of the cut, with its exact 95% interval; None at the cut itself.
    mean_length
        In items.
    """

    theta: float
    sessions: int
    above: float
    below: float
    cannot_tell: float
    wrong: float | None
    interval: tuple[float, float] | None
    mean_length: float

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with a `why` beside those that are None."""
        values = dict(vars(self))
        return resolved(values, "neither side is wrong at the cut")


def measure_classification(
    pool: ItemPool,
    settings: AdaptiveSettings,
    abilities: Sequence[float],
    rng: np.random.Generator,
    *,
    sessions: int = 1000,
) -> list[ClassificationErrors]:
    """Error rates of a classification, by simulation from the model.

    Parameters
    ----------
    pool
        In one dimension.
    settings
        With a classification.
    abilities
        True abilities to simulate at; the ends of the indifference region are where the stated
        error rates apply.
    rng
        Source of randomness.
    sessions
        At each ability.

    Raises
    ------
    InputError
        Without a classification.
    """
    test = make_test(pool, settings)
    classified = test.engine.settings.classification
    if classified is None or classified.cut is None:
        raise InputError("there is no classification to measure", fix="give one in the settings")
    found = []
    for theta in abilities:
        codes = simulate_codes(pool.parameters, np.full((sessions, 1), theta), rng)
        run = run_sessions(test, codes, rng.integers(2**31, size=sessions, dtype=np.int64))
        sides = [str(side) for side in run.decisions or ()]
        above, below = (sides.count(str(side)) for side in (Decision.ABOVE, Decision.BELOW))
        wrong = None if theta == classified.cut else above if theta < classified.cut else below
        interval = None
        if wrong is not None:
            low, high = clopper_pearson(wrong, sessions)
            interval = (float(low), float(high))
        found.append(
            ClassificationErrors(
                float(theta),
                sessions,
                above / sessions,
                below / sessions,
                (sessions - above - below) / sessions,
                None if wrong is None else wrong / sessions,
                interval,
                float(run.lengths.mean()),
            )
        )
    return found


def predicted_scores(
    pool: ItemPool, codes: Codes, sessions: Sessions, after: Sequence[int]
) -> FloatArray:
    """Mean score over the items of each target that its session predicts after some of them.

    Given items count as they were answered, and the others by their expected score over the
    posterior of the ability (the p-IRT of Polo et al. 2024, with the ability's uncertainty).

    Parameters
    ----------
    pool
        J items.
    codes
        Of N targets, shape ``(N, J)``; items that a target lacks are in no score.
    sessions
        Of the same targets.
    after
        Numbers of items; a session that ended before gives its last prediction.

    Returns
    -------
    numpy.ndarray
        Shape ``(N, len(after))``, between 0 and 1.
    """
    counted = codes >= 0
    if pool.parameters.dimensions == 1:
        longest = max(after, default=1)
        table = score_table(pool.parameters, mean=float(pool.mean[0]), sd=pool.sd, longest=longest)
        taken = (sessions.items[:, :items] for items in after)
        scores = [expected_own_scores(table, codes, part, counted).scores[0] for part in taken]
        return np.stack(scores, axis=1)
    highest = np.maximum(pool.parameters.categories - 1, 1)
    found = np.empty((len(codes), len(after)))
    for column, items in enumerate(after):
        seen = np.minimum(sessions.lengths, items)
        means, covariances = _gaussian_posterior(pool, codes, sessions, seen)
        chances = integrated_probabilities(pool.parameters, means, covariances)
        expected = np.einsum("cij,c->ij", chances, np.arange(len(chances))) / highest
        target, place = np.nonzero(np.arange(sessions.items.shape[1]) < seen[:, None])
        item = sessions.items[target, place]
        expected[target, item] = codes[target, item] / highest[item]
        size = np.maximum(counted.sum(axis=1), 1)
        found[:, column] = np.where(counted, expected, 0.0).sum(axis=1) / size
    return found


def _gaussian_posterior(
    pool: ItemPool, codes: Codes, sessions: Sessions, seen: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Mode and covariance after some items."""
    engine = Multidimensional.of_pool(pool, AdaptiveSettings(rule="determinant"))
    evidence = engine.begin(len(codes))
    rows = np.arange(len(codes))
    for step in range(int(seen.max(initial=0))):
        items = np.maximum(sessions.items[:, step], 0)
        given = np.where(step < seen, codes[rows, items], -1).astype(np.int64)
        engine.observe(evidence, items, given)
    means, _ = engine.estimate(evidence)
    return means, evidence.covariance
