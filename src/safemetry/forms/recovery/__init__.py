"""The full score recovered from the responses to a form."""

from safemetry.forms.recovery.expectation import (
    ExpectedScores,
    expected_full_scores,
    expected_own_scores,
    form_means,
    own_means,
)
from safemetry.forms.recovery.linear import blend_share, linear_own_scores, linear_scores
from safemetry.forms.recovery.mixture import mixed, mixture_weight
from safemetry.forms.recovery.regression import Recalibration, fit_recalibration
from safemetry.forms.recovery.table import ScoreTable, full_scores, score_table

__all__ = [
    "ExpectedScores",
    "Recalibration",
    "ScoreTable",
    "blend_share",
    "expected_full_scores",
    "expected_own_scores",
    "fit_recalibration",
    "form_means",
    "full_scores",
    "linear_own_scores",
    "linear_scores",
    "mixed",
    "mixture_weight",
    "own_means",
    "score_table",
]
