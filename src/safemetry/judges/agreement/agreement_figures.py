"""Coefficients of some responses with their cluster-bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.judges.agreement.agreement_sums import choices, pair_sums, panel_sums
from safemetry.judges.agreement.bootstrap import (
    MOST_UNITS,
    Method,
    Resampled,
    distinct,
    resample,
    resampling_units,
)
from safemetry.judges.agreement.coefficients import (
    OF_ORDERED,
    OF_PAIRS,
    OF_PANELS,
    Scale,
    pair_disagreements,
    panel_disagreements,
)
from safemetry.judges.agreement.figure import Figure, bootstrapped, without_disagreement
from safemetry.judges.agreement.intraclass import FORMS, MeanSquares, intraclass, intraclass_sums
from safemetry.judges.agreement.strata import By
from safemetry.judges.agreement.tables import Disagreement, PanelSums
from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

# Bounds the memory of the sums of all units, with some spread between units left in any case.
_MOST_CELLS: Final = 16_000_000
_LEAST_UNITS: Final = 512
_NO_PAIR: Final = "no response has a verdict of both"
_ONE_CLASS: Final = "only one class was used, by all"
_ONE_POSSIBLE: Final = "there is only one class to choose from"


@dataclass(frozen=True)
class AgreementSettings:
    """How agreement is measured.

    Parameters
    ----------
    level
        Two-sided confidence of the intervals, in (0, 1).
    draws
        Resamples of clusters, at least 100.
    method
        ``bca`` or ``percentile`` intervals, see `bootstrap.interval`.
    by
        Properties by which figures are shown as well.
    """

    level: float = 0.95
    draws: int = 1000
    method: Method = "bca"
    by: tuple[By, ...] = ("category", "target")

    def __post_init__(self) -> None:
        try:
            check_level(self.level)
        except ValueError as error:
            raise InputError(str(error), fix="give a fraction such as 0.95") from None
        if self.draws < 100:
            raise InputError(f"{self.draws} resamples fix no interval", fix="take 100 or more")
        if self.method not in ("bca", "percentile"):
            raise InputError(f"unknown interval {self.method!r}", fix="take bca or percentile")
        for name in self.by:
            if name not in ("category", "target"):
                raise InputError(f"agreement by {name!r} is unknown", fix="take category or target")


@dataclass(frozen=True)
class PairFigures:
    """Coefficients of P pairs of columns of labels.

    Parameters
    ----------
    tables
        Responses by the class of the first and of the second, shape ``(P, K, K)``.
    coefficients
        For each pair, by name (`OF_PAIRS`).
    estimate
        Shape ``(P, 6)``; NaN where undefined.
    draws
        Shape ``(B, P, 6)``; NaN where undefined.
    left_out
        Shape ``(U, P, 6)`` without each unit in turn, or without rows, as in `bootstrap.Resampled`.
    units
        Units with a response of each pair, shape ``(P,)``.
    """

    tables: FloatArray
    coefficients: tuple[Mapping[str, Figure], ...]
    estimate: FloatArray
    draws: FloatArray
    left_out: FloatArray
    units: IntArray


def pair_figures(
    labels: CodeArray,
    cluster: IntArray,
    pairs: Mapping[tuple[int, int], Scale],
    shape: tuple[int, int],
    rng: np.random.Generator,
    settings: AgreementSettings,
) -> PairFigures:
    """Agreement of pairs of columns of labels.

    Parameters
    ----------
    labels
        Shape ``(R, J)``, -1 where there is no verdict.
    cluster
        Independent unit of each response, shape ``(R,)``.
    pairs
        Positions of two columns -> the classes they had to choose from.
    shape
        Number K of classes, and how many of them are in the order.
    rng, settings
        As in `agreement_table.measure_agreement`.
    """
    classes, ordered = shape
    places = list(pairs)
    units = resampling_units(cluster, rng, _most_units(len(places) * classes**2))
    tables = pair_sums(labels, places, units, classes)
    scales = list(pairs.values())

    def evaluate(sums: FloatArray) -> Disagreement:
        return _of_pairs(sums.reshape(len(sums), len(places), classes, classes), scales)

    sums = tables.reshape(len(tables), -1)
    total = evaluate(sums.sum(0)[None, :])
    found = resample(
        sums,
        lambda part: evaluate(part).coefficient.reshape(len(part), -1),
        settings.draws,
        rng,
    )
    draws = found.draws.reshape(-1, len(places), len(OF_PAIRS))
    left_out = found.left_out.reshape(-1, len(places), len(OF_PAIRS))
    used = np.asarray((tables.sum((2, 3)) > 0).sum(0), np.int64)
    rows = []
    for place, both in enumerate(places):
        row = {}
        for which, name in enumerate(OF_PAIRS):
            limit = ordered if name in OF_ORDERED else classes
            row[name] = _Case(
                observed=float(total.observed[0, place, which]),
                expected=float(total.expected[0, place, which]),
                draws=draws[:, place, which],
                left_out=left_out[:, place, which],
                units=int(used[place]),
                clusters=partial(_clusters, labels, cluster, both, limit),
                scale=_possible(scales[place], name),
            ).figure(settings)
        rows.append(row)
    return PairFigures(
        tables=tables.sum(0),
        coefficients=tuple(rows),
        estimate=found.estimate.reshape(len(places), -1),
        draws=draws,
        left_out=left_out,
        units=used,
    )


@dataclass(frozen=True)
class PanelFigures:
    """Agreement of all judges of a panel.

    Parameters
    ----------
    coefficients
        By name (`OF_PANELS`).
    intraclass
        Intraclass correlations of the positions of classes in the order, by form. Responses on
        which a judge has no verdict, or one outside the order, do not enter.
    """

    coefficients: Mapping[str, Figure]
    intraclass: Mapping[str, Figure]


def panel_figures(
    labels: CodeArray,
    cluster: IntArray,
    scale: Scale,
    shape: tuple[int, int],
    rng: np.random.Generator,
    settings: AgreementSettings,
    most_units: int = MOST_UNITS,
) -> PanelFigures:
    """Agreement of all columns of labels together.

    Parameters: those of `pair_figures`, with one scale for all; `most_units` as in
    `bootstrap.resampling_units`.
    """
    classes, ordered = shape
    units = resampling_units(cluster, rng, most_units)
    whole = panel_sums(labels, units, classes).flat()
    # Without classes outside the order the sums of the order are the same.
    apart = len(scale.ordered) < len(scale.classes)
    kept = panel_sums(labels, units, ordered).flat() if apart else whole[:, :0]
    complete = intraclass_sums(np.where(labels < ordered, labels, -1), units)
    cuts = [whole.shape[1], whole.shape[1] + kept.shape[1]]

    def evaluate(part: FloatArray) -> Disagreement:
        first, second, _ = np.split(part, cuts, axis=1)
        everything = PanelSums.of_flat(first, classes)
        in_order = PanelSums.of_flat(second, ordered) if apart else everything
        return panel_disagreements(everything, in_order, scale)

    def statistic(part: FloatArray) -> FloatArray:
        squares = MeanSquares.of(part[:, cuts[1] :])
        return np.hstack([evaluate(part).coefficient, intraclass(squares, labels.shape[1])])

    sums = np.hstack([whole, kept, complete])
    total = evaluate(sums.sum(0)[None, :])
    found = resample(sums, statistic, settings.draws, rng)
    used = int((PanelSums.of_flat(whole, classes).matched.sum((1, 2)) > 0).sum())
    coefficients = {}
    for which, name in enumerate(OF_PANELS):
        limit = ordered if name in OF_ORDERED else classes
        coefficients[name] = _Case(
            observed=float(total.observed[0, which]),
            expected=float(total.expected[0, which]),
            draws=found.draws[:, which],
            left_out=found.left_out[:, which],
            units=used,
            clusters=partial(_clusters, labels, cluster, tuple(range(labels.shape[1])), limit),
            scale=_possible(scale, name),
        ).figure(settings)
    used = int((complete[:, 0] > 0).sum())
    forms = {
        name: _form(found, which, used, settings)
        for which, name in enumerate(FORMS, start=len(OF_PANELS))
    }
    return PanelFigures(coefficients, forms)


def _form(found: Resampled, which: int, units: int, settings: AgreementSettings) -> Figure:
    estimate = float(found.estimate[which])
    if np.isnan(estimate):
        return Figure.undefined("it needs two complete responses that differ")
    return bootstrapped(
        estimate,
        found.draws[:, which],
        found.left_out[:, which],
        units,
        level=settings.level,
        method=settings.method,
    )


@dataclass(frozen=True)
class _Case:
    """One coefficient before it is a figure."""

    observed: float
    expected: float
    draws: FloatArray
    left_out: FloatArray
    units: int
    clusters: Callable[[], int]
    scale: int

    def figure(self, settings: AgreementSettings) -> Figure:
        if self.scale < 2:
            return Figure.undefined(_ONE_POSSIBLE)
        if np.isnan(self.observed):
            return Figure.undefined(_NO_PAIR)
        if not self.expected > 1e-12:
            return Figure.undefined(_ONE_CLASS)
        if self.observed < 1e-12:
            return without_disagreement(self.expected, self.clusters(), settings.level)
        estimate = 1 - self.observed / self.expected
        return bootstrapped(
            estimate,
            self.draws,
            self.left_out,
            self.units,
            level=settings.level,
            method=settings.method,
        )


def _of_pairs(tables: FloatArray, scales: Sequence[Scale]) -> Disagreement:
    """The coefficients of each pair on its own scale; pairs of one scale are computed together."""
    lead = (*tables.shape[:2], len(OF_PAIRS))
    observed, expected = np.empty(lead), np.empty(lead)
    together: dict[tuple[int, ...], list[int]] = {}
    for place, scale in enumerate(scales):
        together.setdefault(tuple(scale.classes.tolist()), []).append(place)
    for places in together.values():
        found = pair_disagreements(tables[:, places], scales[places[0]])
        observed[:, places], expected[:, places] = found
    return Disagreement(observed, expected)


def _clusters(labels: CodeArray, cluster: IntArray, columns: Sequence[int], classes: int) -> int:
    """Clusters with a response that two of the columns put in one of the classes."""
    met = choices(labels[:, list(columns)], classes).sum(0) > 1
    return distinct(cluster[met])


def _possible(scale: Scale, name: str) -> int:
    return len(scale.ordered if name in OF_ORDERED else scale.classes)


def _most_units(width: int) -> int:
    return min(MOST_UNITS, max(_LEAST_UNITS, _MOST_CELLS // max(width, 1)))
