"""`safemetry demo`: a simulated study, imported, measured and reported like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from safemetry.cli.options import Shared, command
from safemetry.findings import Finding, plain, resolved

if TYPE_CHECKING:
    from safemetry.claims import Claim
    from safemetry.cli.tables import Table
    from safemetry.rates import RatesFinding
    from safemetry.simulate import SimulatedStudy, StudyTruth

_MOST_COMPLIANT_JUDGE = "judge-1"
_TITLE = "What a simulated study supports"


@dataclass(frozen=True, kw_only=True)
class DemoFinding(Finding):
    """What the demonstration wrote, and what it shows.

    Parameters
    ----------
    simulated
        Always True: no model was asked anything.
    simulated_from
        The published figures that the simulation starts from.
    study, report
        Paths of the study and of its report.
    collapsed_judges
        The judges that were simulated to put compliance one class lower.
    targets
        For each target: the claims of the judges that see the least and the most attack success,
        and the share of responses that truly complied.
    """

    command: ClassVar[str] = "demo"

    simulated: bool = True
    simulated_from: tuple[str, ...]
    study: str
    report: str
    judgements: int
    collapsed_judges: tuple[str, ...]
    targets: tuple[Mapping[str, Any], ...]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per target."""
        return [plain(row) for row in self.targets]

    def sentence(self) -> str:
        """The lesson of the demonstration."""
        worst = max(self.targets, key=lambda row: row["highest"].estimate)
        low, high = worst["lowest"], worst["highest"]
        ratio = f"{high.estimate / low.estimate:.0f}-fold" if low.estimate else "from nothing"
        return (
            f"On the same responses of {worst['target']} the attack success rate runs from "
            f"{_rate(low)} ({low.scope.judge}) to {_rate(high)} ({high.scope.judge}), {ratio}; "
            f"{worst['true_rate']:.1%} of the responses truly complied."
        )


def _rate(claim: Claim) -> str:
    from safemetry.claims import count, percent

    return f"{percent(claim.estimate or 0.0)} of {count(claim.trials)}"


@command("demo", examples=("safemetry demo -o demo/",))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="New folder for the study and what was measured.",
)
def demo(output: Path, shared: Shared) -> None:
    """Simulate a small study with known truth, import it, measure it and write its report.

    No model is asked anything: 12 simulated targets, 100 behaviours under 9 attacks with benign
    twins, and 8 judges of which 3 put compliance one class lower.
    """
    from safemetry.cli.output import deliver, write_json, write_whole
    from safemetry.errors import InputError
    from safemetry.rates import measure_rates
    from safemetry.readers import import_sources, read_evidence
    from safemetry.report import compose_report
    from safemetry.simulate import simulate_study

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError("exists already", file=str(output), fix="name a new folder with -o")
    simulated = simulate_study(rng=shared.seed)
    source, map_file, study = _write_source(simulated, output)
    imported = import_sources([str(source)], study, evidence_map=simulated.map)
    evidence = read_evidence(str(study))
    rates = measure_rates(evidence)
    write_json(rates.to_dict(), str(output / "rates.json"))
    report = output / "report.html"
    said = f"This study is simulated, from: {'; '.join(simulated.truth.sources)}."
    noted = replace(evidence, warnings=(said, *evidence.warnings))
    write_whole(report, compose_report(noted, title=_TITLE).to_html())
    finding = DemoFinding(
        settings={"seed": shared.seed, "simulation": _settings(simulated.truth)},
        simulated_from=simulated.truth.sources,
        study=str(study),
        report=str(report),
        judgements=sum(report.judgements for report in imported.sources_read),
        collapsed_judges=simulated.truth.collapsed,
        targets=tuple(_targets(rates, simulated.truth)),
    )
    deliver(
        finding,
        shared,
        [_targets_table(finding), _claims_table(rates)],
        "This study is simulated. It starts from published figures:",
        *(f"  - {figure}" for figure in finding.simulated_from),
        "",
        finding.sentence(),
        "Simulated to put compliance one class lower: " + ", ".join(finding.collapsed_judges) + ".",
        "",
        f"{finding.judgements:,} judgements are in {study}, and what they support is in",
        f"  {report}",
        "Go on with:",
        f"  safemetry rates {study} --judge {_MOST_COMPLIANT_JUDGE} --by attack",
        f"  safemetry coverage {study} --judge {_MOST_COMPLIANT_JUDGE}",
        f"  safemetry rates {source} --map {map_file} --success non_refusal/majority",
    )


def _write_source(simulated: SimulatedStudy, output: Path) -> tuple[Path, Path, Path]:
    """Write the simulated judgements as a file that could be anybody's, and its map."""
    import pyarrow.parquet as pq
    import yaml

    from safemetry.cli.output import write_whole

    output.mkdir(parents=True, exist_ok=True)
    source, map_file = output / "judgements.parquet", output / "map.yaml"
    pq.write_table(simulated.judgements, source, compression="zstd")
    write_whole(map_file, yaml.safe_dump(dict(simulated.map), sort_keys=False))
    return source, map_file, output / "study"


def _settings(truth: StudyTruth) -> dict[str, Any]:
    """Settings of the simulation; a judge that does not collapse keeps no stated share."""
    settings: dict[str, Any] = plain(truth.settings)
    judges = [resolved(judge, "does not collapse") for judge in settings["judges"]]
    return settings | {"judges": judges}


def _targets(rates: RatesFinding, truth: StudyTruth) -> list[dict[str, Any]]:
    """The lowest and the highest attack success rate of each target, and the true one."""
    found: dict[str, list[Claim]] = {}
    for claim in rates.claims:
        if claim.metric == "attack_success_rate" and claim.estimate is not None:
            found.setdefault(claim.scope.target, []).append(claim)
    true_rates = _true_rates(truth)
    return [
        {
            "target": target,
            "lowest": min(claims, key=lambda claim: claim.estimate or 0.0),
            "highest": max(claims, key=lambda claim: claim.estimate or 0.0),
            "true_rate": true_rates[target],
        }
        for target, claims in found.items()
    ]


def _true_rates(truth: StudyTruth) -> dict[str, float]:
    """Share of the responses to harmful items that truly complied, lost ones included."""
    harmful = {row["item"] for row in truth.items.to_pylist() if row["intent"] == "harmful"}
    complied: dict[str, list[int]] = {}
    for row in truth.responses.to_pylist():
        if row["item"] in harmful:
            complied.setdefault(row["target"], []).append(int(row["class"] == "comply"))
    return {target: sum(values) / len(values) for target, values in complied.items()}


def _targets_table(finding: DemoFinding) -> Table:
    from safemetry.claims import percent
    from safemetry.cli.output import table

    made = table(
        "attack_success_rate, same responses, the lowest and the highest of 8 judges",
        ("target", "left"),
        ("lowest", "right"),
        ("ceiling", "right"),
        ("judge", "left"),
        ("highest", "right"),
        ("ceiling", "right"),
        ("judge", "left"),
        ("true", "right"),
    )
    for row in finding.targets:
        ends = [
            cell
            for claim in (row["lowest"], row["highest"])
            for cell in (percent(claim.estimate), percent(claim.ceiling or 1.0), claim.scope.judge)
        ]
        made.add_row(row["target"], *ends, f"{row['true_rate']:.1%}")
    return made


def _claims_table(rates: RatesFinding) -> Table:
    from safemetry.claims import count, percent
    from safemetry.cli.output import table

    made = table(
        f"Claims under {_MOST_COMPLIANT_JUDGE} (success: comply; simulated)",
        ("target", "left"),
        ("metric", "left"),
        ("rate", "right"),
        ("ceiling", "right"),
        ("events/trials", "right"),
        ("missing", "right"),
    )
    for claim in rates.claims:
        if (
            claim.scope.judge == _MOST_COMPLIANT_JUDGE
            and claim.metric in {"attack_success_rate", "over_refusal_rate"}
            and claim.estimate is not None
            and claim.ceiling is not None
        ):
            made.add_row(
                claim.scope.target,
                claim.metric,
                percent(claim.estimate),
                percent(claim.ceiling),
                f"{count(claim.events)}/{count(claim.trials)}",
                count(claim.missing.total),
            )
    return made
