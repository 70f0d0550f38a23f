"""What the shares of the classes probably are where nobody knows the truth (model-based).

Dawid and Skene's model explains the labels of several judges by a true class of each response and
a confusion matrix of each judge. It is a model, not a measurement: its truth is what explains the
agreement of these judges, and where they share an error, the error.

Sources: Dawid & Skene (1979), Applied Statistics 28, 20-28; with prevalences by group: Hui & Walter
(1980), Biometrics 36, 167-171.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.judges.agreement.bootstrap import distinct, resampling_units
from safemetry.judges.agreement.figure import Figure
from safemetry.judges.latent.dependence import (
    Fitted,
    JudgePair,
    find_groups,
    identified,
    pair_residuals,
    saturated,
)
from safemetry.judges.latent.latent_class import (
    LatentClass,
    Likelihood,
    distinct_patterns,
    influence,
    named_classes,
)
from safemetry.judges.latent.latent_figures import (
    LatentData,
    confusions_of,
    prevalences_of,
    share_figure,
)
from safemetry.judges.latent.latent_results import (
    DawidSkene,
    DawidSkeneSettings,
    Prevalence,
    Sensitivity,
)
from safemetry.judges.panel import Panel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

BASIS: Final = "model-based"
UNKNOWN: Final = "unclassified"
_SAMPLE: Final = 20_000
"""Responses that starts and groups of judges are tried on; whole units, at random."""


def dawid_skene(
    panel: Panel,
    rng: np.random.Generator,
    *,
    leave_out: Sequence[str] = (),
    same_model: Mapping[str, str] | None = None,
    settings: DawidSkeneSettings | None = None,
) -> tuple[DawidSkene, ...]:
    """Shares of the classes without gold labels, for each intent, and over all intents.

    Harmful and benign items have confusion matrices of their own; targets have prevalences of their
    own. Errors are those of the sandwich variance over clusters (`latent_class.influence`),
    intervals Wilson's for as many trials as these are worth; a bootstrap would fit the model
    hundreds of times to estimate the same variance.

    Parameters
    ----------
    panel
        The verdicts.
    rng
        Decides starts and units.
    leave_out
        Judges that are made of others, such as the final label after a discussion.
    same_model
        Judge -> model behind it; judges of one model are declared to be dependent.
    settings
        See `DawidSkeneSettings`.

    Raises
    ------
    InputError
        For a judge that is not in the panel.
    """
    chosen = settings or DawidSkeneSettings()
    for name in (*leave_out, *(same_model or {})):
        panel.place(name)
    left = panel.select(judges=[name for name in panel.judges if name not in set(leave_out)])
    found = [
        _of_intent(left.select(rows=rows), intent or UNKNOWN, rng, chosen, same_model or {})
        for intent, rows in left.intents()
    ]
    if len(found) > 1 and all(row.fitted for row in found):
        found.append(_over_intents(found, chosen))
    return tuple(found)


def _of_intent(
    panel: Panel,
    intent: str,
    rng: np.random.Generator,
    settings: DawidSkeneSettings,
    same_model: Mapping[str, str],
) -> DawidSkene:
    data = _data(panel, rng, settings)
    head = (intent, data, distinct(panel.cluster[(panel.labels >= 0).any(axis=1)]))
    if len(data.classes) < 2:
        return _refused(*head, "all verdicts fall in one class")
    if len(data.names) < 3:
        reason = (
            f"not identified: {len(data.names)} of the three judges that it needs have verdicts;"
            " many prevalences and confusion matrices explain the labels of two equally well"
        )
        return _refused(*head, reason)
    if not identified(data.can_emit):
        reason = (
            f"not identified: {len(data.names)} judges with the classes that they can give leave"
            f" too few combinations of labels for {len(data.classes)} true classes"
        )
        return _refused(*head, reason)
    everyone = range(len(data.names))
    fitted, agreeing = _fit(data, everyone, rng, settings.starts)
    warnings = _named_otherwise(fitted.fit, data)
    pairs: tuple[JudgePair, ...] = ()
    if saturated(fitted.model):
        warnings.append(
            "Whether judges err together cannot be checked: the model has as many parameters as the"
            " labels have degrees of freedom."
        )
    else:
        pairs = pair_residuals(fitted, data.names)
    sensitivity = list(_sensitivities(data, fitted, pairs, rng))
    declared = _declared(data, same_model)
    if declared:
        sensitivity.append(_kept(data, "declared", declared, rng))
    warnings += _dependence_warnings(pairs, sensitivity)
    if not fitted.fit.converged:
        warnings.append("The fit did not converge; take its figures as approximate.")
    return DawidSkene(
        basis=BASIS,
        intent=intent,
        fitted=True,
        reason="",
        judges=data.names,
        classes=data.classes,
        responses=len(data.labels),
        clusters=head[2],
        prevalence=prevalences_of(fitted, data, by_target=True),
        confusion=confusions_of(fitted, data),
        pairs=pairs,
        sensitivity=tuple(sensitivity),
        starts_agreeing=agreeing,
        warnings=tuple(warnings),
    )


def _refused(intent: str, data: LatentData, clusters: int, reason: str) -> DawidSkene:
    return DawidSkene(
        basis=BASIS,
        intent=intent,
        fitted=False,
        reason=reason,
        judges=data.names,
        classes=data.classes,
        responses=len(data.labels),
        clusters=clusters,
    )


def _data(panel: Panel, rng: np.random.Generator, settings: DawidSkeneSettings) -> LatentData:
    labels = panel.labels
    seen = (labels >= 0).any(axis=1)
    active = np.flatnonzero((labels >= 0).any(axis=0))
    labels = labels[seen][:, active]
    used = np.bincount(labels[labels >= 0].astype(np.int64), minlength=len(panel.classes)) > 0
    recode = np.append(np.where(used, np.cumsum(used) - 1, -1), -1).astype(np.int8)
    target = panel.target.codes[seen]
    sizes = np.bincount(target + 1, minlength=len(panel.target.names) + 1)[1:]
    own = np.flatnonzero(sizes >= settings.fewest)
    place = np.full(len(sizes) + 1, len(own), np.int64)
    place[own] = np.arange(len(own))
    names: list[str | None] = [panel.target.names[code] for code in own]
    group = place[np.where(target >= 0, target, len(sizes))]
    if (group == len(own)).any():
        names.append(None)
    return LatentData(
        labels=np.ascontiguousarray(recode[labels]),
        group=group,
        unit=resampling_units(panel.cluster[seen], rng),
        can_emit=panel.can_emit[active][:, used],
        names=tuple(panel.judges[j] for j in active),
        classes=tuple(name for name, kept in zip(panel.classes, used, strict=True) if kept),
        targets=tuple(names),
        settings=settings,
    )


def _fit(
    data: LatentData, judges: Sequence[int], rng: np.random.Generator, starts: int
) -> tuple[Fitted, float]:
    """The best of several starts, and the share of the starts that reached it."""
    chosen = list(judges)
    labels, can_emit = data.labels[:, chosen], data.can_emit[chosen]
    groups, classes = len(data.targets), len(data.classes)
    patterns = distinct_patterns(labels, data.group, classes)
    model = Likelihood(patterns, can_emit, groups, data.settings.pseudo)
    trial = model
    if len(labels) > _SAMPLE and starts > 1:
        part = _sampled(data.unit, rng)
        few = distinct_patterns(labels[part], data.group[part], classes)
        trial = Likelihood(few, can_emit, groups, data.settings.pseudo)
    verdicts = (labels >= 0).sum(axis=0).astype(float)
    tried = [
        named_classes(trial.fit(trial.start(rng if place else None)), verdicts)
        for place in range(starts)
    ]
    best = max(tried, key=lambda one: one.objective)
    reached = sum(one.objective > best.objective - 1e-3 for one in tried) / starts
    if trial is not model:
        best = model.fit(model.expect(best.prevalence, best.confusion)[0])
        best = named_classes(best, verdicts)
    return Fitted(tuple(chosen), model, best, influence(model, best, data.unit), data.unit), reached


def _sampled(unit: IntArray, rng: np.random.Generator) -> BoolArray:
    """About as many responses as are tried, in whole units."""
    units = int(unit.max()) + 1
    most = max(2, int(units * _SAMPLE / len(unit)))
    chosen = np.zeros(units, bool)
    chosen[rng.permutation(units)[:most]] = True
    found: BoolArray = chosen[unit]
    return found


def _named_otherwise(fit: LatentClass, data: LatentData) -> list[str]:
    """Latent classes that most judges would not call by their name."""
    named = fit.confusion.mean(axis=0)
    return [
        (
            f"Judges give responses of the latent class {name!r} most often the label"
            f" {data.classes[int(row.argmax())]!r}: the class is in the model and hardly in labels."
        )
        for name, row, code in zip(data.classes, named, range(len(named)), strict=True)
        if row.argmax() != code
    ]


def _sensitivities(
    data: LatentData, fitted: Fitted, pairs: Sequence[JudgePair], rng: np.random.Generator
) -> list[Sensitivity]:
    if not any(pair.dependent for pair in pairs):
        return []
    part = data
    if len(data.labels) > _SAMPLE:
        rows = _sampled(data.unit, rng)
        unit = np.unique(data.unit[rows], return_inverse=True)[1].reshape(-1)
        part = LatentData(
            data.labels[rows],
            data.group[rows],
            unit.astype(np.int64),
            data.can_emit,
            data.names,
            data.classes,
            data.targets,
            data.settings,
        )
        fitted = _fit(part, fitted.judges, rng, 1)[0]

    def refit(judges: Sequence[int]) -> Fitted | None:
        if not identified(part.can_emit[list(judges)]):
            return None
        return _fit(part, judges, rng, 2)[0]

    return [
        _kept(data, search, groups, rng)
        for search, groups in find_groups(fitted, part.labels, data.names, refit)
    ]


def _declared(data: LatentData, same_model: Mapping[str, str]) -> tuple[tuple[int, ...], ...]:
    behind: dict[str, list[int]] = {}
    for place, name in enumerate(data.names):
        if name in same_model:
            behind.setdefault(same_model[name].casefold(), []).append(place)
    return tuple(tuple(group) for group in behind.values() if len(group) > 1)


def _kept(
    data: LatentData, found_by: str, groups: Sequence[Sequence[int]], rng: np.random.Generator
) -> Sensitivity:
    others = {j for group in groups for j in group[1:]}
    judges = [j for j in range(len(data.names)) if j not in others]
    prevalence: tuple[Prevalence, ...] = ()
    reason = ""
    if identified(data.can_emit[judges]):
        fitted, _ = _fit(data, judges, rng, data.settings.starts)
        prevalence = prevalences_of(fitted, data, by_target=False)
    else:
        reason = f"with one judge of each group {len(judges)} are left: not identified"
    named = tuple(tuple(data.names[j] for j in group) for group in groups)
    return Sensitivity(named, found_by, tuple(data.names[j] for j in judges), prevalence, reason)


def _dependence_warnings(
    pairs: Sequence[JudgePair], sensitivity: Sequence[Sensitivity]
) -> list[str]:
    dependent = sum(pair.dependent for pair in pairs)
    if not dependent:
        return []
    groups = dict.fromkeys(
        " + ".join(group)
        for row in sensitivity
        if row.found_by != "declared"
        for group in row.groups
    )
    which = f" Groups that would explain it: {'; '.join(groups)}." if groups else ""
    said = (
        f"{dependent} of {len(pairs)} pairs of judges agree beyond what a true class explains: they"
        f" are not that many judges, and the shares and intervals assume that they are.{which}"
    )
    return [said]


def _over_intents(found: Sequence[DawidSkene], settings: DawidSkeneSettings) -> DawidSkene:
    """Shares over all intents: those of each, by their numbers of responses."""
    total = sum(row.responses for row in found)
    classes = tuple(dict.fromkeys(name for row in found for name in row.classes))
    clusters = sum(row.clusters for row in found)
    shares = []
    for name in classes:
        parts = [
            (row.responses / total, one.share)
            for row in found
            for one in row.prevalence
            if one.target == "all" and one.name == name
        ]
        value = sum(weight * (one.estimate or 0.0) for weight, one in parts)
        errors = [one.standard_error for _, one in parts]
        if any(error is None for error in errors):
            figure = Figure.alone(value, "an intent has no standard error")
        else:
            square = sum((weight * (one.standard_error or 0.0)) ** 2 for weight, one in parts)
            figure = share_figure(value, float(np.sqrt(square)), total, clusters, settings.level)
        shares.append(Prevalence("all", name, total, figure))
    judges = tuple(dict.fromkeys(name for row in found for name in row.judges))
    return DawidSkene(
        basis=BASIS,
        intent="all",
        fitted=True,
        reason="",
        judges=judges,
        classes=classes,
        responses=total,
        clusters=clusters,
        prevalence=tuple(shares),
        starts_agreeing=min(row.starts_agreeing for row in found),
        warnings=("Each intent has confusion matrices of its own; see there for how judges err.",),
    )
