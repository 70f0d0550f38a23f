"""Choosing the items of a static form: by information, exactly or greedily, and the baselines."""

from safemetry.forms.selection.anchors import Anchors, select_anchors
from safemetry.forms.selection.baselines import (
    outcome_variances,
    select_discrimination,
    select_variance,
)
from safemetry.forms.selection.dispatch import Method, Selection, select
from safemetry.forms.selection.draws import random_forms, select_random
from safemetry.forms.selection.exact import ExactForm, select_exact
from safemetry.forms.selection.greedy import select_greedy
from safemetry.forms.selection.objective import Criterion, Objective, Wished, criterion
from safemetry.forms.selection.parallel import ParallelForms, parallel_forms

__all__ = [
    "Anchors",
    "Criterion",
    "ExactForm",
    "Method",
    "Objective",
    "ParallelForms",
    "Selection",
    "Wished",
    "criterion",
    "outcome_variances",
    "parallel_forms",
    "random_forms",
    "select",
    "select_anchors",
    "select_discrimination",
    "select_exact",
    "select_greedy",
    "select_random",
    "select_variance",
]
