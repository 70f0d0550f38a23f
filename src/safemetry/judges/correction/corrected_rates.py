"""Corrected rates of one judge and boundary, by intent and as a sum over intents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.judges.agreement.strata import ALL
from safemetry.judges.correction.correction_settings import CorrectionSettings
from safemetry.judges.correction.effective_labels import PredictionPowered
from safemetry.judges.correction.prediction_powered import prediction_powered
from safemetry.judges.correction.rogan_gladen import REFUSALS, RoganGladen, rogan_gladen
from safemetry.judges.correction.stratified_sum import mid_p, stratified_sum
from safemetry.judges.correction.weighted_labels import (
    effective_counts,
    labelled_rows,
    prediction_powered_mean,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

LABELS: Final = "labels"
PREDICTION_POWERED: Final = "ppi++"
ROGAN_GLADEN: Final = "rogan_gladen"
_EXACT: Final = "/exact"
_STRATIFIED: Final = "/stratified"
_NO_LABEL: Final = "no response has both a gold label and a verdict of the judge"
_TOO_FEW: Final = (
    "too few separate labels: those of one behaviour, or of one item, stand or fall together"
)
_OF_INTENT: Final = "it belongs to one intent"
_NO_CLASS: Final = (1, 2)


@dataclass(frozen=True)
class Correction:
    """One estimate of the rate that gold labels of all responses would show.

    Parameters
    ----------
    judge, boundary, intent
        Whose rate of what; intent ``all`` for the sum over intents.
    method
        ``labels``, ``ppi++`` or ``rogan_gladen``, then ``/exact`` where the labels are unanimous
        and the interval is the exact one of the labels, and ``/stratified`` for a sum over intents.
    naive
        Share of the responses that the judge puts over the boundary.
    estimate, interval
        Of the rate; None where it is refused.
    labels, total
        Responses with a gold label and a verdict, and all with a verdict of the judge.
    sensitivity, specificity
        Of the judge on the labels, with intervals.
    tuning
        Weight of the judge in a prediction-powered estimate.
    effective_labels
        How many labels alone would be worth as much.
    pooled
        Whether this is a sum over intents.
    notes
        What to know of this estimate.
    why
        Field -> why it is None.
    """

    judge: str
    boundary: str
    intent: str
    method: str
    naive: float | None
    estimate: float | None
    interval: tuple[float, float] | None
    labels: int
    total: int
    sensitivity: float | None
    sensitivity_interval: tuple[float, float] | None
    specificity: float | None
    specificity_interval: tuple[float, float] | None
    tuning: float | None
    effective_labels: float | None
    pooled: bool
    notes: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where a field is None."""
        found = {name: value for name, value in vars(self).items() if name != "why"}
        return {**found, "why": dict(self.why)} if self.why else found


@dataclass(frozen=True)
class Part:
    """One judge and boundary on the responses of one intent.

    Parameters
    ----------
    judge, boundary, intent
        Which.
    gold
        1 over the boundary, 0 not, NaN without a label; shape ``(R,)``, like all arrays here.
    said
        The judge's verdict on each response, 0 or 1.
    probability
        Of a label; None where it is the same for all.
    cluster
        Whole numbers; None where no two responses are in one.
    """

    judge: str
    boundary: str
    intent: str
    gold: FloatArray
    said: FloatArray
    probability: FloatArray | None
    cluster: NDArray[np.int64] | None

    @property
    def labels(self) -> int:
        """Number of labels."""
        return int(np.count_nonzero(~np.isnan(self.gold)))

    @property
    def is_simple(self) -> bool:
        """Whether every label counts the same and for itself."""
        return self.probability is None and self.cluster is None

    def tables(self) -> tuple[FloatArray, FloatArray]:
        """Labelled responses by gold label and verdict, the others by verdict."""
        known = ~np.isnan(self.gold)
        place = (2 * self.gold[known] + self.said[known]).astype(np.int64)
        table = np.bincount(place, minlength=4).reshape(2, 2).astype(np.float64)
        rest = np.bincount(self.said[~known].astype(np.int64), minlength=2).astype(np.float64)
        return table, rest


@dataclass(frozen=True)
class _Figures:
    """What a method finds, or why it finds nothing."""

    estimate: float | None = None
    interval: tuple[float, float] | None = None
    tuning: float | None = None
    effective_labels: float | None = None
    notes: tuple[str, ...] = ()
    refused: str | None = None
    unknown: str | None = None


def corrected_rates(parts: Sequence[Part], settings: CorrectionSettings) -> Iterator[Correction]:
    """All estimates of one judge and boundary: by intent, then over all intents."""
    by_method: dict[str, list[Correction]] = {LABELS: [], PREDICTION_POWERED: [], ROGAN_GLADEN: []}
    for part in parts:
        accuracy = _rogan_gladen(part, settings)
        by_method[LABELS].append(_powered(part, LABELS, 0.0, accuracy, settings))
        by_method[PREDICTION_POWERED].append(
            _powered(part, PREDICTION_POWERED, settings.tuning, accuracy, settings)
        )
        by_method[ROGAN_GLADEN].append(_divided(part, accuracy))
    for method, rows in by_method.items():
        yield from rows
        if len(rows) > 1:
            yield _pooled(method, rows, by_method[LABELS], settings.level)


def _rogan_gladen(part: Part, settings: CorrectionSettings) -> RoganGladen:
    if part.is_simple or not part.labels:
        tables = part.tables()
    else:
        tables = effective_counts(
            labelled_rows(part.gold, part.said, probability=part.probability, cluster=part.cluster)
        )
    return rogan_gladen(*tables, level=settings.level, population=settings.population)


def _powered(
    part: Part,
    method: str,
    tuning: float | None,
    accuracy: RoganGladen,
    settings: CorrectionSettings,
) -> Correction:
    chosen: dict[str, Any] = {
        "tuning": tuning,
        "level": settings.level,
        "population": settings.population,
    }
    found: PredictionPowered
    if part.is_simple:
        found = prediction_powered(*part.tables(), **chosen)
    else:
        found = prediction_powered_mean(
            part.gold,
            part.said,
            probability=part.probability,
            cluster=part.cluster,
            binary=True,
            **chosen,
        )
    if not part.labels:
        return _row(part, method, accuracy, _Figures(refused=_NO_LABEL))
    ends = (float(found.lower), float(found.upper))
    if not np.isfinite(ends).all():
        return _row(
            part, method, accuracy, _Figures(estimate=float(found.estimate), unknown=_TOO_FEW)
        )
    exact = bool(found.exact)
    notes = ("The labels are unanimous: the interval is the exact one of the labels alone.",)
    return _row(
        part,
        method + (_EXACT if exact else ""),
        accuracy,
        _Figures(
            estimate=float(found.estimate),
            interval=ends,
            tuning=float(found.tuning) if method == PREDICTION_POWERED else None,
            effective_labels=float(found.effective_labels),
            notes=notes if exact else (),
        ),
    )


def _divided(part: Part, found: RoganGladen) -> Correction:
    refused = REFUSALS[int(found.refusal)] if part.labels else _NO_LABEL
    if refused is not None:
        return _row(part, ROGAN_GLADEN, found, _Figures(refused=refused))
    raw, ends = float(found.raw), (float(found.lower), float(found.upper))
    if not np.isfinite(ends).all():
        return _row(
            part, ROGAN_GLADEN, found, _Figures(estimate=float(found.estimate), unknown=_TOO_FEW)
        )
    clipped = (f"The estimate {raw:.3f} was clipped to [0, 1].",) if not 0 <= raw <= 1 else ()
    return _row(
        part,
        ROGAN_GLADEN,
        found,
        _Figures(
            estimate=float(found.estimate),
            interval=ends,
            notes=clipped,
        ),
    )


def _row(
    part: Part,
    method: str,
    accuracy: RoganGladen,
    figures: _Figures,
) -> Correction:
    refused, tuning = figures.refused, figures.tuning
    effective_labels = figures.effective_labels
    why: dict[str, str] = {}
    if refused is not None:
        why |= dict.fromkeys(("estimate", "interval", "effective_labels"), refused)
    if figures.unknown is not None:
        why |= dict.fromkeys(("interval", "effective_labels", "tuning"), figures.unknown)
    if tuning is None:
        of_method = "the method does not weigh the judge"
        powered = method == PREDICTION_POWERED
        why["tuning"] = (refused or figures.unknown or of_method) if powered else of_method
    if effective_labels is None:
        why.setdefault("effective_labels", "not defined for this method")
    total = len(part.said)
    if not total:
        why["naive"] = "the judge has no verdict here"
    measured: dict[str, Any] = {}
    for place, name in enumerate(("sensitivity", "specificity"), start=1):
        value = float(getattr(accuracy, name))
        known = bool(part.labels) and np.isfinite(value)
        ends = (float(getattr(accuracy, f"{name}_{end}")) for end in ("lower", "upper"))
        measured |= {name: value if known else None}
        measured |= {f"{name}_interval": tuple(ends) if known else None}
        if not known:
            reason = REFUSALS[place] if part.labels else _NO_LABEL
            why |= dict.fromkeys((name, f"{name}_interval"), str(reason))
    return Correction(
        judge=part.judge,
        boundary=part.boundary,
        intent=part.intent,
        method=method,
        naive=float(part.said.mean()) if total else None,
        estimate=figures.estimate,
        interval=figures.interval,
        labels=part.labels,
        total=total,
        tuning=tuning,
        effective_labels=effective_labels,
        pooled=False,
        notes=figures.notes,
        why=why,
        **measured,
    )


def _ends(row: Correction, level: float) -> tuple[float, float]:
    """The interval with which a rate enters a sum."""
    if row.interval is None:
        return 0.0, 1.0
    low, high = row.interval
    if not row.method.endswith(_EXACT):
        return low, high
    # On its own the interval never covers too little; in a sum that would only add up.
    if low <= 0:
        return 0.0, float(mid_p(high, level))
    return 1 - float(mid_p(1 - low, level)), 1.0


def _pooled(
    method: str, rows: Sequence[Correction], labels: Sequence[Correction], level: float
) -> Correction:
    """Sum over intents, of which those without a response of the judge have no part.

    Rogan-Gladen needs both classes among the labels. An intent whose labels are all of one class
    (plain prompts, of which none was a success) enters with the labels alone.
    """
    used, notes = [], []
    for row, alone in zip(rows, labels, strict=True):
        if not row.total:
            continue
        lacks = {str(REFUSALS[code]) for code in _NO_CLASS}
        if row.estimate is None and row.why["estimate"] in lacks and alone.estimate is not None:
            used.append(alone)
            notes.append(
                f"Of intent {row.intent} it takes the labels alone: {row.why['estimate']}."
            )
        else:
            used.append(row)
    total = sum(row.total for row in used)
    refused = [f"{row.intent}: {row.why['estimate']}" for row in used if row.estimate is None]
    if not total:
        refused = ["the judge has no verdict"]
    names = ("sensitivity", "specificity", "tuning", "effective_labels")
    why = dict.fromkeys((*names, *(f"{name}_interval" for name in names[:2])), _OF_INTENT)
    estimate, interval = None, None
    if refused:
        why |= dict.fromkeys(("estimate", "interval"), "; ".join(refused))
    else:
        ends = [_ends(row, level) for row in used]
        sums = stratified_sum(
            [row.total / total for row in used],
            [row.estimate or 0.0 for row in used],
            [low for low, _ in ends],
            [high for _, high in ends],
        )
        estimate, *around = (float(part) for part in sums)
        interval = (max(around[0], 0.0), min(around[1], 1.0))
    naive = sum((row.naive or 0.0) * row.total for row in used)
    if not total:
        why["naive"] = "the judge has no verdict"
    return Correction(
        judge=rows[0].judge,
        boundary=rows[0].boundary,
        intent=ALL,
        method=method + _STRATIFIED,
        naive=naive / total if total else None,
        estimate=estimate,
        interval=interval,
        labels=sum(row.labels for row in used),
        total=total,
        sensitivity=None,
        sensitivity_interval=None,
        specificity=None,
        specificity_interval=None,
        tuning=None,
        effective_labels=None,
        pooled=True,
        notes=(
            "A sum over intents, weighted by their numbers of responses.",
            *notes,
        ),
        why=why,
    )
