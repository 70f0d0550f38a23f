"""What priors cost: their negative log density in working coordinates, and its derivatives.

A prior whose mean is estimated leaves the unit and the origin of the abilities to the targets. With
5,000 items and 192 targets a mean that is held would outweigh them: for log a it would set the
scale, and for d the origin, since shifting the abilities by m turns d into d + a m. The mean of d
is therefore a line in the slope, m0 + m1 a, whose coefficients are profiled out. -m1 is a mean
difficulty; it has a standard normal prior, which weighs as much as one target and keeps the line
from following the intercepts where slopes hardly differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from safemetry.irt.parameters import FloatArray, ItemModel
from safemetry.irt.priors import Beta, ItemPriors, LogitNormal, LogNormal, Normal
from safemetry.irt.unidimensional.coordinates import TIED, Layout

DRIFT_SD = 1.0


@dataclass(frozen=True)
class _Line:
    """Residuals of d from its estimated mean m0 + m1 a, ``(C - 1, J)``, with m1 as `drift`."""

    design: FloatArray
    residual: FloatArray
    drift: float
    curvature: FloatArray


@dataclass(frozen=True)
class Penalty:
    """Minus the logarithm of the prior density, up to a constant.

    Parameters
    ----------
    layout
        Of the working coordinates.
    priors
        Those that apply to the model.
    """

    layout: Layout
    priors: ItemPriors

    def _quadratics(self) -> list[tuple[int, float | None, float]]:
        """Rows with a normal prior around one mean: row, mean, standard deviation."""
        steps = self.layout.steps
        found: list[tuple[int, float | None, float]] = []
        slope, intercept = self.priors.slope, self.priors.intercept
        if slope is not None and not self.layout.tied:
            found.append((0, slope.mean, slope.sd))
        if intercept is not None and intercept.mean is not None:
            found += [(row, intercept.mean, intercept.sd) for row in range(1, 1 + steps)]
        for row, prior in self._asymptotes():
            if isinstance(prior, LogitNormal):
                found.append((row, prior.mean, prior.sd))
        return found

    def _asymptotes(self) -> list[tuple[int, Beta | LogitNormal]]:
        rows = range(1 + self.layout.steps, self.layout.rows)
        pairs = zip(rows, (self.priors.lower, self.priors.upper), strict=False)
        return [(row, prior) for row, prior in pairs if prior is not None]

    def _line(self, working: FloatArray) -> _Line | None:
        """The estimated mean of the intercepts, if there is one."""
        if self.priors.intercept is None or self.priors.intercept.mean is not None:
            return None
        part = slice(1, 1 + self.layout.steps)
        exists = self.layout.exists[part]
        columns = [exists.astype(np.float64)]
        if not self.layout.tied:
            columns.append(exists * self.layout.natural(working)[0])
        design = np.stack(columns)
        flat = design.reshape(len(design), -1)
        curvature = flat @ flat.T / self.priors.intercept.sd**2
        curvature[1:, 1:] += 1 / DRIFT_SD**2
        steps = working[part] * exists
        sums = flat @ steps.ravel() / self.priors.intercept.sd**2
        coefficients = np.linalg.solve(curvature, sums)
        residual = steps - np.tensordot(coefficients, design, 1)
        drift = float(coefficients[1]) if len(coefficients) > 1 else 0.0
        return _Line(design, residual, drift, curvature)

    def value(self, working: FloatArray) -> float:
        """The penalty."""
        exists, found = self.layout.exists, 0.0
        for row, mean, sd in self._quadratics():
            entries = working[row][exists[row]]
            centre = entries.mean() if mean is None else mean
            found += float(((entries - centre) ** 2).sum()) / (2 * sd * sd)
        line, intercept = self._line(working), self.priors.intercept
        if line is not None and intercept is not None:
            found += float((line.residual**2).sum()) / (2 * intercept.sd**2)
            found += line.drift**2 / (2 * DRIFT_SD**2)
        for row, prior in self._asymptotes():
            if isinstance(prior, Beta):
                odds = working[row]
                found += float(
                    ((prior.alpha - 1) * np.logaddexp(0, -odds)).sum()
                    + ((prior.beta - 1) * np.logaddexp(0, odds)).sum()
                )
        return found

    def derivatives(self, working: FloatArray, *, exact: bool) -> tuple[FloatArray, FloatArray]:
        """Gradient ``(P, J)`` and curvature ``(P, P, J)`` of the penalty, means held.

        Parameters
        ----------
        working
            Where.
        exact
            Whether to keep a term of the curvature that may be negative (by log a instead of a).
        """
        exists, rows = self.layout.exists, self.layout.rows
        gradient, curvature = np.zeros(exists.shape), np.zeros((rows, *exists.shape))
        for row, mean, sd in self._quadratics():
            centre = working[row][exists[row]].mean() if mean is None else mean
            gradient[row] += (working[row] - centre) / sd**2 * exists[row]
            curvature[row, row] += exists[row] / sd**2
        for row, prior in self._asymptotes():
            if isinstance(prior, Beta):
                share = expit(working[row])
                both = prior.alpha + prior.beta - 2
                gradient[row] += both * share - (prior.alpha - 1)
                curvature[row, row] += both * share * (1 - share)
        line, intercept = self._line(working), self.priors.intercept
        if line is not None and intercept is not None:
            precision, steps = 1 / intercept.sd**2, line.residual.shape[0]
            for step in range(steps):
                gradient[1 + step] += precision * line.residual[step]
                curvature[1 + step, 1 + step] += precision * exists[1 + step]
            if line.drift != 0:
                unit = self._slope_unit(working) * line.drift
                pull = -precision * unit * line.residual.sum(axis=0)
                gradient[0] += pull
                curvature[0, 0] += precision * unit**2 * exists[1 : 1 + steps].sum(axis=0)
                if exact and self.layout.logarithmic:
                    curvature[0, 0] += pull
                cross = -precision * unit * exists[1 : 1 + steps]
                curvature[0, 1 : 1 + steps] += cross
                curvature[1 : 1 + steps, 0] += cross
        return gradient, curvature

    def _slope_unit(self, working: FloatArray) -> FloatArray:
        """Derivative of a by its working coordinate."""
        found: FloatArray = (
            np.exp(working[0]) if self.layout.logarithmic else np.ones(working.shape[1])
        )
        return found

    def common(self, working: FloatArray) -> FloatArray:
        """Vectors v, ``(M, P, J)``: estimated means lower the curvature by sum of v v'."""
        exists = self.layout.exists
        found = []
        for row, mean, sd in self._quadratics():
            if mean is None:
                vector = np.zeros(exists.shape)
                vector[row] = exists[row] / (sd * np.sqrt(exists[row].sum()))
                found.append(vector)
        line, intercept = self._line(working), self.priors.intercept
        if line is not None and intercept is not None:
            steps = line.residual.shape[0]
            mixed = np.zeros((len(line.design), *exists.shape))
            mixed[:, 1 : 1 + steps] = -line.design
            if len(line.design) > 1:
                unit = self._slope_unit(working)
                mixed[:, 0] = line.drift * line.design.sum(axis=1) * unit
                mixed[1, 0] -= line.residual.sum(axis=0) * unit
            root = np.linalg.cholesky(line.curvature)
            found += list(np.tensordot(np.linalg.inv(root), mixed, 1) / intercept.sd**2)
        return np.array(found).reshape(-1, *exists.shape)


def applicable(priors: ItemPriors, model: ItemModel) -> ItemPriors:
    """The priors that a model uses: none of a slope that all items share, nor of what is fixed."""
    slope: Normal | LogNormal | None = None if model in TIED else priors.slope
    has_lower = model in (ItemModel.THREE_PL, ItemModel.FOUR_PL)
    return ItemPriors(
        slope=slope,
        intercept=priors.intercept,
        lower=priors.lower if has_lower else None,
        upper=priors.upper if model is ItemModel.FOUR_PL else None,
    )
