"""Settings of `audit_construct`, checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safemetry.errors import InputError
from safemetry.tasks import TaskSettings

FEWEST_SIMULATIONS = 19
"""With fewer draws no 95th percentile exists."""


@dataclass(frozen=True)
class ConstructSettings:
    """Settings of `audit_construct`.

    Parameters
    ----------
    structures
        Name of a structure -> item -> its dimension, such as the type of response or the domain of
        harm; each is one confirmatory model.
    groups
        Name of a grouping -> target -> its group, for item differences.
    clusters
        Target -> its family, for targets that are not independent; near-duplicates are looked for
        where it is empty.
    splits, share
        How often, and which share of the responses, is held out.
    restarts
        Starts of every variational fit.
    max_dims
        Most dimensions that are explored.
    null_sets
        Data sets simulated from the fitted one-dimensional model for the verdict, at least 99.
    replicates, percentile, correlation
        Draws of the null spectra, their percentile, and ``pearson`` or ``tetrachoric``.
    simulations, level
        Matrices simulated for the thresholds of item differences, and their error rate.
    minimum_group
        Fewest targets of a group whose items are compared.
    published
        Name of a model -> published log loss, to name where the order departs.
    seed
        Of the splits (split s uses `seed` + s) and of every draw.
    jobs, resume, quiet
        Worker processes, the directory in which finished tasks are kept, and whether progress is
        left out; none of these changes a result.
    """

    structures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    splits: int = 5
    share: float = 0.2
    restarts: int = 20
    max_dims: int = 10
    null_sets: int = 99
    replicates: int = 500
    percentile: float = 95.0
    correlation: Literal["pearson", "tetrachoric"] = "pearson"
    simulations: int = 5000
    level: float = 0.05
    minimum_group: int = 10
    seed: int = 2026
    jobs: int | None = None
    resume: Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        least: dict[str, int] = {
            "splits": 2,
            "restarts": 1,
            "max_dims": 1,
            "null_sets": 99,
            "replicates": FEWEST_SIMULATIONS,
            "simulations": FEWEST_SIMULATIONS,
            "minimum_group": 2,
            "seed": 0,
        }
        for name, low in least.items():
            value = getattr(self, name)
            if value < low:
                raise InputError(f"{name} is {value}", fix=f"give {low} or more")
        for name, high in (("share", 1.0), ("level", 1.0), ("percentile", 100.0)):
            value = getattr(self, name)
            if not 0 < value < high:
                raise InputError(
                    f"{name} is {value:g}", fix=f"give a number between 0 and {high:g}"
                )
        if self.correlation not in {"pearson", "tetrachoric"}:
            raise InputError(
                f"there is no correlation {self.correlation!r}", fix="use pearson or tetrachoric"
            )

    def tasks(self, label: str) -> TaskSettings:
        """How independent tasks run, with the word that stands beside their progress."""
        return TaskSettings(jobs=self.jobs, resume=self.resume, quiet=self.quiet, label=label)

    def resolved(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        return {
            "structures": {name: len(set(held.values())) for name, held in self.structures.items()},
            "groups": sorted(self.groups),
            "published": dict(self.published),
            "clusters": len(set(self.clusters.values())),
            "splits": self.splits,
            "share": self.share,
            "restarts": self.restarts,
            "max_dims": self.max_dims,
            "null_sets": self.null_sets,
            "replicates": self.replicates,
            "percentile": self.percentile,
            "correlation": self.correlation,
            "simulations": self.simulations,
            "level": self.level,
            "minimum_group": self.minimum_group,
            "seed": self.seed,
        }
