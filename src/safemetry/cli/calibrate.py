"""`safemetry calibrate`: items and targets on one scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from safemetry.cli.counting_options import judge_option, success_option
from safemetry.cli.options import Shared, Whole, command
from safemetry.cli.tables import Column, Table, number, table
from safemetry.display import shown

if TYPE_CHECKING:
    from safemetry.irt.finding import CalibrationFinding

_MODELS: Final = ("rasch", "1pl", "2pl", "3pl", "4pl", "grm")
_ROTATIONS: Final = ("oblimin", "quartimin", "varimax", "promax", "geomin", "none")


@command(
    "calibrate",
    examples=(
        "safemetry calibrate matrix.csv --model 2pl -o calibration/",
        "safemetry calibrate study/ --judge judge-1 --structure category",
        "safemetry calibrate matrix.csv --dims 3 --json calibration.json",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--model",
    type=click.Choice(_MODELS),
    default="2pl",
    show_default=True,
    help="Item response model; grm for ordered classes.",
)
@click.option(
    "--prior",
    default="default",
    show_default=True,
    metavar="none|default|FILE",
    help="Priors of the item parameters.",
)
@click.option(
    "--dims",
    type=Whole(1),
    default=1,
    show_default=True,
    metavar="K",
    help="Dimensions to explore.",
)
@click.option(
    "--structure",
    metavar="COL",
    help="Column of the items, or FILE:COL, that names the dimension of each.",
)
@click.option(
    "--general", is_flag=True, help="With --structure: a general dimension too (bifactor)."
)
@click.option(
    "--rotation",
    type=click.Choice(_ROTATIONS),
    default="oblimin",
    show_default=True,
    help="Of several explored dimensions.",
)
@click.option(
    "--ability",
    type=click.Choice(["map", "eap", "wle"]),
    default="map",
    show_default=True,
    help="Posterior mode, posterior mean, or Warm's estimate.",
)
@click.option("--negative", is_flag=True, help="Allow items that run against the rest.")
@click.option(
    "--restarts",
    type=Whole(1),
    default=5,
    show_default=True,
    metavar="R",
    help="Starts of a fit in several dimensions.",
)
@success_option
@judge_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Keep the calibration."
)
@click.option("--replace", is_flag=True, help="Replace a calibration that is there.")
def calibrate(
    sources: tuple[str, ...],
    shared: Shared,
    output: Path | None,
    prior: str,
    structure: str | None,
    success: str | None,
    judge: str | None,
    replace: bool,
    **options: Any,
) -> None:
    """Fit an item response model: how hard and how telling each item is, and how able each target.

    The outcome is 1 where the response is the one that the benchmark rewards. Items to which all
    targets responded alike are left out, by name.
    """
    from safemetry.cli.output import deliver
    from safemetry.irt import CalibrationSettings, ItemModel, save_calibration
    from safemetry.irt import calibrate as fit
    from safemetry.irt.settings import read_priors
    from safemetry.readers.keyed import column_of

    evidence = shared.evidence(sources, judge=judge)
    settings = CalibrationSettings(
        model=ItemModel(options["model"]),
        priors=read_priors(prior),
        dims=options["dims"],
        structure=column_of(evidence, structure, "item") if structure else None,
        general=options["general"],
        structure_name=structure,
        ability=options["ability"],
        rotation=options["rotation"],
        allow_negative=options["negative"],
        restarts=options["restarts"],
        seed=shared.seed,
    )
    finding = fit(evidence, success=success, settings=settings)
    if output is not None:
        save_calibration(finding.stored(), output, replace=replace)
    lines = [finding.sentence()]
    if output is not None:
        lines.append(f"The calibration is in {output}.")
    deliver(finding, shared, _tables(finding), *lines)


def _tables(finding: CalibrationFinding) -> list[Table]:
    tables = [_abilities(finding), _items(finding)]
    if len(finding.dimensions) > 1:
        tables.append(_correlations(finding))
    if finding.prior_sensitivity is not None:
        tables.append(_sensitivity(finding))
    return tables


def _abilities(finding: CalibrationFinding) -> Table:
    several = len(finding.dimensions) > 1
    made = table(
        f"Abilities ({finding.theta_method})",
        Column("target"),
        *(
            [Column(shown(name, 16), "right") for name in finding.dimensions]
            if several
            else [Column("ability", "right"), Column("error", "right")]
        ),
    )
    for row in finding.ability_rows():
        numbers = row["theta"] if several else [row["theta"], row["se"]]
        made.add_row(shown(row["target"]), *map(_cell, numbers))
    return made


def _items(finding: CalibrationFinding) -> Table:
    several = len(finding.dimensions) > 1
    slopes = [f"a {shown(name, 14)}" for name in finding.dimensions] if several else ["a"]
    made = table(
        f"Items ({finding.model})",
        Column("item"),
        *(Column(name, "right") for name in slopes),
        *([] if several else [Column("error", "right", optional=True)]),
        Column("d", "right"),
        *([] if several else [Column("b", "right")]),
        Column("g", "right", optional=True),
        Column("u", "right", optional=True),
    )
    for row in finding.item_rows():
        slope = row["a"] if several and row["a"] is not None else [row["a"]] * len(slopes)
        made.add_row(
            shown(row["item"]),
            *map(_cell, slope),
            *([] if several else [_cell(row["se_a"])]),
            _cell(row["d"]),
            *([] if several else [_cell(row["thresholds"] or row["b"])]),
            _cell(row["g"]),
            _cell(row["u"]),
        )
    return made


def _correlations(finding: CalibrationFinding) -> Table:
    names = [shown(name, 16) for name in finding.dimensions]
    made = table(
        "Correlations of the dimensions",
        Column("dimension"),
        *(Column(name, "right") for name in names),
    )
    for name, row in zip(names, finding.factor_correlations.tolist(), strict=True):
        made.add_row(name, *map(_cell, row))
    return made


def _sensitivity(finding: CalibrationFinding) -> Table:
    several = len(finding.dimensions) > 1
    shown: tuple[tuple[str, str, int], ...] = (
        (
            ("log-likelihood", "loglik", 1),
            ("mean change of a probability", "rms_probability_change", 3),
            ("largest", "largest_probability_change", 3),
        )
        if several
        else (
            ("log-likelihood", "loglik", 1),
            ("rank correlation", "ability_rank_correlation", 3),
            ("largest change", "largest_ability_change", 2),
            ("mean a", "mean_slope", 2),
        )
    )
    made = table(
        "The same fit with other priors",
        Column("priors"),
        *(Column(header, "right") for header, _, _ in shown),
    )
    for row in finding.prior_sensitivity or ():
        made.add_row(row["prior"], *(number(row[key], digits) for _, key, digits in shown))
    return made


def _cell(value: Any) -> str:
    return " ".join(map(number, value)) if isinstance(value, list) else number(value)
