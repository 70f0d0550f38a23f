"""Items chosen so that the full score can be predicted from them, by the covariances of targets.

A form of the most informative items measures one ability best, and a benchmark that measures
several may need others. Here an item is worth what it adds to the linear prediction of the full
score among calibration targets (forward selection by covariance; for Gaussian variables that is the
variance of the score that is left, as in Krause, Singh & Guestrin 2008).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.recovery.linear import Known, known_targets
from safemetry.forms.recovery.table import score_table
from safemetry.forms.selection.greedy import built
from safemetry.forms.selection.limits import by_name, limits_of
from safemetry.irt.parameters import FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]


@dataclass
class PredictiveCriterion:
    """Variance of the full score that a form predicts, among the calibration targets.

    With outcomes x of covariance S and noise D, and the score y, it is
    cov(y, x) (S + D)^-1 cov(x, y) over the items of the form. It follows the order in which a form
    is built: one more item is an update of rank one of what is left unexplained, ``(N, J)``.

    Parameters
    ----------
    known
        Calibration targets.
    """

    known: Known
    _held: list[int] = field(default_factory=list)
    _left: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    _score: FloatArray = field(default_factory=lambda: np.zeros(0))
    _gained: float = 0.0

    def __post_init__(self) -> None:
        self._reset()

    def value(self, chosen: IntArray) -> float:
        """Of a form."""
        self._follow(chosen)
        return self._gained

    def after(self, chosen: IntArray) -> FloatArray:
        """Of a form with each item more, shape ``(J,)``."""
        self._follow(chosen)
        found: FloatArray = self._gained + self._gains()
        return found

    def _gains(self) -> FloatArray:
        count = len(self._score)
        shared = self.known.centred.T @ self._score / count
        own = np.einsum("nj,nj->j", self.known.centred, self._left) / count
        found: FloatArray = shared**2 / (np.maximum(own, 0.0) + self.known.noise)
        return found

    def _reset(self) -> None:
        self._held = []
        self._left = self.known.centred.copy()
        self._score = self.known.truth - self.known.truth.mean()
        self._gained = 0.0

    def _follow(self, chosen: IntArray) -> None:
        wanted = [int(item) for item in chosen]
        if wanted[: len(self._held)] != self._held:
            self._reset()
        for item in wanted[len(self._held) :]:
            self._add(item)

    def _add(self, item: int) -> None:
        own, left = self.known.centred[:, item], self._left[:, item].copy()
        count = len(own)
        total = count * self.known.noise[item] + float(own @ left)
        along = float(own @ self._score)
        self._gained += along**2 / (total * count)
        self._score = self._score - left * (along / total)
        self._left -= left[:, None] * ((own @ self._left) / total)
        self._held.append(item)


def select_predictive(
    pool: ItemPool, constraints: Constraints, codes: Codes, truth: FloatArray
) -> IntArray:
    """A form that predicts the full score best, built item by item under its constraints.

    Parameters
    ----------
    pool, constraints
        The items, and what the form must hold.
    codes
        Responses of N calibration targets to the items of the pool, shape ``(N, J)``.
    truth
        Their full scores, over whatever the full score is over, shape ``(N,)``.

    Returns
    -------
    numpy.ndarray
        Positions in the pool, best first.

    Raises
    ------
    InputError
        For responses that are not to these items, or constraints that no form keeps.
    """
    if codes.shape != (len(truth), len(pool.items)):
        raise InputError(
            f"responses of shape {codes.shape} are not those of {len(truth)} targets to the "
            f"{len(pool.items)} items of the pool"
        )
    ordered, positions = by_name(pool)
    highest = np.maximum(ordered.parameters.categories - 1, 1)
    noise = outcome_noise(ordered)
    known = known_targets(codes[:, positions], highest, truth, noise)
    chosen = built(limits_of(ordered, constraints), PredictiveCriterion(known))
    found: IntArray = positions[chosen]
    return found


def outcome_noise(pool: ItemPool) -> FloatArray:
    """Variance of each outcome given the ability, mean over the population, shape ``(J,)``."""
    table = score_table(pool.parameters, mean=float(pool.mean[0]), sd=pool.sd, longest=1)
    found: FloatArray = table.variance @ table.weights
    return found
