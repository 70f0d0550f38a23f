"""Measures what AI-safety evaluations really show."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from safemetry.audits import audit_target
    from safemetry.claims import Claim, Scope, require_comparable
    from safemetry.construct import analyse_factors, audit_construct
    from safemetry.errors import (
        InputError,
        MissingExtraError,
        MixedIntentError,
        SafemetryError,
        ScopeMismatchError,
    )
    from safemetry.evidence.evidence import Evidence, as_evidence
    from safemetry.evidence.maps import EvidenceMap, read_map
    from safemetry.evidence.matrix import ResponseMatrix, response_matrix
    from safemetry.evidence.study import Study
    from safemetry.evidence.success import SuccessRule
    from safemetry.forms import shorten, simulate_adaptive
    from safemetry.irt import calibrate
    from safemetry.judges import audit_judges
    from safemetry.rates import (
        compare_rates,
        count_labels,
        cover,
        find_items,
        measure_rates,
        plan_trials,
    )
    from safemetry.readers import read_evidence, read_texts
    from safemetry.report import compose_report

__version__: str

_HOMES = {
    "Claim": "claims",
    "Scope": "claims",
    "require_comparable": "claims",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "MixedIntentError": "errors",
    "SafemetryError": "errors",
    "ScopeMismatchError": "errors",
    "Evidence": "evidence.evidence",
    "as_evidence": "evidence.evidence",
    "EvidenceMap": "evidence.maps",
    "read_map": "evidence.maps",
    "ResponseMatrix": "evidence.matrix",
    "response_matrix": "evidence.matrix",
    "Study": "evidence.study",
    "SuccessRule": "evidence.success",
    "calibrate": "irt",
    "analyse_factors": "construct",
    "audit_construct": "construct",
    "audit_judges": "judges",
    "audit_target": "audits",
    "shorten": "forms",
    "simulate_adaptive": "forms",
    "compare_rates": "rates",
    "compose_report": "report",
    "count_labels": "rates",
    "cover": "rates",
    "find_items": "rates",
    "measure_rates": "rates",
    "plan_trials": "rates",
    "read_evidence": "readers",
    "read_texts": "readers",
}

__all__ = [
    "Claim",
    "Evidence",
    "EvidenceMap",
    "InputError",
    "MissingExtraError",
    "MixedIntentError",
    "ResponseMatrix",
    "SafemetryError",
    "Scope",
    "ScopeMismatchError",
    "Study",
    "SuccessRule",
    "__version__",
    "analyse_factors",
    "as_evidence",
    "audit_construct",
    "audit_judges",
    "audit_target",
    "calibrate",
    "compare_rates",
    "compose_report",
    "count_labels",
    "cover",
    "find_items",
    "measure_rates",
    "plan_trials",
    "read_evidence",
    "read_map",
    "read_texts",
    "require_comparable",
    "response_matrix",
    "shorten",
    "simulate_adaptive",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import safemetry` stays light."""
    if name == "__version__":
        return import_module("importlib.metadata").version("safemetry")
    if name in _HOMES:
        return getattr(import_module(f"safemetry.{_HOMES[name]}"), name)
    msg = f"module 'safemetry' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
