"""Studies, judges and response matrices with known truth."""

from __future__ import annotations

from safemetry.simulate.clusters import behaviour_spread, outcome_intraclass, simulate_clusters
from safemetry.simulate.factors import (
    CORRELATIONS,
    PASS_RATES,
    RESPONSE_TYPES,
    draw_abilities,
    expected_rate,
    solve_intercept,
)
from safemetry.simulate.judges import (
    LABELS,
    PANEL,
    SimulatedJudge,
    collapse_confusion,
    ordinal_confusion,
    simulate_calls,
    simulate_judges,
)
from safemetry.simulate.large import LARGE_COLUMNS, LargeStudy, simulate_large
from safemetry.simulate.matrix import (
    MISSING,
    MatrixSettings,
    MatrixTruth,
    SimulatedMatrix,
    response_probabilities,
    simulate_matrix,
    simulate_outcomes,
)
from safemetry.simulate.missing import LostResponses
from safemetry.simulate.organisms import (
    Organism,
    OrganismSettings,
    SimulatedOrganisms,
    simulate_organisms,
)
from safemetry.simulate.settings import SOURCES, ResponseType, StudySettings
from safemetry.simulate.study import SimulatedStudy, StudyTruth, simulate_study

__all__ = [
    "CORRELATIONS",
    "LABELS",
    "LARGE_COLUMNS",
    "MISSING",
    "PANEL",
    "PASS_RATES",
    "RESPONSE_TYPES",
    "SOURCES",
    "LargeStudy",
    "LostResponses",
    "MatrixSettings",
    "MatrixTruth",
    "Organism",
    "OrganismSettings",
    "ResponseType",
    "SimulatedJudge",
    "SimulatedMatrix",
    "SimulatedOrganisms",
    "SimulatedStudy",
    "StudySettings",
    "StudyTruth",
    "behaviour_spread",
    "collapse_confusion",
    "draw_abilities",
    "expected_rate",
    "ordinal_confusion",
    "outcome_intraclass",
    "response_probabilities",
    "simulate_calls",
    "simulate_clusters",
    "simulate_judges",
    "simulate_large",
    "simulate_matrix",
    "simulate_organisms",
    "simulate_outcomes",
    "simulate_study",
    "solve_intercept",
]
