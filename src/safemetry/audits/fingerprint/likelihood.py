"""Log-likelihood ratios: this known target run again, against some other target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import logsumexp

from safemetry.audits.fingerprint.population import AnswerPopulation
from safemetry.irt.parameters import BoolArray, FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RatioTable:
    """Everything that the ratios of R known targets need, as one matrix product.

    log [ P(answers | re-run of the known target) / sum_q w_q P(answers | ability q) ], with items
    independent given the target. Repeated runs of the unknown target enter as shares of classes:
    the ratio is that of an average run.

    Parameters
    ----------
    slopes
        Log chances of classes 1 .. C - 1 less that of class 0, of the R known targets and then of
        the Q abilities, shape ``(J (C - 1), R + Q)``.
    constants
        Log chances if every answer were class 0, shape ``(R + Q,)``.
    log_weights
        Of the abilities, shape ``(Q,)``.
    """

    slopes: FloatArray
    constants: FloatArray
    log_weights: FloatArray

    @classmethod
    def of(
        cls, chances: FloatArray, population: AnswerPopulation, answered: BoolArray | None = None
    ) -> Self:
        """The table of known targets.

        Parameters
        ----------
        chances
            Of one more run of each, shape ``(R, J, C)``.
        population
            The alternative.
        answered
            Items that count, shape ``(J,)``; all by default.
        """
        logs = np.log(np.concatenate([chances, population.chances]))
        if answered is not None:
            logs = logs * answered[:, None]
        first = logs[..., :1]
        slopes = (logs[..., 1:] - first).reshape(len(logs), -1).T
        return cls(slopes, first.sum(axis=(1, 2)), population.log_weights)

    def only(self, known: int) -> RatioTable:
        """The table of one of the known targets."""
        kept = np.r_[known, len(self.constants) - len(self.log_weights) : len(self.constants)]
        return RatioTable(self.slopes[:, kept], self.constants[kept], self.log_weights)

    def ratios(self, shares: NDArray[np.floating]) -> FloatArray:
        """Log-likelihood ratios in nats, to three decimals, shape ``(S, R)``.

        Parameters
        ----------
        shares
            Of classes 1 .. C - 1 in the answers of S targets, shape ``(S, J, C - 1)``; an item that
            the table leaves out does not count.
        """
        flat = shares.reshape(len(shares), -1)
        merits = flat @ self.slopes.astype(shares.dtype, copy=False) + self.constants
        known = merits.shape[1] - len(self.log_weights)
        other = logsumexp(merits[:, known:] + self.log_weights, axis=1, keepdims=True)
        # Rounded, so that equal answers have equal ratios whatever the size of the product.
        found = np.asarray(merits[:, :known] - other, np.float64)
        return found.round(3)
