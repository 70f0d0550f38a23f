"""From evidence, scores or correlations to factors: `analyse_factors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from safemetry.construct.factors.benchmarks import Benchmark, BenchmarkScores, score_benchmarks
from safemetry.construct.factors.coherence import sign_coherence
from safemetry.construct.factors.correlations import (
    FEWEST_VARIABLES,
    Correlations,
    correlate,
    given_correlations,
)
from safemetry.construct.factors.extraction import is_definite, smallest_eigenvalue
from safemetry.construct.factors.finding import Alternative, FactorsFinding
from safemetry.construct.factors.items import ItemEvidence, item_evidence
from safemetry.construct.factors.parallel import Kind, ParallelAnalysis, parallel_analysis
from safemetry.construct.factors.prediction import (
    FEWEST_TARGETS,
    TargetPrediction,
    predict_targets,
)
from safemetry.construct.factors.settings import FactorSettings, Measure, Missing
from safemetry.construct.factors.solutions import Solution, most_identified, solve
from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import Intent
from safemetry.evidence.success import SuccessRule
from safemetry.findings import resolved
from safemetry.irt.structure import make_structure
from safemetry.readers.correlation import CorrelationTable
from safemetry.readers.scores import ScoreTable
from safemetry.tasks import TaskSettings

_CELLS: Final = 300_000
"""Above this many cells models of the items are compared only where they are asked for."""
_MOST_DIMS: Final = 6
_SAME: Final = 1 - 1e-9
_CAUSES: Final = {
    "correlations": "no scores of one set of subjects have such correlations. Check signs and "
    "cells, or whether each pair was computed over other subjects",
    "scores": "the pairs are over too different targets. Use --missing complete",
    "items": "the pairs are over too different targets. Use --missing complete",
}
"""Why a matrix can be so, by what was given."""
_LOW_RELIABILITY: Final = 0.7
_FEW_SUBJECTS: Final = 5
"""Subjects for each variable below which loadings are unstable (Gorsuch 1983)."""


def analyse_factors(
    data: Any,
    *,
    structure: Mapping[str, str] | None = None,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    judge: str | None = None,
    settings: FactorSettings | None = None,
    tasks: TaskSettings | None = None,
    **options: Any,
) -> FactorsFinding:
    """Find the common factors behind several benchmarks.

    Parameters
    ----------
    data
        A `CorrelationTable` (with `FactorSettings.subjects`), a `ScoreTable`, or responses to the
        items of several benchmarks: evidence, a table, or a response matrix.
    structure
        Item -> its benchmark, for responses whose items do not say it; items without one are left
        out.
    evidence_map, success, judge
        What the responses mean; see `response_matrix`. Scores of more than two levels without a
        success rule count as ordered outcomes.
    settings
        Settings; or give their fields as options.
    tasks
        How independent fits run; none of it changes the result.
    **options
        Fields of `FactorSettings`, such as ``factors=3``.

    Raises
    ------
    InputError
        For data or settings that cannot be used, such as fewer than three benchmarks.

    Examples
    --------
    >>> two = np.kron(np.eye(2), np.full((4, 4), 0.6))
    >>> np.fill_diagonal(two, 1.0)
    >>> found = analyse_factors(CorrelationTable(tuple("abcdefgh"), two, "made"), subjects=100)
    >>> found.suggested.factors, found.suggested.heywood
    (2, ())
    """
    chosen = settings or FactorSettings(**options)
    if isinstance(data, CorrelationTable):
        if structure is not None or success is not None or judge is not None:
            raise InputError(
                "a correlation matrix has no items and no judges", fix="leave these options out"
            )
        try:
            found = given_correlations(data.names, data.values, chosen.subjects)
        except InputError as error:
            raise error.at(data.source) from error
        made = tuple(_named(name, chosen) for name in found.names)
        return _finding(_Input("correlations", found, made, {}), chosen)
    if chosen.subjects is not None:
        raise InputError(
            "the number of subjects is counted where targets are known",
            fix="leave out --subjects, which belongs to a correlation matrix",
        )
    if isinstance(data, ScoreTable):
        if structure is not None or success is not None or judge is not None:
            raise InputError("scores have no items and no judges", fix="leave these options out")
        return _finding(_from_scores(data, chosen), chosen)
    items = item_evidence(
        data, structure=structure, evidence_map=evidence_map, success=success, judge=judge
    )
    return _from_items(items, chosen, tasks or TaskSettings())


@dataclass(frozen=True)
class _Input:
    """What is analysed, however it came."""

    given: str
    correlations: Correlations
    benchmarks: tuple[Benchmark, ...]
    left_out: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def _named(name: str, settings: FactorSettings, **known: Any) -> Benchmark:
    return Benchmark(
        name=name, intent=str(Intent.BENIGN) if name in settings.benign else None, **known
    )


def _from_scores(table: ScoreTable, settings: FactorSettings) -> _Input:
    left_out = {}
    kept = []
    for place, name in enumerate(table.benchmarks):
        values = table.values[:, place][np.isfinite(table.values[:, place])]
        if not values.size or np.ptp(values) == 0:
            left_out[name] = "all targets have the same score" if values.size else "it has no score"
        else:
            kept.append(place)
    scores = table.values[:, kept]
    names = [table.benchmarks[place] for place in kept]
    found = correlate(names, scores, settings.missing)
    made = tuple(
        _named(
            name,
            settings,
            targets=int(np.isfinite(scores[:, place]).sum()),
            mean=float(np.nanmean(scores[:, place])),
        )
        for place, name in enumerate(names)
    )
    return _Input("scores", found, made, left_out)


# --- items ---------------------------------------------------------------------------------------


def _from_items(
    items: ItemEvidence, settings: FactorSettings, tasks: TaskSettings
) -> FactorsFinding:
    intents = {
        name: str(Intent.BENIGN) if name in settings.benign else intent
        for name, intent in items.intents.items()
    }
    scored = {
        measure: score_benchmarks(
            items.responses,
            items.membership,
            measure,
            intents=intents,
            tasks=replace(tasks, label="benchmarks"),
        )
        for measure in Measure
    }
    used = scored[settings.measure]
    names = [benchmark.name for benchmark in used.benchmarks]
    if len(names) < FEWEST_VARIABLES and used.left_out:
        first, why = next(iter(used.left_out.items()))
        raise InputError(
            f"{len(names)} benchmarks vary over the targets ({first} was left out: {why})",
            fix="give at least three that do",
        )
    found = correlate(names, used.values, settings.missing)
    basis = _Input("items", found, used.benchmarks, used.left_out, items.warnings)
    finding = _finding(basis, settings)
    other = next(measure for measure in Measure if measure is not settings.measure)
    alternatives, why = _alternatives(scored[other], other, found, settings)
    prediction, reason = _prediction(items, names, finding, settings, tasks)
    reasons = dict(finding.why)
    reasons.pop("alternatives", None)
    reasons.pop("cross_validation", None)
    if alternatives is None:
        reasons["alternatives"] = why
    if prediction is None:
        reasons["cross_validation"] = reason
    return replace(finding, alternatives=alternatives, cross_validation=prediction, why=reasons)


def _alternatives(
    scored: BenchmarkScores, measure: Measure, used: Correlations, settings: FactorSettings
) -> tuple[tuple[Alternative, ...] | None, str]:
    """The analysis with the other measure over the same benchmarks and targets."""
    names = [benchmark.name for benchmark in scored.benchmarks]
    if not set(used.names) <= set(names):
        return None, f"a benchmark has no {measure}"
    columns = [names.index(name) for name in used.names]
    values = np.where(used.used[:, None], scored.values[:, columns], np.nan)
    try:
        other = correlate(used.names, values, used.missing)
    except InputError as error:
        return None, error.problem
    parallel = {str(kind): found.factors for kind, found in _parallel(other, settings).items()}
    change = float(np.abs(other.values - used.values).max())
    return (Alternative(str(measure), other, parallel, change),), ""


def _prediction(
    items: ItemEvidence,
    names: Sequence[str],
    finding: FactorsFinding,
    settings: FactorSettings,
    tasks: TaskSettings,
) -> tuple[TargetPrediction | None, str]:
    """Models of the items on held-out targets, or why there are none."""
    part = items.only(names)
    responses = part.responses
    asked = settings.cross_validate
    if asked is False:
        return None, "not asked for"
    reasons = (
        (
            (responses.categories > 2).any(),
            "outcomes are ordered; choose a boundary with --success",
        ),
        (
            len(responses.targets) < FEWEST_TARGETS,
            f"fewer than {FEWEST_TARGETS} targets, of which a fifth would be held out",
        ),
        (
            asked is None and responses.codes.size > _CELLS,
            f"more than {_CELLS:,} cells; ask for it with --cross-validate",
        ),
    )
    for holds, why in reasons:
        if holds:
            if asked:
                raise InputError(f"held-out targets cannot be predicted: {why}")
            return None, why
    most = settings.dims or min(max(finding.factor_parallel.factors + 1, 2), _MOST_DIMS)
    most = min(most, len(responses.targets) // 2)
    loads_on = dict(zip(responses.items, part.membership, strict=True))
    prediction = predict_targets(
        responses,
        range(1, most + 1),
        make_structure(responses.items, loads_on),
        restarts=settings.restarts,
        seed=settings.seed,
        tasks=replace(tasks, label="models of the items"),
    )
    return prediction, ""


# --- factors -------------------------------------------------------------------------------------


def _finding(basis: _Input, settings: FactorSettings) -> FactorsFinding:
    correlations = basis.correlations
    size = len(correlations.names)
    if settings.factors is not None and settings.factors >= size:
        raise InputError(
            f"{settings.factors} factors are asked of {size} benchmarks",
            fix="ask for fewer than there are benchmarks",
        )
    parallel = _parallel(correlations, settings)
    kept = max(found.factors for found in parallel.values())
    most = settings.factors or max(min(most_identified(size), kept + 1), 1)
    solutions = tuple(
        solve(correlations, count, settings.extraction, settings.rotation, seed=settings.seed)
        for count in range(1, most + 1)
    )
    intents = {benchmark.name: benchmark.intent for benchmark in basis.benchmarks}
    coherence = sign_coherence(
        correlations.names, correlations.values, correlations.subjects, intents
    )
    finding = FactorsFinding(
        settings=resolved(
            settings.resolved(
                {
                    "subjects": correlations.subjects,
                    "factors": most,
                    "missing": None if correlations.missing is None else str(correlations.missing),
                    "measure": str(settings.measure) if basis.given == "items" else None,
                }
            ),
            "not used, or left open",
        ),
        given=basis.given,
        correlations=correlations,
        benchmarks=basis.benchmarks,
        left_out=basis.left_out,
        solutions=solutions,
        parallel=parallel,
        coherence=coherence,
        alternatives=None,
        cross_validation=None,
        why=dict.fromkeys(("alternatives", "cross_validation"), "the items are not known"),
    )
    _refuse_unknown_benign(settings, correlations.names)
    return replace(finding, warnings=(*basis.warnings, *_warnings(finding)))


def _refuse_unknown_benign(settings: FactorSettings, names: Sequence[str]) -> None:
    for name in sorted(settings.benign - set(names)):
        raise InputError(
            f"--benign: there is no benchmark {name!r}", fix=f"they are {', '.join(names[:12])}"
        )


def _parallel(correlations: Correlations, settings: FactorSettings) -> dict[Kind, ParallelAnalysis]:
    kinds = dict.fromkeys((Kind.MINRES, Kind(settings.extraction), Kind.PCA))
    return {
        kind: parallel_analysis(
            correlations.values,
            correlations.subjects,
            kind,
            percentile=settings.percentile,
            replicates=settings.replicates,
            seed=settings.seed,
        )
        for kind in kinds
    }


def _warnings(finding: FactorsFinding) -> list[str]:
    correlations = finding.correlations
    size = len(correlations.names)
    said = [f"{name} was left out: {why}." for name, why in finding.left_out.items()]
    if correlations.missing is Missing.PAIRWISE and not _is_rectangular(correlations):
        said.append(
            "Correlations are over the targets that each pair has in common, "
            f"{correlations.subjects:,} at least; that number stands for all."
        )
    elif correlations.missing is Missing.COMPLETE and not correlations.used.all():
        left = int((~correlations.used).sum())
        said.append(
            f"{left:,} of {len(correlations.used):,} targets lack a score on a benchmark and were "
            "left out."
        )
    if correlations.impossible:
        said.append(
            "The correlation matrix is far from positive definite (its smallest eigenvalue is "
            f"{smallest_eigenvalue(correlations.values):.2f}): {_CAUSES[finding.given]}. Factors, "
            "loadings and indices of fit describe nothing."
        )
        return said
    if not is_definite(correlations.values):
        said.append(
            "The correlation matrix is not positive definite (too few targets, rounding, or "
            "pairs over different targets): indices of fit that need its determinant are unknown."
        )
    if correlations.subjects < _FEW_SUBJECTS * size:
        said.append(
            f"{correlations.subjects:,} subjects for {size} benchmarks are few: loadings change "
            "from sample to sample."
        )
    weak = [
        f"{row.name} {row.reliability:.2f}"
        for row in finding.benchmarks
        if row.reliability is not None and row.reliability < _LOW_RELIABILITY
    ]
    if weak:
        said.append(
            f"Low reliability ({', '.join(weak)}) draws correlations towards 0, and benchmarks "
            "apart that measure the same."
        )
    said += _duplicates(correlations)
    said += [f"{_counted(solution)}: {text}" for solution, text in _improper(finding.solutions)]
    kept = finding.factor_parallel
    if kept.close or kept.factors != kept.factors_by_mean:
        said.append(
            f"Parallel analysis ({kept.kind}) is a close call: {kept.factors} by the threshold "
            f"used and {kept.factors_by_mean} by the mean of random eigenvalues; the nearest "
            f"eigenvalue is {kept.margin:.3f} from its threshold."
        )
    said += [
        f"{row.benchmark} {row.reading}."
        for row in finding.coherence
        if row.runs_against or row.unrelated
    ]
    return said


def _duplicates(correlations: Correlations) -> list[str]:
    """Benchmarks that are one and the same up to scale."""
    names, values = correlations.names, correlations.values
    found = []
    left = list(range(len(names)))
    while left:
        first, *others = left
        same = [other for other in others if abs(values[first, other]) > _SAME]
        left = [other for other in others if other not in same]
        if same:
            signs = {bool(values[first, other] > 0) for other in same}
            how = "1" if signs == {True} else "1 or -1" if len(signs) > 1 else "-1"
            found.append(
                f"{', '.join(names[place] for place in (first, *same))} correlate {how}: they are "
                "the same benchmark up to scale, and count more than once. Leave out all but one."
            )
    return found


def _is_rectangular(correlations: Correlations) -> bool:
    return bool((correlations.pairs == correlations.pairs[0, 0]).all())


def _counted(solution: Solution) -> str:
    return f"{solution.factors} factor{'' if solution.factors == 1 else 's'}"


def _improper(solutions: Sequence[Solution]) -> list[tuple[Solution, str]]:
    return [(solution, text) for solution in solutions for text in solution.problems]
