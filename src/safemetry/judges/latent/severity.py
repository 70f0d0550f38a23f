"""How strict each judge is, and whether the order of the targets depends on it.

Many-facet model (Linacre 1989, Many-Facet Rasch Measurement, chapter 3) for one boundary between
classes: logit P(target t succeeds on item i under judge j) = ability_t - difficulty_i - severity_j.
The calibration of `irt` has one free difficulty for each column and no sum of two, so the model has
a fit of its own: abilities and difficulties are normal around a mean, severities are free and sum
to 0; Newton steps with the items eliminated from the normal equations, and variances by EM.

"Success" is crossing the boundary (on harmful items a violation), so that a severe judge is one
that sees fewer responses on the compliant side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.judges.agreement.figure import Figure
from safemetry.judges.latent.facets import FacetFit, facet_fit
from safemetry.judges.panel import Panel
from safemetry.judges.specifications import success_of
from safemetry.judges.spread import boundaries
from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    CodeArray = NDArray[np.int8]
    IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class JudgeSeverity:
    """One judge.

    Parameters
    ----------
    judge
        Its name.
    responses
        With a verdict.
    rate
        Share of them over the boundary.
    severity
        In logits, 0 on average; higher sees less. Unknown where all its verdicts are the same.
    """

    judge: str
    responses: int
    rate: float
    severity: Figure


@dataclass(frozen=True)
class TargetAbility:
    """One target, with and without the severity of the judges that it met.

    Parameters
    ----------
    target
        Its name.
    with_severity, without_severity
        Posterior mode of its ability in logits.
    rank_with, rank_without
        1 is the highest.
    """

    target: str
    with_severity: float
    without_severity: float
    rank_with: int
    rank_without: int


@dataclass(frozen=True)
class Severity:
    """The many-facet model on items of one intent, for one boundary.

    Parameters
    ----------
    intent, boundary
        Of the items; ``comply``, ``non_refusal`` or ``from CLASS``.
    fitted
        Whether there is an estimate.
    reason
        Why there is none, else "".
    linked_by
        ``responses`` that judges share, ``targets``, or ``nothing``.
    components
        Judges that are linked with each other.
    judges
        Severities.
    targets
        Abilities.
    spearman
        Rank correlation of the abilities with and without severity.
    largest_changes
        Targets whose rank changes most, at most five.
    warnings
        What a reader must know.
    """

    intent: str
    boundary: str
    fitted: bool
    reason: str
    linked_by: str
    components: tuple[tuple[str, ...], ...]
    judges: tuple[JudgeSeverity, ...] = ()
    targets: tuple[TargetAbility, ...] = ()
    spearman: Figure | None = None
    largest_changes: tuple[TargetAbility, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` where there is no rank correlation."""
        found = dict(vars(self))
        if self.spearman is None:
            return {**found, "why": {"spearman": self.reason or "there are no abilities"}}
        return found


def many_facet_severity(panel: Panel, *, level: float = 0.95) -> tuple[Severity, ...]:
    """Severities of judges and the ranking of targets, for each intent and boundary.

    Parameters
    ----------
    panel
        The verdicts.
    level
        Two-sided confidence in (0, 1).
    """
    check_level(level)
    return tuple(
        _of(panel.select(rows=rows), intent or "unclassified", side, level)
        for intent, rows in panel.intents()
        for side in boundaries(panel.classes, panel.ordered)
    )


def _of(panel: Panel, intent: str, side: tuple[str, int], level: float) -> Severity:
    boundary, first = side
    outcome = success_of(panel.labels, first, panel.ordered)
    active = np.flatnonzero((outcome >= 0).any(axis=0))
    names = [panel.judges[j] for j in active]
    outcome = outcome[:, active]
    linked_by, parts = linkage_of(outcome, panel.target.codes)
    components = tuple(tuple(names[j] for j in part) for part in parts)
    if len(names) < 2:
        return _refused((intent, boundary), "there is one judge", linked_by, components)
    if len(parts) > 1:
        reason = "judges share neither responses nor targets: their severities have no common zero"
        return _refused((intent, boundary), reason, linked_by, components)
    judged = (outcome >= 0).sum(axis=0)
    yes = (outcome == 1).sum(axis=0)
    varied = (yes > 0) & (yes < judged)
    if varied.sum() < 2:
        reason = "fewer than two judges have verdicts on both sides of the boundary"
        return _refused((intent, boundary), reason, linked_by, components)
    used = outcome[:, varied]
    link, left = linkage_of(used, panel.target.codes)
    if len(left) > 1:
        reason = "judges are linked only by one whose verdicts are all the same"
        return _refused((intent, boundary), reason, linked_by, components)
    codes = (panel.target.codes, panel.item.codes)
    full = facet_fit(used, *codes, panel.cluster)
    plain = facet_fit(used, *codes, panel.cluster, severities=False)
    rows = _judges(names, (judged, yes, varied), full, panel.cluster, level)
    targets = _targets(panel, used, full, plain)
    warnings = []
    if link == "targets":
        warnings.append(
            "No two judges of some part share a response: severities rest on the items of each"
            " judge being alike."
        )
    if not (full.converged and plain.converged):
        warnings.append("The fit did not converge; take its figures as approximate.")
    return Severity(
        intent=intent,
        boundary=boundary,
        fitted=True,
        reason="",
        linked_by=link,
        components=components,
        judges=rows,
        targets=targets,
        spearman=_spearman(targets),
        largest_changes=_largest(targets),
        warnings=tuple(warnings),
    )


def _refused(
    scope: tuple[str, str], reason: str, linked_by: str, components: tuple[tuple[str, ...], ...]
) -> Severity:
    intent, boundary = scope
    return Severity(
        intent=intent,
        boundary=boundary,
        fitted=False,
        reason=reason,
        linked_by=linked_by,
        components=components,
    )


def linkage_of(outcome: CodeArray, target: IntArray) -> tuple[str, list[list[int]]]:
    """What links judges, and the parts of judges that are linked.

    Parameters
    ----------
    outcome
        Shape ``(R, J)``, -1 where there is no verdict.
    target
        Shape ``(R,)``, -1 where unknown.

    Examples
    --------
    >>> apart = np.array([[1, -1], [0, -1], [-1, 1]], np.int8)
    >>> linkage_of(apart, np.array([0, 1, 1])), linkage_of(apart, np.array([0, 0, 1]))
    (('targets', [[0, 1]]), ('nothing', [[0], [1]]))
    """
    judged = outcome >= 0
    shared = judged.T.astype(np.float32) @ judged.astype(np.float32) > 0
    parts = _parts(shared)
    if len(parts) == 1:
        return "responses", parts
    known = target >= 0
    met = np.zeros((outcome.shape[1], int(target.max(initial=-1)) + 1), bool)
    for j in range(outcome.shape[1]):
        met[j, target[known & judged[:, j]]] = True
    parts = _parts(shared | (met.astype(np.float32) @ met.T.astype(np.float32) > 0))
    return ("targets" if len(parts) == 1 else "nothing"), parts


def _parts(linked: BoolArray) -> list[list[int]]:
    from scipy.sparse import csgraph

    count, part = csgraph.connected_components(linked.astype(np.int8), directed=False)
    return [np.flatnonzero(part == code).tolist() for code in range(count)]


def _judges(
    names: Sequence[str],
    sums: tuple[Any, Any, BoolArray],
    fit: FacetFit,
    cluster: IntArray,
    level: float,
) -> tuple[JudgeSeverity, ...]:
    from scipy import special

    judged, yes, varied = sums
    reach = float(special.stdtrit(max(len(np.unique(cluster)) - 1, 1), 0.5 + level / 2))
    rows, place = [], 0
    for j, name in enumerate(names):
        if not varied[j]:
            figure = Figure.undefined("all its verdicts lie on one side of the boundary")
        else:
            value = float(fit.severity[place])
            if fit.errors is None:
                figure = Figure.alone(value, "one cluster shows no spread between clusters")
            else:
                error = float(fit.errors[place])
                figure = Figure(value, (value - reach * error, value + reach * error), error)
            place += 1
        rows.append(JudgeSeverity(name, int(judged[j]), float(yes[j] / judged[j]), figure))
    return tuple(rows)


def _targets(
    panel: Panel, outcome: CodeArray, full: FacetFit, plain: FacetFit
) -> tuple[TargetAbility, ...]:
    codes = np.unique(panel.target.codes[(outcome >= 0).any(axis=1)])
    values = [np.round(one.ability + one.mean, 9) for one in (full, plain)]
    ranks = [np.argsort(np.argsort(-value, kind="stable")) + 1 for value in values]
    rows = [
        TargetAbility(
            panel.target.names[code] if code >= 0 else "unclassified",
            float(values[0][place]),
            float(values[1][place]),
            int(ranks[0][place]),
            int(ranks[1][place]),
        )
        for place, code in enumerate(codes)
    ]
    return tuple(sorted(rows, key=lambda row: row.rank_with))


def _spearman(targets: Sequence[TargetAbility]) -> Figure:
    from scipy import stats

    if len(targets) < 3:
        return Figure.undefined(f"{len(targets)} targets have no order to correlate")
    pairs = [(row.with_severity, row.without_severity) for row in targets]
    if any(len({pair[side] for pair in pairs}) < 2 for side in (0, 1)):
        return Figure.undefined("all targets have the same ability")
    value = float(stats.spearmanr(np.array(pairs)[:, 0], np.array(pairs)[:, 1]).statistic)
    return Figure.alone(value, "the order is described, not tested")


def _largest(targets: Sequence[TargetAbility]) -> tuple[TargetAbility, ...]:
    moved = [row for row in targets if row.rank_with != row.rank_without]
    return tuple(sorted(moved, key=lambda row: -abs(row.rank_with - row.rank_without))[:5])
