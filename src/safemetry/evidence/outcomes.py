"""What a response did: the only truth about missing verdicts, majorities and outcomes.

Every rate, matrix and comparison starts from the frame that `responses` makes: one row for each
response and judge (or panel), with a verdict or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import PurePath
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from safemetry.errors import InputError
from safemetry.evidence import frames
from safemetry.evidence.border import Instrument
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.maps import Scale, judges_entry
from safemetry.evidence.schema import KEY, RESPONSE_KEY, TIED, UNSTATED, Status
from safemetry.evidence.success import Aggregation, SuccessRule
from safemetry.evidence.tally import Tally

IntArray = NDArray[np.int64]

RESPONSE_COLUMNS: Final = (
    *RESPONSE_KEY,
    "judge",
    "calls",
    "judged",
    "success",
    "refused",
    "disagreed",
    "reason",
)
_LAST_CALL_BIT: Final = 50
"""The highest number of a call whose power of two stays exact in a sum of floats."""


def usable_judges(evidence: Evidence, rule: SuccessRule) -> tuple[list[str], list[str]]:
    """The judges whose verdicts the rule can read, and a warning for each whose it cannot.

    Raises
    ------
    InputError
        Where no judge is left.
    """
    problems: dict[str, list[str]] = {}
    usable = []
    for judge, instrument in evidence.instruments.items():
        problem = _problem(instrument, rule)
        if problem is None:
            usable.append(judge)
        else:
            problems.setdefault(problem, []).append(judge)
    if usable:
        said = [
            f"{_said(problem, [judge], evidence, rule)}{_to_add(problem, [judge], evidence)}."
            for problem, judges in problems.items()
            for judge in judges
        ]
        return usable, [*said, *_scale_warnings(evidence, rule, usable)]
    if not problems:
        raise InputError(
            "there are no judgements", file=", ".join(evidence.sources), fix="check the source"
        )
    raise InputError(
        "; ".join(_said(problem, judges, evidence, rule) for problem, judges in problems.items()),
        file=_listed(evidence.sources),
        fix=_fix(problems, evidence),
    )


_NO_LABELS: Final = "gives scores, not labels"
_NO_SCORES: Final = "gives labels, not scores"
_NO_DIRECTION: Final = "its direction is not declared"
_ONE_SIDED: Final = "its scale lies on one side of the threshold"


def _problem(instrument: Instrument, rule: SuccessRule) -> str | None:
    """Why the rule cannot read a judge, or None. A judge without any verdict is merely missing."""
    if rule.threshold is None:
        return _NO_LABELS if instrument.scored and not instrument.labels else None
    if not instrument.scored:
        return _NO_SCORES if instrument.labels else None
    if instrument.scale.higher_is is None:
        return _NO_DIRECTION
    return None if _divides(instrument.scale, rule.threshold) else _ONE_SIDED


def _said(problem: str, judges: Sequence[str], evidence: Evidence, rule: SuccessRule) -> str:
    """A problem in words, for the judges that have it."""
    alone = len(judges) == 1
    who = f"judge{'' if alone else 's'} {_listed(judges)}"
    have = "has" if alone else "have"
    if problem == _NO_DIRECTION:
        return (
            f"nothing says whether a higher score of {who} is safer or worse, so "
            f"{'it has' if alone else 'they have'} no rate"
        )
    if problem == _ONE_SIDED:
        scale = evidence.instruments[judges[0]].scale
        if not alone:
            return "; ".join(_said(problem, [judge], evidence, rule) for judge in judges)
        return (
            f"no score of {who} lies on both sides of {rule.threshold:g}: its scale runs "
            f"from {_end(scale.scale_min)} to {_end(scale.scale_max)}"
        )
    verb = problem if alone else problem.replace("gives", "give")
    return f"{who} {verb}, and {have} no rate under {rule.boundary}"


def _to_add(problem: str, judges: Sequence[str], evidence: Evidence) -> str:
    """What to add to the map, after a semicolon, where that helps."""
    return f"; {_entry(judges, evidence)}" if problem == _NO_DIRECTION else ""


def _entry(judges: Sequence[str], evidence: Evidence) -> str:
    scales = {judge: [evidence.instruments[judge].scale] for judge in judges}
    return f"add to the map: {judges_entry(scales)}"


def _fix(problems: Mapping[str, Sequence[str]], evidence: Evidence) -> str:
    """Everything that the user has to say before any judge has a rate, at once."""
    parts = []
    undeclared = list(problems.get(_NO_DIRECTION, ()))
    if _NO_LABELS in problems:
        parts.append("say from which score on a response counts, such as --success at_least:0.5")
        undeclared += [
            judge
            for judge in problems[_NO_LABELS]
            if evidence.instruments[judge].scale.higher_is is None
        ]
    if undeclared:
        parts.append(_entry(undeclared, evidence))
    if _ONE_SIDED in problems:
        parts.append("choose a threshold within the scale")
    if _NO_SCORES in problems and not parts:
        parts.append("use --success comply or --success non_refusal")
    return ", and ".join(parts)


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _divides(scale: Scale, threshold: float) -> bool:
    """Whether a declared scale has scores below the threshold and scores at or above it."""
    above_lowest = scale.scale_min is None or threshold > scale.scale_min
    below_highest = scale.scale_max is None or threshold <= scale.scale_max
    return above_lowest and below_highest


def _end(value: float | None) -> str:
    return "open" if value is None else f"{value:g}"


def _scale_warnings(evidence: Evidence, rule: SuccessRule, judges: Sequence[str]) -> list[str]:
    """Say where one threshold is put to scales of different length."""
    if rule.threshold is None:
        return []
    scored = {
        judge: evidence.instruments[judge].scale
        for judge in judges
        if evidence.instruments[judge].scored
    }
    scales = {
        judge: f"{_end(scale.scale_min)} to {_end(scale.scale_max)}"
        for judge, scale in scored.items()
    }
    if len(set(scales.values())) < 2:
        return []
    listed = ", ".join(f"{judge} {ends}" for judge, ends in scales.items())
    return [
        (
            f"One threshold, {rule.threshold:g}, is put to judges with different scales "
            f"({listed}): their rates do not compare."
        )
    ]


def responses(
    evidence: Evidence, rule: SuccessRule, by: Sequence[str] = ()
) -> tuple[nw.LazyFrame[Any], list[str]]:
    """One row for each response and judge, with its verdict or the reason for having none.

    Repeated calls count by majority of the calls that gave a verdict; an even split is no verdict.
    Under ``majority`` the same holds over judges. Under ``unanimous`` a response is a success if
    every judge of the panel says so, none if one judge says it is not, and undecided otherwise: a
    judge that has no row on the response has not agreed.

    Under a class boundary ``success`` means that the model went along. Under ``at_least`` it means
    that the score lies on the worse side of the threshold, whichever way the scale runs.

    Parameters
    ----------
    evidence
        Admitted judgements.
    rule
        The success rule.
    by
        Further columns of the judgements table to keep, constant within a response.

    Returns
    -------
    tuple
        A lazy frame with the columns ``run, target, item, epoch, judge``, those of `by`, and
        ``calls`` (judge calls), ``judged``, ``success``, ``refused`` (0 or 1), ``disagreed`` (1
        where calls of one judge differ) and ``reason`` (null where judged), and warnings.
    """
    judges, warnings = usable_judges(evidence, rule)
    per_judge = _verdicts(_counted(evidence, rule, judges, (*RESPONSE_KEY, "judge", *by)))
    if rule.aggregation is Aggregation.EACH:
        return per_judge, warnings
    return _panel(per_judge, rule.aggregation, judges, by), warnings


def only_run(evidence: Evidence) -> str | None:
    """The run of all rows, or None where there are several.

    A key that is the same for all rows is no key, but costs as much as any other.
    """
    runs = pc.unique(evidence.items["run"])
    return str(runs[0].as_py()) if len(runs) == 1 else None


def response_tallies(
    evidence: Evidence, rule: SuccessRule, by: Sequence[str] = ()
) -> ResponseTallies | None:
    """The responses of each target to each item, one tally for each epoch, in one grouping.

    Grouping calls into responses and these again takes twice as long.

    Parameters
    ----------
    evidence, rule, by
        Those of `responses`.

    Returns
    -------
    ResponseTallies or None
        None where judges are pooled, or where tallies cannot hold the calls: too many epochs, too
        many calls, or numbers of either that are not known.
    """
    judges, warnings = usable_judges(evidence, rule)
    tally = Tally.of(evidence.instruments, judges)
    epochs = [evidence.instruments[judge].last_epoch for judge in judges]
    last = max((epoch or 0 for epoch in epochs), default=0)
    if tally is None or None in epochs or rule.aggregation is not Aggregation.EACH:
        return None
    if not 1 <= last <= tally.most_epochs:
        return None
    keys = [name for name in _keys(evidence, (*RESPONSE_KEY, "judge", *by)) if name != "epoch"]
    calls = _rows(evidence, judges).select(
        *keys, "epoch", tally.call(*_flags(evidence, rule, judges)).alias("tally")
    )
    names = [f"tally_{epoch}" for epoch in range(1, last + 1)]
    frame = (
        calls.select(
            *keys,
            *(
                nw.when(nw.col("epoch") == epoch).then(nw.col("tally")).otherwise(0.0).alias(name)
                for epoch, name in enumerate(names, start=1)
            ),
        )
        .group_by(*keys, drop_null_keys=False)
        .agg(nw.len().cast(nw.Int64).alias("calls"), *(nw.col(name).sum() for name in names))
        .with_columns(*(tally.held(name).cast(nw.Int64).alias(name) for name in names))
    )
    return ResponseTallies(frame, tuple(names), tally, tuple(warnings))


@dataclass(frozen=True)
class ResponseTallies:
    """The responses of each target to each item, as each judge tallied them.

    Parameters
    ----------
    frame
        Lazy frame with the columns ``target, item, judge`` (and ``run`` where there are several),
        those asked for, ``calls`` over all epochs, and those of `names`.
    names
        The columns with the tally of each epoch; 0 where there was no response.
    tally
        What the digits of a tally mean.
    warnings
        From reading the verdicts.
    """

    frame: nw.LazyFrame[Any]
    names: tuple[str, ...]
    tally: Tally
    warnings: tuple[str, ...]

    def verdicts(self, tallies: IntArray) -> pa.Table | None:
        """What each of some tallies says of a response: the columns that `responses` makes.

        ``calls`` is the highest number of a call, which is how many there were if they were
        numbered from 1, each once. None where some tally shows that they were not.
        """
        calls = self.tally.calls(tallies)
        counted = pa.table({"tally": tallies.astype(np.float64), "calls": calls})
        table = (
            _verdicts(self.tally.read(nw.from_native(counted).lazy())).collect("pyarrow").to_arrow()
        )
        regular = not pc.any(pc.greater(table["irregular"], 0)).as_py()
        return table if regular and calls.max(initial=0) <= self.tally.last_call else None


def _keys(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """The columns to group by: a run that is the same everywhere is none."""
    run = only_run(evidence)
    return [name for name in names if name != "run" or run is None]


def _rows(evidence: Evidence, judges: Sequence[str]) -> nw.LazyFrame[Any]:
    """The rows of some judges."""
    if len(judges) == len(evidence.instruments):
        return evidence.rows
    return evidence.rows.filter(nw.col("judge").is_in(list(judges)))


def _flags(
    evidence: Evidence, rule: SuccessRule, judges: Sequence[str]
) -> tuple[nw.Expr, nw.Expr, nw.Expr]:
    """Conditions on a call: success, refusal, and whether there is a verdict."""
    if rule.threshold is None:
        return _label_flags(evidence, rule)
    return _score_flags(evidence, rule, judges)


def _counted(
    evidence: Evidence, rule: SuccessRule, judges: Sequence[str], keys: Sequence[str]
) -> nw.LazyFrame[Any]:
    """The calls of one judge on one response, counted: in one number where that holds them."""
    conditions, rows = _flags(evidence, rule, judges), _rows(evidence, judges)
    run, grouped = only_run(evidence), _keys(evidence, keys)
    tally = Tally.of(evidence.instruments, judges)
    if tally is None:
        counted = _counted_apart(rows, conditions, grouped)
    else:
        counted = tally.read(
            rows.select(*grouped, tally.call(*conditions).alias("tally"))
            .group_by(*grouped, drop_null_keys=False)
            .agg(nw.len().cast(nw.Int64).alias("calls"), nw.col("tally").sum())
        )
    return counted if run is None else counted.with_columns(nw.lit(run).alias("run"))


def _counted_apart(
    rows: nw.LazyFrame[Any], conditions: tuple[nw.Expr, nw.Expr, nw.Expr], keys: Sequence[str]
) -> nw.LazyFrame[Any]:
    """The counts with a sum for each, where one number cannot hold them all."""
    success, refused, given = conditions
    votes = rows.select(
        *keys,
        "reason",
        # Distinct powers of two add up to 2^n - 1 only where the calls are 1 to n, each once.
        nw.when(nw.col("call") <= _LAST_CALL_BIT)
        .then(nw.lit(2.0) ** (nw.col("call") - 1).cast(nw.Float64()))
        .otherwise(0.0)
        .alias("call_bit"),
        _as_count(given).alias("valid"),
        _as_count(success).alias("successes"),
        _as_count(refused).alias("refusals"),
    )
    return votes.group_by(*keys, drop_null_keys=False).agg(
        nw.len().cast(nw.Int64).alias("calls"),
        nw.col("valid").sum().cast(nw.Int64).alias("valid"),
        nw.col("successes").sum().cast(nw.Int64).alias("successes"),
        nw.col("refusals").sum().cast(nw.Int64).alias("refusals"),
        nw.col("call_bit").sum().alias("call_bits"),
        nw.col("reason").min().alias("why"),
    )


def _as_count(condition: nw.Expr) -> nw.Expr:
    return condition.fill_null(value=False).cast(nw.Int64)


def _label_flags(evidence: Evidence, rule: SuccessRule) -> tuple[nw.Expr, nw.Expr, nw.Expr]:
    """Success, refusal, and whether there is a verdict: a status other than ok has no label."""
    label = nw.col("label")
    classes = evidence.map.classes
    success = reduce(or_, [label == name for name in rule.successes(classes)])
    refused = reduce(or_, [label == name for name in rule.refusals(classes)])
    return success, refused, ~label.is_null()


def _score_flags(
    evidence: Evidence, rule: SuccessRule, judges: Sequence[str]
) -> tuple[nw.Expr, nw.Expr, nw.Expr]:
    """The same from scores; one out of scale may stand beside a status that is not ok."""
    score = nw.col("score")
    given = ~score.is_null() & (nw.col("status") == Status.OK)
    safer = [judge for judge in judges if evidence.instruments[judge].scale.higher_is == "safer"]
    reaches = score >= rule.threshold
    if len(safer) == len(judges):
        worse = ~reaches
    elif safer:
        worse = nw.when(nw.col("judge").is_in(safer)).then(~reaches).otherwise(reaches)
    else:
        worse = reaches
    return given & worse, nw.lit(value=False), given


def _verdicts(counted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The majority of the valid votes; a tie is no verdict.

    ``irregular`` is 1 where the calls are not numbered 1 to n, each once: only then can two rows
    have the same key, and only then is it worth a pass to look (`refuse_duplicates`).
    """
    valid, successes, refusals = (nw.col(name) for name in ("valid", "successes", "refusals"))
    tied = (valid > 0) & (successes * 2 == valid)
    return counted.with_columns(
        _as_count((valid > 0) & ~tied).alias("judged"),
        _as_count(successes * 2 > valid).alias("success"),
        # A tie between refusing and something else is not a refusal by majority.
        _as_count((refusals * 2 > valid) & ~tied).alias("refused"),
        _as_count((successes > 0) & (successes < valid)).alias("disagreed"),
        nw.when(tied)
        .then(nw.lit(TIED))
        .otherwise(
            nw.when(valid > 0)
            .then(None)
            .otherwise(
                nw.when(nw.col("why").is_null()).then(nw.lit(UNSTATED)).otherwise(nw.col("why"))
            )
        )
        .alias("reason"),
        _as_count(
            nw.col("call_bits") != nw.lit(2.0) ** nw.col("calls").cast(nw.Float64()) - 1
        ).alias("irregular"),
    )


def _panel(
    per_judge: nw.LazyFrame[Any],
    aggregation: Aggregation,
    judges: Sequence[str],
    by: Sequence[str],
) -> nw.LazyFrame[Any]:
    """The verdict of all judges together on one response, where each judge has one vote."""
    name = f"{aggregation} of {', '.join(judges)}"
    votes = per_judge.select(
        *RESPONSE_KEY,
        *by,
        nw.lit(name).alias("judge"),
        "calls",
        "irregular",
        nw.col("judged").alias("valid"),
        (nw.col("success") * nw.col("judged")).alias("successes"),
        nw.col("refused").alias("refusals"),
        "reason",
    )
    counted = votes.group_by(*RESPONSE_KEY, "judge", *by, drop_null_keys=False).agg(
        *(
            nw.col(column).sum().cast(nw.Int64).alias(column)
            for column in ("calls", "irregular", "valid", "successes", "refusals")
        ),
        nw.col("reason").min().alias("why"),
    )
    if aggregation is Aggregation.MAJORITY:
        # The calls of several judges share numbers, so what was found for each judge stands.
        calls = counted.with_columns(nw.lit(0.0).alias("call_bits"))
        return _verdicts(calls.rename({"irregular": "irregular_calls"})).with_columns(
            nw.col("irregular_calls").alias("irregular")
        )
    valid, successes = nw.col("valid"), nw.col("successes")
    all_say_so = successes == len(judges)
    one_denies = successes < valid
    return counted.with_columns(
        _as_count(all_say_so | one_denies).alias("judged"),
        _as_count(all_say_so).alias("success"),
        _as_count(nw.col("refusals") == len(judges)).alias("refused"),
        _as_count((successes > 0) & one_denies).alias("disagreed"),
        nw.when(all_say_so | one_denies)
        .then(None)
        .otherwise(nw.when(nw.col("why").is_null()).then(nw.lit(UNSTATED)).otherwise(nw.col("why")))
        .alias("reason"),
    )


def refuse_duplicates(evidence: Evidence) -> None:
    """Refuse two rows with the same key.

    Raises
    ------
    InputError
        Naming the second of the rows.
    """
    repeated = (
        evidence.rows.group_by(*KEY, drop_null_keys=False)
        .agg(
            nw.len().cast(nw.Int64).alias("rows"),
            nw.col(frames.ROW).min().alias("first_row"),
            nw.col(frames.ROW).max().alias(frames.ROW),
            nw.col("source_file").min().alias("first_file"),
            nw.col("source_file").max().alias("source_file"),
        )
        .filter(nw.col("rows") > 1)
        .sort(frames.ROW, *KEY)
        .head(1)
        .collect("pyarrow")
        .to_arrow()
        .to_pylist()
    )
    if repeated:
        row = repeated[0]
        key = ", ".join(f"{name} {row[name]!r}" for name in KEY if name != "run")
        files = _files(evidence, row["first_file"], row["source_file"])
        # Rows of one number in files of one name stand in different folders.
        apart = row["first_file"] != row["source_file"] or row["first_row"] == row[frames.ROW]
        if len(files) > 1 and apart:
            raise InputError(
                f"hold the same run {row['run']!r}: a row for {key} stands in each",
                file=" and ".join(files),
                fix="leave one of them out, or where they are different runs, name them apart in "
                "a column 'run'",
            )
        raise InputError(
            f"duplicate key: a row for {key} was already there",
            file=row["source_file"],
            row=row[frames.ROW],
            column="item",
            fix="remove one, or number repeated judge calls in a column 'call' and repeated "
            "responses in a column 'epoch'",
        )


def _files(evidence: Evidence, *names: str | None) -> list[str]:
    """The sources with these names, the names themselves where no source has them."""
    stated = [name for name in dict.fromkeys(names) if name is not None]
    sources = {
        name: [source for source in evidence.sources if PurePath(source).name == name]
        for name in stated
    }
    return [source for name in stated for source in sources[name] or [name]]
