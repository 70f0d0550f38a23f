"""`safemetry construct`: whether one score measures one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.columns import short_names
from safemetry.cli.counting_options import judge_option, success_option
from safemetry.cli.options import Number, Shared, Whole, command
from safemetry.cli.pages import page_option, require_page, write_page
from safemetry.cli.tables import Column, Table, number, table
from safemetry.display import shown

if TYPE_CHECKING:
    from safemetry.construct.finding import ConstructFinding


class _Loss(click.ParamType[tuple[str, float]]):
    """``MODEL=LOSS``."""

    name = "MODEL=LOSS"
    envvar_list_splitter = "\n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """The two sides."""
        if isinstance(value, tuple):
            return value
        model, equals, loss = str(value).rpartition("=")
        if not equals or not model.strip():
            self.fail(f"{value!r} is not written MODEL=LOSS.", param, ctx)
        return model.strip(), Number(above=0).convert(loss, param, ctx)


@command(
    "construct",
    seed=2026,
    examples=(
        "safemetry construct matrix.csv --structure items.csv:type",
        "safemetry construct study/ --structure category --groups developer -o c.html",
        "safemetry construct matrix.csv --resume work/ --json construct.json",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--structure",
    "structures",
    multiple=True,
    metavar="COL",
    help="Column of the items, or FILE:COL, that names the dimension of each; repeat it for more.",
)
@click.option(
    "--groups",
    metavar="COL",
    help="Column of the targets, or FILE:COL, whose groups are compared item by item.",
)
@click.option(
    "--families",
    metavar="COL",
    help="Column of the targets, or FILE:COL, that names those which are not independent.",
)
@click.option(
    "--splits",
    type=Whole(2),
    default=5,
    show_default=True,
    metavar="S",
    help="How often a fifth of the responses is held out.",
)
@click.option(
    "--restarts",
    type=Whole(1),
    default=20,
    show_default=True,
    metavar="R",
    help="Starts of each fit in several dimensions.",
)
@click.option(
    "--max-dims",
    type=Whole(1),
    default=10,
    show_default=True,
    metavar="K",
    help="Most dimensions to explore.",
)
@click.option(
    "--null-sets",
    type=Whole(99),
    default=99,
    show_default=True,
    metavar="N",
    help="Data sets of one dimension that the verdict is calibrated on.",
)
@click.option(
    "--simulations",
    type=Whole(19),
    default=5000,
    show_default=True,
    metavar="N",
    help="Matrices simulated for the thresholds of item differences.",
)
@click.option(
    "--minimum-group",
    type=Whole(2),
    default=10,
    show_default=True,
    metavar="N",
    help="Fewest targets of a group that is compared.",
)
@click.option(
    "--tetrachoric", is_flag=True, help="Tetrachoric correlations of items, not plain ones."
)
@click.option(
    "--published",
    multiple=True,
    type=_Loss(),
    metavar="MODEL=LOSS",
    help="A published log loss, such as '1D 3PL=0.322', to see where the order departs; repeat it.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep finished fits here, and go on from those that are there.",
)
@success_option
@judge_option
@page_option
def construct(
    sources: tuple[str, ...],
    shared: Shared,
    structures: tuple[str, ...],
    groups: str | None,
    families: str | None,
    published: tuple[tuple[str, float], ...],
    output: Path | None,
    **options: Any,
) -> None:
    """Audit whether a score measures one thing.

    Says whether the items can be modelled at all, whether several dimensions predict unseen
    responses better than one does (beyond what they gain where there is one), and which items
    differ between groups of equally able targets.
    """
    from safemetry.cli.output import deliver
    from safemetry.construct import ConstructSettings, audit_construct
    from safemetry.findings import resolved
    from safemetry.readers.keyed import column_of
    from safemetry.report.sections.construct import construct_part

    success, judge = options.pop("success"), options.pop("judge")
    require_page(output)
    evidence = shared.evidence(sources)
    tetrachoric = options.pop("tetrachoric")
    settings = ConstructSettings(
        structures={
            short: column_of(evidence, name, "item")
            for short, name in short_names(structures).items()
        },
        groups={
            short: column_of(evidence, name, "target")
            for short, name in short_names((groups,) if groups else ()).items()
        },
        clusters=column_of(evidence, families, "target") if families else {},
        correlation="tetrachoric" if tetrachoric else "pearson",
        published=dict(published),
        seed=shared.seed,
        jobs=shared.jobs,
        quiet=shared.quiet,
        **options,
    )
    shared.busy.stop()  # each task shows its own progress, with the time left
    finding = audit_construct(evidence, success=success, judge=judge, settings=settings)
    chosen = {
        **shared.settings(),
        "judge": judge,
        "success": success,
        **finding.settings,
        "structure": list(structures),
        "groups": groups,
        "families": families,
        "sources": list(evidence.sources),
    }
    finding = replace(finding, settings=resolved(chosen, "not given"))
    lines = [finding.sentence()]
    lines += write_page(
        finding,
        construct_part,
        evidence,
        output,
        title="Does the score measure one thing?",
        counts=f"{finding.targets:,} targets \N{MIDDLE DOT} {finding.items:,} informative items",
    )
    deliver(finding, shared, list(_tables(finding)), *lines)


# --- what the screen shows -----------------------------------------------------------------------


def _tables(finding: ConstructFinding) -> Iterator[Table]:
    result = finding.own_keys()
    yield _saturation(result["saturation"])
    if result["spectrum"]:
        yield _spectrum(result["spectrum"])
    if result["models"]:
        yield _models(result["models"])
    for found in result["factor_correlations"] or ():
        yield _correlations(found)
    if result["without_domain"]:
        yield _without_domain(result["without_domain"])
    if result["prior_sensitivity"]:
        yield _priors(result["prior_sensitivity"])
    if result["dif"]:
        yield from _differences(result["dif"])


def _saturation(found: Mapping[str, Any]) -> Table:
    made = table(
        "Saturation",
        Column("items"),
        Column("of", "right"),
        Column("rewarded", "right"),
        Column("constant", "right"),
        Column("informative", "right"),
        Column("at ceiling", "right"),
        Column("negative", "right", optional=True),
        Column("can be modelled"),
    )
    for row in (found, *found["benchmarks"], *found["domains"]):
        rest = row["item_rest"]
        made.add_row(
            shown(row["name"], 20),
            f"{row['items']:,}",
            "unknown" if row["pass_rate"] is None else f"{row['pass_rate']:.1%}",
            f"{row['zero_variance']:,}",
            f"{row['informative_items']:,}",
            f"{row['ceiling_targets']:g}",
            "unknown" if rest is None else f"{rest['negative']:,}",
            "yes" if row["modelable"] else "no",
        )
    return made


def _spectrum(found: Mapping[str, Any]) -> Table:
    level = f"{found['percentile']:g}%"
    made = table(
        "Eigenvalues of the item correlations",
        Column("", "right"),
        Column("observed", "right"),
        Column(f"independent {level}", "right"),
        Column(f"shuffled {level}", "right"),
        Column(f"one dimension {level}", "right"),
    )
    nulls = [found[name] or () for name in ("null_q95", "parallel", "null_q95_one_dimension")]
    for place, value in enumerate(found["observed"]):
        limits = [number(row[place], 1) if place < len(row) else "" for row in nulls]
        made.add_row(str(place + 1), number(value, 1), *limits)
    return made


def _models(models: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Held-out responses: mean log loss over the splits, the lowest first",
        Column("model"),
        Column("log loss", "right"),
        Column("SD", "right"),
        Column("Brier", "right", optional=True),
        Column("starts", "right", optional=True),
        Column("BIC", "right", optional=True),
        Column("rank", "right"),
    )
    for row in sorted(models, key=lambda row: row["log_loss"]["mean"]):
        made.add_row(
            shown(row["name"], 32),
            number(row["log_loss"]["mean"], 4),
            number(row["log_loss"]["sd"], 4),
            number(row["brier"]["mean"], 4),
            f"{row['restarts']['min']:.4f}-{row['restarts']['max']:.4f}",
            number(row["bic"], 0),
            "not ranked" if row["rank"] is None else str(row["rank"]),
        )
    return made


def _correlations(found: Mapping[str, Any]) -> Table:
    names = [shown(name, 14) for name in found["dimensions"]]
    made = table(
        f"Correlations of the dimensions: {shown(found['model'], 40)}",
        Column("dimension"),
        *(Column(name, "right") for name in names),
    )
    for name, row in zip(names, found["correlations"], strict=True):
        made.add_row(name, *map(number, row))
    return made


def _without_domain(found: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Gain of several dimensions without one domain",
        Column("structure"),
        Column("left out"),
        Column("items", "right"),
        Column("gain", "right"),
        Column("interval", "right"),
    )
    for part in found:
        for row in (part["whole"], *part["without"]):
            gain = row["gain"]
            made.add_row(
                shown(row["structure"], 20),
                shown(row["domain"], 24) if row["domain"] else "nothing",
                f"{row['items']:,}",
                "unknown" if gain is None else number(gain["gain"], 4),
                "unknown" if gain is None else _interval(gain["interval"]),
            )
    return made


def _priors(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "The same with other priors",
        Column("model"),
        Column("prior"),
        Column("log loss", "right"),
        Column("", "left"),
    )
    for row in rows:
        made.add_row(
            shown(row["model"], 24),
            shown(row["prior"], 40),
            number(row["log_loss"]["mean"], 4),
            "the prior's doing" if row["flagged"] else "",
        )
    return made


def _differences(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    made = table(
        "Items that differ between groups of equal ability, by every choice",
        Column("groups"),
        Column("scope"),
        Column("method"),
        Column("choice"),
        Column("null"),
        Column("flags", "right"),
        Column("max", "right", optional=True),
        Column("limit", "right", optional=True),
    )
    for row in rows:
        made.add_row(
            " / ".join(shown(name, 12) for name in row["groups"]),
            shown(row["scope"], 14),
            _METHODS.get(row["method"], row["method"]),
            _choice(row),
            row["prior"],
            ("unknown" if row["observed_max"] is None else f"{row['flags']:,}")
            + (" *" if row["headline"] else ""),
            number(row["observed_max"]),
            number(row["threshold"]),
        )
    yield made
    flagged = table(
        "Flagged items (rows marked *)",
        Column("item"),
        Column("groups"),
        Column("statistic", "right"),
        Column("delta", "right"),
        Column("class"),
    )
    for row in rows:
        for item in row["items"] if row["headline"] else ():
            if item["flagged"]:
                flagged.add_row(
                    shown(item["item"]),
                    " / ".join(shown(name, 16) for name in row["groups"]),
                    number(item["statistic"]),
                    number(item["effect"]),
                    item["class"] or "",
                )
    if flagged.rows:
        yield flagged


_METHODS: Final = {
    "mantel_haenszel": "MH",
    "ridge_logistic": "ridge",
    "ridge_logistic_non_uniform": "ridge, slopes",
}


def _choice(row: Mapping[str, Any]) -> str:
    """What is particular to a row, in a few words."""
    if row["bands"] is None:
        return f"penalty {row['penalty']:g}"
    words = row["bands"].replace(" quantile bands of", " bands,").replace("the two groups", "pair")
    words = words.replace(" (right-closed)", "")  # all are
    matching = row["matching"].replace("score", "").replace("without the item", "rest").strip()
    return ", ".join(part for part in (words.replace("all targets", "all"), matching) if part)


def _interval(ends: Sequence[float] | None) -> str:
    return "unknown" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"
