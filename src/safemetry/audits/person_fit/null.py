"""What statistics of person fit would be if a target answered as its ability says.

For each target patterns are drawn at its own ability, from item parameters that are drawn from what
the calibration leaves open, for the items that it answered. Each pattern is treated as the target's
own was: its ability is estimated anew, and its statistics are computed with the estimated items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from safemetry.audits.person_fit.alignment import Audited, align
from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.cusum import item_order
from safemetry.audits.person_fit.item_draws import DrawnItems, draw_items
from safemetry.audits.person_fit.patterns import draw_patterns
from safemetry.audits.person_fit.reestimation import (
    LogisticAbilities,
    Method,
    draw_abilities,
    make_abilities,
)
from safemetry.audits.person_fit.scoring import (
    GeneralScorer,
    LogisticScorer,
    Reference,
    Scorer,
    Scores,
)
from safemetry.audits.person_fit.statistics import SIDES, Side, check_statistics
from safemetry.errors import InputError
from safemetry.irt.information import total_information
from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.responses import Responses
from safemetry.tasks import task_generator

Ability = Literal["estimate", "posterior"] | float
Singles = NDArray[np.float32]

_BLOCK: Final = 1 << 16
_REACH: Final = 6.0
"""Patterns are drawn within this many standard deviations of the population, or at the estimate."""

_TIED: Final = 2e-5
"""Values nearer than this, relative to 1 + their size, are the same but for rounding."""


@dataclass(frozen=True)
class PersonFitNull:
    """Statistics of N targets, and of M patterns for each that fit by construction.

    Parameters
    ----------
    targets, statistics, sides
        Names of the N targets and S statistics, and where misfit shows.
    values, known
        Observed values and where there is one, shape ``(N, S)``; 0 where there is none.
    worse
        Observed values turned so that larger is worse, shape ``(N, S)``; -inf where unknown. They
        are lowered by what rounding can do, so that a tie counts against a flag.
    null_worse
        The same of the patterns, shape ``(N, S, M)``, single precision.
    theta, theta_errors
        Abilities of the targets and their standard errors (infinite where nothing is known), shape
        ``(N,)``.
    null_theta
        Estimates for the patterns, shape ``(N, M)``.
    answered
        Number of responses, shape ``(N,)``.
    remarks
        In sentences.
    """

    targets: tuple[str, ...]
    statistics: tuple[str, ...]
    sides: tuple[Side, ...]
    values: FloatArray
    known: BoolArray
    worse: FloatArray
    null_worse: Singles
    theta: FloatArray
    theta_errors: FloatArray
    null_theta: FloatArray
    answered: NDArray[np.int64]
    remarks: tuple[str, ...] = ()

    @property
    def simulations(self) -> int:
        """M."""
        return int(self.null_worse.shape[2])

    def p_values_of(self, worse: FloatArray | Singles) -> FloatArray:
        """P-values of values from elsewhere against the patterns of each target.

        Parameters
        ----------
        worse
            Turned as `worse` is, shape ``(N, S, R)``.

        Returns
        -------
        numpy.ndarray
            (r + 1) / (M + 1) with r patterns as bad or worse, shape ``(N, S, R)``.
        """
        count = self.simulations
        ranked = np.sort(self.null_worse, axis=2).reshape(-1, count)
        flat = np.asarray(worse).reshape(len(ranked), -1)
        places = [np.searchsorted(one, own) for own, one in zip(flat, ranked, strict=True)]
        below = np.stack([np.asarray(place) for place in places]).reshape(worse.shape)
        found: FloatArray = (count - below + 1) / (count + 1)
        return found

    def p_values(self) -> tuple[FloatArray, FloatArray]:
        """P-value of each target and of each pattern among all others of the target.

        (r + 1) / (M + 1) with r the number of the others that are as bad or worse (Davison &
        Hinkley 1997, eq. 4.11).

        Returns
        -------
        tuple of numpy.ndarray
            Shapes ``(N, S)`` and ``(N, S, M)``; 1 where a statistic is unknown.
        """
        count = self.simulations + 1
        pooled = np.concatenate([self.worse[:, :, None], self.null_worse], axis=2)
        ranked = np.sort(pooled, axis=2)
        flat, places = pooled.reshape(-1, count), ranked.reshape(-1, count)
        below = np.stack(
            [np.searchsorted(one, own) for own, one in zip(flat, places, strict=True)]
        ).reshape(pooled.shape)
        found = (count - below) / count
        return np.where(self.known, found[:, :, 0], 1.0), found[:, :, 1:]


def simulate_null(
    responses: Responses,
    calibrated: Calibrated,
    *,
    statistics: Sequence[str] | None = None,
    simulations: int = 1000,
    rng: np.random.Generator,
    order: Sequence[Any] | None = None,
    method: Method = "wle",
    ability: Ability = "estimate",
) -> PersonFitNull:
    """Observed statistics of person fit and their distribution for targets that fit.

    The random numbers of a target depend on `rng` and its name only: neither other targets nor the
    order of targets changes them.

    Parameters
    ----------
    responses
        Of N targets; items are matched by name, and those that are not calibrated left out.
    calibrated
        Items in one dimension.
    statistics
        Names of `SIDES`; all that are defined by default.
    simulations
        M, patterns for each target, at least 19.
    rng
        Source of randomness.
    order
        For CUSUM: a key for each item of `responses`, by which they are sorted.
    method
        How abilities are estimated: ``wle`` (nearly unbiased), ``map`` or ``ml``.
    ability
        At which ability patterns are drawn: the target's ``estimate``, draws from its
        ``posterior``, or a number of standard errors from the estimate.

    Raises
    ------
    InputError
        For responses that the items cannot give, or settings that cannot be used.
    """
    if simulations < 19:
        raise InputError(f"{simulations} simulations are too few", fix="use 19 or more")
    audited, remarks = align(responses, calibrated)
    if order is not None:
        kept = (
            [order[place] for place in audited.columns]
            if len(order) == len(responses.items)
            else list(order)
        )
        audited = audited.arranged(item_order(kept, len(audited.columns)))
    names = check_statistics(statistics, binary=audited.binary, ordered=order is not None)
    bench = Bench(audited, method, simulations, int(rng.integers(2**63)), ability)
    return _filled(bench, names, remarks)


@dataclass(frozen=True)
class DrawnBlock:
    """Some patterns of one target: their places among its M, codes, and estimated abilities."""

    part: slice
    patterns: Singles
    theta: FloatArray


class Bench:
    """Draws patterns for targets and estimates their abilities.

    Parameters
    ----------
    audited
        Responses and their items.
    method, ability
        As for `simulate_null`.
    simulations
        M.
    key
        Decides all random numbers.
    """

    def __init__(
        self, audited: Audited, method: Method, simulations: int, key: int, ability: Ability
    ) -> None:
        if isinstance(ability, str) and ability not in {"estimate", "posterior"}:
            raise InputError(f"unknown ability {ability!r}", fix="use estimate or posterior")
        self.audited, self.simulations = audited, simulations
        self._key, self._ability = key, ability
        calibrated = audited.calibrated
        self.population = calibrated.latent_mean, calibrated.latent_sd
        self.seen = audited.codes >= 0
        self.abilities = make_abilities(calibrated.parameters, self.seen, method, self.population)
        by_name = np.argsort(np.array(calibrated.items))
        drawn = draw_items(calibrated.select(by_name), simulations, task_generator(key, "items"))
        back = np.argsort(by_name)
        self.drawn = DrawnItems(drawn.slopes[:, back], drawn.intercepts[:, :, back])
        self.theta = np.concatenate(
            [
                self.abilities.estimate(row, self.pattern(row)[None])
                for row in range(len(audited.codes))
            ]
        )

    def pattern(self, row: int) -> Singles:
        """The responses that a target gave."""
        found: Singles = self.audited.codes[row, self.seen[row]].astype(np.float32)
        return found

    def _drawn_at(self, row: int) -> float:
        """The ability at which patterns of a target are drawn, within reach of the population."""
        theta = float(self.theta[row])
        if isinstance(self._ability, str) or not self._ability:
            return theta
        error = float(standard_errors(self, (row,))[0])
        mean, sd = self.population
        reach = max(abs(theta - mean), _REACH * sd)
        moved = theta + self._ability * (error if np.isfinite(error) else 0.0)
        return float(np.clip(moved, mean - reach, mean + reach))

    def blocks(self, row: int) -> Iterator[DrawnBlock]:
        """Patterns of one target, in blocks of bounded size."""
        rng = task_generator(self._key, f"target {self.audited.targets[row]}")
        seen = self.seen[row]
        parameters = self.audited.calibrated.parameters
        ends = parameters.lower[seen], parameters.upper[seen]
        size = int(seen.sum())
        theta = np.full(self.simulations, self._drawn_at(row))
        if self._ability == "posterior":
            theta = draw_abilities(self.abilities, row, self.pattern(row), self.simulations, rng)
        rows = max(_BLOCK // max(size, 1), 1)
        whole = bool(seen.all())
        for start in range(0, self.simulations, rows):
            part = slice(start, min(start + rows, self.simulations))
            slopes, steps = self.drawn.slopes[part], self.drawn.intercepts[:, part]
            if not whole:
                slopes, steps = slopes[:, seen], steps[:, :, seen]
            patterns = draw_patterns(theta[part], slopes, steps, ends, rng)
            yield DrawnBlock(part, patterns, self.abilities.estimate(row, patterns))


def _filled(bench: Bench, names: tuple[str, ...], remarks: tuple[str, ...]) -> PersonFitNull:
    audited = bench.audited
    targets, count = len(audited.targets), len(names)
    reference = Reference(*audited.calibrated.population_curves())
    observed = _observed(bench, reference, names)
    values = np.stack([observed[name][0] for name in names], axis=1)
    enough = bench.seen.sum(axis=1) > 1
    known = np.stack([observed[name][1] for name in names], axis=1) & enough[:, None]
    worse = np.full((targets, count), -np.inf)
    null_worse = np.full((targets, count, bench.simulations), -np.inf, np.float32)
    null_theta = np.zeros((targets, bench.simulations))
    null_theta += bench.theta[:, None]
    for row in np.flatnonzero(enough).tolist():
        scorer = _scorer(bench, reference, names, row)
        own = scorer.score(bench.pattern(row)[None], bench.theta[row : row + 1])
        for place, name in enumerate(names):
            if known[row, place]:
                value = _turned(own, name)[0]
                worse[row, place] = value - _TIED * (1 + abs(value))
        for block in bench.blocks(row):
            scores = scorer.score(block.patterns, block.theta)
            null_theta[row, block.part] = block.theta
            for place, name in enumerate(names):
                null_worse[row, place, block.part] = _turned(scores, name)
    return PersonFitNull(
        audited.targets,
        names,
        tuple(SIDES[name] for name in names),
        np.where(known, values, 0.0),
        known,
        worse,
        null_worse,
        bench.theta,
        standard_errors(bench, range(targets)),
        null_theta,
        bench.seen.sum(axis=1),
        (*remarks, *audited.calibrated.remarks),
    )


def _turned(scores: Scores, name: str) -> FloatArray:
    """Values of which larger ones are worse; a pattern without a value is never unusual."""
    values, known = scores[name]
    found: FloatArray = np.where(known, -values if SIDES[name] == "low" else values, -np.inf)
    return found


def _scorer(bench: Bench, reference: Reference, names: tuple[str, ...], row: int) -> Scorer:
    seen = bench.seen[row]
    parameters = bench.audited.calibrated.parameters.select(seen)
    there = reference.select(seen)
    if isinstance(bench.abilities, LogisticAbilities):
        return LogisticScorer(parameters, there, names, bench.abilities, row)
    return GeneralScorer(parameters, there, names)


def _observed(
    bench: Bench, reference: Reference, names: tuple[str, ...]
) -> dict[str, tuple[FloatArray, BoolArray]]:
    codes = bench.audited.codes
    scorer = GeneralScorer(bench.audited.calibrated.parameters, reference, names)
    rows = max((1 << 18) // codes.shape[1], 1)
    parts = [
        scorer.score(codes[start : start + rows], bench.theta[start : start + rows])
        for start in range(0, len(codes), rows)
    ]
    return {
        name: (
            np.concatenate([part[name][0] for part in parts]),
            np.concatenate([part[name][1] for part in parts]),
        )
        for name in names
    }


def standard_errors(bench: Bench, rows: Iterable[int]) -> FloatArray:
    """Standard errors of the abilities of some targets; infinite where nothing is known."""
    parameters = bench.audited.calibrated.parameters
    found = []
    for row in rows:
        seen = bench.seen[row]
        told = 0.0
        if seen.any():
            theta = bench.theta[row : row + 1]
            told = float(total_information(parameters.select(seen), theta)[0])
        found.append(1 / np.sqrt(told) if told > 0 else np.inf)
    return np.array(found)
