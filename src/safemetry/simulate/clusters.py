"""Outcomes that cluster by behaviour."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def simulate_clusters(
    behaviours: int,
    attacks: int | ArrayLike,
    rate: float,
    intraclass: float,
    rng: np.random.Generator,
    *,
    replicates: int = 1,
) -> NDArray[np.int64]:
    """Events per behaviour when its attacks share a random rate (beta-binomial).

    A behaviour's rate is drawn from Beta(p (1 - r) / r, (1 - p) (1 - r) / r), which has mean p
    and gives two of its outcomes the correlation r.

    Parameters
    ----------
    behaviours
        Clusters in a replicate.
    attacks
        Trials in a cluster: one number, or one a behaviour, (behaviours,).
    rate
        Mean event rate p, in [0, 1].
    intraclass
        Intra-class correlation r of outcomes, in [0, 1]; at 0 trials are independent, at 1 a
        behaviour fails always or never.
    rng
        Source of randomness.
    replicates
        Independent repetitions.

    Returns
    -------
    ndarray
        Events, (replicates, behaviours), int64.

    Raises
    ------
    InputError
        Where a setting is out of range.

    References
    ----------
    Skellam (1948), A probability distribution derived from the binomial distribution by regarding
    the probability of success as variable between the sets of trials.

    Examples
    --------
    >>> simulate_clusters(5, 9, 0.2, 1.0, np.random.default_rng(4)).tolist()
    [[0, 0, 0, 9, 0]]
    """
    if not 0 <= rate <= 1 or not 0 <= intraclass <= 1:
        raise InputError("the rate and the intra-class correlation must lie in 0 to 1")
    trials = np.asarray(attacks, dtype=np.int64)
    if behaviours < 1 or replicates < 1 or trials.min(initial=1) < 1:
        raise InputError("there must be at least one behaviour, attack and replicate")
    if trials.ndim > 1 or (trials.ndim == 1 and trials.shape != (behaviours,)):
        raise InputError("give one number of attacks, or one a behaviour")
    shape = (replicates, behaviours)
    if intraclass == 0 or rate in {0.0, 1.0}:
        return rng.binomial(trials, rate, size=shape)
    if intraclass == 1:
        return np.where(rng.random(shape) < rate, trials, 0)
    spread = (1 - intraclass) / intraclass
    return rng.binomial(trials, rng.beta(rate * spread, (1 - rate) * spread, size=shape))


def behaviour_spread(intraclass: float, item_spread: float = 0.0) -> float:
    """Standard deviation, in logits, of behaviour effects with a latent intra-class correlation.

    The correlation is that of the latent responses behind the outcomes: s^2 / (s^2 + e^2 +
    pi^2 / 3), where e is the spread of items within a behaviour and pi^2 / 3 the variance of the
    logistic distribution.

    Parameters
    ----------
    intraclass
        Latent intra-class correlation, in [0, 1).
    item_spread
        Standard deviation of item effects within a behaviour, in logits.

    Raises
    ------
    InputError
        For a correlation outside [0, 1).

    References
    ----------
    Snijders and Bosker (2012), Multilevel Analysis, 2nd edition, eq. 17.6 and 17.7.

    Examples
    --------
    >>> round(behaviour_spread(0.3), 3)
    1.187
    """
    if not 0 <= intraclass < 1:
        raise InputError(f"a latent intra-class correlation of {intraclass} is outside 0 to 1")
    return math.sqrt(intraclass / (1 - intraclass) * (item_spread**2 + math.pi**2 / 3))


def outcome_intraclass(probabilities: ArrayLike) -> NDArray[np.float64]:
    """Intra-class correlation of the 0/1 outcomes that these probabilities produce.

    The mean product of deviations from the overall rate over pairs of attacks on one behaviour,
    divided by p (1 - p). It is what a design effect 1 + (attacks - 1) r needs.

    Parameters
    ----------
    probabilities
        (..., behaviours, attacks), at least two attacks, not all 0 or all 1.

    Returns
    -------
    ndarray
        (...,).

    Examples
    --------
    >>> float(outcome_intraclass([[0.9, 0.9], [0.1, 0.1]]).round(2))
    0.64
    """
    chances = np.asarray(probabilities, dtype=np.float64)
    if chances.ndim < 2 or chances.shape[-1] < 2:
        raise InputError("an intra-class correlation needs at least two attacks a behaviour")
    rate = chances.mean(axis=(-2, -1))
    deviations = chances - rate[..., None, None]
    products = deviations.sum(axis=-1) ** 2 - np.square(deviations).sum(axis=-1)
    attacks = chances.shape[-1]
    shared = products.mean(axis=-1) / (attacks * (attacks - 1))
    result: NDArray[np.float64] = np.asarray(shared / (rate * (1 - rate)))
    return result
