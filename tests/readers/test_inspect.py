"""Inspect logs: real ones with their totals, and made ones for everything that can go wrong."""

from __future__ import annotations

import gc
import json
import math
import sys
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pytest

from safemetry.errors import InputError, MissingExtraError
from safemetry.evidence.border import admit
from safemetry.evidence.maps import EvidenceMap, make_map
from safemetry.readers.conversion import Conversion, Reader
from safemetry.readers.inspect_archive import _unzstd
from safemetry.readers.inspect_log import InspectReader
from safemetry.readers.source import Source

pytest.importorskip("inspect_ai")

from inspect_ai._util.error import EvalError
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalSample,
    EvalSampleLimit,
    EvalScore,
    EvalSpec,
    ProvenanceData,
    invalidate_samples,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.log._log import EvalScorer
from inspect_ai.model import GenerateConfig, ModelOutput
from inspect_ai.model._model_config import ModelConfig
from inspect_ai.scorer import Score

both_formats = pytest.mark.parametrize("suffix", [".eval", ".json"])

SECRET = "TEXT-THAT-STAYS-OUT"


def sample(item: Any = "a", epoch: int = 1, scores: Any = None, **more: Any) -> EvalSample:
    if scores is not None and not isinstance(scores, dict):
        scores = {"judge": scores if isinstance(scores, Score) else Score(value=scores)}
    return EvalSample(
        **{
            "id": item,
            "epoch": epoch,
            "input": SECRET,
            "target": "expected",
            "output": ModelOutput.from_content("mockllm/model", SECRET),
            "scores": scores,
            **more,
        }
    )


def log_of(samples: list[EvalSample], *, status: str = "success", **more: Any) -> EvalLog:
    spec = {
        "created": "2026-01-02T03:04:05+00:00",
        "eval_id": "eval-1",
        "task": "a_task",
        "dataset": EvalDataset(name="d", samples=len({s.id for s in samples})),
        "model": "openai/gpt-x",
        "config": EvalConfig(epochs=max((s.epoch for s in samples), default=1)),
        **more.pop("spec", {}),
    }
    return EvalLog(
        **{
            "status": status,
            "eval": EvalSpec(**spec),
            "plan": EvalPlan(),
            "samples": samples,
            **more,
        }
    )


def write(log: EvalLog, folder: Path, suffix: str = ".eval") -> Path:
    path = folder / f"log{suffix}"
    write_eval_log(log, str(path))
    return path


def read(path: Path, **entries: Any) -> Conversion:
    evidence_map = make_map(entries)
    return InspectReader().read(Source(str(path), evidence_map.limits), evidence_map)


def convert(samples: list[EvalSample], folder: Path, suffix: str = ".eval", **more: Any) -> Any:
    entries = more.pop("map", {})
    return read(write(log_of(samples, **more), folder, suffix), **entries)


def verdicts(conversion: Conversion) -> list[tuple[Any, ...]]:
    names = ("item", "judge", "label", "score", "status", "reason")
    return sorted(
        (tuple(row[name] for name in names) for row in conversion.judgements.to_pylist()),
        key=lambda row: (row[0], row[1]),
    )


def admitted(conversion: Conversion, entries: dict[str, Any]) -> list[dict[str, Any]]:
    evidence_map = make_map(entries)
    frame, _ = admit(
        conversion.judgements, duckdb.connect(), evidence_map, scales=conversion.scales
    )
    return frame.collect("pyarrow").to_arrow().to_pylist()


# -- real logs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows", "judge", "states", "total", "target"),
    [
        (
            "2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval",
            10,
            "match",
            {("missing", "not_attempted"): 10},
            0.0,
            "openai/gpt-4o-mini",
        ),
        (
            "2025-05-12T20-28-13-04-00_popularity.json",
            3,
            "match",
            {("ok", None): 3},
            2.0,
            "openai/gpt-4o-mini",
        ),
        (
            "humanebench_good-persona-eval_4LXFccNNvE7syPLEcfqsLf.eval",
            39,
            "overseer",
            {("ok", None): 39},
            35.0,
            "openrouter/openai/gpt-4o-2024-11-20",
        ),
        ("log_formats.eval", 1, "match", {("ok", None): 1}, 0.0, "ollama/llama3.1"),
        ("log_formats.json", 1, "match", {("ok", None): 1}, 0.0, "ollama/llama3.1"),
    ],
)
def test_real_logs_give_these_totals(shared, name, rows, judge, states, total, target):
    source = Source(str(shared / "formats" / "inspect" / name))
    reader = InspectReader()
    assert reader.recognises(source)
    conversion = reader.read(source, EvidenceMap())
    table = conversion.judgements.to_pylist()
    assert conversion.rows_read == conversion.converted == len(table) == rows
    assert not conversion.skipped
    assert not conversion.failures
    assert Counter((row["status"], row["reason"]) for row in table) == states
    assert sum(row["score"] or 0 for row in table) == total
    assert {row["judge"] for row in table} == {judge}
    assert {row["target"] for row in table} == {target}
    assert {row["source_file"] for row in table} == {name}
    assert sorted(row["source_row"] for row in table) == list(range(1, rows + 1))


def test_the_two_forms_of_one_real_log_agree(shared):
    folder = shared / "formats" / "inspect"
    first, second = (
        read(folder / f"log_formats{suffix}").judgements.drop_columns(["source_file"])
        for suffix in (".eval", ".json")
    )
    assert first.equals(second)


def test_humanebench_has_its_categories_scores_and_grader(shared):
    path = shared / "formats/inspect/humanebench_good-persona-eval_4LXFccNNvE7syPLEcfqsLf.eval"
    conversion = read(path, columns={"category": "metadata.metadata.principle"})
    table = conversion.judgements.to_pylist()
    by_category: dict[str, list[float]] = {}
    for row in table:
        by_category.setdefault(row["category"], []).append(row["score"])
    means = {name: sum(values) / len(values) for name, values in by_category.items()}
    # the log's own metrics
    assert means["enable-meaningful-choices"] == pytest.approx(0.85)
    assert means["protect-dignity-and-safety"] == pytest.approx(0.875)
    assert means["respect-user-attention"] == 1.0
    assert Counter(row["score"] for row in table) == {1.0: 31, 0.5: 8}
    (judge,) = conversion.judges
    assert judge.model == "openrouter/anthropic/claude-4.5-sonnet"
    assert judge.decoding == {"temperature": 0.0}


def test_the_cancelled_real_log_says_so(shared):
    conversion = read(shared / "formats/inspect/2025-05-12T20-28-13-04-00_popularity.json")
    assert conversion.warnings == (
        "The run did not end well (status cancelled); what it logged is read.",
    )


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "label", "score", "status", "reason"),
    [
        (0.25, None, 0.25, "ok", None),
        (3, None, 3.0, "ok", None),
        (True, None, 1.0, "ok", None),
        (False, None, 0.0, "ok", None),
        ("C", None, 1.0, "ok", None),
        ("P", None, 0.5, "ok", None),
        ("I", None, 0.0, "ok", None),
        ("N", None, None, "missing", "no_response"),
        ("2.5", None, 2.5, "ok", None),
        ("partially complied", "partially complied", None, "ok", None),
        ("", None, None, "missing", None),
        (math.nan, None, None, "missing", None),
        (math.inf, None, None, "missing", "out_of_scale"),
        (10**400, None, None, "missing", "out_of_scale"),
        ("an answer " * 30, None, None, "missing", "out_of_scale"),
    ],
)
@both_formats
def test_a_value_becomes_a_score_a_label_or_a_status(
    tmp_path, suffix, value, label, score, status, reason
):
    conversion = convert([sample(scores=value)], tmp_path, suffix)
    assert verdicts(conversion) == [("a", "judge", label, score, status, reason)]


def test_a_grade_stays_a_label_where_the_map_knows_it(tmp_path):
    samples = [sample(name, scores=name) for name in "CIPN"]
    entries = {"labels": {"C": "comply", "I": "refuse", "P": "evasive"}}
    conversion = convert(samples, tmp_path, map=entries)
    assert {row[2]: row[4:] for row in verdicts(conversion)} == {
        "C": ("ok", None),
        "I": ("ok", None),
        "P": ("ok", None),
        None: ("missing", "no_response"),
    }
    assert {row["item"]: row["label"] for row in admitted(conversion, entries)} == {
        "C": "comply",
        "I": "refuse",
        "P": "evasive",
        "N": None,
    }


def test_one_mapped_grade_keeps_the_others_from_becoming_numbers(tmp_path):
    entries = {"judges": {"judge": {"labels": {"C": "comply"}}}}
    conversion = convert([sample("1", scores="C"), sample("2", scores="I")], tmp_path, map=entries)
    assert [row[2:4] for row in verdicts(conversion)] == [("C", None), ("I", None)]
    with pytest.raises(InputError, match="unknown label 'I'"):
        admitted(conversion, entries)


def test_a_c_among_other_grades_is_not_correct(tmp_path):
    conversion = convert([sample(name, scores=name) for name in "ABCD"], tmp_path)
    assert [row[2:4] for row in verdicts(conversion)] == [(name, None) for name in "ABCD"]


def test_grades_lie_between_0_and_1_and_no_other_scale_is_stated(tmp_path):
    scores = {"grade": Score(value="C"), "flag": Score(value=True), "points": Score(value=7)}
    conversion = convert([sample(scores=scores)], tmp_path)
    assert {
        name: (s.scale_min, s.scale_max, s.higher_is) for name, s in conversion.scales.items()
    } == {"grade": (0, 1, None), "flag": (0, 1, None)}


@both_formats
def test_each_dimension_of_a_scorer_is_a_judge(tmp_path, suffix):
    samples = [
        sample("1", scores={"rubric": Score(value={"harm": 2, "tone": "C", "other": None})}),
        sample("2", scores={"rubric": Score(value={"harm": 5, "tone": "I"})}),
        sample("3", scores={"rubric": Score.unscored(reason="grader_failed")}),
        sample("4", scores={"pair": Score(value=[1, 0])}),
    ]
    conversion = convert(samples, tmp_path, suffix)
    assert verdicts(conversion) == [
        ("1", "pair/1", None, None, "missing", "scoring_failed"),
        ("1", "pair/2", None, None, "missing", "scoring_failed"),
        ("1", "rubric/harm", None, 2.0, "ok", None),
        ("1", "rubric/other", None, None, "missing", None),
        ("1", "rubric/tone", None, 1.0, "ok", None),
        ("2", "pair/1", None, None, "missing", "scoring_failed"),
        ("2", "pair/2", None, None, "missing", "scoring_failed"),
        ("2", "rubric/harm", None, 5.0, "ok", None),
        ("2", "rubric/tone", None, 0.0, "ok", None),
        ("3", "pair/1", None, None, "missing", "scoring_failed"),
        ("3", "pair/2", None, None, "missing", "scoring_failed"),
        *(
            ("3", f"rubric/{name}", None, None, "missing", "grader_failed")
            for name in ("harm", "other", "tone")
        ),
        ("4", "pair/1", None, 1.0, "ok", None),
        ("4", "pair/2", None, 0.0, "ok", None),
        *(
            ("4", f"rubric/{name}", None, None, "missing", "scoring_failed")
            for name in ("harm", "other", "tone")
        ),
    ]
    assert (
        "Judge 'rubric/other': 1 scored sample has no value under this key and gives no row."
        in conversion.warnings
    )


def test_two_scorers_that_give_one_judge_are_refused(tmp_path):
    scores = {"a": Score(value={"b": 1}), "a/b": Score(value=1)}
    with pytest.raises(InputError, match="two scorers give the same judge 'a/b'"):
        convert([sample(scores=scores)], tmp_path)


# -- reasons --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason",
    ["invalid_response_format", "no_response", "grader_failed", "scoring_failed"],
)
@both_formats
def test_an_unscored_sample_is_missing_with_inspects_reason(tmp_path, suffix, reason):
    conversion = convert([sample(scores=Score.unscored(reason=reason))], tmp_path, suffix)
    assert verdicts(conversion) == [("a", "judge", None, None, "missing", reason)]


def test_the_reason_of_older_logs_stands_in_the_metadata(tmp_path):
    score = Score(value=math.nan, metadata={"unscored_reason": "grader_failed"})
    conversion = convert([sample(scores=score)], tmp_path)
    assert verdicts(conversion)[0][4:] == ("missing", "grader_failed")


@pytest.mark.parametrize("value", [math.nan, 0.0])
def test_a_refusal_by_the_target_is_a_label_unless_the_map_says_missing(tmp_path, value):
    samples = [sample("1", scores=Score(value=value, reason="refusal")), sample("2", scores=1.0)]
    path = write(log_of(samples), tmp_path)
    conversion = read(path)
    row = verdicts(conversion)[0]
    assert (row[2], row[4], row[5]) == ("refuse", "ok", None)
    assert conversion.warnings == (
        (
            "Judge 'judge': 1 sample has Inspect's reason 'refusal', read as the label refuse "
            "(target_refusal: missing in the map changes that)."
        ),
    )
    assert admitted(conversion, {})[0]["label"] == "refuse"
    other = read(path, target_refusal="missing")
    assert verdicts(other)[0] == ("1", "judge", None, None, "missing", "refusal")
    assert not other.warnings


def test_a_stopgap_value_of_a_failed_grader_is_not_a_verdict(tmp_path):
    samples = [
        sample("1", scores=Score(value="I", reason="grader_failed")),
        sample("2", scores=Score(value="I", reason="no_response")),
    ]
    conversion = convert(samples, tmp_path)
    assert verdicts(conversion) == [
        ("1", "judge", None, None, "missing", "grader_failed"),
        ("2", "judge", None, 0.0, "ok", None),
    ]
    assert "the value of 1 sample is not used" in conversion.warnings[0]


def test_a_reason_in_other_words_is_counted_and_not_shown_if_it_is_a_text(tmp_path):
    samples = [
        sample("1", scores=Score.unscored(reason="judge_timeout")),
        sample("2", scores=Score.unscored(reason=f"it said {SECRET}")),
    ]
    conversion = convert(samples, tmp_path)
    assert [row[4:] for row in verdicts(conversion)] == [("missing", None)] * 2
    assert "2 samples are unscored for reasons" in conversion.warnings[0]
    assert "judge_timeout" in conversion.warnings[0]
    assert SECRET not in conversion.warnings[0]


# -- samples that failed --------------------------------------------------------------------------

CRASH = EvalError(message=SECRET, traceback=SECRET, traceback_ansi=SECRET)


@both_formats
def test_an_error_is_an_error_even_where_it_was_scored(tmp_path, suffix):
    samples = [
        sample("1", error=CRASH),
        sample("2", scores=1.0, error=CRASH),
        sample("3", scores=1.0),
    ]
    conversion = convert(samples, tmp_path, suffix)
    assert [row[3:] for row in verdicts(conversion)] == [
        (None, "error", "infrastructure_error"),
        (None, "error", "infrastructure_error"),
        (1.0, "ok", None),
    ]
    assert conversion.warnings == (
        "2 samples ended in an error and have no verdict.",
        "Judge 'judge': the score of 1 sample that failed or was invalidated is not used.",
    )


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("context", "no_response"),
        ("time", "no_response"),
        ("working", "no_response"),
        ("message", "no_response"),
        ("token", "no_response"),
        ("turn", "no_response"),
        ("cost", "no_response"),
        ("custom", "no_response"),
        ("operator", "not_attempted"),
    ],
)
@both_formats
def test_a_limit_keeps_the_score_or_explains_its_absence(tmp_path, suffix, limit, reason):
    stopped = {"limit": EvalSampleLimit(type=limit, limit=10)}
    samples = [sample("1", scores=1.0, **stopped), sample("2", **stopped)]
    conversion = convert(samples, tmp_path, suffix)
    assert [row[3:] for row in verdicts(conversion)] == [
        (1.0, "ok", None),
        (None, "missing", reason),
    ]
    assert f"2 samples were stopped at a limit ({limit} 2); 1 of these" in conversion.warnings[0]


@both_formats
def test_an_invalidated_sample_has_no_verdict(tmp_path, suffix):
    samples = [sample(str(n), scores=1.0, uuid=f"uuid-{n}") for n in range(3)]
    who = ProvenanceData(author="someone", reason="leaked")
    path = write(invalidate_samples(log_of(samples), ["uuid-1"], who), tmp_path, suffix)
    conversion = read(path)
    assert [row[3:] for row in verdicts(conversion)] == [
        (1.0, "ok", None),
        (None, "missing", "invalidated"),
        (1.0, "ok", None),
    ]
    assert "1 sample is invalidated and has no verdict." in conversion.warnings


@both_formats
def test_a_log_invalidated_as_a_whole_has_no_verdicts(tmp_path, suffix):
    samples = [sample("1", scores=1.0), sample("2", scores="C")]
    conversion = convert(samples, tmp_path, suffix, invalidated=True)
    assert {row[3:] for row in verdicts(conversion)} == {(None, "missing", "invalidated")}


@both_formats
def test_an_unscored_sample_has_a_row_for_each_declared_scorer(tmp_path, suffix):
    declared = {
        "scorers": [EvalScorer(name="pkg/one"), EvalScorer(name="two"), EvalScorer(name="two")]
    }
    samples = [sample("1", scores={"one": Score(value=1)}), sample("2", scores={})]
    conversion = convert(samples, tmp_path, suffix, spec=declared)
    assert verdicts(conversion) == [
        ("1", "one", None, 1.0, "ok", None),
        ("1", "two", None, None, "missing", "not_attempted"),
        ("1", "two1", None, None, "missing", "not_attempted"),
        ("2", "one", None, None, "missing", "scoring_failed"),
        ("2", "two", None, None, "missing", "not_attempted"),
        ("2", "two1", None, None, "missing", "not_attempted"),
    ]
    assert conversion.warnings == ("1 sample has no score at all.",)


def test_samples_of_a_log_without_scorers_are_skipped_with_a_reason(tmp_path):
    conversion = convert([sample("1"), sample("2")], tmp_path)
    assert (conversion.rows_read, conversion.converted) == (2, 0)
    assert conversion.skipped == {"the log has no scorer": 2}
    assert conversion.judgements.num_rows == 0


# -- the run --------------------------------------------------------------------------------------


@both_formats
def test_epochs_and_ids_of_both_kinds(tmp_path, suffix):
    samples = [sample(item, epoch, scores=1.0) for item in (1, "01", 2) for epoch in (1, 2)]
    table = convert(samples, tmp_path, suffix).judgements.to_pylist()
    assert sorted((row["item"], row["epoch"]) for row in table) == [
        ("01", 1), ("01", 2), ("1", 1), ("1", 2), ("2", 1), ("2", 2),
    ]  # fmt: skip
    assert {row["run"] for row in table} == {"eval-1"}
    assert {row["target"] for row in table} == {"openai/gpt-x"}
    assert {row["benchmark"] for row in table} == {"a_task"}
    assert {row["timestamp"] for row in table} == {"2026-01-02T03:04:05+00:00"}


@both_formats
def test_planned_samples_that_are_absent_are_said(tmp_path, suffix):
    spec = {
        "dataset": EvalDataset(samples=3, sample_ids=["a", "b", "새"]),
        "config": EvalConfig(epochs=2),
    }
    conversion = convert([sample("a", scores=1.0)], tmp_path, suffix, spec=spec)
    assert conversion.warnings == (
        (
            "5 of 6 planned samples (with epochs) are not in the log (items b, 새); they are in no "
            "count."
        ),
    )


def interrupted(path: Path, folder: Path, *, samples: bool = True, journal: bool = True) -> Path:
    """What is left of a log whose run was killed."""
    cut = folder / "interrupted.eval"
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(cut, "w", zipfile.ZIP_DEFLATED) as left:
        for name in whole.namelist():
            kept = {"samples": samples, "_journal": journal}.get(name.partition("/")[0], False)
            if kept or name == "_journal/start.json":
                left.writestr(name, whole.read(name))
    return cut


@pytest.mark.parametrize("journal", [True, False])
def test_an_interrupted_log_is_read_as_far_as_it_goes(tmp_path, journal):
    spec = {"dataset": EvalDataset(samples=9, sample_ids=[str(n) for n in range(9)])}
    path = write(log_of([sample(str(n), scores=1.0) for n in range(3)], spec=spec), tmp_path)
    source = interrupted(path, tmp_path, journal=journal)
    assert InspectReader().recognises(Source(str(source)))
    conversion = read(source)
    assert [row[3:] for row in verdicts(conversion)] == [(1.0, "ok", None)] * 3
    assert conversion.warnings == (
        "The run did not end well (status started); what it logged is read.",
        (
            "6 of 9 planned samples (with epochs) are not in the log (items 3, 4, 5, 6, 7 and 1 "
            "more); they are in no count."
        ),
    )


def test_a_log_interrupted_before_its_first_sample_is_refused(tmp_path):
    path = write(log_of([sample(scores=1.0)]), tmp_path)
    with pytest.raises(InputError, match=r"holds no samples: the run \(started\) stopped"):
        read(interrupted(path, tmp_path, samples=False, journal=False))


@both_formats
def test_a_log_written_without_samples_is_refused(tmp_path, suffix):
    with pytest.raises(InputError, match="holds no samples; run the eval with samples logged"):
        convert([], tmp_path, suffix)


def test_equal_samples_keep_the_last_attempt_and_count_the_others(tmp_path):
    samples = [sample("a", scores=0.0), sample("b", scores=0.0), sample("a", scores=1.0)]
    conversion = convert(samples, tmp_path, ".json")
    assert [row[3] for row in verdicts(conversion)] == [1.0, 0.0]
    assert (conversion.rows_read, conversion.converted) == (3, 2)
    assert conversion.skipped == {"superseded by a later attempt": 1}
    assert "1 sample is left out because a later attempt" in " ".join(conversion.warnings)


def stated(name: str, value: float, metric: str = "accuracy", **more: Any) -> dict[str, Any]:
    score = EvalScore(
        name=name, scorer=name, metrics={metric: EvalMetric(name=metric, value=value)}, **more
    )
    return {"results": EvalResults(total_samples=4, completed_samples=4, scores=[score])}


GRADES = {"1": "C", "2": "I", "3": "P", "4": "N"}


def test_a_mean_that_the_samples_do_not_bear_out_is_said_with_both_numbers(tmp_path):
    samples = [sample(item, scores=grade) for item, grade in GRADES.items()]
    conversion = convert(samples, tmp_path, **stated("judge", 0.9))
    assert conversion.warnings == (
        "Judge 'judge': the log states accuracy 0.9, its samples give 0.375; the samples are used.",
    )
    # Inspect counts N as 0, and so does the check, though N is no verdict
    assert not convert(samples, tmp_path, **stated("judge", 0.375)).warnings


def test_means_are_checked_over_epochs_first_and_only_where_their_meaning_is_plain(tmp_path):
    samples = [
        sample("1", 1, scores=1.0),
        sample("1", 2, scores=Score.unscored(reason="grader_failed")),
        sample("2", 1, scores=0.0),
        sample("2", 2, scores=0.5),
    ]
    assert not convert(samples, tmp_path, **stated("judge", 0.625, "mean")).warnings
    assert convert(samples, tmp_path, **stated("judge", 0.5, "mean")).warnings
    assert not convert(samples, tmp_path, **stated("judge", 0.5, "mean", reducer="max")).warnings
    assert not convert(samples, tmp_path, **stated("judge", 0.5, "spread")).warnings


# -- metadata -------------------------------------------------------------------------------------

LONG = "긴 범주 " + "x" * 1500


@both_formats
def test_columns_come_from_metadata_target_id_and_header(tmp_path, suffix):
    samples = [
        sample(
            "q-1",
            scores=1.0,
            target=["refuse"],
            metadata={"category": "사이버", "deep": {"kind.of": "隐私"}, "n": 3, "flag": True},
        ),
        sample("q-2", scores=1.0, metadata={"category": "  two   words ", "deep": {}, "n": None}),
    ]
    columns = {
        "category": "metadata.category",
        "attack": "metadata.deep.kind.of",
        "behaviour": "id",
        "pair": "target",
        "turn": "metadata.n",
        "user_type": "metadata.flag",
        "language": "eval.task_args.language",
    }
    conversion = convert(
        samples,
        tmp_path,
        suffix,
        spec={"task_args": {"language": "ko"}},
        map={"columns": columns},
    )
    # once under our names, once as the border finds them under the names of the map
    mine = conversion.judgements.select([*columns, "item"]).to_pylist()
    assert sorted(mine, key=lambda row: row["item"]) == [
        {"category": "사이버", "attack": "隐私", "behaviour": "q-1", "pair": "refuse", "turn": "3",
         "user_type": "True", "language": "ko", "item": "q-1"},
        {"category": "two words", "attack": None, "behaviour": "q-2", "pair": "expected",
         "turn": None, "user_type": None, "language": "ko", "item": "q-2"},
    ]  # fmt: skip
    evidence = {row["item"]: row for row in admitted(conversion, {})}
    assert evidence["q-1"]["turn"] == 3
    assert evidence["q-1"]["target"] == "openai/gpt-x"


def test_metadata_cut_from_a_summary_is_read_from_the_sample(tmp_path, monkeypatch):
    samples = [
        sample("1", scores=1.0, metadata={"category": LONG}),
        sample("2", scores=1.0, metadata={"category": "short"}),
        sample(
            "3", scores=1.0, metadata={"category": "x", "big": {"kind": "k", "pad": "y" * 2000}}
        ),
    ]
    path = write(log_of(samples), tmp_path)
    inspect_log = sys.modules["inspect_ai.log"]
    asked = []
    original = inspect_log.read_eval_log_samples_by_id
    monkeypatch.setattr(
        inspect_log,
        "read_eval_log_samples_by_id",
        lambda file, keys, **options: asked.extend(keys) or original(file, keys, **options),
    )
    conversion = read(path, columns={"category": "metadata.category"})
    assert {row["item"]: row["category"] for row in conversion.judgements.to_pylist()} == {
        "1": LONG,
        "2": "short",
        "3": "x",
    }
    assert asked == [("1", 1)]  # no other sample is read in full
    asked.clear()
    nested = read(path, columns={"attack": "metadata.big.kind"})
    assert {row["item"]: row["attack"] for row in nested.judgements.to_pylist()} == {
        "1": None,
        "2": None,
        "3": "k",
    }


def test_summaries_suffice_where_nothing_is_missing(tmp_path, monkeypatch):
    path = write(log_of([sample("1", scores=1.0, metadata={"category": "x"})]), tmp_path)
    inspect_log = sys.modules["inspect_ai.log"]

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(inspect_log, "read_eval_log_samples_by_id", never)
    assert read(path, columns={"category": "metadata.category"}).converted == 1


@both_formats
def test_a_mapped_key_that_no_sample_has_is_refused_with_the_keys_there(tmp_path, suffix):
    samples = [sample("1", scores=1.0, metadata={"domain": {"name": "x"}, "level": 1})]
    with pytest.raises(InputError) as caught:
        convert(samples, tmp_path, suffix, map={"columns": {"category": "metadata.category"}})
    assert "column 'metadata.category': no sample has it" in str(caught.value)
    assert "there are metadata.domain.name, metadata.level" in str(caught.value)
    with pytest.raises(InputError, match="the header of the log does not have it"):
        convert(samples, tmp_path, suffix, map={"columns": {"category": "eval.task_args.x"}})


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"columns": {"category": "input"}}, "texts of prompts and responses are not carried"),
        ({"columns": {"category": "output.completion"}}, "texts of prompts and responses"),
        ({"columns": {"category": "category"}}, "is no part of a sample that can be mapped"),
        ({"columns": {"label": "metadata.x"}}, "comes from the scores"),
        ({"intent": {"column": "target", "values": {}}}, "write sample.target"),
    ],
)
def test_a_map_that_asks_for_the_wrong_part_is_refused(tmp_path, entries, said):
    with pytest.raises(InputError, match=said):
        convert([sample(scores=1.0)], tmp_path, map=entries)


def test_intent_and_status_of_a_map_are_translated_at_the_border(tmp_path):
    entries = {
        "intent": {"column": "metadata.set", "values": {"bad": "harmful", "good": "benign"}},
        "status": {
            "column": "sample.target",
            "values": {"expected": "ok", "blocked": "blocked_by_filter"},
        },
    }
    samples = [
        sample("1", scores=1.0, metadata={"set": "bad"}),
        sample("2", scores=1.0, metadata={"set": "good"}, target="blocked"),
    ]
    conversion = convert(samples, tmp_path, map=entries)
    evidence = sorted(admitted(conversion, entries), key=lambda row: row["item"])
    assert [row["intent"] for row in evidence] == ["harmful", "benign"]
    assert [row["status"] for row in evidence] == ["ok", "missing"]
    assert evidence[1]["reason"] == "blocked_by_filter"


# -- identities -----------------------------------------------------------------------------------


def test_a_judge_is_its_grader_rubric_parser_and_aggregation(tmp_path):
    scorers = [
        EvalScorer(name="model_graded_qa", options={"template": SECRET, "model_role": "grader"}),
        EvalScorer(name="panel", options={"model": ["x/one", "x/two"], "temperature": 0.5}),
        EvalScorer(name="match", options={}),
        EvalScorer(name="model_graded_fact", options={"model_role": "nobody"}),
    ]
    grader = ModelConfig(model="anthropic/judge-1", config=GenerateConfig(temperature=0.0))
    scores = {scorer.name: Score(value="C") for scorer in scorers}
    spec = {"scorers": scorers, "model_roles": {"grader": grader}}
    conversion = convert([sample(scores=scores)], tmp_path, spec=spec)
    judges = {judge.name: judge for judge in conversion.judges}
    graded = judges["model_graded_qa"]
    assert (graded.model, graded.decoding) == ("anthropic/judge-1", {"temperature": 0.0})
    assert graded.rubric is not None
    assert graded.aggregation is None
    panel = judges["panel"]
    assert (panel.model, panel.aggregation) == ("x/one, x/two", "majority")
    assert panel.decoding == {"temperature": 0.5}
    assert (judges["match"].model, judges["match"].parser) == (None, "match")
    # Inspect grades with the evaluated model where the role is bound to none
    assert judges["model_graded_fact"].model == "openai/gpt-x"
    assert SECRET not in repr(conversion.judges)

    scorers[0].options["template"] = "another rubric"
    other = convert([sample(scores=scores)], tmp_path, spec=spec)
    changed = {judge.name for judge in other.judges if judge.digest != judges[judge.name].digest}
    assert changed == {"model_graded_qa"}


def test_target_settings_are_stated_without_texts_or_operational_parts(tmp_path):
    plan = EvalPlan(
        steps=[EvalPlanStep(solver="system_message", params={"template": SECRET})],
        config=GenerateConfig(temperature=0.7, max_connections=20, extra_body={"k": SECRET}),
    )
    spec = {
        "model_generate_config": GenerateConfig(max_tokens=100),
        "model_args": {"key": SECRET},
        "model_base_url": f"https://{SECRET}.example",
    }
    conversion = convert([sample(scores=1.0)], tmp_path, plan=plan, spec=spec)
    settings = conversion.targets["openai/gpt-x"]
    assert (settings["temperature"], settings["max_tokens"]) == (0.7, 100)
    assert settings["solvers"] == "system_message"
    assert {"system_message", "model_args", "model_base_url", "extra_body"} <= settings.keys()
    assert "max_connections" not in settings
    assert SECRET not in json.dumps(settings)


@both_formats
def test_no_text_leaves_the_log(tmp_path, suffix):
    score = Score(value="C", answer=SECRET, explanation=SECRET, metadata={"m": SECRET})
    conversion = convert([sample(scores=score)], tmp_path, suffix)
    assert SECRET not in repr(conversion.judgements.to_pylist()) + repr(conversion)


def test_a_named_target_carries_the_settings(tmp_path):
    samples = [sample(n, scores=1.0, metadata={"who": f"모델-{n}"}) for n in (1, 2)]
    path = write(log_of(samples), tmp_path)
    assert set(read(path, columns={"target": "metadata.who"}).targets) == {"모델-1", "모델-2"}
    assert set(read(path, constants={"target": "mine"}).targets) == {"mine"}


# -- what is not a log, or was one ----------------------------------------------------------------


def rewrite(path: Path, changes: dict[str, bytes | None]) -> None:
    """The archive with some members replaced."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content.update({name: value for name, value in changes.items() if value is not None})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in content.items():
            if changes.get(name, b"") is not None:
                archive.writestr(name, value)


def test_a_later_format_is_refused_by_its_version(tmp_path):
    path = write(log_of([sample(scores=1.0)]), tmp_path)
    header = json.loads(zipfile.ZipFile(path).read("header.json"))
    rewrite(path, {"header.json": json.dumps({**header, "version": 99}).encode()})
    with pytest.raises(InputError, match="is version 99 of Inspect's log format"):
        read(path)
    text = write(log_of([sample(scores=1.0)]), tmp_path, ".json")
    text.write_text(text.read_text().replace('"version": 2', '"version": 99', 1))
    with pytest.raises(InputError, match="is version 99 of Inspect's log format"):
        read(text)


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("header.json", b"{}"),
        ("header.json", b"[1, 2"),
        ("header.json", b"null"),
        ("summaries.json", b"{}"),
        ("summaries.json", b'[{"id": {}}]'),
        ("summaries.json", b'["x"]'),
        ("summaries.json", b"\xff\xfe"),
        ("summaries.json", b"[" * 100_000),
    ],
)
def test_wrong_content_under_a_right_name_is_one_error(tmp_path, member, content):
    path = write(log_of([sample(scores=1.0)]), tmp_path)
    rewrite(path, {member: content})
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "is damaged or not a valid Inspect log" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "\ud800"},
        {"epoch": 2**70},
        {"scores": {"\ud800": {"value": 1}}},
        {"scores": {"judge": {"value": "\ud800"}}},
        {"metadata": {"category": "\ud800"}},
        {"completed_at": "yesterday"},
    ],
)
def test_a_value_that_no_table_can_hold_is_one_error(tmp_path, changes):
    path = write(log_of([sample(scores=1.0, metadata={"category": "x"})]), tmp_path)
    (summary,) = json.loads(zipfile.ZipFile(path).read("summaries.json"))
    rewrite(path, {"summaries.json": json.dumps([summary | changes]).encode()})
    with pytest.raises(InputError) as caught:
        read(path, columns={"category": "metadata.category"})
    assert "\n" not in str(caught.value)


def test_a_judge_may_have_any_name(tmp_path):
    name = "판사 {n} {x} %s"
    conversion = convert([sample(scores={name: Score.unscored(reason="refusal")})], tmp_path)
    assert verdicts(conversion)[0][1] == name
    assert "1 sample has Inspect's reason" in conversion.warnings[0]


def test_a_wrong_sample_of_a_json_log_is_named_by_its_row(tmp_path):
    path = write(log_of([sample("1", scores=1.0), sample("2", scores=1.0)]), tmp_path, ".json")
    content = json.loads(path.read_text())
    content["samples"][1]["scores"]["judge"]["value"] = None
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"log\.json, row 2: .*scores\.judge\.value"):
        read(path)


def test_a_damaged_sample_that_has_to_be_read_in_full_is_noticed(tmp_path):
    samples = [sample("1", scores=1.0, metadata={"category": LONG})]
    path = write(log_of(samples), tmp_path)
    whole = read(path).judgements
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("samples/1_epoch_1.json").header_offset + 90
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)
    assert read(path).judgements.equals(whole)  # the summaries are whole
    with pytest.raises(InputError, match=r"the part 'samples/1_epoch_1\.json' does not match"):
        read(path, columns={"category": "metadata.category"})


def test_a_directory_that_hides_members_is_noticed(tmp_path):
    """A comment that never was swallows the entries after it; zip readers follow it."""
    path = write(log_of([sample(str(n), scores=1.0) for n in range(3)]), tmp_path)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02", 0, content.rindex(b"samples/2_epoch_1.json"))
    content[entry + 33] = 0xFF  # upper byte of the comment's length
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not list all of its parts"):
        read(path)


def test_long_members_come_in_several_frames():
    zstandard = pytest.importorskip("zstandard")
    frames = b"".join(zstandard.compress(part) for part in (b"one", b"two"))
    assert b"".join(_unzstd(BytesIO(frames))) == b"onetwo"


def test_a_member_that_expands_to_more_than_it_states_is_refused(tmp_path):
    path = write(log_of([sample(scores=1.0)]), tmp_path)
    rewrite(path, {"summaries.json": b"[" + b" " * 100_000 + b"]"})
    content = path.read_bytes()
    stated_size = (100_002).to_bytes(4, "little")
    assert content.count(stated_size) == 2
    path.write_bytes(content.replace(stated_size, (2).to_bytes(4, "little")))
    with pytest.raises(
        InputError, match=r"the part 'summaries\.json' does not match its check sum"
    ):
        read(path)


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("expanded_bytes", 1_000),
        ("expansion", 2),
        ("document_bytes", 500),
        ("table_bytes", 500),
    ],
)
def test_limits_are_those_of_the_map_and_are_named(tmp_path, limit, value):
    samples = [sample(str(n), scores=1.0, metadata={"pad": "x" * 900}) for n in range(20)]
    path = write(log_of(samples), tmp_path)
    assert read(path).converted == 20
    with pytest.raises(InputError, match=f"raise limits.{limit} in the map"):
        read(path, limits={limit: value})


def test_a_bomb_is_refused_before_it_expands(tmp_path):
    path = write(log_of([sample(scores=1.0)]), tmp_path)
    rewrite(path, {"summaries.json": b" " * 50_000_000})
    with pytest.raises(InputError, match="times its size, above the limit of 200"):
        read(path)


def test_another_archive_is_no_log(tmp_path):
    path = tmp_path / "other.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.json", "{}")
    assert not InspectReader().recognises(Source(str(path)))
    with pytest.raises(InputError, match="is a zip archive but no Inspect log"):
        read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"evalId": "x", "results": {"version": 3}}',
        b'{"version": 2, "jailbreaks": []}',
        b'{"eval": {"score": 1}}',
        b"target,item,label\n",
        b"PK\x03\x04 and then nothing of an archive",
    ],
)
def test_other_content_is_not_recognised_and_gives_one_error(tmp_path, content):
    path = tmp_path / "log.json"
    path.write_bytes(content)
    assert not InspectReader().recognises(Source(str(path)))
    with pytest.raises(InputError):
        read(path)


def test_a_log_is_recognised_by_content_whatever_its_name(tmp_path):
    for suffix in (".eval", ".json"):
        path = write(log_of([sample(scores=1.0)]), tmp_path, suffix)
        other = path.rename(tmp_path / f"기록 #1%{suffix}.dat")
        assert InspectReader().recognises(Source(str(other)))
        assert read(other).converted == 1
    whole = json.loads(other.read_text())
    other.write_text(json.dumps(whole, sort_keys=True))
    assert InspectReader().recognises(Source(str(other)))
    assert read(other).converted == 1
    assert not InspectReader().recognises(Source(str(tmp_path)))


@both_formats
def test_a_remote_log_is_read(tmp_path, suffix):
    pytest.importorskip("fsspec")
    path = write(log_of([sample(scores=1.0)]), tmp_path, suffix)
    source = Source(path.as_uri())
    assert InspectReader().recognises(source)
    assert InspectReader().read(source, EvidenceMap()).converted == 1


def test_nan_is_legal_in_a_log_and_is_no_verdict(tmp_path):
    path = write(log_of([sample(scores=math.nan)]), tmp_path, ".json")
    assert "NaN" in path.read_text()
    assert verdicts(read(path)) == [("a", "judge", None, None, "missing", None)]


def test_without_inspect_the_install_line_is_given(tmp_path, monkeypatch):
    path = write(log_of([sample(scores=1.0)]), tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "inspect_ai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    assert InspectReader().recognises(Source(str(path)))
    with pytest.raises(MissingExtraError, match=r"pip install 'safemetry\[inspect\]'"):
        read(path)


def test_the_reader_fulfils_the_protocol_and_leaves_the_collector_as_it_was(tmp_path):
    assert isinstance(InspectReader(), Reader)
    path = write(log_of([sample(scores=1.0)]), tmp_path)
    read(path)
    assert gc.isenabled()
    gc.disable()
    try:
        read(path)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_log_that_inspect_ran_itself_is_read(tmp_path):
    from inspect_ai import Task, eval  # noqa: A004
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelUsage, get_model
    from inspect_ai.scorer import match

    def reply(text: str) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    data = [Sample(id=n, input="say yes", target="yes", metadata={"kind": "k"}) for n in range(4)]
    model = get_model("mockllm/model", custom_outputs=[reply("yes")] * 4 + [reply("no")] * 4)
    (log,) = eval(
        Task(dataset=data, scorer=match(), name="yes"),
        model=model,
        epochs=2,
        max_samples=1,
        log_dir=str(tmp_path),
        display="none",
    )
    conversion = read(
        Path(log.location.removeprefix("file://")), columns={"category": "metadata.kind"}
    )
    assert conversion.rows_read == conversion.converted == 8
    assert sum(row["score"] for row in conversion.judgements.to_pylist()) == 4
    assert not conversion.warnings
    assert read_eval_log(log.location, header_only=True).results.scores[0].metrics[
        "accuracy"].value == 0.5  # fmt: skip
