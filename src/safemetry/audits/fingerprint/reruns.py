"""How much a target differs from itself when it is run again.

Model: the chances of the classes on an item are drawn once for each target from a Dirichlet
distribution with mean m (what the population says of a target of this ability) and concentration
alpha, and every run draws from them. A re-run then repeats what was seen in proportion to the
number of runs, and otherwise follows m: a target differs from itself on items where targets differ,
and hardly on those that all of them pass. alpha / (1 + alpha), the *noise share*, is the share of
the disagreement of two unrelated targets of equal ability that two runs of one target show
(Skellam 1948 for two classes; Mosimann 1962 for more).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, IntArray

ShareArray = NDArray[np.float32]

NOISE_SHARES: Final[FloatArray] = np.concatenate(
    [np.linspace(0.002, 0.1, 20), np.linspace(0.12, 0.98, 25)]
)
CONCENTRATIONS: Final[FloatArray] = NOISE_SHARES / (1 - NOISE_SHARES)
_STEPS: Final = 200
_NEGLIGIBLE: Final = 1e-6


def noise_posterior(counts: FloatArray, means: FloatArray) -> FloatArray:
    """Weight of each noise share for each target, estimated from repeated runs.

    The distribution of noise shares over targets is estimated by maximum likelihood on the grid
    `NOISE_SHARES` (Laird 1978), with one more target spread evenly over it, so that a target with
    few runs borrows from the others and one without any has their distribution.

    Parameters
    ----------
    counts
        Shape ``(N, J, C)``; only cells with two runs at least say something.
    means
        m, shape ``(N, J, C)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(N, len(NOISE_SHARES))``, rows sum to 1.

    Raises
    ------
    InputError
        Where no cell has two runs.
    """
    repeated = counts.sum(axis=-1) >= 2
    if not repeated.any():
        raise InputError(
            "no target was run twice", fix="state how often a re-run differs (`disagreement`)"
        )
    merits = np.zeros((len(counts), len(CONCENTRATIONS)))
    for place, concentration in enumerate(CONCENTRATIONS):
        prior = concentration * means
        total = counts.sum(axis=-1)
        cell = (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1)
        cell += gammaln(concentration) - gammaln(concentration + total)
        merits[:, place] = np.where(repeated, cell, 0.0).sum(axis=1)
    informed = merits[repeated.any(axis=1)]
    mixing = np.full(len(CONCENTRATIONS), 1 / len(CONCENTRATIONS))
    for _ in range(_STEPS):
        weights = _normalised(informed + np.log(mixing))
        mixing = (weights.sum(axis=0) + 1 / len(mixing)) / (len(informed) + 1)
    return _normalised(merits + np.log(mixing))


def stated_noise(
    counts: FloatArray, means: FloatArray, disagreement: float
) -> tuple[FloatArray, FloatArray]:
    """Weights of the noise share with which a re-run of each target differs as often as stated.

    A re-run differs from an answer of class c with chance (noise share) (1 - m_c), so that every
    target has the noise share that gives the stated rate over its own answers.

    Parameters
    ----------
    counts, means
        Answers and m, shape ``(N, J, C)``, over the items that `disagreement` is about.
    disagreement
        Share of the items on which two runs of any one target differ, in (0, 1).

    Returns
    -------
    tuple
        Weights of shape ``(N, len(NOISE_SHARES))``, and the disagreement that they stand for, shape
        ``(N,)``: the nearest that the items allow. The answers of a target that passes what all
        pass cannot vary much.
    """
    if not 0 < disagreement < 1:
        raise InputError(f"a re-run disagreement of {disagreement:g} is not between 0 and 1")
    total = counts.sum(axis=-1)
    shares = np.divide(
        counts, total[..., None], out=np.zeros_like(counts), where=total[..., None] > 0
    )
    unlike = np.where(total > 0, 1 - (shares * means).sum(axis=-1), 0.0).sum(axis=1)
    unlike /= np.maximum((total > 0).sum(axis=1), 1)
    wanted = np.clip(disagreement / np.maximum(unlike, 1e-12), NOISE_SHARES[0], NOISE_SHARES[-1])
    above = np.searchsorted(NOISE_SHARES, wanted).clip(1, len(NOISE_SHARES) - 1)
    step = NOISE_SHARES[above] - NOISE_SHARES[above - 1]
    part = (wanted - NOISE_SHARES[above - 1]) / step
    weights = np.zeros((len(means), len(NOISE_SHARES)))
    rows = np.arange(len(means))
    weights[rows, above - 1], weights[rows, above] = 1 - part, part
    return weights, wanted * unlike


def rerun_chances(counts: FloatArray, means: FloatArray, noise: FloatArray) -> FloatArray:
    """Chance of each class in one more run, given the runs so far, shape ``(N, J, C)``.

    (n_c + alpha m_c) / (n + alpha), averaged over the weights of the noise shares.

    Parameters
    ----------
    counts, means
        Shape ``(N, J, C)``.
    noise
        Shape ``(N, len(NOISE_SHARES))``.
    """
    found = np.zeros_like(counts)
    total = counts.sum(axis=-1, keepdims=True)
    for place in np.flatnonzero((noise > _NEGLIGIBLE).any(axis=0)):
        concentration = CONCENTRATIONS[place]
        found += noise[:, place, None, None] * (
            (counts + concentration * means) / (total + concentration)
        )
    found /= found.sum(axis=-1, keepdims=True)
    return found


def rerun_disagreement(chances: FloatArray) -> FloatArray:
    """Share of items on which two more runs would differ, shape ``(N,)``, were they independent.

    Two runs share the chances of the target, which are not known exactly: this is an upper bound,
    near what is seen once a target has several runs.
    """
    found: FloatArray = 1 - np.square(chances).sum(axis=-1).mean(axis=-1)
    return found


def observed_disagreement(counts: FloatArray) -> FloatArray | None:
    """Share of pairs of runs that differ, averaged over items, shape ``(N,)``; None without pairs.

    Targets without two runs have the mean of the others.
    """
    total = counts.sum(axis=-1)
    pairs = total * (total - 1)
    if not (pairs > 0).any():
        return None
    same = (counts * (counts - 1)).sum(axis=-1)
    differ = np.divide(pairs - same, pairs, out=np.zeros_like(pairs), where=pairs > 0)
    items = (pairs > 0).sum(axis=1)
    rates = differ.sum(axis=1) / np.maximum(items, 1)
    found: FloatArray = np.where(items > 0, rates, rates[items > 0].mean())
    return found


def simulate_reruns(
    counts: FloatArray,
    means: FloatArray,
    noise: FloatArray,
    size: tuple[int, int],
    rng: np.random.Generator,
) -> ShareArray:
    """Shares of classes 1 .. C - 1 in simulated re-runs of one target.

    A noise share is drawn for each study; its runs follow Polya's urn, so that they share the
    unknown chances of the target (Blackwell & MacQueen 1973).

    Parameters
    ----------
    counts, means
        Of the target, shape ``(J, C)``.
    noise
        Shape ``(len(NOISE_SHARES),)``.
    size
        Number of studies B, and of runs in each.
    rng
        Source of randomness.

    Returns
    -------
    numpy.ndarray
        Shape ``(B, J, C - 1)``, float32.
    """
    studies, runs = size
    drawn = rng.choice(len(noise), studies, p=noise / noise.sum())
    found = np.zeros((studies, len(counts), counts.shape[1] - 1), np.float32)
    for place in np.unique(drawn):
        rows: IntArray = np.flatnonzero(drawn == place)
        urn = counts + CONCENTRATIONS[place] * means
        urns = np.broadcast_to(urn, (len(rows), *urn.shape)).copy() if runs > 1 else urn[None]
        for _ in range(runs):
            edges = urns.cumsum(axis=-1)
            edges /= edges[..., -1:]
            uniform = rng.random((len(rows), len(counts)), dtype=np.float32)
            code = (uniform[..., None] >= edges[..., :-1]).sum(axis=-1)
            given = code[..., None] == np.arange(counts.shape[1])
            found[rows] += given[..., 1:] / runs
            if runs > 1:
                urns += given
    return found


def _normalised(merits: FloatArray) -> FloatArray:
    found: FloatArray = np.exp(merits - logsumexp(merits, axis=1, keepdims=True))
    return found
