"""Settings of the factor analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from safemetry.construct.factors.extraction import Extraction
from safemetry.errors import InputError
from safemetry.irt.multidimensional.rotation import Rotation


class Measure(StrEnum):
    """What stands for a target on a benchmark whose items are known.

    ======= ==========================================================================
    name    value
    ======= ==========================================================================
    mean    mean outcome over the items that the target answered
    ability posterior mode of a one-dimensional calibration of the benchmark: 2PL, or
            graded where outcomes are ordered
    ======= ==========================================================================
    """

    MEAN = "mean"
    ABILITY = "ability"


class Missing(StrEnum):
    """Which targets a correlation is over.

    ======== ============================================
    name     targets
    ======== ============================================
    complete those that have a score on every benchmark
    pairwise those that have a score on the two benchmarks
    ======== ============================================
    """

    COMPLETE = "complete"
    PAIRWISE = "pairwise"


@dataclass(frozen=True)
class FactorSettings:
    """Settings of `analyse_factors`.

    Parameters
    ----------
    subjects
        Number of subjects of a correlation matrix; of scores and items it is counted.
    factors
        Most factors that are extracted. None: one more than parallel analysis keeps, as long as a
        degree of freedom is left.
    extraction, rotation
        How factors are found and turned; see `Extraction` and `Rotation`.
    measure
        What stands for a target on a benchmark.
    missing
        Which targets count. None: the complete ones if they are nine in ten, else pairwise.
    percentile
        Of random eigenvalues in the parallel analysis; None for their mean.
    replicates
        Random matrices of the parallel analysis.
    benign
        Benchmarks that are known to reward an answer, beside those whose items say so.
    cross_validate
        Whether models of the items are compared on held-out targets. None: if the items are known
        and there are at most 300,000 cells.
    dims
        Most dimensions explored among the items. None: one more than parallel analysis keeps, at
        least 2 and at most 6.
    restarts
        Starts of a fit in several dimensions.
    seed
        Of every draw.
    """

    subjects: int | None = None
    factors: int | None = None
    extraction: Extraction = Extraction.MINRES
    rotation: Rotation = Rotation.OBLIMIN
    measure: Measure = Measure.MEAN
    missing: Missing | None = None
    percentile: float | None = 95.0
    replicates: int = 1000
    benign: frozenset[str] = field(default_factory=frozenset)
    cross_validate: bool | None = None
    dims: int | None = None
    restarts: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in (
            ("extraction", Extraction),
            ("rotation", Rotation),
            ("measure", Measure),
            ("missing", Missing),
        ):
            value = getattr(self, name)
            if value is None:
                continue
            try:
                object.__setattr__(self, name, kind(value))
            except ValueError:
                raise InputError(
                    f"there is no {name} {value!r}", fix=f"use {', '.join(kind)}"
                ) from None
        for name, least in (("subjects", 3), ("factors", 1), ("dims", 1), ("replicates", 20)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}", fix=f"give {least} or more")
        object.__setattr__(self, "benign", frozenset(self.benign))

    def resolved(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Every setting as plain values, those left open as they were resolved."""
        return {
            "factors": self.factors,
            "extraction": str(self.extraction),
            "rotation": str(self.rotation),
            "kaiser": False,
            "measure": str(self.measure),
            "missing": None if self.missing is None else str(self.missing),
            "percentile": self.percentile,
            "replicates": self.replicates,
            "benign": sorted(self.benign),
            "cross_validate": self.cross_validate,
            "dims": self.dims,
            "restarts": self.restarts,
            "seed": self.seed,
            **found,
        }
