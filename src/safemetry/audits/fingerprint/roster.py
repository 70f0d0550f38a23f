"""The known targets: what each would answer if it were run again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safemetry.audits.fingerprint.answers import answer_shares
from safemetry.audits.fingerprint.population import AnswerPopulation, answer_population
from safemetry.audits.fingerprint.reruns import (
    ShareArray,
    noise_posterior,
    observed_disagreement,
    rerun_chances,
    simulate_reruns,
    stated_noise,
)
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Roster:
    """R known targets on J informative items with C classes.

    Parameters
    ----------
    names
        Of the targets.
    counts
        Their answers, shape ``(R, J, C)``.
    population
        What other targets answer.
    means
        What the population says of a target of the same ability, shape ``(R, J, C)``.
    noise
        Weights of the noise shares, shape ``(R, len(NOISE_SHARES))``.
    chances
        Of each class in one more run, shape ``(R, J, C)``.
    disagreement
        Share of the informative items on which two runs differ: observed where targets were run
        twice, otherwise what was stated, shape ``(R,)``.
    estimated
        Whether the noise was estimated from repeated runs.
    """

    names: tuple[str, ...]
    counts: FloatArray
    population: AnswerPopulation
    means: FloatArray
    noise: FloatArray
    chances: FloatArray
    disagreement: FloatArray
    estimated: bool

    @property
    def runs(self) -> IntArray:
        """Most runs of each target on an item, shape ``(R,)``."""
        most: IntArray = self.counts.sum(axis=-1).max(axis=1).astype(np.int64)
        return most

    @property
    def shares(self) -> FloatArray:
        """Shares of classes in the answers, shape ``(R, J, C)``."""
        return answer_shares(self.counts)

    @property
    def answered(self) -> BoolArray:
        """Where there is an answer, shape ``(R, J)``."""
        found: BoolArray = self.counts.sum(axis=-1) > 0
        return found

    def simulate(self, known: int, studies: int, runs: int, rng: np.random.Generator) -> ShareArray:
        """Shares of classes 1 .. C - 1 in re-runs of one target, shape ``(studies, J, C - 1)``."""
        return simulate_reruns(
            self.counts[known], self.means[known], self.noise[known], (studies, runs), rng
        )


def make_roster(
    names: tuple[str, ...],
    counts: FloatArray,
    *,
    population: str = "auto",
    disagreement: float | None = None,
) -> Roster:
    """Known targets with their noise.

    Parameters
    ----------
    names
        R of them.
    counts
        Answers on informative items, shape ``(R, J, C)``.
    population
        See `answer_population`.
    disagreement
        How often a re-run differs, over the informative items; None estimates it from repeated
        runs.

    Raises
    ------
    InputError
        Where nothing is stated and no target was run twice.
    """
    others = answer_population(counts, population)
    means = others.expected(answer_shares(counts))
    if disagreement is None:
        noise = noise_posterior(counts, means)
        observed = observed_disagreement(counts)
        rates = np.zeros(len(names)) if observed is None else observed
    else:
        noise, rates = stated_noise(counts, means, disagreement)
    chances = rerun_chances(counts, means, noise)
    return Roster(names, counts, others, means, noise, chances, rates, disagreement is None)
