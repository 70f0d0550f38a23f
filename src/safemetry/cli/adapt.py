"""`safemetry adapt`: adaptive tests, simulated on responses or taken item by item."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from safemetry.cli.counting_options import judge_option, success_option
from safemetry.cli.options import SHARE, Number, Shared, Whole, command
from safemetry.cli.pages import page_option, require_page, write_page
from safemetry.cli.tables import Column, Table, number, percent, table
from safemetry.display import shown

if TYPE_CHECKING:
    from safemetry.evidence.evidence import Evidence
    from safemetry.forms.adapted import AdaptFinding
    from safemetry.forms.adaptive import AdaptiveSettings, Session
    from safemetry.forms.pool import ItemPool

_RULES: Final = (
    *("information", "posterior_information", "kl", "klp", "kl_interval", "a_stratified"),
    *("determinant", "posterior_determinant", "trace", "score", "random"),
)
_LARGEST: Final = 16 << 20


@command(
    "adapt",
    examples=(
        "safemetry adapt calibration/ --simulate matrix.csv --budget 25",
        "safemetry adapt calibration/ --simulate study/ --cut-score 0.9",
        "safemetry adapt calibration/ --session model-x.json --answer 1",
    ),
)
@click.argument("calibration", metavar="CALIBRATION", type=click.Path(path_type=Path))
@click.option(
    "--simulate",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Responses that are there already; every target takes the test. Repeat it for more.",
)
@click.option(
    "--session",
    "session_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="One live test, kept in this file: says which item is next, and goes on with --answer.",
)
@click.option(
    "--answer",
    "code",
    type=click.IntRange(-1, 99),
    metavar="CODE",
    help="Outcome of the item that was asked, -1 where no judgement could be had.",
)
@click.option(
    "--rule",
    type=click.Choice(_RULES),
    metavar="RULE",
    help=f"How the next item is chosen: {', '.join(_RULES)}. [default: information, or determinant "
    "in several dimensions]",
)
@click.option(
    "--estimator",
    type=click.Choice(["eap", "map", "ml", "wle"]),
    default="eap",
    show_default=True,
    help="How the ability is estimated on the way.",
)
@click.option(
    "--budget",
    type=Whole(1),
    default=50,
    show_default=True,
    metavar="N",
    help="Most items of a test.",
)
@click.option(
    "--precision", type=Number(above=0), metavar="SE", help="Stop at this standard error."
)
@click.option(
    "--cut", type=Number(), metavar="THETA", help="Stop when the side of this ability is decided."
)
@click.option(
    "--cut-score",
    type=SHARE,
    metavar="S",
    help="The same for a cut on the expected score over all items.",
)
@click.option(
    "--alpha",
    type=SHARE,
    default=0.05,
    show_default=True,
    metavar="P",
    help="Error rate of a decision for 'above'.",
)
@click.option(
    "--beta",
    type=SHARE,
    default=0.05,
    show_default=True,
    metavar="P",
    help="Error rate of a decision for 'below'.",
)
@click.option(
    "--half-width",
    type=Number(above=0),
    default=0.3,
    show_default=True,
    metavar="T",
    help="The error rates hold this far from the cut, in units of the ability.",
)
@click.option(
    "--randomesque",
    type=Whole(1),
    default=1,
    show_default=True,
    metavar="K",
    help="Draw the next item from the K best.",
)
@click.option(
    "--most-exposure",
    type=SHARE,
    metavar="S",
    help="With --simulate: largest share of tests in which an item may be given.",
)
@click.option(
    "--per",
    metavar="COL",
    help="With --simulate: column of the items, or FILE:COL, in whose shares items are given; none "
    "for no balance. [default: category, where the items have one]",
)
@success_option
@judge_option
@page_option
def adapt(
    calibration: Path,
    shared: Shared,
    *,
    sources: tuple[str, ...],
    session_file: Path | None,
    code: int | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Test a target adaptively: the next item depends on the answers so far.

    With --simulate every target of a source takes the test on the responses that it has given
    already. With --session the test is live: the command names the next item and keeps the state in
    a file.
    """
    if bool(sources) == (session_file is not None):
        raise click.UsageError("Give --simulate SOURCE or --session FILE.")
    if code is not None and session_file is None:
        raise click.UsageError("--answer belongs to --session FILE.")
    require_page(output)
    if session_file is not None:
        if options["per"] or options["most_exposure"] or output is not None:
            raise click.UsageError("--per, --most-exposure and -o belong to --simulate.")
        _live(calibration, shared, session_file, code, options)
    else:
        _simulate(calibration, shared, sources, output, options)


def _settings(options: Mapping[str, Any], pool: ItemPool) -> AdaptiveSettings:
    from safemetry.forms.adaptive import (
        AdaptiveSettings,
        Balance,
        Classification,
    )

    cut, cut_score = options["cut"], options["cut_score"]
    classification = None
    if cut is not None or cut_score is not None:
        classification = Classification(
            cut=cut,
            cut_score=cut_score,
            alpha=options["alpha"],
            beta=options["beta"],
            half_width=options["half_width"],
        )
    several = pool.parameters.dimensions > 1
    return AdaptiveSettings(
        rule=options["rule"] or ("determinant" if several else "information"),
        estimator=options["estimator"],
        budget=min(options["budget"], len(pool.items)),
        precision=options["precision"],
        classification=classification,
        randomesque=options["randomesque"],
        balance=Balance(options["per"]) if options["per"] else None,
    )


def _simulate(
    calibration: Path,
    shared: Shared,
    sources: Sequence[str],
    output: Path | None,
    options: Mapping[str, Any],
) -> None:
    from safemetry.cli.output import deliver
    from safemetry.findings import resolved
    from safemetry.forms import simulate_adaptive
    from safemetry.forms.pool import ItemPool
    from safemetry.irt import load_calibration
    from safemetry.report.sections.adaptive import adaptive_part

    stored = load_calibration(calibration)
    evidence = shared.evidence(sources, judge=options["judge"])
    properties = _balanced(evidence, options["per"])
    options = {**options, "per": next(iter(properties), None)}
    pool = ItemPool.of_calibration(stored, properties)
    finding = simulate_adaptive(
        stored,
        evidence,
        properties=properties,
        settings=_settings(options, pool),
        most_exposure=options["most_exposure"],
        seed=shared.seed,
        success=options["success"],
    )
    chosen = {
        **shared.settings(),
        **finding.settings,
        "calibration": str(calibration),
        "judge": options["judge"],
        "success": options["success"],
        "sources": list(evidence.sources),
    }
    finding = replace(finding, settings=resolved(chosen, "not given"))
    lines = [finding.sentence()]
    lines += write_page(
        finding,
        adaptive_part,
        evidence,
        output,
        title="What is an adaptive test worth?",
        counts=f"{len(finding.sessions):,} targets \N{MIDDLE DOT} {finding.pool:,} items",
    )
    deliver(finding, shared, list(_tables(finding)), *lines)


def _balanced(evidence: Evidence, per: str | None) -> dict[str, dict[str, str]]:
    """The property in whose shares items are given, with its values; empty for none."""
    from safemetry.errors import InputError
    from safemetry.readers.keyed import column_of

    if per == "none":
        return {}
    if per is not None:
        return {per.rpartition(":")[2]: column_of(evidence, per, "item")}
    try:
        values = column_of(evidence, "category", "item")
    except InputError:  # an item has two of them
        return {}
    return {"category": values} if len(set(values.values())) > 1 else {}


# --- one live test -------------------------------------------------------------------------------


def _live(
    calibration: Path,
    shared: Shared,
    file: Path,
    code: int | None,
    options: Mapping[str, Any],
) -> None:
    from safemetry.cli.output import write_json, write_text
    from safemetry.errors import InputError
    from safemetry.forms.adaptive import answer, next_item, resume_session, start_session
    from safemetry.forms.pool import ItemPool
    from safemetry.irt import load_calibration

    pool = ItemPool.of_calibration(load_calibration(calibration))
    if file.exists():
        _refuse_new_settings(file)
        session = resume_session(_content(file), pool)
    elif code is not None:
        raise InputError(
            "there is no session to answer in", file=str(file), fix="start it without --answer"
        )
    else:
        session = start_session(pool, _settings(options, pool), shared.seed)
    asked = next_item(session)
    if code is not None:
        if asked is None:
            raise InputError(f"the test has ended ({session.stop})", file=str(file))
        session = answer(session, asked, code)
        asked = next_item(session)
    write_text(json.dumps(session.to_dict(), ensure_ascii=False, allow_nan=False) + "\n", file)
    shared.busy.stop()
    if shared.json_to:
        write_json(_state(session, asked, str(file), shared), shared.json_to)
    if not shared.quiet and shared.json_to != "-":
        click.echo(_in_words(session, asked))


_OF_A_START: Final = (
    *("rule", "estimator", "budget", "precision", "cut", "cut_score", "alpha", "beta"),
    *("half_width", "randomesque"),
)


def _refuse_new_settings(file: Path) -> None:
    """A test goes on as it was started.

    Raises
    ------
    click.UsageError
        For an option that belongs to the start.
    """
    context = click.get_current_context()
    for name in _OF_A_START:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(
                f"{option} belongs to the start of a test, and {str(file)!r} has begun."
            )


def _content(file: Path) -> Mapping[str, Any]:
    """The state in a file, which is not trusted."""
    from safemetry.errors import InputError

    try:
        if file.stat().st_size > _LARGEST:
            raise InputError("is too large for a session", file=str(file))
        found = json.loads(file.read_text("utf-8"))
    except OSError as error:
        said = error.strerror or str(error)
        raise InputError(f"cannot be read ({said})", file=str(file)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            "is no session", file=str(file), fix="name another file, or start a new one"
        ) from error
    if not isinstance(found, dict):
        raise InputError("is no session", file=str(file), fix="name another file")
    return found


def _state(session: Session, asked: str | None, file: str, shared: Shared) -> dict[str, Any]:
    """The JSON result of a live test: the keys of a simulated one, for one session."""
    from importlib.metadata import version

    from safemetry.cli.output import explained
    from safemetry.findings import SCHEMA_VERSION

    content = session.to_dict()
    single = session.test.pool.parameters.dimensions == 1
    numbers = {
        name: [values[0] for values in content[name]] if single else content[name]
        for name in ("theta", "se")
    }
    why = dict(content["why"])
    if asked is None:
        why["next_item"] = "the test has ended"
    row = {
        "target": Path(file).stem,
        "items": content["items"],
        "codes": content["codes"],
        **numbers,
        "stop": content["stop"],
        "decision": content["decision"],
        "next_item": asked,
        "why": why,
    }
    return {
        "schema": SCHEMA_VERSION,
        "command": "adapt",
        "version": version("safemetry"),
        "settings": explained(
            {**shared.settings(), **content["settings"], "session": file, "seed": session.seed}
        ),
        "warnings": [],
        "sessions": [row],
        "evaluation": None,
        "why": {"evaluation": "one live test is compared with nothing"},
    }


def _in_words(session: Session, asked: str | None) -> str:
    count = len(session.items)
    so_far = f"{count:,} item{'' if count == 1 else 's'} so far"
    if session.theta and session.test.pool.parameters.dimensions == 1:
        error = session.se[-1][0]
        about = "" if error is None else f" (standard error {error:.2f})"
        so_far += f", ability {session.theta[-1][0]:.2f}{about}"
    if asked is not None:
        return f"{so_far}.\nNext: {shown(asked, 200)}"
    decision = "" if session.decision is None else f"; decision: {session.decision}"
    return f"{so_far}. The test has ended: {session.stop}{decision}."


# --- what the screen shows -----------------------------------------------------------------------


def _tables(finding: AdaptFinding) -> Iterator[Table]:
    yield _sessions(finding.own_keys()["sessions"])
    if finding.budgets:
        yield _budgets(finding)


def _sessions(sessions: Sequence[Mapping[str, Any]]) -> Table:
    decided = any("decision" in session for session in sessions)
    made = table(
        "Tests",
        Column("target"),
        Column("items", "right"),
        Column("ability", "right"),
        Column("error", "right"),
        Column("stopped by"),
        *([Column("decision")] if decided else []),
    )
    for session in sessions:
        theta, error = (session[name][-1] if session[name] else None for name in ("theta", "se"))
        made.add_row(
            shown(session["target"], 32),
            f"{len(session['items']):,}",
            *(
                " ".join(map(number, value)) if isinstance(value, list) else number(value)
                for value in (theta, error)
            ),
            session["stop"],
            *([session["decision"].replace("_", " ")] if decided else []),
        )
    return made


def _budgets(finding: AdaptFinding) -> Table:
    made = table(
        "The score over all items, missed by (root mean square)",
        Column("items", "right"),
        Column("adaptive", "right"),
        Column("random items", "right"),
        Column("bias", "right"),
        Column("rank corr.", "right"),
    )
    for row in finding.budgets or ():
        made.add_row(
            f"{row.items:,}",
            percent(row.rmse),
            percent(row.random_rmse),
            percent(row.bias + 0.0),
            number(row.spearman),
        )
    return made
