"""Adaptive tests: the next item depends on the answers so far."""

from safemetry.forms.adaptive.classification import cut_ability, mean_score
from safemetry.forms.adaptive.evaluation import (
    AdaptiveEvaluation,
    ClassificationErrors,
    evaluate_sessions,
    exposure_rates,
    measure_classification,
    overlap_rate,
    predicted_scores,
)
from safemetry.forms.adaptive.exposure import ExposureControl, control_exposure
from safemetry.forms.adaptive.process import AdaptiveTest, make_test
from safemetry.forms.adaptive.session import (
    UNSCORED,
    Session,
    answer,
    next_item,
    pool_digest,
    resume_session,
    start_session,
)
from safemetry.forms.adaptive.settings import (
    AdaptiveSettings,
    Balance,
    Classification,
    Exposure,
    Lattice,
    Start,
)
from safemetry.forms.adaptive.simulation import Sessions, simulate_codes, simulate_sessions
from safemetry.forms.adaptive.stopping import Decision, Stop

__all__ = [
    "UNSCORED",
    "AdaptiveEvaluation",
    "AdaptiveSettings",
    "AdaptiveTest",
    "Balance",
    "Classification",
    "ClassificationErrors",
    "Decision",
    "Exposure",
    "ExposureControl",
    "Lattice",
    "Session",
    "Sessions",
    "Start",
    "Stop",
    "answer",
    "control_exposure",
    "cut_ability",
    "evaluate_sessions",
    "exposure_rates",
    "make_test",
    "mean_score",
    "measure_classification",
    "next_item",
    "overlap_rate",
    "pool_digest",
    "predicted_scores",
    "resume_session",
    "simulate_codes",
    "simulate_sessions",
    "start_session",
]
