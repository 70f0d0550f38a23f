"""The collapse rule: whether a judge cannot use a class that others use.

Class c applies where the judge that gives it most often, the leader, gives it to at least a tenth
of the N common responses. A judge is collapsed on it where it gives the class less than a third as
often as the leader. Below a tenth the rule does not apply, which is not the same as fine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any, Final

import numpy as np
from scipy.stats import beta

from safemetry.errors import InputError
from safemetry.judges.counts import POOLED, ClassCounts, count_classes, design_effect
from safemetry.judges.panel import BoolArray, CodeArray, IntArray, Panel

_DRAWS: Final = 2000
_JEFFREYS: Final = 0.5


class CollapseState(StrEnum):
    """What the rule says of a judge and a class."""

    COLLAPSED = "collapsed"
    OK = "ok"
    NOT_APPLICABLE = "not_applicable"
    CANNOT_EMIT = "cannot_emit"


@dataclass(frozen=True)
class CollapseSettings:
    """Thresholds of the rule.

    Parameters
    ----------
    applicable
        Least share of the common responses that the leader must give the class.
    collapsed
        Share of the leader's count below which a judge is collapsed.
    level
        Confidence of the interval of the leader's share.
    seed
        Of the draws behind the probability.
    """

    applicable: float = 0.1
    collapsed: float = 1 / 3
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("applicable", "collapsed", "level"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise InputError(f"{name} is {value:g}", fix="give a share between 0 and 1")


@dataclass(frozen=True)
class Collapse:
    """One judge and one class, over the common responses of one target or of all.

    Parameters
    ----------
    judge, name, target
        Target None for all targets together.
    count, common
        How often the judge gave the class, of how many common responses.
    max_count, max_judge
        Of the leader; where several share the lead, the first by name.
    state, state_without_leader
        What the rule says, and what it would say if the leader were not on the panel (None for
        the leader itself).
    can_emit, declared
        Whether the judge's class set has the class, and whether the map declares that set; else it
        is what the judge used.
    missing_labels
        How many further responses of this class would make the rule applicable; 0 where it is.
    leader_share, leader_interval
        Share of the leader, with its exact interval, widened for clusters.
    probability
        That the true share is below the threshold times the leader's, on responses like these;
        None for the leader and where the judge cannot emit the class.
    """

    judge: str
    name: str
    target: str | None
    count: int
    common: int
    max_count: int
    max_judge: str | None
    state: CollapseState
    state_without_leader: CollapseState | None
    can_emit: bool
    declared: bool
    missing_labels: int
    leader_share: float | None
    leader_interval: tuple[float, float] | None
    probability: float | None
    why: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the row."""
        why = {**self.why, **({"target": POOLED} if self.target is None else {})}
        return {
            "judge": self.judge,
            "class": self.name,
            "target": self.target,
            "count": self.count,
            "n_common": self.common,
            "max_count": self.max_count,
            "max_judge": self.max_judge,
            "state": str(self.state),
            "state_without_leader": None
            if self.state_without_leader is None
            else str(self.state_without_leader),
            "can_emit": self.can_emit,
            "declared": self.declared,
            "missing_labels": self.missing_labels,
            "leader_share": self.leader_share,
            "leader_interval": self.leader_interval,
            "probability": self.probability,
            **({"why": why} if why else {}),
        }


def missing_labels(most: int, common: int, applicable: float = 0.1) -> int:
    """Further responses of the class that the leader must label so that the rule applies.

    Each adds to the class and to the responses: m + x >= s (n + x).

    Examples
    --------
    >>> missing_labels(77, 900), missing_labels(90, 900)
    (15, 0)
    """
    # Rounded first: .1 * 900 - 90 must not become 1e-14 and then one label.
    return max(0, ceil(round((applicable * common - most) / (1 - applicable), 9)))


def state_of(
    count: int, most: int, common: int, *, can_emit: bool, settings: CollapseSettings
) -> CollapseState:
    """What the rule says of a count.

    Examples
    --------
    >>> rule = CollapseSettings()
    >>> [str(state_of(n, 223, 900, can_emit=True, settings=rule)) for n in (110, 9)]
    ['ok', 'collapsed']
    >>> str(state_of(2, 23, 900, can_emit=True, settings=rule))
    'not_applicable'
    """
    if not can_emit:
        return CollapseState.CANNOT_EMIT
    if common == 0 or most < settings.applicable * common - 1e-9:
        return CollapseState.NOT_APPLICABLE
    below = count < settings.collapsed * most - 1e-9
    return CollapseState.COLLAPSED if below else CollapseState.OK


def find_collapse(
    panel: Panel,
    counts: ClassCounts | None = None,
    settings: CollapseSettings | None = None,
) -> tuple[Collapse, ...]:
    """Apply the rule to every judge and class, pooled and by target.

    Parameters
    ----------
    panel
        The panel.
    counts
        Its class counts, if they are known.
    settings
        Thresholds.

    Raises
    ------
    InputError
        Where the judges have no response in common.
    """
    chosen = settings or CollapseSettings()
    known = counts or count_classes(panel)
    rng = np.random.default_rng(chosen.seed)
    rows: list[Collapse] = []
    for place, block in enumerate(_blocks(panel)):
        for code in range(len(panel.classes)):
            rows += _of_class(panel, known, (place, code), block, chosen, rng)
    return tuple(rows)


@dataclass(frozen=True)
class _Block:
    """Common responses of one target, or of all: labels ``(n, J)`` and clusters."""

    labels: CodeArray
    cluster: IntArray


def _blocks(panel: Panel) -> Iterator[_Block]:
    """All targets together, then each."""
    order = np.argsort(panel.target.codes, kind="stable")
    order = order[panel.common[order]]
    labels, cluster = panel.labels[order], panel.cluster[order]
    bounds = np.searchsorted(panel.target.codes[order], np.arange(len(panel.target.names) + 1))
    for start, end in [(0, len(order)), *itertools.pairwise(bounds.tolist())]:
        yield _Block(labels[start:end], cluster[start:end])


def _of_class(
    panel: Panel,
    known: ClassCounts,
    place: tuple[int, int],
    block: _Block,
    settings: CollapseSettings,
    rng: np.random.Generator,
) -> Iterator[Collapse]:
    (at, code), common = place, int(known.common[place[0]])
    counts = known.counts[at, :, code].tolist()
    leader, said = int(np.argmax(counts)), block.labels == code
    most = counts[leader]
    rest = max([count for j, count in enumerate(counts) if j != leader], default=None)
    share, interval = _leader(said[:, leader], block.cluster, settings)
    for j, judge in enumerate(known.judges):
        able = bool(panel.can_emit[j, code])
        unknown = _unknown(j == leader, able=able, most=most, alone=rest is None, common=common)
        yield Collapse(
            judge=judge,
            name=known.classes[code],
            target=known.targets[at],
            count=counts[j],
            common=common,
            max_count=most,
            max_judge=known.judges[leader] if most else None,
            state=state_of(counts[j], most, common, can_emit=able, settings=settings),
            state_without_leader=None
            if "state_without_leader" in unknown
            else state_of(counts[j], rest or 0, common, can_emit=able, settings=settings),
            can_emit=able,
            declared=bool(panel.declared[j]),
            missing_labels=missing_labels(most, common, settings.applicable),
            leader_share=share,
            leader_interval=interval,
            probability=None
            if "probability" in unknown
            else _probability(said[:, j], said[:, leader], block.cluster, settings, rng),
            why=unknown,
        )


def _unknown(leads: bool, *, able: bool, most: int, alone: bool, common: int) -> dict[str, str]:  # noqa: FBT001
    """Which fields have no value, and why."""
    why: dict[str, str] = {}
    if not common:
        why |= dict.fromkeys(("leader_share", "leader_interval"), "no common response")
    if not most:
        why |= dict.fromkeys(("max_judge", "probability"), "no judge gave the class")
    elif leads:
        why |= dict.fromkeys(("state_without_leader", "probability"), "it is the leader")
    if alone:
        why["state_without_leader"] = "there is no other judge"
    if not able:
        why["probability"] = "the judge cannot emit the class"
    return why


def _leader(
    said: BoolArray, cluster: IntArray, settings: CollapseSettings
) -> tuple[float | None, tuple[float, float] | None]:
    """Share of the leader with its exact interval on the effective number of responses."""
    if not len(said):
        return None, None
    column = said.astype(np.float64)
    n = len(column) / design_effect(column, cluster)
    share = float(column.mean())
    tail, events = (1 - settings.level) / 2, share * n
    low = float(beta.ppf(tail, events, n - events + 1)) if events > 0 else 0.0
    high = float(beta.ppf(1 - tail, events + 1, n - events)) if events < n else 1.0
    return share, (low, high)


def _probability(
    mine: BoolArray,
    theirs: BoolArray,
    cluster: IntArray,
    settings: CollapseSettings,
    rng: np.random.Generator,
) -> float:
    """Chance that the share is below the threshold times the leader's, both on the same responses.

    The four cells of the two judges' answers have a Dirichlet posterior under Jeffreys' prior,
    with counts divided by the design effect of the difference that is asked about.
    """
    ratio = settings.collapsed
    effect = design_effect(mine - ratio * theirs, cluster)
    both = int((mine & theirs).sum())
    only_mine, only_theirs = int(mine.sum()) - both, int(theirs.sum()) - both
    cells = np.array([both, only_mine, only_theirs, len(mine) - both - only_mine - only_theirs])
    draws = rng.dirichlet(cells / effect + _JEFFREYS, _DRAWS)
    below = draws[:, 0] * (1 - ratio) + draws[:, 1] < ratio * draws[:, 2]
    return float(below.mean())
