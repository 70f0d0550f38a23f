"""Could a judge have made the factor? The same fits under each judge, on the same cells.

Labels come from a judge. A judge that reads one kind of item by another standard gives these items
something in common that the targets do not have, and a factor appears. Where several judges have
labelled the same responses, the gain of several dimensions, the correlations of the factors and the
first eigenvalue are computed under each and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from safemetry.construct.dimensions.held_out import held_out_losses
from safemetry.construct.dimensions.judge_cells import common_cells
from safemetry.construct.dimensions.judge_correlations import CorrelationShift, correlation_shifts
from safemetry.construct.dimensions.models import CandidateModel, candidate_models
from safemetry.construct.dimensions.paired import (
    PairedDifference,
    corrected_interval,
    paired_difference,
)
from safemetry.construct.dimensions.verdict_rule import lowest
from safemetry.construct.spectra.correlation import eigenvalues_of, pairwise_pearson, with_zeros
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.parameters import BoolArray, FloatArray, ItemModel
from safemetry.irt.responses import Responses
from safemetry.tasks import TaskSettings

FEWEST: Final = 10
"""Targets and items below which nothing is compared."""

MODELS: Final = 3
"""Most explored dimensions under each judge."""


@dataclass(frozen=True)
class JudgeRow:
    """The construct under one judge.

    Parameters
    ----------
    judge
        Name.
    rewarded
        Share of the common cells with outcome 1.
    gain
        Of the best model of several dimensions over the best of one, on held-out cells.
    correlations
        Of the dimensions of the structure, K rows of K; None without a structure.
    first_eigenvalue
        Share of the first eigenvalue in the sum, of the item correlations, in [0, 1].
    why
        Why a field is None.
    """

    judge: str
    rewarded: float
    gain: PairedDifference
    correlations: tuple[tuple[float, ...], ...] | None
    first_eigenvalue: float
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with `why` only where something is None."""
        found = {name: plain(value) for name, value in self.__dict__.items()}
        return found if self.why else {key: found[key] for key in found if key != "why"}


@dataclass(frozen=True)
class ByJudge:
    """What the construct looks like under each judge.

    Parameters
    ----------
    judges
        A row for each judge.
    dimensions
        Names of the dimensions of the structure; empty without one.
    targets, items, cells
        Numbers of targets, items and responses that all judges labelled, and on which every judge's
        labels vary within each item.
    agreement
        Share of these cells on which all judges agree; None with one judge.
    shifts
        For each pair of dimensions and of judges, by how much the correlation differs.
    judge_made
        ``possible``, ``not_seen`` or ``cannot_tell``: whether a factor could be a judge's doing.
    sentence
        The same in words.
    why
        Why a field is None.
    """

    judges: tuple[JudgeRow, ...]
    dimensions: tuple[str, ...]
    targets: int
    items: int
    cells: int
    agreement: float | None
    shifts: tuple[CorrelationShift, ...]
    judge_made: str
    sentence: str
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with `why` only where something is None."""
        found = {name: plain(value) for name, value in self.__dict__.items()}
        return found if self.why else {key: found[key] for key in found if key != "why"}


def by_judge(
    responses: Mapping[str, Responses],
    structure: Mapping[str, str] | None = None,
    *,
    splits: int = 5,
    share: float = 0.2,
    resamples: int = 100,
    seed: int = 2026,
    tasks: TaskSettings | None = None,
) -> ByJudge:
    """Fit the labels of every judge and compare.

    Parameters
    ----------
    responses
        Name of a judge -> what it said, codes 0 and 1, or -1 where missing. Targets and items are
        matched by name; only those of all judges, and cells that all labelled, are used.
    structure
        Item -> its dimension; items without one are left out. None compares explored dimensions
        only.
    splits, share
        How often, and which share of the cells, is held out.
    resamples
        Weightings of the targets for the uncertainty of the factor correlations.
    seed
        Split s uses `seed` + s; resamples use their number and `seed`.
    tasks
        Workers, resuming and progress.

    Returns
    -------
    ByJudge
        With one judge, or too few common targets or items, ``cannot_tell``.

    Raises
    ------
    InputError
        Without a judge.

    Examples
    --------
    >>> from safemetry.irt.responses import make_responses
    >>> rng = np.random.default_rng(1)
    >>> chance = 1 / (1 + np.exp(-rng.normal(size=(30, 1)) - np.linspace(-1, 1, 12)))
    >>> labels = make_responses((rng.random(chance.shape) < chance).astype(int))
    >>> by_judge({"rules": labels}).sentence
    'Whether a judge made a factor cannot be told: one judge (rules) labelled everything.'
    """
    if not responses:
        raise InputError("no judge labelled anything", fix="give the labels of one at least")
    running = tasks or TaskSettings()
    common = common_cells(responses, structure)
    first = next(iter(common.values()))
    targets, items = first.codes.shape
    if min(targets, items) < FEWEST:
        return _too_little(common, targets, items)
    masks = split_responses(first, splits=splits, share=share, seed=seed)
    models = _models(first, structure)
    rows = tuple(_row(judge, held, models, masks, share, running) for judge, held in common.items())
    confirmatory = models[-1].structure
    shifts: tuple[CorrelationShift, ...] = ()
    if confirmatory is not None:
        matrices, shifts = correlation_shifts(
            common, confirmatory, resamples=resamples, seed=seed, tasks=running
        )
        rows = tuple(
            replace(row, correlations=matrix, why={})
            for row, matrix in zip(rows, matrices, strict=True)
        )
    state, sentence = _conclude(rows, shifts, share / (1 - share))
    agreement = _agreement(list(common.values()))
    return ByJudge(
        judges=rows,
        dimensions=() if confirmatory is None else confirmatory.dimensions,
        targets=targets,
        items=items,
        cells=int(first.observed.sum()),
        agreement=agreement,
        shifts=shifts,
        judge_made=state,
        sentence=sentence,
        why={} if agreement is not None else {"agreement": "there is one judge"},
    )


def _models(
    responses: Responses, structure: Mapping[str, str] | None
) -> tuple[CandidateModel, ...]:
    """1PL, 2PL and explored dimensions, and last the structure; the slow 3PL is left out."""
    structures = None
    if structure is not None:
        kinds = [structure[item] for item in responses.items]
        # A dimension needs two items, and a structure two dimensions.
        small = {kind for kind in kinds if kinds.count(kind) < 2}
        if not small and len(set(kinds)) > 1:
            structures = {"structure": dict(zip(responses.items, kinds, strict=True))}
    found = candidate_models(responses.items, structures, max_dims=MODELS)
    return tuple(model for model in found if model.item_model is not ItemModel.THREE_PL)


def _row(
    judge: str,
    responses: Responses,
    models: Sequence[CandidateModel],
    masks: BoolArray,
    share: float,
    tasks: TaskSettings,
) -> JudgeRow:
    found = held_out_losses(responses, models, masks, restarts=1, tasks=tasks)
    one = {held.model.name: held.log_losses for held in found if held.model.dimensions == 1}
    many = {held.model.name: held.log_losses for held in found if held.model.dimensions > 1}
    single, several = lowest(one), lowest(many)
    return JudgeRow(
        judge=judge,
        rewarded=float((responses.codes == 1).sum() / responses.observed.sum()),
        gain=paired_difference(
            f"under {judge}",
            (single, one[single]),
            (several, many[several]),
            test_to_train=share / (1 - share),
        ),
        correlations=None,
        first_eigenvalue=_first_share(responses),
        why={"correlations": "no structure with two dimensions of two items each"},
    )


def _first_share(responses: Responses) -> float:
    correlations = with_zeros(pairwise_pearson(responses.codes, responses.observed))
    values: FloatArray = eigenvalues_of(correlations)
    return float(values[0] / values.sum())


def _agreement(held: Sequence[Responses]) -> float | None:
    if len(held) < 2:
        return None
    same = np.logical_and.reduce([other.codes == held[0].codes for other in held[1:]])
    return float(same[held[0].observed].mean())


def _too_little(common: Mapping[str, Responses], targets: int, items: int) -> ByJudge:
    return ByJudge(
        judges=(),
        dimensions=(),
        targets=targets,
        items=items,
        cells=int(next(iter(common.values())).observed.sum()),
        agreement=None,
        shifts=(),
        judge_made="cannot_tell",
        sentence=(
            f"Whether a judge made a factor cannot be told: {len(common)} judges labelled "
            f"{targets} targets and {items} varying items in common, and {FEWEST} of each are "
            "needed."
        ),
        why={"agreement": "too few common labels"},
    )


def _conclude(
    rows: Sequence[JudgeRow], shifts: Sequence[CorrelationShift], test_to_train: float
) -> tuple[str, str]:
    """Whether a factor could be a judge's doing, and the sentence."""
    if len(rows) == 1:
        return "cannot_tell", (
            f"Whether a judge made a factor cannot be told: one judge ({rows[0].judge}) labelled "
            "everything."
        )
    moved = [shift.sentence for shift in shifts if shift.beyond_chance]
    clear = [row for row in rows if row.gain.interval and row.gain.interval[0] > 0]
    unclear = [row for row in rows if row not in clear]
    absent = [
        row for row in unclear if any(_gains_more(other, row, test_to_train) for other in clear)
    ]
    listed = ", ".join(f"{row.gain.gain:.4f} under {row.judge}" for row in rows)
    if absent:
        names = ", ".join(row.judge for row in absent)
        moved.insert(0, f"the gain of several dimensions is missing under {names} ({listed})")
    if moved:
        return "possible", f"A judge could have made a factor: {'; '.join(moved)}."
    if not clear:
        return (
            "not_seen",
            f"Under no judge do several dimensions clearly predict better ({listed}).",
        )
    if unclear:
        names = ", ".join(row.judge for row in unclear)
        return "cannot_tell", (
            f"Whether a judge made a factor cannot be told: the gain of several dimensions "
            f"({listed}) is not clear under {names}, but within chance of the others."
        )
    kept = ", and no factor correlation differs by more than chance" if shifts else ""
    return "not_seen", (
        "Nothing points to a judge: several dimensions predict better under each "
        f"({listed}){kept}. A bias that the judges share would not show."
    )


def _gains_more(row: JudgeRow, other: JudgeRow, test_to_train: float) -> bool:
    """Whether the gain under one judge exceeds that under another on the same splits."""
    difference = np.array(row.gain.splits) - np.array(other.gain.splits)
    interval = corrected_interval(difference, test_to_train=test_to_train)
    return interval is not None and interval[0] > 0
