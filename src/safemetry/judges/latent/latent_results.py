"""What the latent class model shows: settings and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from safemetry.errors import InputError
from safemetry.judges.agreement.figure import Figure
from safemetry.judges.latent.dependence import JudgePair
from safemetry.rates.intervals import check_level


@dataclass(frozen=True)
class DawidSkeneSettings:
    """How the model is fitted.

    Parameters
    ----------
    level
        Two-sided confidence in (0, 1).
    pseudo
        Responses that the prior adds to each prevalence and each row of a confusion matrix, > 0.
    starts
        Number of starts, >= 1; the first is the share of the labels.
    fewest
        Responses that a target needs for prevalences of its own.
    """

    level: float = 0.95
    pseudo: float = 1.0
    starts: int = 6
    fewest: int = 30

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.pseudo <= 0:
            raise InputError(f"pseudo is {self.pseudo}", fix="give a number above 0")
        if self.starts < 1:
            raise InputError(f"{self.starts} starts cannot find anything", fix="give 1 or more")


@dataclass(frozen=True)
class Prevalence:
    """Share of a class among the responses of a target, or of all.

    Parameters
    ----------
    target
        ``all``, or a target.
    name
        The class.
    responses
        Number of responses.
    share
        The estimate.
    """

    target: str
    name: str
    responses: int
    share: Figure

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, the name as ``class``."""
        return {
            "target": self.target,
            "class": self.name,
            "responses": self.responses,
            "share": self.share.to_dict(),
        }


@dataclass(frozen=True)
class Confusion:
    """How often a judge gives a label to responses of a latent class.

    Parameters
    ----------
    judge, true, label
        Judge, latent class, label.
    probability
        The estimate.
    """

    judge: str
    true: str
    label: str
    probability: Figure


@dataclass(frozen=True)
class Sensitivity:
    """The shares with one judge of each group of dependent judges.

    Parameters
    ----------
    groups
        The groups, each with its representative first.
    found_by
        ``residual`` or ``agreement`` (see `dependence.find_groups`), or ``declared``.
    judges
        The judges that were kept.
    prevalence
        Shares of the classes over all targets; empty where the model is not identified.
    reason
        Why it is empty, else "".
    """

    groups: tuple[tuple[str, ...], ...]
    found_by: str
    judges: tuple[str, ...]
    prevalence: tuple[Prevalence, ...]
    reason: str


@dataclass(frozen=True)
class DawidSkene:
    """The model on the responses of one intent.

    Parameters
    ----------
    basis
        ``model-based``.
    intent
        Of the items; ``all`` for intents put together by their numbers of responses.
    fitted
        Whether there is an estimate.
    reason
        Why there is none, else "".
    judges, classes
        Judges with verdicts, and the classes that occur.
    responses, clusters
        Numbers.
    prevalence
        Shares of the classes, over all targets and for each target with enough responses.
    confusion
        Of each judge.
    pairs
        Residual agreement of judges, where it can be checked.
    sensitivity
        Shares with one judge of each group of dependent judges.
    starts_agreeing
        Share of the starts that reached the best maximum.
    warnings
        What a reader must know, in whole sentences.
    """

    basis: str
    intent: str
    fitted: bool
    reason: str
    judges: tuple[str, ...]
    classes: tuple[str, ...]
    responses: int
    clusters: int
    prevalence: tuple[Prevalence, ...] = ()
    confusion: tuple[Confusion, ...] = ()
    pairs: tuple[JudgePair, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    starts_agreeing: float = 0.0
    warnings: tuple[str, ...] = ()
