"""How many human labels a wanted width needs, and where the next ones help most.

Sources: Cochran (1977), Sampling Techniques, sections 5.5 (Neyman's allocation) and 12.6 (double
sampling with regression); Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv 2311.01453.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.judges.agreement.gold import gold_of
from safemetry.judges.agreement.strata import UNKNOWN
from safemetry.judges.correction.clustering import Clustering
from safemetry.judges.correction.effective_labels import Population
from safemetry.judges.correction.prediction_powered import prediction_powered
from safemetry.judges.panel import NO_VERDICT, Panel
from safemetry.judges.spread import boundaries
from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

MOST_IDS: Final = 10_000
VERDICTS: Final = ("under", "over", "none")
_HALF: Final = 0.5
_FEWEST: Final = 2
_DRAWS: Final = 200


@dataclass(frozen=True)
class LabelsNeeded:
    """Human labels for a wanted width of the interval of a rate.

    Parameters
    ----------
    width
        From end to end.
    labels
        There are now.
    correlation
        Of label and verdict, 0 where they go apart; half a response added to each cell.
    without_judge, with_judge
        Labels in all that are needed; None where labelling every response is not enough.
    saved
        Share of the labels that the judge saves.
    why
        Field -> why it is None.
    """

    width: float
    labels: int
    correlation: float
    without_judge: int | None
    with_judge: int | None
    saved: float | None
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelCell:
    """Responses among which the next labels are drawn by chance.

    Parameters
    ----------
    intent
        Of their items.
    verdict
        Of the judge: ``under`` or ``over`` the boundary, or ``none``.
    disagreement
        Whether other judges of the panel fall on both sides of the boundary.
    responses, labels
        In the cell, and labelled so far.
    deviation
        Standard deviation of a label here, 0 to .5; .5 where there is none yet.
    further
        Labels to add.
    probability
        Share of the responses that is labelled after that: their sampling probability.
    """

    intent: str
    verdict: str
    disagreement: bool
    responses: int
    labels: int
    deviation: float
    further: int
    probability: float


@dataclass(frozen=True)
class NextLabels:
    """Where to label next.

    Parameters
    ----------
    cells
        With their numbers of labels.
    ids
        Responses to label, each with run, target, item, epoch and the position of its cell; no
        texts.
    standard_error
        Of the rate over all cells after that, by the labels within cells.
    simple_standard_error
        Of as many labels spread in proportion to the cells.
    sheet
        A table of all responses, those to label first: ``run, target, item, epoch``, ``intent,
        category, behaviour``, whether to ``ask`` for a label, the gold ``label`` so far, and the
        ``probability`` with which the response has a label once these are in.
    """

    cells: tuple[LabelCell, ...]
    ids: tuple[Mapping[str, Any], ...]
    standard_error: float
    simple_standard_error: float
    sheet: pa.Table = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, without the sheet."""
        return {name: plain(value) for name, value in vars(self).items() if name != "sheet"}


def labels_needed(
    labelled: ArrayLike,
    others: ArrayLike,
    width: float,
    *,
    level: float = 0.95,
    population: Population = "sample",
    clustering: Clustering | None = None,
) -> LabelsNeeded:
    """Labels for a width, with and without the help of a judge as good as it looks now.

    The smallest number of labels with which intervals of `prediction_powered` have this width on
    average, over tables drawn from the labels so far with half a response added to each cell. Rare
    events and unanimous labels so count with the wide intervals that they have.

    Parameters
    ----------
    labelled
        Labelled responses by gold label and verdict, shape ``(2, 2)``, at least one.
    others
        The other responses by verdict, shape ``(2,)``.
    width
        Wanted, from end to end, in (0, 1).
    level, population
        As in `prediction_powered`.
    clustering
        How responses stand or fall together; None where each stands for itself.

    Raises
    ------
    ValueError
        For an impossible width or level, or without a label.

    Examples
    --------
    >>> found = labels_needed([[25, 2], [3, 30]], [2000, 2000], 0.1)
    >>> found.without_judge, found.with_judge
    (379, 145)
    """
    check_level(level)
    check_level(width, "width")
    table, rest = np.asarray(labelled, np.float64), np.asarray(others, np.float64)
    if table.shape != (2, 2) or rest.shape != (2,) or not table.sum() > 0:
        msg = "expected labelled responses of shape (2, 2), at least one, and others of shape (2,)"
        raise ValueError(msg)
    total = round(float(table.sum() + rest.sum()))
    shares = (table + _HALF) / (table + _HALF).sum()
    label, judged = shares[1].sum(), shares[:, 1].sum()
    of_label, of_judge = label * (1 - label), judged * (1 - judged)
    correlation = max(float((shares[1, 1] - label * judged) / np.sqrt(of_label * of_judge)), 0.0)
    groups = clustering or Clustering()

    def fewest(tuning: float | None, intraclass: float) -> int | None:
        def is_enough(n: int) -> bool:
            # What the judge says of the rest is clustered as the labels are, whatever its errors.
            whole = max(round(total / groups.effect(total, groups.of_labels)), 1)
            worth = min(max(round(n / groups.effect(n, intraclass)), 1), whole)
            rng = np.random.default_rng(0)  # the same draws for every n, so that widths fall with n
            drawn = rng.multinomial(worth, shares.ravel(), size=_DRAWS).reshape(-1, 2, 2)
            left = rng.multinomial(whole - worth, shares.sum(axis=0), size=_DRAWS)
            found = prediction_powered(
                drawn, left, tuning=tuning, level=level, population=population
            )
            widths = np.nan_to_num(found.upper - found.lower, nan=1.0)
            return bool(widths.mean() <= width)

        low, high = min(_FEWEST, total), total
        if not is_enough(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
        return low

    alone, helped = fewest(0.0, groups.of_labels), fewest(None, groups.of_errors)
    # A judge of little worth costs a degree of freedom and saves nothing; then it is left aside.
    helped = alone if helped is None or (alone is not None and helped > alone) else helped
    too_few = f"the {total} responses are too few for this width, were all of them labelled"
    why = {
        name: too_few
        for name, value in (("without_judge", alone), ("with_judge", helped))
        if value is None
    }
    saved = None
    if alone is None or helped is None:
        why["saved"] = too_few
    else:
        saved = 1 - helped / alone
    return LabelsNeeded(width, round(table.sum()), correlation, alone, helped, saved, why)


def allocate(
    responses: ArrayLike,
    labels: ArrayLike,
    deviations: ArrayLike,
    budget: int,
    *,
    free: ArrayLike | None = None,
) -> IntArray:
    """Further labels for each cell so that the variance of the whole is smallest.

    Parameters
    ----------
    responses, labels
        In each cell, and labelled so far, shape ``(H,)``.
    deviations
        Standard deviations of a label in each cell; a cell with 0 gets the least that it can.
    budget
        Further labels; at most the responses that can be labelled are used.
    free
        Responses of each cell that can still be labelled; None for all without a label.

    Returns
    -------
    Shape ``(H,)``. Labels in all are proportional to responses times deviation (Neyman), as far as
    cells that have more already, or fewer responses, allow; each cell first gets 2 if it can, or 1.

    Examples
    --------
    >>> allocate([100, 100, 100], [0, 0, 0], [0.1, 0.2, 0.5], 80).tolist()
    [10, 20, 50]
    >>> allocate([100, 20], [0, 0], [0.1, 0.5], 60).tolist()
    [40, 20]
    """
    size, have = np.asarray(responses, np.float64), np.asarray(labels, np.float64)
    weight = size * np.asarray(deviations, np.float64)
    most = size - have if free is None else np.asarray(free, np.float64)
    wanted = min(float(budget), float(most.sum()))
    for each in (_FEWEST, 1, 0):
        least = np.clip(each - have, 0.0, most)
        if least.sum() <= wanted:
            break
    low, high = 0.0, float(np.max((size + 1) / np.where(weight > 0, weight, 1.0), initial=1.0))
    for _ in range(100):
        middle = (low + high) / 2
        given = np.clip(middle * weight - have, least, most).sum()
        low, high = (middle, high) if given < wanted else (low, middle)
    exact = np.clip(high * weight - have, least, most)
    found = np.floor(exact + 1e-9)
    short = round(wanted - float(found.sum()))
    room = np.where(found < most, exact - found, -1.0)
    found[np.argsort(-room, kind="stable")[:short]] += 1
    return np.asarray(np.minimum(found, most), np.int64)


def next_labels(
    panel: Panel,
    gold: Sequence[str],
    judge: str,
    boundary: str,
    budget: int,
    rng: np.random.Generator,
    *,
    earlier: FloatArray | None = None,
) -> NextLabels:
    """Which responses to label next, for the rate over a boundary.

    Cells are intent x the judge's verdict x whether other judges disagree. Within a cell the
    choice is left to chance, so that the labels stay usable.

    Parameters
    ----------
    panel
        The verdicts.
    gold
        Judges whose labels are gold; none where nothing is labelled yet.
    judge
        Whose rate is to be corrected. Responses that it did not judge get few labels, since its
        rate is not about them.
    boundary
        As `spread.boundaries` names it.
    budget
        Further labels, 1 to 10,000.
    rng
        Decides which responses of a cell.
    earlier
        With which chance each response was chosen for the labels so far, shape ``(R,)``; None where
        these are a simple random part of each intent.

    Raises
    ------
    InputError
        For an unknown judge or boundary, an impossible budget, or one with which some cell would
        have no label at all: what is never looked at cannot be corrected.
    """
    if not 1 <= budget <= MOST_IDS:
        raise InputError(f"{budget} further labels", fix=f"ask for 1 to {MOST_IDS:,}")
    known = dict(boundaries(panel.classes, panel.ordered))
    if boundary not in known:
        raise InputError(
            f"unknown boundary {boundary!r}", fix=f"the boundaries are {', '.join(known)}"
        )
    over = np.zeros(len(panel.classes) + 1, np.int64)
    over[known[boundary] : panel.ordered] = 1
    over[NO_VERDICT] = 2
    labels, tied = _gold(panel, gold)
    verdict = over[panel.labels[:, panel.place(judge)]]
    key = ((panel.intent.codes + 1) * len(VERDICTS) + verdict) * 2 + _divided(panel, gold, over)
    found, cell = np.unique(key, return_inverse=True)
    cell = cell.reshape(-1)
    is_labelled = labels != NO_VERDICT
    is_free = ~is_labelled & ~tied
    size = len(found)
    responses, free = np.bincount(cell), np.bincount(cell[is_free], minlength=size)
    have = np.bincount(cell[is_labelled], minlength=size)
    events = np.bincount(cell[is_labelled & (over[labels] == 1)], minlength=size)
    rate = (events + _HALF) / (have + 2 * _HALF)
    deviation = np.sqrt(rate * (1 - rate))
    counts = found // 2 % 3 != VERDICTS.index("none")
    further = allocate(responses, have, np.where(counts, deviation, 0.0), budget, free=free)
    unseen = (have + further == 0) & (free > 0)
    if earlier is None and unseen.any():
        raise InputError(
            f"{budget} labels do not reach all {size} kinds of responses (by intent, verdict and "
            "whether judges differ)",
            fix=f"ask for {int((have == 0).sum())} or more",
        )
    if earlier is None:
        chance = ((have + further) / np.maximum(have + free, 1))[cell]
    else:
        chance = earlier + (1 - earlier) * (further / np.maximum(free, 1))[cell]
    names = (*panel.intent.names, UNKNOWN)
    cells = tuple(
        LabelCell(
            intent=names[int(code) // 6 - 1],
            verdict=VERDICTS[int(code) // 2 % 3],
            disagreement=bool(code % 2),
            responses=int(responses[place]),
            labels=int(have[place]),
            deviation=float(deviation[place]),
            further=int(further[place]),
            probability=float(chance[cell == place].mean()),
        )
        for place, code in enumerate(found)
    )
    chosen = [
        np.sort(rng.choice(np.flatnonzero((cell == place) & is_free), count, replace=False))
        for place, count in enumerate(further.tolist())
        if count
    ]
    rows = np.concatenate(chosen) if chosen else np.zeros(0, np.int64)
    after = have + further
    even = responses * after.sum() / responses.sum()
    return NextLabels(
        cells=cells,
        ids=tuple(_id(panel, row, int(cell[row])) for row in rows.tolist()),
        standard_error=_standard_error(responses, after, deviation),
        simple_standard_error=_standard_error(responses, even, deviation),
        sheet=_sheet(panel, labels, rows, chance),
    )


def _gold(panel: Panel, gold: Sequence[str]) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Labels so far, and the responses that every gold judge has judged without a majority."""
    if not gold:
        nothing = np.full(panel.responses, NO_VERDICT, np.int8)
        return nothing, np.zeros(panel.responses, bool)
    found = gold_of(panel, gold)
    places = [panel.place(name) for name in gold]
    return found.labels, found.tied & (panel.labels[:, places] != NO_VERDICT).all(axis=1)


def _divided(panel: Panel, gold: Sequence[str], over: IntArray) -> NDArray[np.bool_]:
    """Where judges that are not gold fall on both sides of the boundary, shape ``(R,)``."""
    others = [place for place, name in enumerate(panel.judges) if name not in gold]
    if len(others) < 2:
        return np.zeros(panel.responses, bool)
    sides = over[panel.labels[:, others]]
    found: NDArray[np.bool_] = (sides == 1).any(axis=1) & (sides == 0).any(axis=1)
    return found


def _id(panel: Panel, row: int, cell: int) -> dict[str, Any]:
    columns = {"run": panel.run, "target": panel.target, "item": panel.item}
    named = {name: column.names[int(column.codes[row])] for name, column in columns.items()}
    return {**named, "epoch": int(panel.epoch[row]), "cell": cell}


def _sheet(panel: Panel, labels: NDArray[np.int8], rows: IntArray, chance: FloatArray) -> pa.Table:
    """All responses: those to label, those that are labelled, the rest."""
    asked = np.zeros(panel.responses, bool)
    asked[rows] = True
    is_labelled = labels != NO_VERDICT
    order = np.concatenate(
        [rows, np.flatnonzero(is_labelled), np.flatnonzero(~asked & ~is_labelled)]
    )
    columns = {
        name: getattr(panel, name)
        for name in ("run", "target", "item", "intent", "category", "behaviour")
    }
    named = {
        name: pa.array([*column.names, None], pa.string()).take(
            pa.array(column.codes[order] % (len(column.names) + 1))
        )
        for name, column in columns.items()
    }
    said = [None if code == NO_VERDICT else panel.classes[code] for code in labels[order].tolist()]
    return pa.table(
        {
            **{name: named[name] for name in ("run", "target", "item")},
            "epoch": panel.epoch[order],
            **{name: named[name] for name in ("intent", "category", "behaviour")},
            "ask": pa.array(np.where(asked[order], "yes", "no")),
            "label": pa.array(said, pa.string()),
            "probability": chance[order],
        }
    )


def _standard_error(responses: IntArray, labels: ArrayLike, deviation: FloatArray) -> float:
    """Of the sum over cells; a cell without a label is taken to have one."""
    share = responses / responses.sum()
    return float(np.sqrt((share**2 * deviation**2 / np.maximum(np.asarray(labels), 1.0)).sum()))
