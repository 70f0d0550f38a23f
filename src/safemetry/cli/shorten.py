"""`safemetry shorten`: a short form, and what it is worth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.columns import short_names
from safemetry.cli.counting_options import judge_option, success_option
from safemetry.cli.options import SHARE, Shared, Whole, command, names_option
from safemetry.cli.pages import page_option, require_page, write_page
from safemetry.cli.tables import Column, Table, number, percent, table
from safemetry.display import shown

if TYPE_CHECKING:
    from safemetry.evidence.evidence import Evidence
    from safemetry.forms.constraints import Exclusion
    from safemetry.forms.shortened import ShortenFinding

_METHODS: Final = ("predictive", "greedy", "exact", "discrimination", "variance", "anchors")
_RECOVERIES: Final = ("blend", "calibrated", "expectation", "mixture", "mean")
_QUOTA: Final = re.compile(r"(?P<least>[0-9]{1,9})?(?P<dash>-)?(?P<most>[0-9]{1,9})?")


class _Quota(click.ParamType[tuple[str, str, int, "int | None"]]):
    """``COL=VALUE:MIN-MAX``, with one end left out, or one number for both."""

    name = "COL=VALUE:MIN-MAX"
    envvar_list_splitter = "\n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str, int, int | None]:
        """Column, value, and the bounds."""
        if isinstance(value, tuple):
            return value
        named, colon, bounds = str(value).rpartition(":")
        column, equals, wanted = named.partition("=")
        found = _QUOTA.fullmatch(bounds.strip())
        if not (colon and equals and column and wanted and found and any(found.groups())):
            self.fail(f"{value!r} is not written COL=VALUE:MIN-MAX.", param, ctx)
        least, dash, most = found["least"], found["dash"], found["most"]
        if dash is None:  # one number for both ends, which the pattern may split in two
            both = int(bounds)
            return column, wanted, both, both
        return column, wanted, int(least or 0), None if most is None else int(most)


class _Budgets(click.ParamType[tuple[int, ...]]):
    """Numbers of items, separated by commas."""

    name = "N,N,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The numbers, ascending."""
        if isinstance(value, tuple):
            return value
        one = Whole(1)
        parts = [part.strip() for part in str(value).split(",")]
        return tuple(sorted({one.convert(part, param, ctx) for part in parts if part}))


@command(
    "shorten",
    examples=(
        "safemetry shorten matrix.csv --items 25",
        "safemetry shorten study/ --items 50 --per category --form form.json",
        "safemetry shorten study/ --quota language=de:5-10 --apart pair -o form.html",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--items",
    type=Whole(1),
    default=25,
    show_default=True,
    metavar="N",
    help="Items of the form.",
)
@click.option(
    "--per",
    metavar="COL",
    help="Column of the items, or FILE:COL, whose values the form has in the shares of all items.",
)
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    type=_Quota(),
    metavar="COL=VALUE:MIN-MAX",
    help="How many items with a value, such as language=de:5-10, intent=benign:10-; repeat it.",
)
@click.option(
    "--apart",
    multiple=True,
    metavar="COL",
    help="Column of the items, or FILE:COL: at most one item of each value, such as pair.",
)
@names_option("--require", "required", metavar="ITEM,...", help="Items that must be in the form.")
@names_option("--forbid", "forbidden", metavar="ITEM,...", help="Items that must not be.")
@click.option(
    "--method",
    type=click.Choice(_METHODS),
    default="predictive",
    show_default=True,
    help="How the items are chosen.",
)
@click.option(
    "--recovery",
    type=click.Choice(_RECOVERIES),
    default="blend",
    show_default=True,
    help="How the full score is read from the form.",
)
@click.option(
    "--forms",
    type=Whole(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Parallel forms of equal information, without common items.",
)
@click.option(
    "--budgets",
    type=_Budgets(),
    default="10,25,50,100,200",
    show_default=True,
    metavar="N,N,...",
    help="Lengths to evaluate on held-out targets.",
)
@click.option(
    "--splits",
    type=Whole(2),
    default=20,
    show_default=True,
    metavar="S",
    help="How often some targets are held out.",
)
@click.option(
    "--random-sets",
    type=Whole(1),
    default=100,
    show_default=True,
    metavar="N",
    help="Random forms beside, for each split and length.",
)
@click.option(
    "--minority",
    type=Whole(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Rarer responses that an item must have to be chosen.",
)
@click.option(
    "--rerun-disagreement",
    type=SHARE,
    metavar="S",
    help="Share of items on which two runs of one target differ, for the detectable change.",
)
@click.option("--graded", is_flag=True, help="Ordered classes, not outcomes of 0 and 1.")
@click.option(
    "--form",
    "form_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the form, with the scale that reads it, as JSON.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep finished splits here, and go on from those that are there.",
)
@success_option
@judge_option
@page_option
def shorten(
    sources: tuple[str, ...],
    shared: Shared,
    *,
    per: str | None,
    quotas: tuple[tuple[str, str, int, int | None], ...],
    apart: tuple[str, ...],
    form_file: Path | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Choose the items that are worth running, and say what they are worth.

    How far the full score is missed is measured on targets that neither the choice of the items nor
    their calibration has seen, beside random items; so is the smallest change that such a form
    sees.
    """
    from safemetry.cli.output import deliver
    from safemetry.findings import resolved
    from safemetry.forms import ShortenSettings, save_form
    from safemetry.forms import shorten as make_form
    from safemetry.forms.constraints import Quota
    from safemetry.readers.keyed import column_of
    from safemetry.report.sections.forms import forms_part

    require_page(output)
    success, judge = options.pop("success"), options.pop("judge")
    graded = options.pop("graded")
    evidence = shared.evidence(sources, judge=judge)
    named = short_names([*((per,) if per else ()), *(quota[0] for quota in quotas)])
    short = {name: column for column, name in named.items()}
    settings = ShortenSettings(
        per=short[per] if per else None,
        quotas=tuple(
            Quota(short[column], value, least, most) for column, value, least, most in quotas
        ),
        exclusions=tuple(_apart(evidence, apart)),
        seed=shared.seed,
        jobs=shared.jobs,
        quiet=shared.quiet,
        **options,
    )
    shared.busy.stop()  # the splits show their own progress
    finding = make_form(
        evidence,
        success=success,
        properties={column: column_of(evidence, name, "item") for column, name in named.items()},
        graded=graded,
        settings=settings,
    )
    chosen = {
        **shared.settings(),
        "judge": judge,
        "success": success,
        **finding.settings,
        "per": per,
        "apart": list(apart),
        "graded": graded,
        "sources": list(evidence.sources),
    }
    finding = replace(finding, settings=resolved(chosen, "not given"))
    lines = [finding.sentence()]
    if form_file is not None:
        save_form(finding.form, form_file)
        lines.append(f"The form is in {form_file}.")
    lines += write_page(
        finding,
        forms_part,
        evidence,
        output,
        title="What is a short form worth?",
        counts=f"{finding.targets:,} targets \N{MIDDLE DOT} {finding.items:,} items",
    )
    deliver(finding, shared, list(_tables(finding)), *lines)


def _apart(evidence: Evidence, columns: Sequence[str]) -> Iterator[Exclusion]:
    """One exclusion for each value that several items share."""
    from safemetry.forms.constraints import Exclusion
    from safemetry.readers.keyed import column_of

    for column in columns:
        groups: dict[str, list[str]] = {}
        for item, value in column_of(evidence, column, "item").items():
            groups.setdefault(value, []).append(item)
        yield from (Exclusion(frozenset(held)) for held in groups.values() if len(held) > 1)


# --- what the screen shows -----------------------------------------------------------------------


def _tables(finding: ShortenFinding) -> Iterator[Table]:
    yield _items(finding)
    result = finding.own_keys()
    if result["evaluation"]:
        yield _evaluation(result["evaluation"])
    if finding.parallel:
        yield _parallel(finding)


def _items(finding: ShortenFinding) -> Table:
    names = list(finding.details[0]["properties"]) if finding.details else []
    made = table(
        f"The form ({finding.form.method})",
        Column("item"),
        *(Column(shown(name, 16), optional=True) for name in names),
        Column("a", "right"),
        Column("d", "right"),
        Column("information", "right"),
    )
    for row in finding.details:
        steps = row["d"] if isinstance(row["d"], list) else [row["d"]]
        made.add_row(
            shown(row["item"], 32),
            *(shown(row["properties"][name], 16) for name in names),
            number(row["a"]),
            " ".join(map(number, steps)),
            number(row["information"]),
        )
    return made


def _evaluation(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Full scores of held-out targets, missed by (root mean square)",
        Column("items", "right"),
        Column("method"),
        Column("error", "right"),
        Column("random", "right"),
        Column("bias", "right"),
        Column("rank corr.", "right"),
        Column("splits", "right", optional=True),
    )
    for row in sorted(rows, key=lambda row: (row["items"], row["rmse"])):
        made.add_row(
            f"{row['items']:,}",
            row["method"],
            percent(row["rmse"]),
            percent(row["random_rmse"]),
            percent(row["bias"] + 0.0),
            number(row["spearman"]),
            f"{row['splits']:,}",
        )
    return made


def _parallel(finding: ShortenFinding) -> Table:
    made = table("Parallel forms", Column("form", "right"), Column("items"))
    for place, names in enumerate(finding.parallel, start=1):
        more = f" and {len(names) - 4:,} more" if len(names) > 4 else ""
        made.add_row(str(place), ", ".join(shown(name, 16) for name in names[:4]) + more)
    return made
