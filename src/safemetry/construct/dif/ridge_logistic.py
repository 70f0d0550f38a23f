"""Ridge logistic regression of items on ability and group, over many matrices at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.construct.dif.mantel_haenszel import DELTA_PER_LOGIT
from safemetry.construct.dif.newton import Floats, LogisticFit, fit_logistic, logistic_data
from safemetry.construct.dif.undefined import Undefined, response_faults
from safemetry.irt.parameters import BoolArray, FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEP_CELLS = 300_000
"""Responses in one step, so that its arrays stay in the processor's cache."""


@dataclass(frozen=True)
class RidgeLogistic:
    """Coefficients of each item; a cell without a value holds 0 and its reason.

    Every array has the shape ``(B, J)``, or ``(J,)`` for one matrix.

    Parameters
    ----------
    group
        gamma: logit of a rewarded response, focal minus reference group, at equal ability (at the
        mean ability where there is an interaction). Its sign is opposite to that of ln alpha.
    interaction
        Slope on standardised ability, focal minus reference group; None in the uniform model.
    intercept, slope
        Logit at the mean ability, midway between the groups, and its slope on standardised ability.
    undefined
        Codes of `Undefined`.
    iterations
        Most Newton steps that any regression took.
    """

    group: FloatArray
    interaction: FloatArray | None
    intercept: FloatArray
    slope: FloatArray
    undefined: NDArray[np.int8]
    iterations: int

    @property
    def defined(self) -> BoolArray:
        """Where gamma has a value."""
        return np.equal(self.undefined, Undefined.DEFINED)

    @property
    def delta(self) -> FloatArray:
        """The effect on the delta scale, 2.35 gamma: negative where the focal group loses."""
        return DELTA_PER_LOGIT * self.group


def ridge_logistic(
    codes: NDArray[np.int8],
    theta: FloatArray,
    focal: BoolArray,
    *,
    penalty: float = 1.0,
    non_uniform: bool = False,
    separation_ridge: float = 1e-3,
    min_group: int = 2,
    dtype: type[np.floating] = np.float64,
) -> RidgeLogistic:
    """Regress each item on ability and group with a ridge on what the group changes.

    Maximises the log-likelihood of logit P = a + b z + gamma g (+ delta z g) less penalty / 2 times
    gamma^2 (+ delta^2), where z is the ability standardised over the targets passed and g is -1/2
    in the reference and +1/2 in the focal group.

    Parameters
    ----------
    codes
        Shape ``(B, N, J)`` or ``(N, J)``: 1, 0 or -1 where there is no response. Only targets of
        the two groups are rows.
    theta
        Abilities on any scale: shape ``(N,)``, ``(B, N)``, or ``(N, J)``, ``(B, N, J)`` where the
        studied item is left out of them; NaN leaves a target out.
    focal
        Shape ``(N,)``: True for the focal group, False for the reference group.
    penalty
        Precision of the normal penalty on gamma and delta, at least 0. 1 is a normal prior with
        standard deviation 1 logit; 0 is classical logistic regression.
    non_uniform
        Whether the slopes of the groups may differ.
    separation_ridge
        Precision of the same kind on intercept and slope, .001 for a standard deviation of 32
        logits. It keeps them finite where ability separates the answers, which is common with few
        targets, and matters to gamma only there.
    min_group
        Fewest responses that each group must have to an item.
    dtype
        Precision of the work; single precision moves gamma by about 1e-5 and is much quicker.

    Raises
    ------
    ValueError
        For shapes that do not fit, or a negative penalty.

    Notes
    -----
    Model: Swaminathan & Rogers (1990). The ridge is le Cessie & van Houwelingen (1992)
    on the coefficients of the group alone. A swap of the groups changes the signs of gamma and
    delta and nothing else, to the last bit. Without a penalty a group effect that passes 15 logits
    is called unbounded.

    Examples
    --------
    >>> theta = np.linspace(-1, 1, 8)
    >>> focal = np.arange(8) % 2 == 1
    >>> codes = np.array([[0, 0, 1, 0, 1, 0, 1, 1]], np.int8).T
    >>> ridge_logistic(codes, theta, focal).group.round(3)
    array([-0.91])
    """
    if min(penalty, separation_ridge) < 0:
        msg = f"penalties are 0 or more, not {penalty} and {separation_ridge}"
        raise ValueError(msg)
    stack = codes if codes.ndim == 3 else codes[None]
    by_item = theta[None] if theta.shape == codes.shape[-2:] else theta
    stack, abilities = without_ability(stack, standardised(by_item, stack.shape))
    if focal.shape != stack.shape[1:2]:
        msg = f"{focal.shape} group labels for {stack.shape[1]} targets"
        raise ValueError(msg)
    group = np.where(focal, 0.5, -0.5)
    ridge = np.array([separation_ridge] * 2 + [penalty] * (2 if non_uniform else 1), dtype)
    undefined = response_faults(stack, focal, min_group)
    fits = list(_fits(stack, abilities, group, ridge, undefined == 0))
    found = np.concatenate([fit.coefficients for fit in fits])
    converged = np.concatenate([fit.converged for fit in fits])
    places = found.astype(np.float64).swapaxes(0, 1)
    unbounded = (penalty == 0) & (np.abs(places[2:]).max(axis=0) > 15)
    undefined[(undefined == 0) & unbounded] = Undefined.UNBOUNDED
    undefined[(undefined == 0) & ~converged] = Undefined.NOT_CONVERGED
    values = [np.where(undefined == 0, part, 0.0)[... if codes.ndim == 3 else 0] for part in places]
    return RidgeLogistic(
        group=values[2],
        interaction=values[3] if non_uniform else None,
        intercept=values[0],
        slope=values[1],
        undefined=undefined if codes.ndim == 3 else undefined[0],
        iterations=max(fit.iterations for fit in fits),
    )


def standardised(theta: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Abilities with mean 0 and standard deviation 1 over the targets of each matrix.

    Parameters
    ----------
    theta
        Shape ``(N,)``, ``(B, N)`` or ``(B, N, J)``; equal abilities become 0, NaN stays.
    shape
        (B, N, J).

    Raises
    ------
    ValueError
        For a shape that does not fit, or an infinite ability.
    """
    batches, targets, items = shape
    stack = np.asarray(theta, np.float64)
    stack = stack[None] if stack.ndim == 1 else stack
    fits = {(1, targets), (batches, targets), (1, targets, items), (batches, targets, items)}
    if stack.shape not in fits or np.isinf(stack).any():
        msg = f"abilities of shape {np.shape(theta)} for codes of shape {shape}; none infinite"
        raise ValueError(msg)
    used = ~np.isnan(stack)
    count = np.maximum(used.sum(axis=1, keepdims=True), 1)
    centred = stack - np.where(used, stack, 0.0).sum(axis=1, keepdims=True) / count
    squares = np.where(used, centred, 0.0) ** 2
    spread = np.sqrt(squares.sum(axis=1, keepdims=True) / count)
    scaled: FloatArray = centred / np.where(spread > 1e-12, spread, np.inf)
    return scaled


def without_ability(
    codes: NDArray[np.int8], abilities: FloatArray
) -> tuple[NDArray[np.int8], FloatArray]:
    """Codes and abilities in which targets of unknown (NaN) ability have no responses."""
    unknown = np.isnan(abilities)
    if not unknown.any():
        return codes, abilities
    cells = unknown if unknown.ndim == 3 else unknown[..., None]
    return np.where(cells, np.int8(-1), codes), np.where(unknown, 0.0, abilities)


def group_features(abilities: FloatArray, group: FloatArray, *, interaction: bool) -> FloatArray:
    """Columns 1, z, g and z g, shape ``(b, P, N)`` or ``(b, P, N, J)``."""
    held = group if abilities.ndim == 2 else group[:, None]
    constant = np.ones_like(abilities)
    columns = [constant, abilities, constant * held]
    return np.stack([*columns, abilities * held] if interaction else columns, axis=1)


def _fits(
    codes: NDArray[np.int8],
    abilities: FloatArray,
    group: FloatArray,
    ridge: Floats,
    wanted: BoolArray,
) -> Iterator[LogisticFit]:
    """The fits of consecutive runs of matrices."""
    batches, targets, items = codes.shape
    step = max(1, _STEP_CELLS // (targets * items))
    for begin in range(0, batches, step):
        part = slice(begin, begin + step)
        place = slice(0, 1) if len(abilities) == 1 else part
        features = group_features(abilities[place], group, interaction=len(ridge) == 4)
        data = logistic_data(codes[part], features, ridge.dtype.type)
        start = np.zeros((len(data.answers), len(ridge), items), ridge.dtype)
        start[:, 0] = first_intercept(codes[part])
        yield fit_logistic(data, start, ridge, wanted[part])


def first_intercept(codes: NDArray[np.int8]) -> FloatArray:
    """The smoothed logit of each item's mean, shape ``(b, J)``."""
    ones = (codes == 1).sum(axis=1) + 0.5
    zeros = (codes == 0).sum(axis=1) + 0.5
    logit: FloatArray = np.log(ones) - np.log(zeros)
    return logit
