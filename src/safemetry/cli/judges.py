"""`safemetry judges`: whether the judges can be believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.options import SHARE, Shared, Whole, command
from safemetry.cli.pages import is_markdown, page_option, require_page, write_page
from safemetry.cli.tables import Column, Table, number, percent, table
from safemetry.display import shown

if TYPE_CHECKING:
    from safemetry.judges.finding import JudgesFinding

_THIRD: Final = 1 / 3


class _Equation(click.ParamType[tuple[str, str]]):
    """``JUDGE=FAMILY``, split at the last ``=``."""

    name = "JUDGE=FAMILY"
    envvar_list_splitter = "\n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The two sides."""
        judge, equals, family = str(value).rpartition("=")
        if not equals or not judge or not family:
            self.fail(f"{value!r} is not written JUDGE=FAMILY.", param, ctx)
        return judge.strip(), family.strip()


@command(
    "judges",
    examples=(
        "safemetry judges study/ --reference gpt-4o",
        "safemetry judges labels.csv --as labels --order refuse,partial,comply",
        "safemetry judges study/ --gold human --notes card.yaml --card card.md",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--reference",
    metavar="J",
    help="Whose classes movement starts from: a judge, or majority. [default: gold, else majority]",
)
@click.option(
    "--gold",
    multiple=True,
    metavar="J",
    help="Judge whose labels are the truth; repeat it for the majority of several.",
)
@click.option(
    "--human",
    "humans",
    multiple=True,
    metavar="J",
    help="Person on the panel besides, for the ceiling that people set; repeat it for more.",
)
@click.option(
    "--order", metavar="CLASSES", help="Class order, least compliant first: refuse,evasive,comply."
)
@click.option("--success", metavar="RULE", help="at_least:x, where the judges give scores.")
@click.option(
    "--applicable",
    type=SHARE,
    default=0.1,
    show_default=True,
    metavar="S",
    help="Share of a class from which the collapse rule applies.",
)
@click.option(
    "--collapsed",
    type=SHARE,
    default=_THIRD,
    show_default="1/3",
    metavar="S",
    help="Share of the leader's count below which a judge is collapsed.",
)
@click.option(
    "--draws",
    type=Whole(100),
    default=1000,
    show_default=True,
    metavar="N",
    help="Resamples of clusters behind the intervals of agreement.",
)
@click.option(
    "--width",
    type=SHARE,
    default=0.1,
    show_default=True,
    metavar="S",
    help="Width of an interval for which the human labels needed are counted.",
)
@click.option(
    "--label-next",
    "further",
    type=Whole(0),
    default=0,
    metavar="N",
    help="Choose N responses that people should label next.",
)
@click.option(
    "--sheet",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the responses of --label-next to a CSV, with their sampling probabilities.",
)
@click.option(
    "--sampling",
    metavar="FILE",
    help="Table with the probability with which each labelled response was chosen: such a sheet.",
)
@click.option("--pooled", is_flag=True, help="Accuracy over all intents together too.")
@click.option(
    "--developers",
    metavar="COL",
    help="Column of the targets, or FILE:COL, that names who made each.",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    type=_Equation(),
    metavar="JUDGE=FAMILY",
    help="Who made a judge, to see whether it favours its own; repeat it for more.",
)
@click.option(
    "--notes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="YAML with what the evidence does not know, for the report card.",
)
@click.option(
    "--card",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report card: .md or .html.",
)
@page_option
def judges(
    sources: tuple[str, ...],
    shared: Shared,
    *,
    order: str | None,
    success: str | None,
    notes: Path | None,
    card: Path | None,
    output: Path | None,
    sheet: Path | None,
    sampling: str | None,
    **options: Any,
) -> None:
    """Audit the judges: class counts, collapse, movement, agreement, and corrected rates.

    Says which judge cannot use which class, how far the headline moves when only the judge changes,
    how far judges agree with each other and with people, and what the rate probably is.
    """
    from safemetry.cli.output import deliver, write_text
    from safemetry.evidence.export import export_table
    from safemetry.evidence.success import SuccessRule
    from safemetry.findings import resolved
    from safemetry.judges import JudgeSettings, audit_judges, read_notes, read_sampling
    from safemetry.judges.card.text import card_html, card_markdown
    from safemetry.readers.keyed import column_of
    from safemetry.report.sections.judges import judges_part

    if sheet is not None and not options["further"]:
        raise click.UsageError("--sheet needs --label-next N.")
    if sheet is not None and sheet.suffix.lower() not in {".csv", ".parquet"}:
        raise click.UsageError(f"{str(sheet)!r} ends in none of .csv, .parquet.")
    require_page(output)
    require_page(card)
    developers, families = options.pop("developers"), dict(options.pop("families"))
    classes = None if order is None else tuple(name.strip() for name in order.split(","))
    if bool(developers) != bool(families):
        raise click.UsageError("--developers and --family go together.")
    settings = JudgeSettings(
        order=classes,
        success=SuccessRule.parse(success) if success else None,
        seed=shared.seed,
        **options,
    )
    evidence = shared.evidence(sources, order=classes)
    finding = audit_judges(
        evidence,
        settings=settings,
        notes=read_notes(notes) if notes else None,
        developers=column_of(evidence, developers, "target") if developers else None,
        families=families or None,
        sampling=read_sampling(sampling) if sampling else None,
    )
    chosen = {**shared.settings(), **finding.settings, "sampling": sampling}
    finding = replace(finding, settings=resolved(chosen, "not given"))
    lines = [finding.sentence()]
    if card is not None:
        write_text((card_markdown if is_markdown(card) else card_html)(finding.card), card)
        lines.append(f"The report card is in {card}.")
    if sheet is not None and finding.labels.next is not None:
        as_parquet = sheet.suffix.lower() == ".parquet"
        export_table(finding.labels.next.sheet, sheet, "parquet" if as_parquet else "csv")
        asked = len(finding.labels.next.ids)
        lines.append(f"The {asked:,} responses to label come first in {sheet}.")
    elif sheet is not None:
        lines.append(f"No sheet was written: {finding.labels.why['next']}.")
    lines += write_page(
        finding,
        judges_part,
        evidence,
        output,
        title="Can the judges be believed?",
        counts=f"{len(finding.judges):,} judges \N{MIDDLE DOT} {finding.common:,} common responses",
    )
    deliver(finding, shared, list(_tables(finding)), *lines)


# --- what the screen shows -----------------------------------------------------------------------


def _tables(finding: JudgesFinding) -> Iterator[Table]:
    yield _counts(finding)
    yield _spread(finding)
    result = finding.own_keys()
    if result["directions"]:
        yield _directions(result["directions"], str(finding.settings["reference"]))
    pairs = result["agreement"]["pairs"]
    if pairs:
        yield _agreement([row for row in pairs if row["intent"] == "all"])
    gold = result["agreement"]["gold"]
    if gold:
        yield _accuracy(gold["accuracy"])
    if result["corrected"]:
        yield _corrected(result["corrected"])
    if result["labels"]["needed"]:
        yield _needed(result["labels"]["needed"])
    if result["labels"]["next"]:
        yield _next(result["labels"])
    if result["noise"]["flips"]:
        yield _noise(result["noise"]["flips"])
    yield _curves(result["specifications"])
    yield _missing(result["card"])


def _counts(finding: JudgesFinding) -> Table:
    """One row per judge over all targets, then those of targets where a judge is collapsed."""
    made = table(
        f"Class counts over {finding.common:,} common responses (! collapsed, - cannot emit, "
        "? too rare to tell)",
        Column("target"),
        Column("judge"),
        *(Column(shown(name, 14), "right") for name in finding.classes),
    )
    marks = {"collapsed": " !", "cannot_emit": " -", "not_applicable": " ?", "ok": "  "}
    cells: dict[tuple[str | None, str], list[str]] = {}
    flagged: set[str | None] = {None}
    for row in finding.collapse:
        cells.setdefault((row.target, row.judge), []).append(f"{row.count:,}{marks[row.state]}")
        if row.state == "collapsed":
            flagged.add(row.target)
    for (target, judge), counts in cells.items():
        if target in flagged:
            made.add_row("all" if target is None else shown(target, 24), shown(judge, 24), *counts)
    return made


def _spread(finding: JudgesFinding) -> Table:
    made = table(
        "How far the rate moves with the judge",
        Column("intent"),
        Column("boundary"),
        Column("lowest", "right"),
        Column("highest", "right"),
        Column("ratio", "right"),
        Column("trimmed", "right", optional=True),
        Column("without collapsed", "right"),
        Column("lowest judge", optional=True),
        Column("highest judge", optional=True),
    )
    for row in finding.spread:
        everyone, rest = row.everyone, row.without_collapsed
        made.add_row(
            row.intent or "unknown",
            row.boundary,
            percent(everyone.rate_min),
            percent(everyone.rate_max),
            _times(everyone.ratio, everyone.why.get("ratio")),
            _times(row.trimmed_ratio, None),
            _times(rest.ratio, rest.why.get("ratio")),
            shown(everyone.min_judge or "", 20),
            shown(everyone.max_judge or "", 20),
        )
    return made


def _directions(rows: Sequence[Mapping[str, Any]], reference: str) -> Table:
    made = table(
        f"Which way judges err, seen from {shown(reference, 40)} (all intents together)",
        Column("judge"),
        Column("compared", "right"),
        Column("moved down", "right"),
        Column("moved up", "right"),
        Column("net", "right"),
        Column("interval", "right"),
    )
    for row in rows:
        made.add_row(
            shown(row["judge"], 28),
            f"{row['compared']:,}",
            f"{row['lower']:,}",
            f"{row['higher']:,}",
            percent(row["net"]),
            _interval(row["interval"]),
        )
    return made


def _agreement(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Agreement of each two judges (all intents together)",
        Column("judges"),
        Column("", "left"),
        Column("n", "right"),
        Column("raw", "right"),
        Column("kappa", "right"),
        Column("AC1", "right"),
        Column("weighted", "right", optional=True),
    )
    for row in rows:
        found = row["coefficients"]
        made.add_row(
            shown(row["first"], 22),
            shown(row["second"], 22),
            f"{row['n']:,}",
            *(
                number((found.get(name) or {}).get("estimate"), 3)
                for name in ("raw", "cohen", "gwet_ac1", "cohen_quadratic")
            ),
        )
    return made


def _accuracy(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Against gold, by intent",
        Column("intent"),
        Column("judge"),
        Column("boundary"),
        Column("gold", "right"),
        Column("judge's", "right"),
        Column("false +", "right"),
        Column("false -", "right"),
    )
    for row in rows:
        if row["by"] != "all":
            continue
        for side in row["boundaries"]:
            made.add_row(
                row["intent"],
                shown(row["judge"], 22),
                side["boundary"],
                *(
                    percent(side[name]["estimate"])
                    for name in (
                        "gold_rate",
                        "judge_rate",
                        "false_positive_rate",
                        "false_negative_rate",
                    )
                ),
            )
    return made


def _corrected(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows by intent; sums over intents and labels alone are in the JSON result."""
    made = table(
        "Rates corrected with the gold labels",
        Column("intent"),
        Column("judge"),
        Column("boundary"),
        Column("labels", "right", optional=True),
        Column("judge's", "right"),
        Column("PPI++", "right"),
        Column("interval", "right"),
        Column("Rogan-Gladen", "right", optional=True),
    )
    cells: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if not row["pooled"]:
            method = row["method"].partition("/")[0]
            cells.setdefault((row["intent"], row["judge"], row["boundary"]), {})[method] = row
    for (intent, judge, boundary), found in cells.items():
        powered, classical = found["ppi++"], found["rogan_gladen"]
        made.add_row(
            intent,
            shown(judge, 20),
            boundary,
            f"{powered['labels']:,}",
            percent(powered["naive"]),
            percent(powered["estimate"]),
            _interval(powered["interval"]),
            percent(classical["estimate"]),
        )
    return made


def _needed(rows: Sequence[Mapping[str, Any]]) -> Table:
    width = next((row["width"] for row in rows if row["width"] is not None), None)
    made = table(
        f"Human labels for an interval of {100 * (width or 0):.3g}% from end to end",
        Column("intent"),
        Column("judge"),
        Column("boundary"),
        Column("now", "right"),
        Column("labels alone", "right"),
        Column("with the judge", "right"),
        Column("correlation", "right", optional=True),
    )
    for row in rows:
        alone, helped = (
            "> all" if row[name] is None and row["labels"] else number(row[name], 0)
            for name in ("without_judge", "with_judge")
        )
        made.add_row(
            row["intent"],
            shown(row["judge"], 20),
            row["boundary"],
            number(row["labels"], 0),
            alone,
            helped,
            number(row["correlation"], 2),
        )
    return made


def _next(plan: Mapping[str, Any]) -> Table:
    found = plan["next"]
    made = table(
        f"Where to label next, for {plan['boundary']} under {shown(plan['judge'], 30)}",
        Column("intent"),
        Column("verdict"),
        Column("judges differ"),
        Column("responses", "right"),
        Column("labels", "right"),
        Column("further", "right"),
        Column("probability", "right", optional=True),
    )
    for cell in found["cells"]:
        made.add_row(
            cell["intent"],
            cell["verdict"],
            "yes" if cell["disagreement"] else "no",
            f"{cell['responses']:,}",
            f"{cell['labels']:,}",
            f"{cell['further']:,}",
            number(cell["probability"], 3),
        )
    return made


def _noise(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Repeated calls: chance that two verdicts differ",
        Column("judge"),
        Column("responses", "right"),
        Column("class", "right"),
        Column("boundary"),
        Column("one call", "right"),
        Column("majority of 3", "right"),
        Column("of 5", "right"),
    )
    for row in rows:
        for boundary, votes in row["by_boundary"].items():
            made.add_row(
                shown(row["judge"], 24),
                f"{row['responses']:,}",
                percent(row["overall"]),
                boundary,
                *(percent(votes[key]) for key in ("1", "3", "5")),
            )
    return made


def _curves(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Every combination of choices",
        Column("intent"),
        Column("combinations", "right"),
        Column("lowest", "right"),
        Column("median", "right"),
        Column("highest", "right"),
        Column("moved most by"),
    )
    for row in rows:
        shares = row["variance_shares"] or {}
        most = max(shares, key=lambda name: shares[name], default=None)
        made.add_row(
            row["intent"] or "unknown",
            f"{row['count']:,}",
            *(percent(row[name]) for name in ("low", "median", "high")),
            "unknown" if most is None else f"{most} ({shares[most]:.0%} of the variance)",
        )
    return made


def _missing(card: Mapping[str, Any]) -> Table:
    made = table(
        "Report card (--card FILE writes it, with what is missing)",
        Column("item"),
        Column("state"),
        Column("missing", "right"),
    )
    for item in card["items"]:
        made.add_row(item["name"], item["state"], f"{len(item['missing']):,}")
    return made


def _times(value: float | None, why: str | None) -> str:
    if value is None:
        return "unbounded" if why and why.startswith("unbounded") else "unknown"
    return f"{value:.1f}x"


def _interval(ends: Sequence[float] | None) -> str:
    return "unknown" if ends is None else f"{ends[0]:.1%} to {ends[1]:.1%}"
