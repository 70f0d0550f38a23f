"""One row for each model: its losses, criteria, starts and rank."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from safemetry.construct.dimensions.full_fits import FullFit
from safemetry.construct.dimensions.held_out import ModelLosses
from safemetry.construct.dimensions.losses import HeldOutLoss
from safemetry.irt.parameters import FloatArray


@dataclass(frozen=True)
class SplitSummary:
    """A loss over S splits.

    Parameters
    ----------
    mean
        Mean over splits.
    sd
        Standard deviation between splits; None for one split.
    splits
        The loss in each split.
    """

    mean: float
    sd: float | None
    splits: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with `why` where there is no standard deviation."""
        found: dict[str, Any] = {"mean": self.mean, "sd": self.sd, "splits": list(self.splits)}
        return found | ({"why": {"sd": "one split"}} if self.sd is None else {})


@dataclass(frozen=True)
class StartSpread:
    """How much a loss depends on the start.

    Parameters
    ----------
    sd
        Root mean over splits of the variance between starts; None for one start.
    min, max
        Mean over splits of the lowest and of the highest loss of any start.
    """

    sd: float | None
    min: float
    max: float


@dataclass(frozen=True)
class ModelRow:
    """One model in the table.

    Parameters
    ----------
    name, dims, item_model, kind
        The model: its number of dimensions, and ``"marginal"``, ``"exploratory"`` or
        ``"confirmatory"``.
    log_loss, brier
        Of held-out responses, from the start with the lowest training loss in each split.
    loglik, loglik_error, loglik_kind, parameters
        Of the fit to all responses, without priors.
    aic, bic, bic_n, bic_responses
        Criteria; `bic` with n the number of targets, `bic_n`, and `bic_responses` with n the number
        of responses.
    approximate
        Whether priors held the fit away from the largest likelihood, which favours no criterion.
    starts
        Starts in each split.
    restarts, restarts_training
        Spread over starts of the held-out and of the training log loss.
    converged, fits
        Fits that met the tolerance, of how many.
    rank
        By held-out log loss, from 1; None for a model that failed the nesting check.
    why
        Why a field is None.
    """

    name: str
    dims: int
    item_model: str
    kind: str
    log_loss: SplitSummary
    brier: SplitSummary
    loglik: float
    loglik_error: float
    loglik_kind: str
    parameters: int
    aic: float
    bic: float
    bic_n: int
    bic_responses: float
    approximate: bool
    starts: int
    restarts: StartSpread
    restarts_training: StartSpread
    converged: int
    fits: int
    rank: int | None
    why: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields: the spread over starts as one mapping."""
        found = {name: value for name, value in self.__dict__.items() if name != "why"}
        one_start = {"why": {"sd": "one start"}} if self.restarts.sd is None else {}
        found["restarts"] = {
            "count": self.starts,
            **self.restarts.__dict__,
            "training": {**self.restarts_training.__dict__, **one_start},
            **one_start,
        }
        del found["restarts_training"], found["starts"]
        return found | ({"why": self.why} if self.why else {})


def model_table(
    losses: Sequence[ModelLosses], fits: Sequence[FullFit], not_ranked: Collection[str] = ()
) -> tuple[ModelRow, ...]:
    """Rows in the order of the models.

    Parameters
    ----------
    losses, fits
        Of the same models.
    not_ranked
        Names of models that fail the nesting check.
    """
    means = {found.model.name: found.mean for found in losses}
    order = sorted((name for name in means if name not in not_ranked), key=means.__getitem__)
    places = {name: place for place, name in enumerate(order, start=1)}
    return tuple(
        _row(found, fit, places.get(found.model.name))
        for found, fit in zip(losses, fits, strict=True)
    )


def summarise(values: Sequence[float]) -> SplitSummary:
    """Mean and standard deviation over splits."""
    array = np.asarray(values, np.float64)
    sd = float(array.std(ddof=1)) if len(array) > 1 else None
    return SplitSummary(float(array.mean()), sd, tuple(map(float, array)))


def start_spread(values: FloatArray) -> StartSpread:
    """Spread over starts of losses of shape ``(S, R)``.

    Examples
    --------
    >>> spread = start_spread(np.array([[0.25, 0.5], [0.75, 1.0]]))
    >>> spread.min, spread.max, round(spread.sd, 4)
    (0.5, 0.75, 0.1768)
    """
    sd = float(np.sqrt(values.var(axis=1, ddof=1).mean())) if values.shape[1] > 1 else None
    return StartSpread(sd, float(values.min(axis=1).mean()), float(values.max(axis=1).mean()))


def _row(found: ModelLosses, fit: FullFit, rank: int | None) -> ModelRow:
    model, best, criteria = found.model, found.best, fit.criteria
    every: list[HeldOutLoss] = [loss for fits in found.starts for loss in fits]
    kind = "marginal" if model.marginal else "exploratory"
    unranked = {"rank": "it fits all responses worse than a model that it contains"}
    return ModelRow(
        name=model.name,
        dims=model.dimensions,
        item_model=str(model.item_model.value),
        kind=kind if model.structure is None else "confirmatory",
        log_loss=summarise([loss.log_loss for loss in best]),
        brier=summarise([loss.brier for loss in best]),
        loglik=fit.loglik,
        loglik_error=fit.loglik_error,
        loglik_kind=fit.loglik_kind,
        parameters=fit.parameters,
        aic=criteria.aic,
        bic=criteria.bic_targets,
        bic_n=len(fit.targets),
        bic_responses=criteria.bic_responses,
        approximate=criteria.approximate,
        starts=len(found.starts[0]),
        restarts=start_spread(_table(found, "log_loss")),
        restarts_training=start_spread(_table(found, "training_loss")),
        converged=sum(loss.converged for loss in every),
        fits=len(every),
        rank=rank,
        why={} if rank is not None else unranked,
    )


def _table(found: ModelLosses, name: str) -> FloatArray:
    return np.array([[getattr(loss, name) for loss in fits] for fits in found.starts])
