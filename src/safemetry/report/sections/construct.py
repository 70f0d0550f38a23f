"""What the score measures: the construct audit as a part of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from safemetry.errors import InputError
from safemetry.findings import Finding
from safemetry.report.blocks import Block, Fact, Figure, Headline, Text, name_of
from safemetry.report.context import ReportContext
from safemetry.report.section import Part
from safemetry.report.sections.construct_dif import dif_blocks, flags_in_words
from safemetry.report.sections.construct_models import model_blocks
from safemetry.report.sections.construct_tables import plain_table, saturation_table
from safemetry.report.sections.scale import leading_matrix

if TYPE_CHECKING:
    from safemetry.evidence.matrix import ResponseMatrix

MOST_CELLS: Final = 200_000
MOST_PAIRED_ITEMS: Final = 400
"""With missing cells the correlations of all pairs of items are needed, which takes longer."""
REPLICATES: Final = 100
_LONG: Final = 1500
"""Columns of a sentence, which may hold a few long names."""
_TITLE: Final = "What the score measures"
_LEADS: Final = {
    "rejected": "One score does not measure one attribute here: more than one dimension stands "
    "behind the responses.",
    "supported": "One attribute is enough to explain the responses.",
    "cannot_tell": "Whether one attribute stands behind the responses cannot be told.",
}
_SHORT: Final = {
    "rejected": "more than one attribute",
    "supported": "one attribute",
    "cannot_tell": "cannot tell",
}
_FITTED: Final = "one fitted dimension"
_BEYOND_ONE: Final = (
    "Only what exceeds the line of one fitted dimension, from the second eigenvalue on, speaks for "
    "more than one."
)
_HANG_TOGETHER: Final = (
    "What exceeds these lines says that items hang together, not whether one dimension makes them."
)
_HOW_MANY: Final = (
    "How many dimensions there are: more than one is all that these comparisons can show."
)
_SAMPLE: Final = (
    "What other targets would show: these are a convenience sample, and targets of one developer "
    "are no independent draws."
)
_JUDGED: Final = (
    "Whether a dimension lies in the targets or in the judge: the responses were labelled by "
    "judges, and a judge can make items hang together."
)
_OF_ITEMS: Final = (
    "Why an item differs between groups of targets: at equal ability it may be training, "
    "memorisation or the judge."
)


class ConstructSection:
    """Saturation and eigenvalues, where there is enough; the verdict takes a command of its own."""

    name = "construct"
    order = 540

    def make(self, context: ReportContext) -> Part | None:
        """The quick checks under the leading judge."""
        judge, matrix = leading_matrix(context)
        if judge is None or matrix is None or not _quick(matrix):
            return None
        from safemetry.construct.saturation import measure_saturation
        from safemetry.construct.spectra.spectrum import measure_spectrum
        from safemetry.irt.responses import make_responses
        from safemetry.tasks import TaskSettings

        responses = make_responses(matrix.outcomes, targets=matrix.targets, items=matrix.items)
        try:
            saturation = measure_saturation(responses, benchmarks=_benchmarks(matrix))
            spectrum = measure_spectrum(
                responses, replicates=REPLICATES, tasks=TaskSettings(jobs=1, quiet=True)
            )
        except InputError:  # no two items tell targets apart: the rates say all there is
            return None
        return Part(
            title=_TITLE,
            blocks=[
                Text(
                    "Whether one score measures one attribute is what safemetry construct "
                    "decides, in some minutes. These are its quick checks, under "
                    f"{name_of(judge)}."
                ),
                *_saturation(saturation.to_dict()),
                *_spectrum(spectrum.to_dict()),
            ],
            limits=["Whether one score measures one attribute: safemetry construct tests it."],
        )


def construct_part(finding: Finding) -> Part:
    """The whole construct audit as a part of a report.

    Parameters
    ----------
    finding
        A `ConstructFinding`, or another finding with its keys; a part of it that is None is named
        with its reason.
    """
    data = finding.to_dict()
    verdict = data.get("verdict") or {}
    state = verdict.get("single_attribute", "cannot_tell")
    lead = _LEADS.get(state, _LEADS["cannot_tell"])
    why = name_of(verdict.get("why") or "", _LONG)
    blocks: list[Block] = [Text(lead), *([Text(why)] if why else [])]
    blocks += _saturation(data.get("saturation"))
    blocks += _spectrum(data.get("spectrum"))
    blocks += model_blocks(data)
    blocks += dif_blocks(data)
    blocks += _not_computed(data)
    dif = data.get("dif") or []
    return Part(
        title=_TITLE,
        blocks=blocks,
        facts=[*_facts(data, state)],
        headlines=[Headline("One attribute", why or lead)],
        limits=[_HOW_MANY, _SAMPLE, _JUDGED, *([_OF_ITEMS] if dif else [])],
        findings=[finding],
    )


def _facts(data: Mapping[str, Any], state: str) -> Iterator[Fact]:
    targets, items = data.get("targets"), data.get("items")
    of = f"{targets:,} targets, {items:,} informative items" if targets and items else ""
    yield Fact("The responses show", _SHORT.get(state, _SHORT["cannot_tell"]), of)
    verdict = data.get("verdict") or {}
    if verdict.get("gain") is not None:
        gain, interval = verdict["gain"], verdict.get("gain_interval")
        within = f"interval {interval[0]:.3f} to {interval[1]:.3f}; " if interval else ""
        yield Fact(
            "Gain of several dimensions",
            f"{gain:.3f}",
            f"{within}held-out log loss, best model of one dimension less best of several",
        )
    spectrum = data.get("spectrum") or {}
    if spectrum.get("exceed") is not None:
        yield Fact(
            "Eigenvalues above chance",
            f"{spectrum['exceed']:,}",
            "of the item correlations, were items independent",
        )
    if data.get("dif"):
        yield Fact("Items that differ between groups", *flags_in_words(data["dif"]))


def _saturation(found: Mapping[str, Any] | None) -> Iterator[Block]:
    if not found:
        return
    if found.get("sentence"):
        yield Text(name_of(found["sentence"], _LONG))
    yield saturation_table(found)


def _spectrum(found: Mapping[str, Any] | None) -> Iterator[Block]:
    if not found or not found.get("observed"):
        return
    observed: Sequence[float] = found["observed"]
    parallel = found.get("parallel")
    shuffled = parallel.get("q95") if isinstance(parallel, Mapping) else parallel
    nulls: dict[str, Sequence[float]] = {
        name: values
        for name, values in (
            ("independent items", found.get("null_q95")),
            ("shuffled responses", shuffled),
            (_FITTED, found.get("null_q95_one_dimension")),
        )
        if values
    }

    def draw(width: int) -> Any:
        from safemetry.construct.charts import scree_chart

        return scree_chart(observed, nulls, width=width)

    percentile = found.get("percentile", 95)
    limits = "; ".join(f"{name} {_first(values)}" for name, values in nulls.items())
    against = f" The {percentile:g}th percentiles in simulated data: {limits}." if nulls else ""
    yield Figure(
        "Eigenvalues of the item correlations",
        f"Observed {_first(observed)}.{against} "
        + (_BEYOND_ONE if _FITTED in nulls else _HANG_TOGETHER),
        draw,
    )
    if found.get("sentence"):
        yield Text(name_of(found["sentence"], _LONG))


def _first(values: Sequence[float], most: int = 4) -> str:
    return ", ".join(f"{value:.1f}" for value in values[:most])


def _not_computed(data: Mapping[str, Any]) -> Iterator[Block]:
    """A sentence for each part that is None, with the reason."""
    names = {
        "saturation": "Saturation",
        "spectrum": "Eigenvalues",
        "models": "Comparison of models",
        "factor_correlations": "Correlations of the dimensions",
        "prior_sensitivity": "Other priors",
        "without_domain": "Without one domain",
        "by_judge": "Under each judge",
        "dif": "Differences of items between groups",
    }
    reasons: Mapping[str, str] = data.get("why") or {}
    rows = [
        {"part": words, "reason": name_of(reasons[name], 300)}
        for name, words in names.items()
        if data.get(name) is None and name in reasons
    ]
    if rows:
        yield plain_table("What was not computed", rows)


def _quick(matrix: ResponseMatrix) -> bool:
    cells = len(matrix.targets) * len(matrix.items)
    return cells <= MOST_CELLS and (not matrix.missing or len(matrix.items) <= MOST_PAIRED_ITEMS)


def _benchmarks(matrix: ResponseMatrix) -> dict[str, str] | None:
    """Item -> its benchmark, where there are several."""
    found = {
        item: name
        for item, name in zip(matrix.items, matrix.benchmarks, strict=True)
        if name is not None
    }
    return found if len(set(found.values())) > 1 else None
