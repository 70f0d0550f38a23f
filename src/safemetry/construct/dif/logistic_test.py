"""Classical tests of item differences by logistic regression, without a penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.special import chdtrc

from safemetry.construct.dif.newton import Floats, LogisticData, fit_logistic, logistic_data, solve
from safemetry.construct.dif.ridge_logistic import (
    first_intercept,
    group_features,
    standardised,
    without_ability,
)
from safemetry.construct.dif.undefined import Undefined, response_faults
from safemetry.irt.parameters import BoolArray, FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["uniform", "non_uniform", "both"]

_FEATURES: Final[dict[Kind, tuple[int, int]]] = {
    "uniform": (2, 3),
    "non_uniform": (3, 4),
    "both": (2, 4),
}
"""Features of the smaller and of the larger model, in the order 1, z, g, z g."""
_UNBOUNDED = 15.0
"""Logits beyond which an unpenalised coefficient is taken to run to infinity."""


@dataclass(frozen=True)
class LogisticTest:
    """Tests of J items; an item without a value holds 0 (p-value 1) and its reason.

    Parameters
    ----------
    statistic, p_value
        Chi-square with `degrees` degrees of freedom, shape ``(J,)``.
    degrees
        1, or 2 for both kinds of difference at once.
    r2_change
        Rise of Nagelkerke's R squared from the smaller to the larger model, 0 to 1.
    coefficients
        Of the larger model on 1, standardised score, g and their product, shape ``(P, J)``; g is
        -1/2 in the reference and +1/2 in the focal group.
    undefined
        Codes of `Undefined`.
    """

    statistic: FloatArray
    p_value: FloatArray
    degrees: int
    r2_change: FloatArray
    coefficients: FloatArray
    undefined: NDArray[np.int8]

    @property
    def defined(self) -> BoolArray:
        """Where the test has a value."""
        return np.equal(self.undefined, Undefined.DEFINED)


def logistic_test(
    codes: NDArray[np.int8],
    score: FloatArray,
    focal: BoolArray,
    *,
    kind: Kind = "both",
    test: Literal["likelihood_ratio", "wald"] = "likelihood_ratio",
    min_group: int = 2,
) -> LogisticTest:
    """Test whether the group adds to the matching score in the logistic regression of each item.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: 1, 0 or -1 where there is no response. Only targets of the two groups.
    score
        Matching score or ability, shape ``(N,)``, or ``(N, J)`` where it differs by item; NaN
        leaves a target out.
    focal
        Shape ``(N,)``: True for the focal group.
    kind
        ``uniform`` tests the group, ``non_uniform`` its product with the score beside the group,
        ``both`` the two at once.
    test
        Likelihood ratio or Wald.
    min_group
        Fewest responses that each group must have to an item.

    Raises
    ------
    ValueError
        For shapes that do not fit.

    Notes
    -----
    Swaminathan & Rogers (1990); R squared of Nagelkerke (1991), and its change as an effect by
    Zumbo (1999). A regression whose coefficients run to infinity, or does not converge, has no
    value: use the penalised one.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> score, focal = rng.normal(size=200), np.arange(200) % 2 == 1
    >>> codes = (rng.logistic(size=200) < score + focal).astype(np.int8)[:, None]
    >>> bool(logistic_test(codes, score, focal, kind="uniform").p_value[0] < 0.05)
    True
    """
    stack = codes[None]
    scaled = standardised(score if score.ndim == 1 else score[None], stack.shape)
    stack, abilities = without_ability(stack, scaled)
    group = np.where(focal, 0.5, -0.5)
    fewer, more = _FEATURES[kind]
    undefined = response_faults(stack, focal, min_group)[0]
    features = group_features(abilities, group, interaction=True)
    usable = undefined == 0
    small, small_place, small_fine = _fit(stack, features[:, :fewer], usable)
    large, large_place, large_fine = _fit(stack, features[:, :more], usable)
    rise = 2 * (large.log_likelihood(large_place) - small.log_likelihood(small_place))[0]
    statistic = rise if test == "likelihood_ratio" else _wald(large, large_place, fewer)
    bounded = np.abs(large_place[0]).max(axis=0) <= _UNBOUNDED
    undefined[usable & ~bounded] = Undefined.UNBOUNDED
    undefined[(undefined == 0) & ~(small_fine & large_fine)] = Undefined.NOT_CONVERGED
    fine = undefined == 0
    statistic = np.where(fine, np.maximum(statistic, 0.0), 0.0)
    change = _nagelkerke(large, large_place) - _nagelkerke(small, small_place)
    return LogisticTest(
        statistic=statistic,
        p_value=np.asarray(chdtrc(float(more - fewer), statistic), np.float64),
        degrees=more - fewer,
        r2_change=np.where(fine, change, 0.0),
        coefficients=np.where(fine, large_place[0], 0.0),
        undefined=undefined,
    )


def _fit(
    codes: NDArray[np.int8], features: FloatArray, usable: BoolArray
) -> tuple[LogisticData, Floats, BoolArray]:
    data = logistic_data(codes, features, np.float64)
    size = features.shape[1]
    start = np.zeros((1, size, codes.shape[2]))
    start[:, 0] = first_intercept(codes)
    fit = fit_logistic(data, start, np.zeros(size), usable[None])
    return data, fit.coefficients, fit.converged[0]


def _wald(data: LogisticData, place: Floats, fewer: int) -> FloatArray:
    """The Wald statistic of the features from `fewer` on, shape ``(J,)``.

    With S the Schur complement of the information for these features, it is c' S c. Eliminating the
    other features from the information applied to c leaves S c.
    """
    size = place.shape[1]
    information = data.curvature(place, np.zeros(size)).information
    tested = place.copy()
    tested[:, :fewer] = 0
    # The best move of the other features in answer to `tested` minimises the quadratic form.
    full = _symmetric(information, size)
    moved = (full @ tested.transpose(0, 2, 1)[..., None])[..., 0].transpose(0, 2, 1)
    inner = _triangle(full[..., :fewer, :fewer])
    answer, _ = solve(inner, moved[:, :fewer])
    value = (tested * moved).sum(axis=1) - (moved[:, :fewer] * answer).sum(axis=1)
    wald: FloatArray = value[0].astype(np.float64)
    return wald


def _symmetric(triangle: Floats, size: int) -> Floats:
    """Upper triangles ``(b, K, J)`` as full matrices ``(b, J, P, P)``."""
    rows, columns = np.triu_indices(size)
    full = np.empty((len(triangle), triangle.shape[2], size, size), triangle.dtype)
    full[..., rows, columns] = full[..., columns, rows] = triangle.transpose(0, 2, 1)
    return full


def _triangle(full: Floats) -> Floats:
    """Upper triangles of full matrices ``(b, J, P, P)`` as ``(b, K, J)``."""
    rows, columns = np.triu_indices(full.shape[-1])
    triangle: Floats = full[..., rows, columns].transpose(0, 2, 1)
    return triangle


def _nagelkerke(data: LogisticData, place: Floats) -> FloatArray:
    """Nagelkerke's R squared of the fitted model, shape ``(J,)``; 0 for a constant item."""
    seen = np.ones_like(data.answers) if data.observed is None else data.observed
    count = np.maximum(seen.sum(axis=1), 1)[0]
    mean = data.answers.sum(axis=1)[0] / count
    varies = (mean > 0) & (mean < 1)
    share = np.where(varies, mean, 0.5)
    null = count * (share * np.log(share) + (1 - share) * np.log(1 - share))
    gain = 1 - np.exp(2 * (null - data.log_likelihood(place)[0]) / count)
    r2: FloatArray = np.where(varies, gain / (1 - np.exp(2 * null / count)), 0.0)
    return r2
