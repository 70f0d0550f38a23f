"""Whether judges favour targets of their own developer.

For a judge of family F, d is its outcome on a response less the mean outcome of the other judges
that judged the same response and are not of F. The estimate is the mean of d over targets of F less
that over other targets: a difference in differences, so that neither a lenient judge nor a good
target counts. Differences of rates are not free of where the rates lie: a judge that is lenient by
a fixed amount in logits adds more points in the middle than near 0. The second estimate therefore
compares responses on which the others gave the same verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.judges.agreement.figure import Figure
from safemetry.judges.panel import Panel
from safemetry.judges.specifications import success_of
from safemetry.judges.spread import boundaries
from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

FEWEST_CLUSTERS: Final = 10
_DRAWS: Final = 2000
_CHUNK: Final = 4_000_000


@dataclass(frozen=True)
class OwnFamily:
    """How a judge treats targets of its own family, on items of one intent, for one boundary.

    Parameters
    ----------
    judge, family
        Judge and family; ``all`` for the mean over judges.
    intent, boundary
        Of the items; ``comply``, ``non_refusal`` or ``from CLASS``.
    own_targets, other_targets
        Numbers of targets.
    own, others
        Responses of either that another judge outside of the family judged, too.
    difference
        Difference in differences of the shares over the boundary.
    p_value
        Two-sided, from sign flips of clusters.
    matched
        Difference between own and other targets at the same verdicts of the other judges.
    matched_p_value
        Likewise.
    favours
        ``own``, ``others``, ``neither``, or ``unknown``: what both estimates say beyond chance. On
        harmful items crossing the boundary less often is to the target's credit, on benign ones
        more often; where intent is unknown or contested it stays ``unknown``.
    why
        Field -> why it is None.
    """

    judge: str
    family: str
    intent: str
    boundary: str
    own_targets: int
    other_targets: int
    own: int
    others: int
    difference: Figure
    p_value: float | None
    matched: Figure
    matched_p_value: float | None
    favours: str
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where a field is None."""
        found = {name: value for name, value in vars(self).items() if name != "why"}
        return {**found, "why": dict(self.why)} if self.why else found


@dataclass(frozen=True)
class OwnFamilyTable:
    """All rows, or why there is none.

    Parameters
    ----------
    rows
        For each intent, boundary and judge that shares a family with a target, then their mean.
    reason
        Why there is no row, else "".
    """

    rows: tuple[OwnFamily, ...]
    reason: str


@dataclass(frozen=True)
class _Effect:
    """An estimate and how much each cluster moves it."""

    value: float
    moved: FloatArray
    clusters: int


def own_family(
    panel: Panel,
    judge_family: Mapping[str, str],
    target_developer: Mapping[str, str],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
) -> OwnFamilyTable:
    """Difference in differences of judges between targets of their own family and others.

    Parameters
    ----------
    panel
        The verdicts.
    judge_family
        Judge -> family. Judges that are not named have none, and count among the others.
    target_developer
        Target -> developer, compared with families whatever their case. Targets that are not named
        are left out.
    rng
        Decides the sign flips.
    level
        Two-sided confidence in (0, 1).

    Source: difference in differences with cluster-robust errors: Bertrand, Duflo & Mullainathan
    (2004), Quarterly Journal of Economics 119, 249-275; matched: Dorans & Kulick (1986), Journal of
    Educational Measurement 23, 355-368; sign flips: Cameron, Gelbach & Miller (2008), Review of
    Economics and Statistics 90, 414-427, section III, applied to the estimate's linear form.
    """
    check_level(level)
    families = [_folded(judge_family.get(name)) for name in panel.judges]
    developers = [_folded(target_developer.get(name)) for name in panel.target.names]
    shared = {name for name in families if name} & {name for name in developers if name}
    if not shared:
        return OwnFamilyTable((), "no judge shares its family with a target's developer")
    rows: list[OwnFamily] = []
    for intent, chosen in panel.intents():
        part = panel.select(rows=chosen)
        for boundary, first in boundaries(panel.classes, panel.ordered):
            outcome = success_of(part.labels, first, panel.ordered)
            found = []
            for j, family in enumerate(families):
                if family is None or family not in shared:
                    continue
                others = [k for k, other in enumerate(families) if other != family]
                scope = (intent or "unclassified", boundary, panel.judges[j])
                row, effects = _of_judge(
                    part, (outcome, j, others), (family, developers), scope, (rng, level)
                )
                rows.append(row)
                if effects is not None:
                    found.append(effects)
            if len(found) > 1:
                rows.append(_mean_row(found, (intent or "unclassified", boundary), (rng, level)))
    return OwnFamilyTable(tuple(rows), "")


def _folded(name: str | None) -> str | None:
    return name.strip().casefold() if name and name.strip() else None


def _of_judge(
    panel: Panel,
    verdicts: tuple[CodeArray, int, list[int]],
    names: tuple[str, list[str | None]],
    scope: tuple[str, str, str],
    how: tuple[np.random.Generator, float],
) -> tuple[OwnFamily, tuple[_Effect, _Effect | None] | None]:
    outcome, j, others = verdicts
    family, developers = names
    kind = np.array([*(0 if d is None else 2 if d == family else 1 for d in developers), 0])
    of_row = kind[panel.target.codes]
    count = (outcome[:, others] >= 0).sum(axis=1)
    usable = (outcome[:, j] >= 0) & (count > 0) & (of_row > 0)
    own = of_row[usable] == 2
    target, cluster = panel.target.codes[usable], panel.cluster[usable]
    sizes = (len(np.unique(target[own])), len(np.unique(target[~own])), int(own.sum()))
    head = (scope[2], family, scope[0], scope[1], sizes[0], sizes[1], sizes[2], int((~own).sum()))
    if not own.any() or own.all():
        side = "no target of its own family" if not own.any() else "no other target"
        reason = f"{side} has a response that a judge outside the family judged, too"
        missing = Figure.undefined(reason)
        why = dict.fromkeys(("p_value", "matched_p_value"), reason)
        return OwnFamily(*head, missing, None, missing, None, "unknown", why), None
    yes = (outcome[usable][:, others] == 1).sum(axis=1)
    mine = outcome[usable, j].astype(np.float64)
    units = int(panel.cluster.max()) + 1
    plain = difference_in_differences(mine - yes / count[usable], own, cluster, units)
    key = count[usable] * (len(others) + 1) + yes
    matched = matched_difference(mine, own, key, cluster, units)
    return _row(head, plain, matched, how), (plain, matched)


def difference_in_differences(
    away: FloatArray, own: BoolArray, cluster: IntArray, units: int
) -> _Effect:
    """Mean over own targets less mean over others, with what each cluster contributes.

    Parameters
    ----------
    away
        Outcome of the judge less the mean of the others, shape ``(R,)``.
    own
        Whether the target is of the judge's family, shape ``(R,)``; both values occur.
    cluster
        Codes below `units`, shape ``(R,)``.
    units
        Number of codes.

    Examples
    --------
    >>> away = np.array([0.5, 0.5, 0.0, 0.0])
    >>> own = np.array([True, True, False, False])
    >>> difference_in_differences(away, own, np.array([0, 1, 0, 1]), 2).value
    0.5
    """
    means = away[own].mean(), away[~own].mean()
    moved = np.where(own, (away - means[0]) / own.sum(), -(away - means[1]) / (~own).sum())
    return _Effect(
        float(means[0] - means[1]),
        np.bincount(cluster, moved, units).astype(np.float64),
        len(np.unique(cluster)),
    )


def matched_difference(
    mine: FloatArray, own: BoolArray, key: IntArray, cluster: IntArray, units: int
) -> _Effect | None:
    """Outcome on own targets less that on other targets at the same verdicts of the others.

    Parameters
    ----------
    mine
        Outcome of the judge, shape ``(R,)``.
    own, cluster, units
        As in `difference_in_differences`.
    key
        Stratum: what the other judges said, shape ``(R,)``.

    Returns
    -------
    None where no stratum has targets of both kinds. Weights are those of the own targets.

    Source: Dorans & Kulick (1986), standardised difference.
    """
    place = np.unique(key, return_inverse=True)[1].reshape(-1)
    size = int(place.max()) + 1
    here, there = np.bincount(place, own, size), np.bincount(place, ~own, size)
    both = (here > 0) & (there > 0)
    if not both.any():
        return None
    rate = np.bincount(place, mine * ~own, size) / np.maximum(there, 1)
    kept = both[place]
    away = np.where(kept, mine - rate[place], 0.0)
    total = here[both].sum()
    value = float(away[own].sum() / total)
    factor = here / np.maximum(there, 1)
    moved = np.where(own, away - np.where(kept, value, 0.0), -factor[place] * away) / total
    return _Effect(
        value, np.bincount(cluster, moved, units).astype(np.float64), len(np.unique(cluster[kept]))
    )


def _figure(
    effect: _Effect | None, how: tuple[np.random.Generator, float], nothing: str
) -> tuple[Figure, float | None, str]:
    """Estimate with interval, and p value of sign flips."""
    from scipy import special

    rng, level = how
    if effect is None:
        return Figure.undefined(nothing), None, nothing
    if effect.clusters < FEWEST_CLUSTERS:
        reason = f"{effect.clusters} clusters are too few, it takes {FEWEST_CLUSTERS}"
        return Figure.alone(effect.value, reason), None, reason
    count = effect.clusters
    error = float(np.sqrt((effect.moved**2).sum() * count / (count - 1)))
    if error < 1e-12:
        reason = "every cluster shows the same, which shows no spread"
        return Figure.alone(effect.value, reason), None, reason
    reach = float(special.stdtrit(count - 1, 0.5 + level / 2)) * error
    figure = Figure(effect.value, (effect.value - reach, effect.value + reach), error)
    return figure, _sign_flips(effect, rng), ""


def _sign_flips(effect: _Effect, rng: np.random.Generator) -> float:
    """Share of studentised sign flips that reach the studentised estimate.

    What clusters contribute is centred at the estimate, so that flips give the distribution of the
    error (a wild bootstrap with Rademacher weights of a linear estimate).
    """
    moved = effect.moved[effect.moved != 0]
    square = float((moved**2).sum())
    observed = abs(effect.value) / np.sqrt(square)
    step = max(1, _CHUNK // len(moved))
    reached = 0
    for start in range(0, _DRAWS, step):
        signs = rng.integers(0, 2, (min(step, _DRAWS - start), len(moved)), dtype=np.int8) * 2 - 1
        flipped = signs @ moved
        # Flipped contributions are centred again, as those of the estimate are.
        spread = np.sqrt(np.maximum(square - flipped**2 / len(moved), 1e-300))
        reached += int((np.abs(flipped) / spread >= observed - 1e-12).sum())
    return (reached + 1) / (_DRAWS + 1)


def _row(
    head: tuple[str, str, str, str, int, int, int, int],
    plain: _Effect,
    matched: _Effect | None,
    how: tuple[np.random.Generator, float],
) -> OwnFamily:
    nothing = "no verdicts of the other judges occur on targets of both kinds"
    first, p_first, why_first = _figure(plain, how, nothing)
    second, p_second, why_second = _figure(matched, how, nothing)
    reasons = {"p_value": why_first, "matched_p_value": why_second}
    why = {name: reason for name, reason in reasons.items() if reason}
    favours = "unknown"
    if p_first is not None and p_second is not None and matched is not None:
        same = plain.value * matched.value > 0
        if max(p_first, p_second) > 1 - how[1] or not same:
            favours = "neither"
        elif head[2] in {"harmful", "benign"}:
            favours = "own" if (plain.value > 0) == (head[2] == "benign") else "others"
    return OwnFamily(*head, first, p_first, second, p_second, favours, why)


def _mean_row(
    found: list[tuple[_Effect, _Effect | None]],
    scope: tuple[str, str],
    how: tuple[np.random.Generator, float],
) -> OwnFamily:
    """The mean over judges, each with the same weight; clusters are met by all of them."""
    plain = _mean([one for one, _ in found])
    both = [two for _, two in found if two is not None]
    matched = _mean(both) if both else None
    head = ("all", "all", scope[0], scope[1], 0, 0, 0, 0)
    return _row(head, plain, matched, how)


def _mean(effects: list[_Effect]) -> _Effect:
    return _Effect(
        float(np.mean([one.value for one in effects])),
        np.mean([one.moved for one in effects], axis=0),
        max(one.clusters for one in effects),
    )
