"""Forms evaluated on held-out targets, against random forms of the same length."""

from safemetry.forms.evaluation.evaluate import (
    FormEvaluation,
    HeldOutScores,
    evaluate_forms,
    run_evaluation,
)
from safemetry.forms.evaluation.predictive import select_predictive
from safemetry.forms.evaluation.rows import (
    EvaluationRow,
    RandomBand,
    RandomCatch,
    random_catches,
)
from safemetry.forms.evaluation.settings import METHODS, RECOVERIES, EvaluationSettings

__all__ = [
    "METHODS",
    "RECOVERIES",
    "EvaluationRow",
    "EvaluationSettings",
    "FormEvaluation",
    "HeldOutScores",
    "RandomBand",
    "RandomCatch",
    "evaluate_forms",
    "random_catches",
    "run_evaluation",
    "select_predictive",
]
