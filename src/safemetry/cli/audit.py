"""`safemetry audit`: whether one target answers like itself, and like what it says it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.columns import short_names
from safemetry.cli.counting_options import judge_option, success_option
from safemetry.cli.options import SHARE, Number, Shared, Whole, command, names_option
from safemetry.cli.pages import page_option, require_page, write_page
from safemetry.cli.tables import Column, Table, number, percent, table
from safemetry.display import shown

if TYPE_CHECKING:
    from safemetry.audits.finding import AuditFinding
    from safemetry.evidence.evidence import Evidence

_MOST_REFERENCES: Final = 12


@command(
    "audit",
    examples=(
        "safemetry audit study/ --target model-x",
        "safemetry audit study/ --target model-x --history calibration/ --by attack",
        "safemetry audit new.csv --target model-x --before old.csv -o audit.html",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--target", required=True, metavar="T", help="The target under audit.")
@click.option(
    "--history",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="CALIBRATION",
    help="Calibrated items, among whose targets this one may be. [default: from the other targets]",
)
@click.option(
    "--before",
    multiple=True,
    metavar="SOURCE",
    help="Earlier answers of the target; repeat it for more runs.",
)
@click.option(
    "--by",
    multiple=True,
    metavar="COL",
    help="Column of the items, or FILE:COL, in whose values the target may behave differently; "
    "repeat it. [default: category]",
)
@click.option(
    "--order",
    metavar="COL",
    help="Column of the items, or FILE:COL, in whose order sums are watched (CUSUM).",
)
@names_option(
    "--statistics",
    "statistics",
    metavar="NAME,...",
    help="Of person fit: l_z, l_z_star, infit, outfit, guttman, guttman_normed, u3, h_t, cusum.",
)
@names_option(
    "--reference",
    "references",
    metavar="TARGET,...",
    help="Known targets that it may be. [default: all others]",
)
@click.option(
    "--disagreement",
    type=SHARE,
    metavar="S",
    help="Share of the informative items on which two runs of one target differ. [default: from "
    "repeated runs, else assumed]",
)
@click.option(
    "--clusters",
    metavar="COL",
    help="Column of the items, or FILE:COL, whose values are independent. [default: behaviour]",
)
@click.option(
    "--margin",
    type=Number(above=0),
    default=0.5,
    show_default=True,
    metavar="T",
    help="Largest difference of abilities that does not matter.",
)
@click.option("--lower", is_flag=True, help="Only a fall of the ability counts: it held back.")
@click.option(
    "--level",
    type=Number(above=0, below=0.5),
    default=0.05,
    show_default=True,
    metavar="P",
    help="False-positive rate of each test.",
)
@click.option(
    "--simulations",
    type=Whole(99),
    default=1000,
    show_default=True,
    metavar="N",
    help="Answers that fit by construction, behind cutoffs and p-values.",
)
@success_option
@judge_option
@page_option
def audit(
    sources: tuple[str, ...],
    shared: Shared,
    *,
    target: str,
    history: Path | None,
    before: tuple[str, ...],
    output: Path | None,
    **options: Any,
) -> None:
    """Audit one target: whether it answers like itself, and like what it says it is.

    Says whether its answers fit its own ability, in which categories they do not, whether the
    ability has shifted, which known target it is nearest to, and whether it is still what it was.
    """
    from safemetry.audits import AuditSettings, audit_target
    from safemetry.cli.output import deliver
    from safemetry.findings import resolved
    from safemetry.irt import load_calibration
    from safemetry.report.sections.audits import audit_part

    require_page(output)
    success, judge = options.pop("success"), options.pop("judge")
    stored = load_calibration(history) if history is not None else None
    evidence = shared.evidence(sources, judge=judge)
    earlier = [shared.evidence((source,), judge=judge) for source in before] or None
    columns = {name: options.pop(name) for name in ("by", "clusters", "order")}
    properties, used = _properties(evidence, columns)
    settings = AuditSettings(
        by=used["by"],
        clusters=used["clusters"],
        order=used["order"],
        statistics=options["statistics"] or None,
        references=options["references"] or None,
        disagreement=options["disagreement"],
        margin=options["margin"],
        alternative="lower" if options["lower"] else "two_sided",
        level=options["level"],
        simulations=options["simulations"],
        seed=shared.seed,
    )
    finding = audit_target(
        evidence,
        target,
        history=stored,
        before=earlier,
        properties=properties,
        settings=settings,
        success=success,
        judge=judge,
    )
    chosen = {
        **shared.settings(),
        "judge": judge,
        "success": success,
        **finding.settings,
        "history": None if history is None else str(history),
        "before": list(before),
        "by": list(columns["by"]) or list(used["by"]),
        "order": columns["order"],
        "sources": list(evidence.sources),
    }
    finding = replace(finding, settings=resolved(chosen, "not given"))
    lines = [finding.sentence()]
    lines += write_page(
        finding,
        audit_part,
        evidence,
        output,
        title="Does the target answer like itself?",
        counts=f"{shown(target, 60)} \N{MIDDLE DOT} {finding.answered:,} items answered",
    )
    deliver(finding, shared, list(_tables(finding)), *lines)


def _properties(
    evidence: Evidence, columns: Mapping[str, Any]
) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """Values of the columns that are asked for, and of those used by default where they are known.

    A default column is passed over where no item has it, or an item has two values of it.
    """
    from safemetry.errors import InputError
    from safemetry.readers.keyed import column_of

    found: dict[str, dict[str, str]] = {}
    asked = [*columns["by"], *(columns[name] for name in ("clusters", "order") if columns[name])]
    short = {name: column for column, name in short_names(asked).items()}
    for name, column in short.items():
        found[column] = column_of(evidence, name, "item")
        if not found[column]:
            raise InputError(f"no item has a {name}", fix="name another column, or FILE:COL")
    used: dict[str, Any] = {
        "by": tuple(dict.fromkeys(short[name] for name in columns["by"])),
        **{name: short.get(columns[name]) for name in ("clusters", "order")},
    }
    for name, column in (("by", "category"), ("clusters", "behaviour")):
        if used[name]:
            continue
        try:
            values = column_of(evidence, column, "item")
        except InputError:
            values = {}
        if values:
            found[column] = values
        used[name] = ((column,) if values else ()) if name == "by" else column if values else None
    return found, used


# --- what the screen shows -----------------------------------------------------------------------


def _tables(finding: AuditFinding) -> Iterator[Table]:
    result = finding.own_keys()
    if result["person_fit"]:
        yield _fit(result)
    if result["misfit"]:
        yield _misfit(result["misfit"], result["selective"])
    if result["ability_shift"]:
        yield _shift(result["ability_shift"])
    if result["fingerprint"]:
        yield _fingerprint(result["fingerprint"])


def _fit(result: Mapping[str, Any]) -> Table:
    level = f"{result['union']['level']:.0%}"
    made = table(
        f"Person fit at a level of {level}",
        Column("statistic"),
        Column("value", "right"),
        Column("cutoff", "right"),
        Column("p", "right"),
        Column("flags if it fits", "right"),
        Column("flagged"),
    )
    for row in result["person_fit"]:
        sign = "<" if row["side"] == "low" else ">"
        made.add_row(
            row["statistic"],
            number(row["value"]),
            "unknown" if row["cutoff"] is None else f"{sign} {number(row['cutoff'])}",
            number(row["p_value"], 3),
            percent(row["null_rate"]),
            "yes" if row["flagged"] else "no",
        )
    union = result["union"]
    made.add_row(
        "all together",
        "",
        "",
        number(union["p_value"], 3),
        percent(union["null_rate"]),
        "yes" if union["flagged"] else "no",
    )
    return made


def _misfit(rows: Sequence[Mapping[str, Any]], scan: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "By category: answers against the target's own ability",
        Column("by", optional=True),
        Column("category"),
        Column("items", "right"),
        Column("residual", "right"),
        Column("p adjusted", "right"),
        Column("ability, less the rest", "right"),
        Column("flagged"),
    )
    own = {(row["by"], row["category"]): row for row in scan}
    for row in rows:
        part = own.get((row["by"], row["category"]), {})
        flags = [
            word for word, found in (("misfit", row), ("selective", part)) if found.get("flagged")
        ]
        made.add_row(
            shown(row["by"], 16),
            shown(row["category"], 24),
            f"{row['items']:,}",
            number(row["value"]),
            number(row["p_adjusted"], 3),
            number(part.get("difference")),
            " and ".join(flags) or "no",
        )
    return made


def _shift(found: Mapping[str, Any]) -> Table:
    made = table(
        "Ability against its history",
        Column("before", "right"),
        Column("now", "right"),
        Column("shift", "right"),
        Column("interval", "right"),
        Column("points", "right"),
        Column("would be seen from", "right"),
        Column("verdict"),
    )
    low, high = found["interval"]
    lower = found["resolution"]["lower"]
    made.add_row(
        number(found["before"]),
        number(found["now"]),
        number(found["difference"]),
        f"{number(low)} to {number(high)}",
        number(found["points"], 1),
        "unknown" if lower is None else f"-{number(lower)}",
        found["verdict"].replace("_", " "),
    )
    return made


def _fingerprint(rows: Sequence[Mapping[str, Any]]) -> Table:
    made = table(
        "Which known target is it? The most likely first",
        Column("known target"),
        Column("agreement", "right"),
        Column("items", "right"),
        Column("log ratio", "right"),
        Column("verdict"),
        Column("not told apart from", optional=True),
    )
    for row in rows[:_MOST_REFERENCES]:
        others = [name for name in row["group"] if name != row["reference"]]
        made.add_row(
            shown(row["reference"], 32),
            percent(row["agreement"]),
            f"{row['informative_items']:,}",
            number(row["log_likelihood_ratio"], 1),
            str(row["verdict"]).replace("_", " "),
            ", ".join(shown(name, 20) for name in others[:3]),
        )
    return made
