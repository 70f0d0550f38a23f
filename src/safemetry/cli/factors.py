"""`safemetry factors`: what several benchmarks have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.counting_options import judge_option, success_option
from safemetry.cli.options import Number, Shared, Whole, command, names_option
from safemetry.cli.tables import Column, Table, number, table
from safemetry.display import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from safemetry.cli.tables import Table
    from safemetry.construct.factors import FactorsFinding

_ROTATIONS: Final = (
    "oblimin",
    "quartimin",
    "varimax",
    "quartimax",
    "promax",
    "geomin",
    "none",
)


@command(
    "factors",
    examples=(
        "safemetry factors abilities.csv",
        "safemetry factors correlations.csv --subjects 134",
        "safemetry factors harmbench.csv sorrybench.csv xstest.csv",
        "safemetry factors matrix.csv --structure items.csv:subset --json -",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--subjects", type=Whole(3), metavar="N", help="Subjects of a correlation matrix.")
@click.option(
    "--factors",
    type=Whole(1),
    metavar="K",
    help="Most factors to extract. [default: one more than parallel analysis keeps]",
)
@click.option(
    "--extraction",
    type=click.Choice(["minres", "ml"]),
    default="minres",
    show_default=True,
    help="Minimum residuals, or maximum likelihood.",
)
@click.option(
    "--rotation",
    type=click.Choice(_ROTATIONS),
    default="oblimin",
    show_default=True,
    help="To simple structure.",
)
@click.option(
    "--structure",
    metavar="COL",
    help="Column of the items, or FILE:COL, that names the benchmark of each. [default: benchmark]",
)
@click.option(
    "--measure",
    type=click.Choice(["mean", "ability"]),
    default="mean",
    show_default=True,
    help="What stands for a target on a benchmark whose items are known.",
)
@click.option(
    "--missing",
    type=click.Choice(["complete", "pairwise"]),
    help="Targets with all scores, or those of each pair. [default: complete if 9 in 10 are]",
)
@names_option(
    "--benign", "benign", metavar="NAMES", help="Benchmarks that reward an answer, not a refusal."
)
@click.option(
    "--percentile",
    type=Number(above=0, below=100),
    default=95.0,
    show_default=True,
    metavar="Q",
    help="Of random eigenvalues, in the parallel analysis.",
)
@click.option(
    "--replicates",
    type=Whole(20),
    default=1000,
    show_default=True,
    metavar="N",
    help="Random matrices of the parallel analysis.",
)
@click.option(
    "--cross-validate/--no-cross-validate",
    "cross_validate",
    default=None,
    help="Compare models of the items on held-out targets. [default: up to 300,000 cells]",
)
@click.option("--dims", type=Whole(1), metavar="K", help="Most dimensions of those models.")
@success_option
@judge_option
def factors(
    sources: tuple[str, ...],
    shared: Shared,
    structure: str | None,
    success: str | None,
    judge: str | None,
    benign: tuple[str, ...],
    **options: Any,
) -> None:
    """Find the common factors behind several benchmarks, and those that run against the rest.

    SOURCE is a correlation matrix (with --subjects), one table of scores or abilities (targets by
    benchmarks), or the item matrices of several benchmarks.
    """
    from safemetry.cli.output import deliver
    from safemetry.construct.factors import FactorSettings, analyse_factors
    from safemetry.evidence.evidence import Evidence
    from safemetry.findings import resolved
    from safemetry.tasks import TaskSettings

    settings = FactorSettings(
        benign=frozenset(benign), seed=shared.seed, **_known(FactorSettings, options)
    )
    data, held = _read(sources, shared, structure, judge)
    if isinstance(data, Evidence):
        shared.busy.stop()  # models of the items show their own progress
    finding = analyse_factors(
        data,
        structure=held,
        success=success,
        judge=judge,
        settings=settings,
        tasks=TaskSettings(jobs=shared.jobs, quiet=shared.quiet),
    )
    chosen = {
        **{name: value for name, value in finding.settings.items() if name != "why"},
        "judge": judge,
        "success": success,
        "structure": structure,
        "sources": list(data.sources) if isinstance(data, Evidence) else list(sources),
    }
    finding = replace(finding, settings=resolved(chosen, "not given, not used, or left open"))
    deliver(finding, shared, _tables(finding), finding.sentence())


def _known(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options that are settings; unknown ones cannot be."""
    return {name: value for name, value in options.items() if name in kind.__dataclass_fields__}


def _read(
    sources: Sequence[str], shared: Shared, structure: str | None, judge: str | None
) -> tuple[Any, dict[str, str] | None]:
    """The data, and the benchmark of each item where it was asked for."""
    from safemetry.errors import InputError
    from safemetry.evidence.study import Study
    from safemetry.readers.correlation import CORRELATION, is_correlation, read_correlations
    from safemetry.readers.keyed import column_of
    from safemetry.readers.scores import SCORES, is_score_table, read_scores
    from safemetry.readers.source import Source

    known = shared.evidence_map()
    kind = shared.kind
    first = Source(sources[0], known.limits)
    if kind is None and not Study.is_study(sources[0]):
        first.refuse_unreadable()
        if not first.is_folder:
            if is_correlation(first, known):
                kind = CORRELATION
            elif is_score_table(first, known):
                kind = SCORES
    if kind in {CORRELATION, SCORES}:
        what = "a correlation matrix" if kind == CORRELATION else "a table of scores"
        if len(sources) > 1:
            raise InputError(
                f"{what} stands alone, and {len(sources)} sources are given",
                file=sources[0],
                fix="put all benchmarks into one table",
            )
        if shared.filters or shared.constants or structure:
            raise InputError(
                f"{what} has no items to filter, fill or group",
                file=sources[0],
                fix="leave out --filter, --set and --structure",
            )
        first.refuse_unreadable()
        read = read_correlations if kind == CORRELATION else read_scores
        return read(first, known), None
    evidence = shared.evidence(sources, judge=judge)
    return evidence, column_of(evidence, structure, "item") if structure else None


# --- tables --------------------------------------------------------------------------------------


def _tables(finding: FactorsFinding) -> list[Table]:
    made = [_benchmarks(finding), _solutions(finding), _eigenvalues(finding), _loadings(finding)]
    if finding.suggested.factors > 1:
        made.append(_factor_correlations(finding))
    if finding.alternatives:
        made.append(_alternatives(finding))
    if finding.cross_validation is not None:
        made.append(_predictions(finding))
    return made


def _benchmarks(finding: FactorsFinding) -> Table:
    has_items = finding.given == "items"
    has_targets = finding.given != "correlations"
    notes = [
        "against" if row.runs_against else "unrelated" if row.unrelated else ""
        for row in finding.coherence
    ]
    made = table(
        "Benchmarks",
        Column("benchmark"),
        *([Column("items", "right", optional=True)] if has_items else []),
        *([Column("targets", "right", optional=True)] if has_targets else []),
        *([Column("mean", "right", optional=True)] if has_targets else []),
        *([Column("reliability", "right")] if has_items else []),
        Column("with the rest", "right"),
        Column("95% interval", "right"),
        *([Column("runs")] if any(notes) else []),
    )
    for benchmark, row, said in zip(finding.benchmarks, finding.coherence, notes, strict=True):
        made.add_row(
            shown(benchmark.name),
            *([f"{benchmark.items:,}"] if has_items else []),
            *([f"{benchmark.targets:,}", number(benchmark.mean)] if has_targets else []),
            *([number(benchmark.reliability)] if has_items else []),
            number(row.with_rest),
            "unknown" if row.interval is None else "{:.2f} to {:.2f}".format(*row.interval),
            *([said] if any(notes) else []),
        )
    return made


def _solutions(finding: FactorsFinding) -> Table:
    made = table(
        f"Solutions ({finding.settings['extraction']})",
        Column("factors", "right"),
        Column("variance", "right"),
        Column("RMSEA", "right"),
        Column("CFI", "right"),
        Column("TLI", "right", optional=True),
        Column("SRMR", "right", optional=True),
        Column("chi-square", "right", optional=True),
        Column("df", "right"),
        Column("Heywood cases"),
    )
    for solution in finding.solutions:
        fit = solution.fit
        made.add_row(
            str(solution.factors),
            number(solution.extracted.variance, 3),
            number(fit.rmsea, 3),
            number(fit.cfi, 3),
            number(fit.tli, 3),
            number(fit.srmr, 3),
            number(fit.chi_square, 1),
            str(fit.df),
            ", ".join(solution.heywood),
        )
    return made


def _eigenvalues(finding: FactorsFinding) -> Table:
    used = finding.settings["percentile"]
    limit = "mean of random" if used is None else f"random {used:g}%"
    made = table(
        "Parallel analysis",
        Column("eigenvalues of"),
        Column("number", "right"),
        Column("observed", "right"),
        Column(limit, "right"),
        Column("mean", "right", optional=True),
        Column("kept"),
    )
    for kind, found in finding.parallel.items():
        label = "components (pca)" if kind == "pca" else f"factors ({kind})"
        rows = zip(found.observed, found.threshold, found.mean, strict=True)
        for place, (observed, threshold, mean) in enumerate(rows):
            if place > found.factors + 1:
                break
            made.add_row(
                label,
                str(place + 1),
                number(observed),
                number(threshold),
                number(mean),
                "yes" if place < found.factors else "no",
            )
    return made


def _loadings(finding: FactorsFinding) -> Table:
    solution = finding.suggested
    rotation = finding.settings["rotation"]
    turned = f", {rotation}" if solution.factors > 1 and rotation != "none" else ""
    made = table(
        f"Loadings ({solution.factors} factor{'s' if solution.factors > 1 else ''}{turned})",
        Column("benchmark"),
        *(Column(f"F{k + 1}", "right") for k in range(solution.factors)),
        Column("communality", "right", optional=True),
    )
    rows = zip(
        solution.names,
        solution.rotated.loadings.tolist(),
        solution.extracted.communalities.tolist(),
        strict=True,
    )
    for name, loadings, shared in rows:
        made.add_row(shown(name), *map(number, loadings), number(shared))
    return made


def _factor_correlations(finding: FactorsFinding) -> Table:
    solution = finding.suggested
    names = [f"F{k + 1}" for k in range(solution.factors)]
    made = table(
        "Correlations of the factors", Column("factor"), *(Column(name, "right") for name in names)
    )
    for name, row in zip(names, solution.rotated.correlations.tolist(), strict=True):
        made.add_row(name, *map(number, row))
    return made


def _alternatives(finding: FactorsFinding) -> Table:
    made = table(
        "The same with the other measure",
        Column("measure"),
        Column("factors", "right"),
        Column("components", "right"),
        Column("largest change of a correlation", "right"),
    )
    for row in finding.alternatives or ():
        made.add_row(
            row.measure,
            str(row.parallel[finding.settings["extraction"]]),
            str(row.parallel["pca"]),
            number(row.largest_change),
        )
    return made


def _predictions(finding: FactorsFinding) -> Table:
    made = table(
        "Models of the items on held-out targets",
        Column("model"),
        Column("log loss", "right"),
        Column("sd", "right", optional=True),
        Column("Brier", "right", optional=True),
        Column("gain over 1D", "right"),
        Column("95% interval", "right"),
    )
    found = finding.cross_validation
    for model in () if found is None else found.models:
        ends = model.gain_interval
        made.add_row(
            model.name,
            number(model.log_loss, 3),
            number(model.log_loss_sd, 3),
            number(model.brier, 3),
            "" if model.gain is None else number(model.gain, 3),
            "" if ends is None else "{:.3f} to {:.3f}".format(*ends),
        )
    return made
