"""Solutions with one, two, ... factors: loadings, rotation, fit, Heywood cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from safemetry.construct.factors.correlations import Correlations
from safemetry.construct.factors.extraction import Extracted, Extraction, extract
from safemetry.construct.factors.fit_indices import FitIndices, fit_indices
from safemetry.irt.multidimensional.rotation import RotatedLoadings, Rotation, rotate


@dataclass(frozen=True)
class Solution:
    """A number of factors and what they make of the correlations.

    Parameters
    ----------
    names
        Of the p variables.
    extracted
        Uncorrelated factors on their principal axes.
    rotated
        The same factors turned, with their correlations.
    fit
        Indices of fit.
    problems
        Why the solution is improper, in whole sentences; empty if it is not.
    """

    names: tuple[str, ...]
    extracted: Extracted
    rotated: RotatedLoadings
    fit: FitIndices
    problems: tuple[str, ...] = field(default=())

    @property
    def factors(self) -> int:
        """Number of factors."""
        return int(self.extracted.loadings.shape[1])

    @property
    def heywood(self) -> tuple[str, ...]:
        """Variables of which the factors explain all."""
        return tuple(
            name for name, held in zip(self.names, self.extracted.heywood, strict=True) if held
        )

    def to_dict(self) -> dict[str, Any]:
        """The entry of the contract."""
        fit = self.fit
        why = dict(fit.why)
        return {
            "factors": self.factors,
            "variance": self.extracted.variance,
            "rmsea": fit.rmsea,
            "cfi": fit.cfi,
            "tli": fit.tli,
            "srmr": fit.srmr,
            "chi_square": fit.chi_square,
            "df": fit.df,
            "p_value": fit.p_value,
            "discrepancy": fit.discrepancy,
            "loadings": self._rows(self.rotated.loadings),
            "unrotated_loadings": self._rows(self.extracted.loadings),
            "correlations": self.rotated.correlations.tolist(),
            "communalities": self._values(self.extracted.communalities),
            "uniqueness": self._values(self.extracted.uniqueness),
            "heywood": list(self.heywood),
            "improper": bool(self.problems),
            "problems": list(self.problems),
            "converged": self.extracted.converged and self.rotated.converged,
            "agreeing_starts": list(self.extracted.agreeing),
            "agreeing_rotations": list(self.rotated.agreeing),
            **({"why": why} if why else {}),
        }

    def _rows(self, loadings: Any) -> list[dict[str, Any]]:
        return [
            {"benchmark": name, "loadings": row}
            for name, row in zip(self.names, loadings.tolist(), strict=True)
        ]

    def _values(self, values: Any) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))


def solve(
    correlations: Correlations,
    factors: int,
    extraction: Extraction = Extraction.MINRES,
    rotation: Rotation = Rotation.OBLIMIN,
    *,
    seed: int = 0,
) -> Solution:
    """Extract and turn a number of factors.

    Parameters
    ----------
    correlations
        Of p variables.
    factors
        At least 1, below p.
    extraction, rotation
        How; oblimin has gamma 0, and no rotation uses Kaiser's weights.
    seed
        Of the starts of both.

    Raises
    ------
    InputError
        As `extract`.
    """
    extracted = extract(correlations.values, factors, extraction, seed=seed)
    rotated = rotate(extracted.loadings, rotation, seed=seed)
    fit = fit_indices(correlations.values, extracted.loadings, correlations.subjects)
    names = correlations.names
    problems = _problems(names, extracted, rotated, fit)
    return Solution(names, extracted, rotated, fit, problems)


def most_identified(variables: int) -> int:
    """The largest number of factors with a degree of freedom left, at least 1.

    Examples
    --------
    >>> [most_identified(size) for size in (3, 5, 6, 8)]
    [1, 2, 2, 4]
    """
    return max(
        (k for k in range(1, variables) if (variables - k) ** 2 - variables - k > 0), default=1
    )


def _problems(
    names: Sequence[str], extracted: Extracted, rotated: RotatedLoadings, fit: FitIndices
) -> tuple[str, ...]:
    said = []
    held = [name for name, full in zip(names, extracted.heywood, strict=True) if full]
    if held:
        case = "is a Heywood case" if len(held) == 1 else "are Heywood cases"
        said.append(
            f"{' and '.join(held)} {case}: the factors explain all of the variance, so that the "
            "solution is improper; there may be too many factors, or too few subjects."
        )
    if fit.df < 0:
        said.append("The factors are not identified: they have more loadings than correlations.")
    empty = int((np.linalg.norm(extracted.loadings, axis=0) < 1e-6).sum())
    if empty:
        said.append(f"{empty} of the factors are empty: the correlations do not support them.")
    if not extracted.converged:
        said.append("The extraction did not converge.")
    if not rotated.converged:
        said.append("The rotation did not converge.")
    return tuple(said)
