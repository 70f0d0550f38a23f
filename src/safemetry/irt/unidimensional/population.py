"""Mean and spread of the abilities, found by weighting the lattice anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from safemetry.irt.parameters import FloatArray
from safemetry.irt.unidimensional.grid import Lattice

DIFFERENCE = 1e-3


def population_step(
    log_likelihood: FloatArray,
    lattice: Lattice,
    weights: FloatArray,
    penalty: Callable[[float, float], float],
    iterations: int = 1,
) -> tuple[float, float]:
    """Mean and log standard deviation of the abilities that fit best, the curves held.

    Newton's method on sum_i w_i log sum_q L_iq N(t_q; m, s) - penalty(m, log s).
    """
    mean, log_sd = 0.0, 0.0
    for _ in range(iterations):
        sd = np.exp(log_sd)
        scaled = (lattice.nodes - mean) / sd
        shares = log_likelihood - scaled * scaled / 2
        shares -= shares.max(axis=1, keepdims=True)
        np.exp(shares, out=shares)
        powers = np.stack([np.ones_like(scaled), scaled, scaled**2, scaled**3, scaled**4], axis=1)
        moments = shares @ powers
        first, second, third, fourth = (moments[:, 1:] / moments[:, :1]).T
        gradient = np.array([weights @ first / sd, weights @ (second - 1)])
        cross = weights @ (-2 * first + third - first * second) / sd
        curvature = np.array(
            [
                [weights @ (second - first**2 - 1) / sd**2, cross],
                [cross, weights @ (fourth - second**2 - 2 * second)],
            ]
        )
        slope, bend = _differences(penalty, mean, log_sd)
        gradient -= slope
        curvature -= bend
        if np.linalg.eigvalsh(curvature)[-1] < 0:
            step = -np.linalg.solve(curvature, gradient)
        else:
            step = gradient / (weights.sum() * np.array([1 / sd**2, 2.0]))
        step = np.clip(step, -0.5, 0.5)
        mean, log_sd = mean + float(step[0]), log_sd + float(step[1])
        if np.abs(step).max() < 1e-9:
            break
    return mean, log_sd


def _differences(
    function: Callable[[float, float], float], mean: float, log_sd: float
) -> tuple[FloatArray, FloatArray]:
    """Gradient and Hessian of a smooth function of two variables by central differences."""
    h = DIFFERENCE
    centre = function(mean, log_sd)
    up, down = function(mean + h, log_sd), function(mean - h, log_sd)
    wide, narrow = function(mean, log_sd + h), function(mean, log_sd - h)
    both = function(mean + h, log_sd + h) + function(mean - h, log_sd - h)
    cross = (both - up - down - wide - narrow + 2 * centre) / (2 * h * h)
    gradient = np.array([up - down, wide - narrow]) / (2 * h)
    straight = np.array([up + down - 2 * centre, wide + narrow - 2 * centre]) / (h * h)
    return gradient, np.array([[straight[0], cross], [cross, straight[1]]])
