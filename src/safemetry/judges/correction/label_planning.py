"""How many human labels a wanted width needs, and where the next ones help most.

Sources: Cochran (1977), Sampling Techniques, sections 5.5 (Neyman's allocation) and 12.6 (double
sampling with regression); Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv 2311.01453, section 6,
whose variance at the best tuning is s^2 ((1 - r^2) / n + r^2 / T), with s^2 the variance of a label
and r its correlation with the verdict, n of T responses labelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from scipy import special

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.judges.agreement.gold import gold_of
from safemetry.judges.agreement.strata import UNKNOWN
from safemetry.judges.correction.effective_labels import Population
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
        A table of all responses that will have a label: ``run, target, item, epoch``, the gold
        ``label`` so far (empty where people are asked for one), and the ``probability`` with which
        the response was chosen.
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
) -> LabelsNeeded:
    """Labels for a width, with and without the help of a judge as good as it looks now.

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

    Raises
    ------
    ValueError
        For an impossible width or level, or without a label.

    Examples
    --------
    >>> found = labels_needed([[25, 2], [3, 30]], [2000, 2000], 0.1)
    >>> found.without_judge, found.with_judge
    (383, 145)
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

    def fewest(squared: float, used: int) -> int | None:
        def is_enough(n: int) -> bool:
            part = n / total
            if population == "fixed":
                variance = of_label * (1 - squared) * (1 - part) / n
            else:
                variance = of_label * ((1 - squared) / n + squared / total)
            t = special.stdtrit(max(n - used, 1), 0.5 + level / 2)
            return bool(2 * t * np.sqrt(variance) <= width)

        low, high = min(_FEWEST, total), total
        if not is_enough(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
        return low

    alone, helped = fewest(0.0, 1), fewest(correlation**2, 2)
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
    return LabelsNeeded(width, int(table.sum()), correlation, alone, helped, saved, why)


def allocate(
    responses: ArrayLike, labels: ArrayLike, deviations: ArrayLike, budget: int
) -> IntArray:
    """Further labels for each cell so that the variance of the whole is smallest.

    Parameters
    ----------
    responses, labels
        In each cell, and labelled so far, shape ``(H,)``.
    deviations
        Standard deviations of a label in each cell, > 0.
    budget
        Further labels; at most the unlabelled responses are used.

    Returns
    -------
    Shape ``(H,)``. Labels in all are proportional to responses times deviation (Neyman), as far as
    cells that have more already, or fewer responses, allow; each cell first gets 2 if it can.

    Examples
    --------
    >>> allocate([100, 100, 100], [0, 0, 0], [0.1, 0.2, 0.5], 80).tolist()
    [10, 20, 50]
    >>> allocate([100, 20], [0, 0], [0.1, 0.5], 60).tolist()
    [40, 20]
    """
    size, have = np.asarray(responses, np.float64), np.asarray(labels, np.float64)
    weight = size * np.asarray(deviations, np.float64)
    most = size - have
    wanted = min(float(budget), float(most.sum()))
    least = np.clip(_FEWEST - have, 0.0, most)
    if least.sum() > wanted:
        least = np.zeros_like(most)
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
) -> NextLabels:
    """Which responses to label next, for the rate over a boundary.

    Cells are intent x the judge's verdict x whether other judges disagree. Within a cell the
    choice is left to chance, so that the labels stay usable: their sampling probability is the
    cell's.

    Parameters
    ----------
    panel
        The verdicts.
    gold
        Judges whose labels are gold; none where nothing is labelled yet.
    judge
        Whose rate is to be corrected.
    boundary
        As `spread.boundaries` names it.
    budget
        Further labels, 1 to 10,000.
    rng
        Decides which responses of a cell.

    Raises
    ------
    InputError
        For an unknown judge or boundary, or an impossible budget.
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
    labels = gold_of(panel, gold).labels if gold else np.full(panel.responses, NO_VERDICT, np.int8)
    others = [place for place, name in enumerate(panel.judges) if name not in gold]
    verdict = over[panel.labels[:, panel.place(judge)]]
    disagreement = np.zeros(panel.responses, bool)
    if len(others) > 1:
        sides = over[panel.labels[:, others]]
        disagreement = (sides == 1).any(axis=1) & (sides == 0).any(axis=1)
    key = ((panel.intent.codes + 1) * len(VERDICTS) + verdict) * 2 + disagreement
    found, cell = np.unique(key, return_inverse=True)
    cell = cell.reshape(-1)
    is_labelled = labels != NO_VERDICT
    responses = np.bincount(cell)
    have = np.bincount(cell[is_labelled], minlength=len(found))
    events = np.bincount(cell[is_labelled & (over[labels] == 1)], minlength=len(found))
    rate = (events + _HALF) / (have + 2 * _HALF)
    deviation = np.sqrt(rate * (1 - rate))
    further = allocate(responses, have, deviation, budget)
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
            probability=float((have[place] + further[place]) / responses[place]),
        )
        for place, code in enumerate(found)
    )
    chosen = [
        np.sort(rng.choice(np.flatnonzero((cell == place) & ~is_labelled), count, replace=False))
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
        sheet=_sheet(panel, labels, rows, np.array([one.probability for one in cells])[cell]),
    )


def _id(panel: Panel, row: int, cell: int) -> dict[str, Any]:
    columns = {"run": panel.run, "target": panel.target, "item": panel.item}
    named = {name: column.names[int(column.codes[row])] for name, column in columns.items()}
    return {**named, "epoch": int(panel.epoch[row]), "cell": cell}


def _sheet(
    panel: Panel, labels: NDArray[np.int8], rows: IntArray, probability: FloatArray
) -> pa.Table:
    """The responses to label, then those that are labelled."""
    used = np.concatenate([rows, np.flatnonzero(labels != NO_VERDICT)])
    columns = {"run": panel.run, "target": panel.target, "item": panel.item}
    named = {
        name: pa.array(column.names).take(pa.array(column.codes[used]))
        for name, column in columns.items()
    }
    said = [None if code == NO_VERDICT else panel.classes[code] for code in labels[used].tolist()]
    return pa.table(
        {
            **named,
            "epoch": panel.epoch[used],
            "label": pa.array(said, pa.string()),
            "probability": probability[used],
        }
    )


def _standard_error(responses: IntArray, labels: ArrayLike, deviation: FloatArray) -> float:
    """Of the sum over cells; a cell without a label is taken to have one."""
    share = responses / responses.sum()
    return float(np.sqrt((share**2 * deviation**2 / np.maximum(np.asarray(labels), 1.0)).sum()))
