"""What other targets of the population answer: the alternative to 'this known target'.

The population is a list of abilities with weights and the chance of each class at each of them, so
that an unknown target is a mixture over the list: agreement that the abilities explain is then no
evidence. On a saturated set two strong targets agree on nearly everything, and so would any third.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import logsumexp

from safemetry.audits.fingerprint.answers import answer_shares
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, ItemModel, category_probabilities
from safemetry.irt.responses import MISSING, make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional

MODELS: Final = ("auto", "irt", "marginal")
FEWEST_TARGETS: Final = 10
"""Known targets from which an item response model is fitted by default."""
_REACH: Final = 5.0
_TILT: Final = 2.0
"""Standard deviation in logits of the general level of a target, where no model is fitted."""


@dataclass(frozen=True)
class AnswerPopulation:
    """Chances of answers of a target that is drawn from the population.

    Parameters
    ----------
    kind
        ``irt`` (two-parameter or graded model) or ``marginal`` (share of each class over the known
        targets, moved up and down by the general level of a target).
    chances
        Of each class at Q abilities, shape ``(Q, J, C)``.
    log_weights
        Logarithm of the weight of each ability, shape ``(Q,)``; the weights sum to 1.
    """

    kind: str
    chances: FloatArray
    log_weights: FloatArray

    def posterior(self, shares: FloatArray) -> FloatArray:
        """Weight of each ability given shares of answers ``(N, J, C)``, shape ``(N, Q)``."""
        table = np.log(self.chances).reshape(len(self.chances), -1)
        merit = shares.reshape(len(shares), -1) @ table.T + self.log_weights
        found: FloatArray = np.exp(merit - logsumexp(merit, axis=1, keepdims=True))
        return found

    def expected(self, shares: FloatArray) -> FloatArray:
        """Chances of each class at the ability that the answers show, shape ``(N, J, C)``."""
        flat = self.chances.reshape(len(self.chances), -1)
        found: FloatArray = (self.posterior(shares) @ flat).reshape(shares.shape)
        return found


def answer_population(counts: FloatArray, model: str = "auto") -> AnswerPopulation:
    """The population that known targets are a sample of.

    Parameters
    ----------
    counts
        Answers of N known targets, shape ``(N, J, C)``.
    model
        ``irt``, ``marginal``, or ``auto``: ``irt`` with at least 10 targets.

    Raises
    ------
    InputError
        For an unknown model.
    """
    if model not in MODELS:
        raise InputError(f"unknown population {model!r}", fix=f"use {', '.join(MODELS)}")
    nodes = np.linspace(-_REACH, _REACH, 101 if counts.shape[1] <= 300 else 201)
    kind = model
    if model == "auto":
        kind = "irt" if len(counts) >= FEWEST_TARGETS else "marginal"
    chances = _fitted(counts, nodes) if kind == "irt" else None
    if chances is None:
        kind, nodes = "marginal", nodes * _TILT
        chances = _tilted(counts, nodes)
    weights = -np.square(nodes / (_TILT if kind == "marginal" else 1.0)) / 2
    # A class that the known targets never gave is rare, and not impossible.
    rare = 0.5 / (len(counts) + 1)
    chances = (1 - rare) * chances + rare / counts.shape[2]
    return AnswerPopulation(kind, chances, weights - logsumexp(weights))


def _tilted(counts: FloatArray, nodes: FloatArray) -> FloatArray:
    """Marginal shares with odds multiplied by exp(level x class), as in a Rasch model."""
    size = counts.shape[2]
    shares = answer_shares(counts)
    answered = (counts.sum(axis=-1) > 0).sum(axis=0)
    marginal = (shares.sum(axis=0) + 0.5) / (answered[:, None] + 0.5 * size)
    logits = np.log(marginal)[None] + nodes[:, None, None] * np.arange(size)
    found: FloatArray = np.exp(logits - logsumexp(logits, axis=2, keepdims=True))
    return found


def _fitted(counts: FloatArray, nodes: FloatArray) -> FloatArray | None:
    """Chances by an item response model; None where no item varies."""
    size = counts.shape[2]
    varied = (counts.sum(axis=0) > 0).sum(axis=-1) >= 2
    if not varied.any():
        return None
    codes, weights = _runs(counts[:, varied])
    model = ItemModel.TWO_PL if size == 2 else ItemModel.GRADED
    fit = fit_unidimensional(make_responses(codes, weights=weights), model, errors=False)
    ladder = category_probabilities(fit.parameters, nodes[:, None] * fit.latent_sd)
    found = np.zeros((len(nodes), counts.shape[1], size))
    found[:, varied, : len(ladder)] = np.moveaxis(ladder, 0, -1)
    only = counts[:, ~varied].sum(axis=0)
    found[:, ~varied] = np.where(only > 0, 1.0, 0.0)
    # Nobody answered: every class is as likely.
    found[found.sum(axis=-1) == 0] = 1 / size
    return found


def _runs(counts: FloatArray) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int8]], FloatArray]:
    """Runs that give these counts, one a row, and weights that make every target count once."""
    sums = counts.cumsum(axis=-1)
    runs = int(sums[..., -1].max())
    rows = []
    for run in range(runs):
        code = (sums <= run).sum(axis=-1)
        rows.append(np.where(code < counts.shape[2], code, MISSING))
    codes = np.concatenate(rows).astype(np.int8)
    made = (codes != MISSING).any(axis=1)
    target = np.tile(np.arange(len(counts)), runs)[made]
    weights = 1 / np.bincount(target, minlength=len(counts))[target]
    return codes[made], weights
