"""What a score measures: saturation, spectrum, dimensionality, item differences, factors."""

from safemetry.construct.audit import audit_construct
from safemetry.construct.factors import FactorSettings, FactorsFinding, analyse_factors
from safemetry.construct.finding import ConstructFinding
from safemetry.construct.settings import ConstructSettings

__all__ = [
    "ConstructFinding",
    "ConstructSettings",
    "FactorSettings",
    "FactorsFinding",
    "analyse_factors",
    "audit_construct",
]
