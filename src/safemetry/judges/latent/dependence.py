"""Whether judges err together: agreement beyond what a latent class explains.

Dawid and Skene's model takes judges as independent given the true class. Prompt variants of one
model share its errors; the model then takes what they share for the truth. Labels alone cannot
tell which of two blocks of judges shares the truth and which shares errors, so that both readings
are searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.judges.latent.latent_class import Influence, LatentClass, Likelihood

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

LEAST_EXCESS: Final = 0.1
"""Residual agreement that counts: a share of the expected disagreements that did not occur."""
FEWEST_EXPECTED: Final = 5
"""Expected disagreements below which the prior, not the labels, decides what is expected."""
LARGEST_P: Final = 0.05
"""Over all pairs, after Holm (1979)."""


@dataclass(frozen=True)
class JudgePair:
    """Residual agreement of two judges.

    Parameters
    ----------
    first, second
        Judges.
    responses
        That both judged.
    agreement
        Share of them on which they agree.
    expected
        The same under independence given the latent class.
    excess
        (agreement - expected) / (1 - expected).
    z
        The difference over its standard error, which knows clusters and that the model is fitted.
    p_value
        One-sided, adjusted for the number of pairs.
    dependent
        Whether excess and p value pass their thresholds.
    """

    first: str
    second: str
    responses: int
    agreement: float
    expected: float
    excess: float
    z: float
    p_value: float
    dependent: bool


@dataclass(frozen=True)
class Fitted:
    """A fitted model with the judges that it holds.

    Parameters
    ----------
    judges
        Positions of the judges.
    model, fit, influence
        Data, estimates, and what units move.
    unit
        Of each response.
    """

    judges: tuple[int, ...]
    model: Likelihood
    fit: LatentClass
    influence: Influence
    unit: IntArray


Fitter = Callable[[Sequence[int]], "Fitted | None"]
"""Fits the model to some judges, or gives None where it is not identified."""


def identified(can_emit: BoolArray) -> bool:
    """Whether the parameters are generically identified, from the classes that judges can give.

    Three sets of judges must exist, of which each gives k_s combinations of labels, with the sum of
    min(K, k_s) at least 2 K + 2.

    Parameters
    ----------
    can_emit
        Shape ``(J, K)``, without classes that nobody gives.

    Source: Allman, Matias & Rhodes (2009), Annals of Statistics 37, 3099-3132, theorem 4.

    Examples
    --------
    >>> identified(np.ones((2, 3), bool)), identified(np.ones((3, 3), bool))
    (False, True)
    """
    classes = can_emit.shape[1]
    counts = sorted((int(n) for n in can_emit.sum(axis=1) if n > 1), reverse=True)
    # Three judges of two classes give eight combinations: more judges than this decide nothing.
    reached: set[tuple[int, ...]] = {(1, 1, 1)}
    for count in counts[:12]:
        reached = {
            tuple(sorted(min(classes, n * count) if s == place else n for s, n in enumerate(sets)))
            for sets in reached
            for place in range(3)
        }
    return bool(classes > 1 and max(sum(sets) for sets in reached) >= 2 * classes + 2)


def saturated(model: Likelihood) -> bool:
    """Whether the model has as many parameters as there are free probabilities of patterns."""
    labels = model.can_emit.sum(axis=1)
    judges = model.classes * float((np.maximum(labels, 1) - 1).sum())
    cells = float(np.prod(np.maximum(labels, 1).astype(float)))
    return bool(model.groups * (model.classes - 1) + judges >= model.groups * (cells - 1))


def pair_residuals(fitted: Fitted, names: Sequence[str]) -> tuple[JudgePair, ...]:
    """Observed and expected agreement of each pair of judges in a fitted model.

    Pairs with fewer than five expected disagreements are left out.

    Parameters
    ----------
    fitted
        The model.
    names
        Of all judges.

    Source: Qu, Tan & Kutner (1996), Biometrics 52, 797-810 (residual correlation); the standard
    error is that of a conditional moment test: Newey (1985), Econometrica 53, 1047-1070.
    """
    from scipy import stats

    found = [
        pair
        for j, k in combinations(range(len(fitted.judges)), 2)
        if (pair := _pair(fitted, names, j, k)) is not None
    ]
    if not found:
        return ()
    freedom = max(1, int(np.unique(fitted.unit).size) - 1)
    raw = np.asarray(stats.t.sf(np.array([pair.z for pair in found]), freedom))
    order = np.argsort(raw)
    factor = len(found) - np.arange(len(found))
    adjusted = np.empty(len(found))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raw[order] * factor))
    return tuple(
        replace(
            pair,
            p_value=float(p),
            dependent=bool(p <= LARGEST_P and pair.excess >= LEAST_EXCESS),
        )
        for pair, p in zip(found, adjusted, strict=True)
    )


def _pair(fitted: Fitted, names: Sequence[str], j: int, k: int) -> JudgePair | None:
    model, fit = fitted.model, fitted.fit
    patterns, classes, width = model.patterns, model.classes, model.judges * model.classes
    both = (patterns.labels[:, j] >= 0) & (patterns.labels[:, k] >= 0)
    alike = both & (patterns.labels[:, j] == patterns.labels[:, k])
    together = (fit.confusion[j] * fit.confusion[k]).sum(axis=1)
    by_group = fit.prevalence @ together
    n = np.bincount(patterns.group[both], patterns.weight[both], model.groups)
    total = float(n.sum())
    if not total:
        return None
    gradient = np.zeros((1, fitted.influence.inverse.shape[0]))
    head = model.groups * classes
    gradient[0, :head] = (
        n[:, None] * fit.prevalence * (together[None, :] - by_group[:, None])
    ).ravel()
    of_class = n @ fit.prevalence
    for c in range(classes):
        for here, other in ((j, k), (k, j)):
            place = head + c * width + here * classes
            mine = fit.confusion[here, c]
            gradient[0, place : place + classes] = (
                of_class[c] * mine * (fit.confusion[other, c] - together[c])
            )
    away = np.where(both, alike - by_group[patterns.group], 0.0)[patterns.row]
    units = len(fitted.influence.scores)
    moved = np.bincount(fitted.unit, away, units)
    sum_ = float(moved.sum())
    moved = moved - moved.mean() - fitted.influence.of(gradient)[:, 0]
    error = float(np.sqrt((moved @ moved) * units / max(units - 1, 1)))
    expected = float(n @ by_group) / total
    observed = float(patterns.weight[alike].sum()) / total
    if error < 1e-6 * np.sqrt(total) or total * (1 - expected) < FEWEST_EXPECTED:
        return None
    return JudgePair(
        names[fitted.judges[j]],
        names[fitted.judges[k]],
        int(total),
        observed,
        expected,
        (observed - expected) / max(1 - expected, 1e-12),
        sum_ / error,
        1.0,
        dependent=False,
    )


def find_groups(
    fitted: Fitted, labels: CodeArray, names: Sequence[str], refit: Fitter
) -> Iterator[tuple[str, tuple[tuple[int, ...], ...]]]:
    """Ways to put judges in groups so that one of each group leaves no residual agreement.

    Two searches: ``residual`` merges the pair with most residual agreement, until none is left;
    ``agreement`` merges those that agree most, which is what finds a block so large that the
    latent class is its opinion. Members without residual agreement with their representative, given
    the other groups, leave their group again.

    Parameters
    ----------
    fitted
        The model of all judges.
    labels
        Shape ``(R, J)``.
    names
        Of the judges.
    refit
        Fits the model to some judges.

    Returns
    -------
    The search and its groups of two or more judges, the representative of each first.
    """
    seen = set()
    for search, groups in (
        ("residual", _by_residual(fitted, labels, names, refit)),
        ("agreement", _by_agreement(labels, names, refit, len(fitted.judges))),
    ):
        kept = _pruned(groups, labels, refit)
        if kept and kept not in seen:
            seen.add(kept)
            yield search, kept


def _by_residual(
    fitted: Fitted, labels: CodeArray, names: Sequence[str], refit: Fitter
) -> list[list[int]]:
    groups = [[j] for j in fitted.judges]
    now: Fitted | None = fitted
    while now is not None:
        flagged = [pair for pair in pair_residuals(now, names) if pair.dependent]
        if not flagged:
            return groups
        worst = max(flagged, key=lambda pair: pair.excess)
        first, second = (
            next(g for g in groups if names[g[0]] == name) for name in (worst.first, worst.second)
        )
        groups = [g for g in groups if g is not first and g is not second]
        groups.append(_representative_first(first + second, labels))
        now = refit(sorted(g[0] for g in groups))
    return groups


def _by_agreement(
    labels: CodeArray, names: Sequence[str], refit: Fitter, judges: int
) -> list[list[int]]:
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    apart = np.zeros((judges, judges))
    for j, k in combinations(range(judges), 2):
        apart[j, k] = apart[k, j] = 1 - _kappa(labels[:, j], labels[:, k])
    tree = linkage(squareform(apart), "average")
    groups: list[list[int]] = []
    for count in range(judges - 1, 0, -1):
        member = fcluster(tree, count, "maxclust")
        groups = [
            _representative_first(np.flatnonzero(member == code).tolist(), labels)
            for code in np.unique(member)
        ]
        now = refit(sorted(g[0] for g in groups))
        if now is None:
            return groups
        if not any(pair.dependent for pair in pair_residuals(now, names)):
            return groups
    return groups


def _kappa(first: CodeArray, second: CodeArray) -> float:
    both = (first >= 0) & (second >= 0)
    if not both.any():
        return 0.0
    a, b = first[both], second[both]
    size = int(max(a.max(), b.max())) + 1
    shares = [np.bincount(x, minlength=size) / len(x) for x in (a, b)]
    chance = float(shares[0] @ shares[1])
    return (float((a == b).mean()) - chance) / (1 - chance) if chance < 1 else 0.0


def _representative_first(group: Sequence[int], labels: CodeArray) -> list[int]:
    """The judge with most verdicts, then with most agreement within the group, comes first."""
    if len(group) < 3:
        verdicts = {j: int((labels[:, j] >= 0).sum()) for j in group}
        return sorted(group, key=lambda j: (-verdicts[j], j))
    alike = {j: sum(_kappa(labels[:, j], labels[:, k]) for k in group if k != j) for j in group}
    return sorted(group, key=lambda j: (-(labels[:, j] >= 0).sum(), -alike[j], j))


def _pruned(
    groups: Sequence[Sequence[int]], labels: CodeArray, refit: Fitter
) -> tuple[tuple[int, ...], ...]:
    """Groups whose members agree beyond what the other groups' latent class explains."""
    several = [group for group in groups if len(group) > 1]
    now = refit(sorted(group[0] for group in groups)) if several else None
    if now is None:
        return tuple(sorted(tuple(group) for group in several))
    kept = []
    for first, *others in several:
        members = [j for j in others if _agree_beyond(now, labels, first, j)]
        if members:
            kept.append((first, *members))
    return tuple(sorted(kept))


def _agree_beyond(now: Fitted, labels: CodeArray, first: int, other: int) -> bool:
    """Whether a judge agrees with a representative beyond the class that the others show."""
    model, fit, place = now.model, now.fit, now.judges.index(first)
    hidden = model.patterns.labels.copy()
    hidden[:, place] = -1
    logs = np.log(np.where(fit.confusion > 0, fit.confusion, 1.0))
    joint = np.log(fit.prevalence)[model.patterns.group]
    for j in range(model.judges):
        given = hidden[:, j] >= 0
        joint[given] += logs[j][:, hidden[given, j]].T
    joint -= joint.max(axis=1, keepdims=True)
    posterior = np.exp(joint)
    posterior /= posterior.sum(axis=1, keepdims=True)
    posterior = posterior[model.patterns.row]
    both = (labels[:, other] >= 0) & (labels[:, first] >= 0)
    if not both.any():
        return False
    p, y = posterior[both], labels[both, other]
    # Under independence P(label | other judges) is linear in the posterior of the class.
    given = (y[:, None] == np.arange(model.classes)).astype(float)
    confusion = np.linalg.lstsq(p.T @ p + 1e-6 * np.eye(model.classes), p.T @ given, rcond=None)[0]
    confusion = np.clip(confusion, 1e-6, None)
    confusion /= confusion.sum(axis=1, keepdims=True)
    share = fit.prevalence[model.patterns.group[model.patterns.row[both]]].mean(axis=0)
    expected = float(share @ (confusion * fit.confusion[place]).sum(axis=1))
    observed = float((y == labels[both, first]).mean())
    error = np.sqrt(max(observed * (1 - observed), 1e-4) / both.sum())
    excess = (observed - expected) / max(1 - expected, 1e-12)
    return bool(excess >= LEAST_EXCESS and observed - expected > 2 * error)
