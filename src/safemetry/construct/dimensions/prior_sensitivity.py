"""How much of a held-out loss is the prior's doing.

A baseline of one dimension can be made to look poor by a prior that pulls all items to the same
difficulty; several dimensions then seem to gain what the prior took away. The same model is
therefore fitted under priors from none to tight, and a loss that is worse than that of the default
is flagged. The same is done for the learned prior of one model of several dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from safemetry.construct.dimensions.joint_mode import DifficultyPrior, fit_joint_mode
from safemetry.construct.dimensions.losses import predict_marginally
from safemetry.construct.dimensions.model_table import SplitSummary, summarise
from safemetry.construct.dimensions.models import CandidateModel
from safemetry.construct.dimensions.paired import corrected_interval
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.hierarchy import HierarchicalPrior
from safemetry.irt.multidimensional.result import score_held_out
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import BoolArray, FloatArray, ItemModel
from safemetry.irt.priors import ItemPriors, LogNormal, Normal
from safemetry.irt.responses import Responses
from safemetry.tasks import Task, TaskSettings, run_tasks

LEAST_DIFFERENCE: Final = 0.005
"""Nats a response that matter, as in the verdict."""

DEFAULT: Final = "default"
FREE: Final = "b and a free"
AnyPrior = ItemPriors | DifficultyPrior | HierarchicalPrior

ONE_DIMENSION_PRIORS: Final[Mapping[str, ItemPriors | DifficultyPrior]] = {
    DEFAULT: ItemPriors(),
    FREE: DifficultyPrior(None, None),
    "b ~ N(0, 3), a ~ LogNormal(0, 1)": DifficultyPrior(3.0, 1.0),
    "b ~ N(0, 2), a ~ LogNormal(0, .5)": DifficultyPrior(2.0, 0.5),
    "b ~ N(0, 1), a ~ LogNormal(0, .5)": DifficultyPrior(1.0, 0.5),
    "b ~ N(0, .5), a ~ LogNormal(0, .5)": DifficultyPrior(0.5, 0.5),
    "b ~ N(0, 2), a ~ LogNormal(0, .1)": DifficultyPrior(2.0, 0.1),
    "b ~ N(0, .1), a ~ LogNormal(0, .5)": DifficultyPrior(0.1, 0.5),
    "b ~ N(0, .1), a ~ LogNormal(0, .1)": DifficultyPrior(0.1, 0.1),
    "d ~ N(0, .1), a ~ LogNormal(0, .1)": ItemPriors(LogNormal(0.0, 0.1), Normal(0.0, 0.1)),
}
"""Priors of the 2PL: `ItemPriors` by marginal likelihood, `DifficultyPrior` at the joint mode."""

SEVERAL_DIMENSIONS_PRIORS: Final[Mapping[str, HierarchicalPrior]] = {
    DEFAULT: HierarchicalPrior(),
    "wide, learned": HierarchicalPrior(2.0, 5.0, slope_reach=10.0, intercept_reach=20.0),
    "wide, fixed": HierarchicalPrior(
        3.0, 5.0, weight=1e4, components=1, slope_reach=10.0, intercept_reach=20.0
    ),
    "tight, learned": HierarchicalPrior(0.1, 0.5, weight=1e3),
    "tight, fixed": HierarchicalPrior(0.1, 0.1, weight=1e5, components=1),
}
"""Priors of the variational fit; a fixed one has so many pseudo-items that nothing is learned."""


@dataclass(frozen=True)
class PriorRow:
    """One model under one prior.

    Parameters
    ----------
    model
        ``"1D 2PL"``, or the name of the model of several dimensions.
    prior
        The prior in words; ``default`` is that of the comparison of models.
    estimator
        ``marginal`` (abilities integrated out), ``joint_mode`` (abilities and items at the mode of
        their joint density) or ``variational``.
    log_loss
        Held-out log loss.
    difference, interval
        Mean loss less that of the default, in nats, and its interval (`corrected_interval`).
    flagged
        Whether the loss is worse than that of the default: by at least .005 nats, and with an
        interval above 0.
    why
        What that means, a sentence.
    """

    model: str
    prior: str
    estimator: Literal["marginal", "joint_mode", "variational"]
    log_loss: SplitSummary
    difference: float
    interval: tuple[float, float]
    flagged: bool
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Plain fields."""
        found: dict[str, Any] = {name: plain(value) for name, value in self.__dict__.items()}
        return found


def prior_sensitivity(
    responses: Responses,
    masks: BoolArray,
    several: CandidateModel | None = None,
    *,
    tasks: TaskSettings | None = None,
) -> tuple[PriorRow, ...]:
    """Held-out losses of the 2PL, and of one model of several dimensions, under other priors.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing; shape ``(N, J)``.
    masks
        Cells held out in each of S >= 2 splits, shape ``(S, N, J)``.
    several
        Model of several dimensions, such as the best structure; None leaves it out.
    tasks
        Workers, resuming and progress.

    Returns
    -------
    tuple of PriorRow
        The default first for each model.

    Raises
    ------
    InputError
        For fewer than two splits, or a split that holds out no response.
    """
    if len(masks) < 2:
        raise InputError(f"{len(masks)} split has no spread", fix="give 2 splits or more")
    if not (masks & responses.observed).any(axis=(1, 2)).all():
        raise InputError("a split holds out no response", fix="hold out more cells")
    asked: list[tuple[str, str, AnyPrior, CandidateModel | None]] = [
        ("1D 2PL", name, prior, None) for name, prior in ONE_DIMENSION_PRIORS.items()
    ]
    if several is not None:
        asked += [
            (several.name, name, prior, several)
            for name, prior in SEVERAL_DIMENSIONS_PRIORS.items()
        ]
    waiting = [
        Task(f"{model}, {name}, split {split}", {"prior": prior, "model": held, "held_out": mask})
        for model, name, prior, held in asked
        for split, mask in enumerate(masks)
    ]
    shared = {"responses": responses}
    found = np.array(run_tasks(loss_under, waiting, shared=shared, settings=tasks))
    losses = dict(
        zip([entry[:2] for entry in asked], found.reshape(len(asked), len(masks)), strict=True)
    )
    ratios = [mask[responses.observed].mean() for mask in masks]
    share = float(np.mean(ratios))
    return tuple(
        _row((model, name), _estimator(prior), losses, share / (1 - share))
        for model, name, prior, _ in asked
    )


def loss_under(
    *,
    rng: np.random.Generator,
    responses: Responses,
    prior: AnyPrior,
    model: CandidateModel | None,
    held_out: BoolArray,
) -> float:
    """Held-out log loss of one model under one prior in one split, as a task.

    Parameters
    ----------
    rng
        Not used: every fit has one start.
    responses
        Codes 0 and 1, or -1 where missing; shape ``(N, J)``.
    prior
        Its type decides the estimator.
    model
        Of several dimensions, for a `HierarchicalPrior`.
    held_out
        Cells to be predicted, shape ``(N, J)``.
    """
    del rng
    training = responses.without(held_out)
    if isinstance(prior, HierarchicalPrior):
        settings = DimensionalSettings(priors=prior, likelihood=False)
        dims = 1 if model is None else model.dims
        probabilities = fit_multidimensional(training, dims, settings).probabilities()
    elif isinstance(prior, DifficultyPrior):
        probabilities = fit_joint_mode(training, prior).probabilities
    else:
        probabilities = predict_marginally(training, ItemModel.TWO_PL, prior).probabilities
    cells = held_out & responses.observed
    codes = responses.codes.astype(np.float64)
    return score_held_out(codes, cells, probabilities, probabilities).log_loss


def flagged_sentence(rows: Sequence[PriorRow]) -> str:
    """How far priors alone move a loss, in words.

    Parameters
    ----------
    rows
        Of `prior_sensitivity`.
    """
    one = [row for row in rows if row.model == "1D 2PL"]
    worst = max(one, key=lambda row: row.difference)
    flagged = sum(row.flagged for row in one)
    if not flagged:
        return "No prior that was tried makes the 2PL of one dimension much worse than the default."
    least = min(row.log_loss.mean for row in one)
    return (
        f"Priors alone move the held-out loss of the 2PL of one dimension from {least:.3f} to "
        f"{worst.log_loss.mean:.3f} ({worst.prior}); {flagged} of {len(one)} are worse than the "
        f"default by {LEAST_DIFFERENCE:g} or more."
    )


def _estimator(prior: AnyPrior) -> Literal["marginal", "joint_mode", "variational"]:
    if isinstance(prior, HierarchicalPrior):
        return "variational"
    return "joint_mode" if isinstance(prior, DifficultyPrior) else "marginal"


def _row(
    place: tuple[str, str],
    estimator: Literal["marginal", "joint_mode", "variational"],
    losses: Mapping[tuple[str, str], FloatArray],
    test_to_train: float,
) -> PriorRow:
    model, name = place
    differences = losses[place] - losses[model, DEFAULT]
    interval = corrected_interval(differences, test_to_train=test_to_train)
    assert interval is not None  # noqa: S101 - at least two splits were asked for above
    difference = float(differences.mean())
    flagged = difference >= LEAST_DIFFERENCE and interval[0] > 0
    return PriorRow(
        model=model,
        prior=name,
        estimator=estimator,
        log_loss=summarise([float(value) for value in losses[place]]),
        difference=difference,
        interval=interval,
        flagged=flagged,
        why=_sentence(model, name, difference, flagged=flagged),
    )


def _sentence(model: str, name: str, difference: float, *, flagged: bool) -> str:
    if name == DEFAULT:
        return "The prior of the comparison of models."
    if not flagged:
        return f"Within reach of the default ({difference:+.4f} nats)."
    if name == FREE:
        return (
            f"Without a prior the loss is {difference:.4f} nats worse than the default's: items "
            "that separate the targets have no finite best value."
        )
    subject = "a 1D baseline" if model == "1D 2PL" else "a model"
    said = f"{subject} this much worse than the default's ({difference:+.4f} nats) is the prior's"
    lead = said[0].upper() + said[1:]
    if model == "1D 2PL":
        return f"{lead} doing: against it, several dimensions gain what the prior took away."
    return f"{lead} doing."
