"""Estimates of the latent class model as figures with intervals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.judges.agreement.figure import Figure
from safemetry.judges.latent.dependence import Fitted
from safemetry.judges.latent.latent_results import Confusion, DawidSkeneSettings, Prevalence
from safemetry.rates.intervals import wilson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

_FEW_EVENTS: Final = 5


@dataclass(frozen=True)
class LatentData:
    """The labels of one intent, as the model takes them.

    Parameters
    ----------
    labels
        Codes of `classes`, shape ``(R, J)``, -1 without a verdict.
    group
        Of each response: its target, or the last for targets with few responses; shape ``(R,)``.
    unit
        Independent unit, shape ``(R,)``.
    can_emit
        Shape ``(J, K)``.
    names, classes, targets
        Of judges, classes and groups; None for the targets with few responses.
    settings
        Of the fit.
    """

    labels: CodeArray
    group: IntArray
    unit: IntArray
    can_emit: BoolArray
    names: tuple[str, ...]
    classes: tuple[str, ...]
    targets: tuple[str | None, ...]
    settings: DawidSkeneSettings = field(default_factory=DawidSkeneSettings)


def prevalences_of(fitted: Fitted, data: LatentData, *, by_target: bool) -> tuple[Prevalence, ...]:
    """Shares of the classes over all targets and, if wanted, for each with enough responses."""
    share, (groups, classes) = fitted.fit.prevalence, fitted.fit.prevalence.shape
    sizes = np.bincount(data.group, minlength=groups)
    scopes: list[tuple[str, int, FloatArray]] = [("all", len(data.labels), sizes / sizes.sum())]
    if by_target:
        scopes += [
            (name, int(sizes[g]), np.eye(groups)[g])
            for g, name in enumerate(data.targets)
            if name is not None
        ]
    gradient = np.zeros((len(scopes) * classes, fitted.influence.inverse.shape[0]))
    for s, (_, _, weight) in enumerate(scopes):
        for c in range(classes):
            block = weight[:, None] * share[:, [c]] * (np.eye(classes)[c] - share)
            gradient[s * classes + c, : groups * classes] = block.ravel()
    values = np.concatenate([weight @ share for _, _, weight in scopes])
    held = np.repeat([float(n) for _, n, _ in scopes], classes)
    figures = _figures(fitted, (values, held), gradient, data.settings.level)
    return tuple(
        Prevalence(name, data.classes[c], n, figures[s * classes + c])
        for s, (name, n, _) in enumerate(scopes)
        for c in range(classes)
    )


def confusions_of(fitted: Fitted, data: LatentData) -> tuple[Confusion, ...]:
    """How often each judge gives each label to responses of each class."""
    classes, judges = len(data.classes), len(data.names)
    table = fitted.fit.confusion
    head, width = fitted.model.groups * classes, judges * classes
    cells = list(np.ndindex(judges, classes, classes))
    gradient = np.zeros((len(cells), fitted.influence.inverse.shape[0]))
    for row, (j, c, label) in enumerate(cells):
        place = head + c * width + j * classes
        away = np.eye(classes)[label] - table[j, c]
        gradient[row, place : place + classes] = table[j, c, label] * away
    values = np.array([table[cell] for cell in cells])
    posterior = fitted.model.expect(fitted.fit.prevalence, table)[0]
    patterns = fitted.model.patterns
    judged = (patterns.labels >= 0) * patterns.weight[:, None]
    held = np.repeat((judged.T @ posterior).ravel(), classes)
    figures = _figures(fitted, (values, held), gradient, data.settings.level)
    cannot = Figure.undefined("the judge cannot give this class")
    return tuple(
        Confusion(
            data.names[j],
            data.classes[c],
            data.classes[label],
            figures[row] if data.can_emit[j, label] else cannot,
        )
        for row, (j, c, label) in enumerate(cells)
    )


def _figures(
    fitted: Fitted, found: tuple[FloatArray, FloatArray], gradient: FloatArray, level: float
) -> list[Figure]:
    """Figures of probabilities and the numbers of responses that they are shares of."""
    units = int(np.unique(fitted.unit).size)
    values, sizes = found
    if units < 2:
        reason = "one cluster shows no spread between clusters"
        return [Figure.alone(float(value), reason) for value in values]
    moved = fitted.influence.of(gradient)
    errors = np.sqrt((moved * moved).sum(axis=0) * units / (units - 1))
    return [
        share_figure(float(value), float(error), float(size), units, level)
        for value, error, size in zip(values, errors, sizes, strict=True)
    ]


def share_figure(value: float, error: float, size: float, clusters: int, level: float) -> Figure:
    """A probability with Wilson's interval for as many trials as its error is worth.

    The error vanishes where (nearly) no response holds an event, which does not mean certainty:
    there clusters are the trials, as `rates.clusters` has it without events.
    """
    from scipy import special

    few = size * min(value, 1 - value) < _FEW_EVENTS
    most = max(min(size, clusters) if few else size, 1.0)
    worth = min(most, value * (1 - value) / max(error**2, 1e-18))
    tail = 0.5 + level / 2
    worth *= float(special.ndtri(tail) / special.stdtrit(max(clusters - 1, 1), tail)) ** 2
    low, high = wilson(value * worth, worth, level)
    return Figure(value, (float(low), float(high)), error)
