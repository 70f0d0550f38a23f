"""What `analyse_factors` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from safemetry.construct.factors.benchmarks import Benchmark
from safemetry.construct.factors.coherence import Coherence
from safemetry.construct.factors.correlations import Correlations
from safemetry.construct.factors.extraction import smallest_eigenvalue
from safemetry.construct.factors.parallel import Kind, ParallelAnalysis
from safemetry.construct.factors.prediction import TargetPrediction
from safemetry.construct.factors.solutions import Solution
from safemetry.findings import Finding

SOURCES: Final = (
    (
        "Harman, H. H. & Jones, W. H. (1966). Factor analysis by minimizing residuals (minres). "
        "Psychometrika 31, 351-368."
    ),
    (
        "Jöreskog, K. G. (1967). Some contributions to maximum likelihood factor analysis. "
        "Psychometrika 32, 443-482."
    ),
    (
        "Jennrich, R. I. & Sampson, P. F. (1966). Rotation for simple loadings. Psychometrika 31, "
        "313-323."
    ),
    (
        "Horn, J. L. (1965). A rationale and test for the number of factors in factor analysis. "
        "Psychometrika 30, 179-185."
    ),
    (
        "Heywood, H. B. (1931). On finite sequences of real numbers. Proceedings of the Royal "
        "Society A 134, 486-501."
    ),
    (
        "Bentler, P. M. (1990). Comparative fit indexes in structural models. Psychological "
        "Bulletin 107, 238-246."
    ),
)


_IMPOSSIBLE: Final = {
    "correlations": "no scores of one set of subjects have such correlations",
    **dict.fromkeys(("scores", "items"), "its pairs are over too different targets"),
}


@dataclass(frozen=True)
class Alternative:
    """The same analysis with the other measure of a benchmark.

    Parameters
    ----------
    measure
        ``mean`` or ``ability``.
    correlations
        Of the same benchmarks.
    parallel
        Kind of eigenvalues -> how many stand out.
    largest_change
        Of a correlation, against the measure that was used.
    """

    measure: str
    correlations: Correlations
    parallel: Mapping[str, int]
    largest_change: float

    def to_dict(self) -> dict[str, Any]:
        """The entry of the finding."""
        return {
            "measure": self.measure,
            "benchmarks": list(self.correlations.names),
            "subjects": self.correlations.subjects,
            "correlation_matrix": self.correlations.values.tolist(),
            "parallel": dict(self.parallel),
            "largest_change": self.largest_change,
        }


@dataclass(frozen=True, kw_only=True)
class FactorsFinding(Finding):
    """Common factors behind several benchmarks.

    Parameters
    ----------
    given
        ``correlations``, ``scores`` or ``items``.
    correlations
        What was analysed.
    benchmarks
        Its variables.
    left_out
        Benchmark -> why it has no part.
    solutions
        With one factor, two, and so on.
    parallel
        Parallel analysis of common factors and of components.
    coherence
        How each benchmark goes with the others.
    alternatives
        The same with the other measure of a benchmark.
    cross_validation
        Models of the items, compared on targets that they have not seen; None with its reason in
        `why`.
    """

    command: ClassVar[str] = "factors"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    given: str
    correlations: Correlations
    benchmarks: tuple[Benchmark, ...]
    left_out: Mapping[str, str]
    solutions: tuple[Solution, ...]
    parallel: Mapping[Kind, ParallelAnalysis]
    coherence: tuple[Coherence, ...]
    alternatives: tuple[Alternative, ...] | None
    cross_validation: TargetPrediction | None
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def factor_parallel(self) -> ParallelAnalysis:
        """The parallel analysis that matches the extraction."""
        return self.parallel[Kind(self.settings["extraction"])]

    @property
    def suggested(self) -> Solution:
        """The solution with as many factors as parallel analysis keeps, or the nearest to it."""
        kept = max(self.factor_parallel.factors, 1)
        return min(self.solutions, key=lambda solution: abs(solution.factors - kept))

    @property
    def several(self) -> bool | None:
        """Whether one score would mix several dimensions; None where the matrix is impossible.

        Several common factors stand out, or a benchmark shares almost nothing with the rest, or
        several dimensions of the items predict held-out targets better than one.
        """
        items = self.cross_validation
        if self.correlations.impossible:
            return None
        return (
            self.factor_parallel.factors > 1
            or any(row.unrelated for row in self.coherence)
            or (items is not None and items.beats_one_dimension)
        )

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per number of factors, without the loadings."""
        kept = ("factors", "variance", "rmsea", "cfi", "tli", "srmr", "chi_square", "df", "p_value")
        return [
            {**{name: row[name] for name in kept}, "heywood": row["heywood"]}
            for row in (solution.to_dict() for solution in self.solutions)
        ]

    def own_keys(self) -> dict[str, Any]:
        """The keys of the contract."""
        why = dict(self.why)
        if self.several is None:
            why["several_dimensions"] = "the correlation matrix is far from positive definite"
        return {
            "input": self.given,
            "subjects": self.correlations.subjects,
            "benchmarks": [benchmark.to_dict() for benchmark in self.benchmarks],
            "left_out": dict(self.left_out),
            "correlation_matrix": self.correlations.values.tolist(),
            "pair_subjects": self.correlations.pairs.tolist(),
            "solutions": [solution.to_dict() for solution in self.solutions],
            "suggested_factors": self.suggested.factors,
            "several_dimensions": self.several,
            "parallel": self._parallel(),
            "coherence": [_coherence(row) for row in self.coherence],
            "alternatives": None
            if self.alternatives is None
            else [row.to_dict() for row in self.alternatives],
            "cross_validation": None
            if self.cross_validation is None
            else self.cross_validation.to_dict(),
            **({"why": why} if why else {}),
        }

    def _parallel(self) -> dict[str, Any]:
        counts = {str(kind): found.factors for kind, found in self.parallel.items()}
        return counts | {
            "detail": [
                {
                    "kind": str(kind),
                    "factors": found.factors,
                    "factors_by_mean": found.factors_by_mean,
                    "observed": found.observed.tolist(),
                    "threshold": found.threshold.tolist(),
                    "mean": found.mean.tolist(),
                    "p_values": found.p_values.tolist(),
                    "margin": found.margin,
                    "margin_error": found.margin_error,
                    "close": found.close,
                }
                for kind, found in self.parallel.items()
            ]
        }

    def sentence(self) -> str:
        """How many factors stand out, how well they fit, and who runs against the rest."""
        size = f"{len(self.correlations.names)} benchmarks over {self.correlations.subjects:,}"
        who = "subjects" if self.given == "correlations" else "targets"
        if self.correlations.impossible:
            return (
                f"{size} {who}: nothing can be concluded. The correlation matrix is far from "
                "positive definite (its smallest eigenvalue is "
                f"{smallest_eigenvalue(self.correlations.values):.2f}); "
                f"{_IMPOSSIBLE[self.given]}."
            )
        kept, best = self.factor_parallel, self.suggested
        components = self.parallel[Kind.PCA].factors
        fit = ""
        if best.fit.rmsea is not None and best.fit.cfi is not None:
            fit = f", with RMSEA {best.fit.rmsea:.3f} and CFI {best.fit.cfi:.3f}"
        explain = "explains" if best.factors == 1 else "explain"
        improper = " (an improper solution)" if best.problems else ""
        keeps = f"{_count(kept.factors, 'factor')} ({kept.kind})"
        components_said = _count(components, "component")
        said = [f"{size} {who}: parallel analysis keeps {keeps} and {components_said} (PCA)."]
        said.append(
            f"{_count(best.factors, 'factor')} {explain} {best.extracted.variance:.0%} of the "
            f"variance{fit}{improper}."
        )
        for text, names in (
            ("against the rest", [row.benchmark for row in self.coherence if row.runs_against]),
            ("unrelated to the rest", [r.benchmark for r in self.coherence if r.unrelated]),
        ):
            if names:
                said.append(f"{_listed(names)} run{'s' if len(names) == 1 else ''} {text}.")
        said += self._of_items()
        if self.several:
            said.append("One score for all of them mixes more than one dimension.")
        return " ".join(said)

    def _of_items(self) -> list[str]:
        found = self.cross_validation
        if found is None:
            return []
        if not found.beats_one_dimension:
            return ["No model of the items predicts held-out targets better than one dimension."]
        return [f"Of the models of the items, {found.best} predicts held-out targets best."]

    def chart(self) -> Any:
        """Loadings of the suggested solution, as a heat map."""
        from safemetry.construct.factors.charts import loadings_chart

        return loadings_chart(self)


def _coherence(row: Coherence) -> dict[str, Any]:
    made = {
        "benchmark": row.benchmark,
        "intent": row.intent,
        "with_rest": row.with_rest,
        "interval": None if row.interval is None else list(row.interval),
        "runs_against": row.runs_against,
        "unrelated": row.unrelated,
        "opposed": list(row.opposed),
        "reading": row.reading,
    }
    return made | ({"why": dict(row.why)} if row.why else {})


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
