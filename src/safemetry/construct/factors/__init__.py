"""Common factors behind several benchmarks."""

from safemetry.construct.factors.analyse import analyse_factors
from safemetry.construct.factors.extraction import Extraction, extract
from safemetry.construct.factors.finding import FactorsFinding
from safemetry.construct.factors.parallel import parallel_analysis
from safemetry.construct.factors.settings import FactorSettings, Measure, Missing

__all__ = [
    "Extraction",
    "FactorSettings",
    "FactorsFinding",
    "Measure",
    "Missing",
    "analyse_factors",
    "extract",
    "parallel_analysis",
]
