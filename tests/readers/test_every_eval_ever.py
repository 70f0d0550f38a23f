"""Every Eval Ever: what lines and records say, what converters leave in them, and what is asked."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from safemetry.errors import InputError
from safemetry.evidence import every_eval_ever as words
from safemetry.evidence.identity import text_digest
from safemetry.evidence.maps import Scale, make_map
from safemetry.readers import TextReader, import_sources, read_evidence
from safemetry.readers.conversion import Conversion
from safemetry.readers.every_eval_ever import EveryEvalEverReader
from safemetry.readers.source import Source

READER = EveryEvalEverReader()
STEM = "9f1d2c3b-4a5e-4f60-8a7b-0c1d2e3f4a5b"
RUN = "harmless/maker_model-1/1767225600"
SECRET = "the secret token is swordfish"
UNKNOWN_MODEL = {"deployment_type": "unknown", "model_availability": "unknown"}


def line(sample: str = "s1", score: Any = 1.0, **more: Any) -> dict[str, Any]:
    given = {
        "schema_version": "0.3.0",
        "evaluation_id": RUN,
        "model_id": "maker/model-1",
        "evaluation_name": "harmless",
        "evaluation_result_id": "safe",
        "sample_id": sample,
        "interaction_type": "single_turn",
        "input": {"raw": SECRET, "reference": [SECRET]},
        "output": {"raw": [SECRET]},
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": score == 1},
    }
    return {name: value for name, value in (given | more).items() if value is not ...}


def result(identifier: str = "safe", score: float = 1.0, **more: Any) -> dict[str, Any]:
    metric = {"metric_name": identifier, "lower_is_better": False} | more.pop("metric", {})
    details = {"score": score} | more.pop("details", {})
    return {
        "evaluation_result_id": identifier,
        "evaluation_name": "harmless",
        "source_data": {"dataset_name": "harmless", "source_type": "other"},
        "metric_config": metric,
        "score_details": details,
    } | more


def record(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "0.3.0",
        "evaluation_id": RUN,
        "retrieved_timestamp": "1767225600",
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "unknown", "version": "unknown"},
        "model_info": {
            "name": "model-1",
            "id": "maker/model-1",
            "additional_details": UNKNOWN_MODEL,
        },
        "evaluation_results": list(results),
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"data/harmless/maker/model-1/{STEM}_samples.jsonl",
        },
    } | more


def write_lines(folder: Path, *lines: dict[str, Any], name: str = f"{STEM}_samples.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines), encoding="utf-8")
    return path


def write_record(folder: Path, content: dict[str, Any], name: str = f"{STEM}.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


def read(path: Path, **entries: Any) -> Conversion:
    return READER.read(Source(str(path)), make_map(entries))


def verdicts(conversion: Conversion) -> list[tuple[Any, ...]]:
    names = ("item", "epoch", "judge", "score", "status", "reason")
    return [tuple(row[name] for name in names) for row in conversion.judgements.to_pylist()]


def refusal(path: Path, **entries: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **entries)
    return str(caught.value)


# --- lines ----------------------------------------------------------------------------------------


def test_a_line_alone_is_a_judgement_under_its_own_words(tmp_path):
    path = write_lines(tmp_path, line(metadata={"epoch": "2"}), line("s2", 0.25))
    conversion = read(path)
    assert READER.recognises(Source(str(path)))
    assert conversion.judgements.to_pylist()[0] == {
        "run": RUN,
        "target": "maker/model-1",
        "item": "s1",
        "epoch": 2,
        "judge": "safe",
        "label": None,
        "score": 1.0,
        "status": "ok",
        "reason": None,
        "benchmark": "harmless",
        "source_file": path.name,
        "source_row": 1,
    }
    assert verdicts(conversion)[1] == ("s2", 1, "safe", 0.25, "ok", None)
    assert (conversion.rows_read, conversion.converted) == (2, 2)
    assert conversion.scales == {}
    assert conversion.warnings == ()


def test_a_line_that_names_no_metric_stands_under_its_evaluation(tmp_path):
    conversion = read(write_lines(tmp_path, line(evaluation_result_id=...)))
    assert verdicts(conversion) == [("s1", 1, "harmless", 1.0, "ok", None)]
    assert "1 line named no metric that is known" in conversion.warnings[0]


def test_lines_of_the_second_version_are_read(tmp_path):
    old = line(schema_version="instance_level_eval_0.2.2"), line("s2", schema_version="0.2.1")
    assert read(write_lines(tmp_path, *old)).converted == 2


@pytest.mark.parametrize("version", ["0.4.0", "instance_level_eval_0.1", "", None, 3, ...])
def test_a_version_that_is_not_known_is_named(version, tmp_path):
    said = refusal(write_lines(tmp_path, line(schema_version=version)))
    assert repr("None" if version is ... else str(version)) in said
    assert "it knows 0.2.1, 0.2.2, 0.3.0" in said
    mixed = read(write_lines(tmp_path, line(), line("s2", schema_version=version)))
    assert "row 2 (line 2)" in str(mixed.failures[0])


@pytest.mark.parametrize("score", [None, "1", True, {}, [], ...])
def test_a_score_that_is_no_number_fails_alone(score, tmp_path):
    bad = line("s2")
    bad["evaluation"] = {} if score is ... else {"score": score, "is_correct": True}
    conversion = read(write_lines(tmp_path, line(), bad))
    assert [row[0] for row in verdicts(conversion)] == ["s1"]
    assert "row 2 (line 2), column 'evaluation.score'" in str(conversion.failures[0])


@pytest.mark.parametrize("name", ["evaluation_id", "model_id", "evaluation_name", "sample_id"])
@pytest.mark.parametrize("value", [None, "", " ", [], "half \ud800"])
def test_an_id_that_is_absent_fails_with_its_name(name, value, tmp_path):
    conversion = read(write_lines(tmp_path, line(), line(**{"sample_id": "s2", name: value})))
    assert f"column {name!r}" in str(conversion.failures[0])


def test_an_error_leaves_no_score(tmp_path):
    path = write_lines(tmp_path, line(error="Traceback ..."), line("s2", error=""), line("s3"))
    conversion = read(path)
    assert verdicts(conversion) == [
        ("s1", 1, "safe", None, "error", None),
        ("s2", 1, "safe", 1.0, "ok", None),
        ("s3", 1, "safe", 1.0, "ok", None),
    ]
    assert (
        "1 line told of an error, and a score beside an error is no verdict." in conversion.warnings
    )


def test_the_same_sample_twice_fails_and_says_where_the_first_is(tmp_path):
    conversion = read(write_lines(tmp_path, line(), line("s2"), line()))
    assert "row 3" in str(conversion.failures[0])
    assert "by 'safe' before, in row 1" in str(conversion.failures[0])
    epochs = [line(metadata={"epoch": str(epoch)}) for epoch in (1, 2, 3)]
    assert [row[1] for row in verdicts(read(write_lines(tmp_path, *epochs)))] == [1, 2, 3]


@pytest.mark.parametrize("epoch", ["0", "-1", "1.5", "one", "9" * 40])
def test_an_epoch_that_is_no_number_fails(epoch, tmp_path):
    conversion = read(write_lines(tmp_path, line(), line("s2", metadata={"epoch": epoch})))
    assert "metadata.epoch" in str(conversion.failures[0])


def test_one_id_under_two_evaluations_is_two_items(tmp_path):
    other = {"evaluation_name": "honest", "evaluation_result_id": "true"}
    conversion = read(write_lines(tmp_path, line(), line("s1", 0.0, **other), line("s2")))
    assert [row[0] for row in verdicts(conversion)] == ["harmless/s1", "honest/s1", "s2"]
    assert "EVALUATION/SAMPLE" in conversion.warnings[0]


# --- records --------------------------------------------------------------------------------------


def test_a_record_names_its_metrics_and_their_ranges(tmp_path):
    judged = {
        "metric_name": "severity",
        "lower_is_better": True,
        "score_type": "continuous",
        "min_score": 1,
        "max_score": 5,
        "llm_scoring": {
            "judges": [{"model_info": {"id": "maker/grader", "name": "g"}, "temperature": 0.5}],
            "input_prompt": SECRET,
            "aggregation_method": "average",
        },
    }
    settings = {"temperature": 0.7, "max_tokens": 64, "prompt_template": SECRET}
    content = record(
        result("r-1", 2.5, metric=judged, generation_config={"generation_args": settings}),
        evaluation_timestamp="1767225600",
        eval_library={"name": "lib", "version": "2"},
    )
    content["model_info"] |= {
        "developer": "Maker",
        "inference_platform": "unknown",
        "inference_engine": {"name": "engine", "version": "3"},
        "additional_details": {**UNKNOWN_MODEL, "model_availability": "open_weights"},
    }
    lines = [line("s1", 1, evaluation_result_id="r-1"), line("s2", 4, evaluation_result_id="r-1")]
    write_lines(tmp_path, *lines)
    conversion = read(write_record(tmp_path, content))
    row = conversion.judgements.to_pylist()[0]
    assert (row["judge"], row["developer"], row["access"]) == ("severity", "Maker", "open_weights")
    assert row["timestamp"] == "2026-01-01T00:00:00+00:00"
    # `lower_is_better` speaks of the metric; which end is safe is for the map to say.
    assert conversion.scales == {"severity": Scale(scale_min=1, scale_max=5)}
    (identity,) = conversion.judges
    assert (identity.name, identity.model, identity.parser) == ("severity", "maker/grader", "lib 2")
    assert (identity.decoding, identity.aggregation) == ({"temperature": 0.5}, "average")
    assert identity.rubric == text_digest(SECRET)
    assert conversion.targets == {
        "maker/model-1": {
            "temperature": 0.7,
            "max_tokens": 64,
            "prompt_template": text_digest(SECRET),
            "inference_engine": "engine 3",
        }
    }
    assert conversion.warnings == ()
    assert SECRET not in repr(conversion)
    assert SECRET not in repr(conversion.judgements.to_pylist())


def test_a_record_its_lines_and_their_folder_read_alike(tmp_path):
    lines = write_lines(tmp_path, line("s1"), line("s2", 0.0))
    whole = write_record(tmp_path, record(result(score=0.5)))
    found = [read(path) for path in (lines, whole, tmp_path)]
    assert all(READER.recognises(Source(str(path))) for path in (lines, whole, tmp_path))
    assert len({str(verdicts(conversion)) for conversion in found}) == 1
    assert {conversion.rows_read for conversion in found} == {3}
    assert dict(found[0].skipped) == {"aggregate record (only compared with its lines)": 1}
    assert read_evidence(str(tmp_path)).rows.collect("pyarrow").to_arrow().num_rows == 2


def test_which_end_of_a_score_is_safe_is_asked_for(tmp_path):
    from safemetry.rates import measure_rates

    write_lines(tmp_path, line("s1"), line("s2", 0.0))
    path = str(write_record(tmp_path, record(result(score=0.5))))
    with pytest.raises(InputError, match="safer or worse"):
        measure_rates(read_evidence(path), success="at_least:0.5")
    known = {"judges": {"safe": {"higher_is": "safer"}}, "intent": "harmful"}
    measured = measure_rates(read_evidence(path, evidence_map=known), success="at_least:0.5")
    assert measured.find("attack_success_rate").estimate == 0.5


@pytest.mark.parametrize("version", ["0.2.0", "0.2.1", "0.2.2", "0.3.0"])
def test_records_of_known_versions_are_read(version, tmp_path):
    write_lines(tmp_path, line())
    assert read(write_record(tmp_path, record(result(), schema_version=version))).converted == 1


def test_a_record_of_another_version_is_named(tmp_path):
    lines = write_lines(tmp_path, line())
    path = write_record(tmp_path, record(result(), schema_version="0.9.1"))
    for source in (path, lines, tmp_path):
        assert "'0.9.1'" in refusal(source)
        assert "it knows 0.2.0, 0.2.1, 0.2.2, 0.3.0" in refusal(source)


def test_a_record_without_lines_is_refused_with_the_reason(tmp_path):
    content = record(result())
    del content["detailed_evaluation_results"]
    path = write_record(tmp_path, content)
    assert READER.recognises(Source(str(path)))
    assert "rates are counted from samples" in refusal(path)
    assert "holds 1 aggregate records and no lines" in refusal(tmp_path)
    (tmp_path / "other").mkdir()
    write_lines(tmp_path / "other", line(), name="other_samples.jsonl")
    conversion = read(tmp_path)
    assert conversion.skipped == {"aggregate record without lines of its samples": 1}
    assert (conversion.rows_read, conversion.converted) == (2, 1)
    assert "1 aggregate record without lines" in conversion.warnings[0]


def test_lines_under_the_name_of_a_record_are_its_own(tmp_path):
    content = record(result(metric={"metric_name": "kind"}))
    del content["detailed_evaluation_results"]
    write_lines(tmp_path, line())
    assert verdicts(read(write_record(tmp_path, content)))[0][2] == "kind"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("../../outside_samples.jsonl", "does not lie beside it"),
        ("/etc/passwd", "does not lie beside it"),
        ("..", "does not lie beside it"),
        ("https://example.org/a_samples.jsonl", "nothing is fetched"),
        ("s3://bucket/a_samples.jsonl", "nothing is fetched"),
        ("a\0b", "does not lie beside it"),
        ("notes.txt", "holds no lines of samples"),
        ("link_samples.jsonl", "a link that leads out of its folder"),
        ("", "names no file"),
        (7, "names no file"),
    ],
)
def test_nothing_but_a_file_beside_the_record_is_opened(reference, said, tmp_path):
    write_lines(tmp_path, line(), name="outside_samples.jsonl")
    folder = tmp_path / "inside" / "deep"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("nothing")
    (folder / "link_samples.jsonl").symlink_to(tmp_path / "outside_samples.jsonl")
    content = record(result(), detailed_evaluation_results={"format": "jsonl"})
    content["detailed_evaluation_results"]["file_path"] = reference
    message = refusal(write_record(folder, content))
    assert said in message
    assert "detailed_evaluation_results" in message


def test_lines_in_another_format_are_refused(tmp_path):
    content = record(result())
    content["detailed_evaluation_results"]["format"] = "json"
    write_lines(tmp_path, line())
    assert "only jsonl is read" in refusal(write_record(tmp_path, content))


def test_lines_beside_a_damaged_record_are_not_read_without_it(tmp_path):
    lines = write_lines(tmp_path, line())
    whole = write_record(tmp_path, record(result()))
    whole.write_text(whole.read_text()[:-20])
    assert f"{STEM}.json" in refusal(lines)
    assert "damaged" in refusal(tmp_path)


def test_two_metrics_of_one_name_are_told_apart(tmp_path):
    same = {"metric_name": "accuracy"}
    write_lines(tmp_path, line(evaluation_result_id="a"), line("s1", 0, evaluation_result_id="b"))
    content = record(result("a", 1, metric=same), result("b", 0, metric=same))
    found = verdicts(read(write_record(tmp_path, content)))
    assert [(row[2], row[3]) for row in found] == [("a", 1.0), ("b", 0.0)]


def test_ranges_that_differ_are_left_open(tmp_path):
    first = {"metric_name": "score", "min_score": 0, "max_score": 1}
    second = first | {"max_score": 10}
    other = {"evaluation_name": "honest", "evaluation_result_id": "b"}
    write_lines(tmp_path, line(evaluation_result_id="a"), line("t1", 7, **other))
    content = record(
        result("a", 1, metric=first), result("b", 7, metric=second, evaluation_name="honest")
    )
    assert read(write_record(tmp_path, content)).scales == {}


def test_an_unbounded_range_is_open(tmp_path):
    metric = {"score_type": "continuous", "min_score": 0, "max_score": "Infinity"}
    write_lines(tmp_path, line("s1", 300))
    conversion = read(write_record(tmp_path, record(result(score=300, metric=metric))))
    assert conversion.scales == {"safe": Scale(scale_min=0)}


def test_the_range_of_a_percentage_is_not_that_of_its_samples(tmp_path):
    metric = {"min_score": 0, "max_score": 100, "metric_unit": "percent"}
    write_lines(tmp_path, line("s1", 1), line("s2", 0))
    conversion = read(write_record(tmp_path, record(result(score=50, metric=metric))))
    assert conversion.scales == {}
    assert conversion.warnings == ()


def test_a_score_outside_the_declared_range_is_no_verdict(tmp_path):
    write_lines(tmp_path, line("s1", 1), line("s2", 7))
    path = write_record(tmp_path, record(result(metric={"min_score": 0, "max_score": 1})))
    conversion = read(path)
    assert verdicts(conversion)[1] == ("s2", 1, "safe", None, "error", "out_of_scale")
    assert any("outside the range" in warning for warning in conversion.warnings)
    wider = read(path, judges={"safe": {"scale_min": 0, "scale_max": 10}})
    assert verdicts(wider)[1][3] == 7


def test_the_unknown_level_is_no_score(tmp_path):
    levels = {"score_type": "levels", "level_names": ["low", "high"], "has_unknown_level": True}
    write_lines(tmp_path, line("s1", 1), line("s2", -1))
    conversion = read(write_record(tmp_path, record(result(score=1, metric=levels))))
    assert verdicts(conversion)[1] == ("s2", 1, "safe", None, "missing", None)
    without = levels | {"has_unknown_level": False}
    conversion = read(write_record(tmp_path, record(result(score=0, metric=without))))
    assert verdicts(conversion)[1][3] == -1


# --- what converters leave behind -----------------------------------------------------------------


INSPECT = {"eval_library": {"name": "inspect_ai", "version": "0.3"}}


def test_statistics_of_one_scorer_are_one_judgement(tmp_path):
    """Inspect's converter writes a line for each metric, all with the score of the sample."""
    write_lines(
        tmp_path,
        *(
            line(sample, score, evaluation_result_id=f"match:{metric}")
            for sample, score in (("s1", 1), ("s2", 0))
            for metric in ("accuracy", "honesty")
        ),
    )
    content = record(result("match:accuracy", 0.5), result("match:honesty", 0.9), **INSPECT)
    conversion = read(write_record(tmp_path, content))
    assert verdicts(conversion) == [
        ("s1", 1, "match", 1.0, "ok", None),
        ("s2", 1, "match", 0.0, "ok", None),
    ]
    assert conversion.skipped["line of a further statistic of the same scorer"] == 2
    assert (
        "match:honesty: the record says 0.9, the mean over its 2 lines is 0.5"
        in (conversion.warnings[0])
    )


def test_statistics_of_one_scorer_with_other_scores_fail(tmp_path):
    write_lines(
        tmp_path,
        line(evaluation_result_id="match:accuracy"),
        line("s1", 0.5, evaluation_result_id="match:mean"),
    )
    content = record(result("match:accuracy"), result("match:mean", 0.5), **INSPECT)
    conversion = read(write_record(tmp_path, content))
    assert "another score in row 1, under match:accuracy" in str(conversion.failures[0])


def test_a_filler_for_an_unscored_sample_is_missing_for_every_judge(tmp_path):
    """Converters write a line without a metric, and a score, for a sample that has none."""
    write_lines(
        tmp_path,
        line("s2", 0.0, evaluation_result_id=...),
        line("s1", 1, evaluation_result_id="a"),
        line("s1", 0, evaluation_result_id="b"),
    )
    conversion = read(write_record(tmp_path, record(result("a", 1), result("b", 0))))
    assert verdicts(conversion)[2:] == [
        ("s2", 1, "a", None, "missing", "scoring_failed"),
        ("s2", 1, "b", None, "missing", "scoring_failed"),
    ]
    assert any("fillers" in warning for warning in conversion.warnings)
    assert conversion.converted == 3


def test_the_only_metric_of_a_record_is_that_of_lines_that_name_none(tmp_path):
    old = line(evaluation_result_id=..., evaluation_name="task")
    write_lines(tmp_path, old)
    assert verdicts(read(write_record(tmp_path, record(result("scorer")))))[0][2] == "scorer"


def test_scores_reduced_over_epochs_are_told(tmp_path):
    def both(last: float) -> list[dict[str, Any]]:
        epochs = [("s1", 0.5, "1"), ("s1", 0.5, "2"), ("s2", 1.0, "1"), ("s2", last, "2")]
        return [
            line(s, score, evaluation_result_id="m:mean", metadata={"epoch": epoch})
            for s, score, epoch in epochs
        ]

    path = write_record(tmp_path, record(result("m:mean", 0.75), **INSPECT))
    write_lines(tmp_path, *both(1.0))
    assert any("no independent trials" in warning for warning in read(path).warnings)
    write_lines(tmp_path, *both(0.0))
    assert not any("no independent trials" in warning for warning in read(path).warnings)


# --- figures of records ---------------------------------------------------------------------------


def test_figures_that_agree_say_nothing(tmp_path):
    lines = write_lines(tmp_path, *(line(f"s{n}", n % 2) for n in range(10)))
    content = record(
        result(
            score=0.5,
            details={
                "uncertainty": {
                    "standard_error": {"value": 0.1667, "method": "analytic"},
                    "confidence_interval": {"lower": 0.2, "upper": 0.8},
                    "num_samples": 10,
                }
            },
        )
    )
    content["detailed_evaluation_results"] |= {
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(lines.read_bytes()).hexdigest(),
        "total_rows": 10,
    }
    assert read(write_record(tmp_path, content)).warnings == ()


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"score": 0.7}, "the record says 0.7, the mean over its 10 lines is 0.5"),
        ({"uncertainty": {"num_samples": 12}}, "counts 12, the lines hold 10 samples"),
        (
            {"uncertainty": {"standard_error": {"value": 0.175}}},
            "a standard error of 0.175, the lines 0.1667",
        ),
        (
            {"uncertainty": {"confidence_interval": {"lower": 0.6, "upper": 0.9}}},
            "interval 0.6 to 0.9 does not hold its score 0.5",
        ),
    ],
)
def test_a_figure_that_differs_is_told_and_changes_nothing(details, said, tmp_path):
    write_lines(tmp_path, *(line(f"s{n}", n % 2) for n in range(10)))
    conversion = read(write_record(tmp_path, record(result(score=0.5, details=details))))
    assert said in conversion.warnings[0]
    assert "Rates are counted from the lines" in conversion.warnings[-1]
    assert Counter(row[3] for row in verdicts(conversion)) == {0.0: 5, 1.0: 5}


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"total_rows": 3}, "counts 3 lines, the file holds 2"),
        ({"hash_algorithm": "sha256", "checksum": "00"}, "sha256 checksum is not the one"),
        ({"hash_algorithm": "md5", "checksum": "00"}, "md5 checksum is not the one"),
    ],
)
def test_lines_that_are_not_those_of_the_record_are_told(details, said, tmp_path):
    write_lines(tmp_path, line("s1"), line("s2"))
    content = record(result())
    content["detailed_evaluation_results"] |= details
    assert said in read(write_record(tmp_path, content)).warnings[0]


@pytest.mark.parametrize("kind", [["sha256"], {"sha256": 1}, 256])
@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("hash_algorithm", "column 'detailed_evaluation_results.hash_algorithm': is no text"),
        ("format", "keeps the lines of its samples as"),
    ],
)
def test_a_kind_that_is_no_text_is_refused(field, problem, kind, tmp_path):
    write_lines(tmp_path, line("s1"))
    content = record(result())
    content["detailed_evaluation_results"] |= {field: kind, "checksum": "00"}
    path = write_record(tmp_path, content)
    said = refusal(path)
    assert problem in said
    assert str(path) in said
    assert "export the record again" in said


def test_lines_that_all_fail_have_no_texts(tmp_path):
    path = write_lines(tmp_path, line("s1", "high"))
    assert [failure.row for failure in read(path).failures] == [1]
    assert list(READER.texts(Source(str(path)), make_map({}))) == []


@pytest.mark.parametrize("judge", [["a", None], {"a": 1}])
def test_a_judge_that_is_no_text_fails_its_line(judge, tmp_path):
    kept = {"safemetry_export": "1", "run": RUN, "epoch": "1", "judge": judge}
    (failure,) = read(write_lines(tmp_path, line(metadata=kept))).failures
    assert (failure.row, failure.column) == (1, "metadata.judge")
    assert failure.fix


def test_a_kept_score_beyond_all_numbers_fails_its_line(tmp_path):
    kept = {"safemetry_export": "1", "run": RUN, "epoch": "1", "judge": "j", words.SCORE: 10**400}
    (failure,) = read(write_lines(tmp_path, line(metadata=kept))).failures
    assert failure.column == f"metadata.{words.SCORE}"


def test_lines_of_another_model_are_told(tmp_path):
    write_lines(tmp_path, line(model_id="maker/model-2"))
    conversion = read(write_record(tmp_path, record(result())))
    assert "another model" in conversion.warnings[0]
    assert conversion.judgements["target"].to_pylist() == ["maker/model-2"]


def test_figures_beyond_all_numbers_break_nothing(tmp_path):
    write_lines(tmp_path, line("s1", 1e308), line("s2", 1e308), line("s3", -1e308))
    content = record(result(score=1e308, details={"uncertainty": {"num_samples": 10**400}}))
    assert read(write_record(tmp_path, content)).converted == 3


# --- maps -----------------------------------------------------------------------------------------


def test_a_map_takes_context_from_the_metadata(tmp_path):
    path = write_lines(
        tmp_path,
        line("s1", metadata={"kind": "fraud", "want": "bad", "trial": "3", "said": "no"}),
        line("s2", metadata={"kind": "privacy", "want": "good", "trial": "4", "said": "yes"}),
    )
    known = {
        "columns": {
            "category": "metadata.kind",
            "epoch": "metadata.trial",
            "label": "metadata.said",
        },
        "intent": {"column": "metadata.want", "values": {"bad": "harmful", "good": "benign"}},
        "labels": {"no": "refuse", "yes": "comply"},
    }
    rows = read_evidence(str(path), evidence_map=known).rows.collect("pyarrow").to_arrow()
    found = [(r["category"], r["epoch"], r["label"], r["intent"]) for r in rows.to_pylist()]
    assert sorted(found) == [("fraud", 3, "refuse", "harmful"), ("privacy", 4, "comply", "benign")]


def test_a_map_turns_errors_into_reasons(tmp_path):
    path = write_lines(tmp_path, line(error="timeout"), line("s2"))
    known = {"status": {"column": "error", "values": {"timeout": "infrastructure_error"}}}
    rows = read_evidence(str(path), evidence_map=known).rows.collect("pyarrow").to_arrow()
    assert rows.sort_by("item")["reason"].to_pylist() == ["infrastructure_error", None]


@pytest.mark.parametrize("path", ["input.raw", "output.raw", "messages", "answer_attribution"])
def test_a_map_takes_no_text(path, tmp_path):
    assert "holds text" in refusal(write_lines(tmp_path, line()), columns={"category": path})
    intent = {"column": path, "values": {"a": "harmful"}}
    assert "holds text" in refusal(write_lines(tmp_path, line()), intent=intent)


def test_a_map_that_names_nothing_is_refused(tmp_path):
    path = write_lines(tmp_path, line())
    assert "which no line has" in refusal(path, columns={"category": "metadata.kind"})
    assert "state it themselves" in refusal(path, columns={"score": "metadata.kind"})


# --- folders, studies and texts -------------------------------------------------------------------


def test_a_folder_with_a_missing_file_of_lines_says_so(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_record(tmp_path / name, record(result()))
    write_lines(tmp_path / "a", line())
    conversion = read(tmp_path)
    assert (conversion.rows_read, conversion.converted) == (3, 1)
    assert "does not lie beside it" in str(conversion.failures[0])


def test_hidden_files_and_links_to_folders_are_left_out(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    write_lines(inside, line())
    write_lines(inside, line("s2"), name=".hidden_samples.jsonl")
    write_lines(outside, line("s3"))
    (inside / "link").symlink_to(outside)
    assert read(inside).rows_read == 1


def test_a_folder_goes_into_a_study_once(tmp_path):
    source = tmp_path / "records"
    source.mkdir()
    write_lines(source, line("s1"), line("s2", 0.0))
    write_record(source, record(result(score=0.5)))
    for added in (True, False):
        finding = import_sources([str(source)], tmp_path / "study")
        assert finding.complete
        assert [report.added for report in finding.sources_read] == [added]
    both = import_sources([str(path) for path in sorted(source.iterdir())], tmp_path / "other")
    assert [report.added for report in both.sources_read] == [True, False]
    assert both.sources_read[1].problems


def test_texts_come_under_the_keys_of_the_judgements(tmp_path):
    turns = [
        {"turn_idx": 0, "role": "user", "content": "one"},
        {"turn_idx": 1, "role": "assistant", "content": "two"},
        {"turn_idx": 2, "role": "user", "content": "three"},
        {"turn_idx": 3, "role": "assistant", "content": None},
    ]
    talk = {"interaction_type": "multi_turn", "output": None, "messages": turns}
    path = write_lines(
        tmp_path,
        line("s1", input={"raw": "ask", "reference": []}, output={"raw": ["a", "b"]}),
        line("s1", 0.0, evaluation_result_id="other"),
        line("s2", **talk),
        line("s3", input={"raw": "", "reference": []}, output={"raw": []}),
        line("s4", None),
    )
    assert isinstance(READER, TextReader)
    texts = list(READER.texts(Source(str(path)), make_map({})))
    assert [(text.item, text.prompt, text.response) for text in texts] == [
        ("s1", "ask", "a\n\nb"),
        ("s2", "one", "assistant: two\n\nuser: three"),
        ("s3", None, None),
    ]
    rows = read(path).judgements.to_pylist()
    names = ("run", "target", "item", "epoch")
    assert [tuple(getattr(text, name) for name in names) for text in texts] == list(
        dict.fromkeys(tuple(row[name] for name in names) for row in rows)
    )


# --- hostile and foreign input --------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"evaluation_results": None},
        {"evaluation_results": [None, 3, {}, {"metric_config": []}]},
        {"model_info": "x", "eval_library": [], "source_metadata": 3},
        {"evaluation_timestamp": "1e400"},
        {"evaluation_timestamp": {}},
        {"eval_library": {"name": ["inspect_ai"]}},
    ],
)
def test_a_record_of_odd_shape_costs_no_line(change, tmp_path):
    write_lines(tmp_path, line())
    assert verdicts(read(write_record(tmp_path, record(result()) | change)))[0][3] == 1.0


def test_more_judgements_than_the_limit_are_refused(tmp_path):
    path = write_lines(tmp_path, *(line(f"s{n}") for n in range(5)))
    assert "limits.rows" in refusal(path, limits={"rows": 3})


def test_two_records_of_one_file_of_lines_are_told(tmp_path):
    write_lines(tmp_path, line())
    write_record(tmp_path, record(result()))
    write_record(tmp_path, record(result()), name="another.json")
    assert "refers to the lines of another record" in str(read(tmp_path).failures[0])


# --- real logs through the real converter ---------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "lines", "judgements", "mean"),
    [
        ("humanebench_good-persona-eval_4LXFccNNvE7syPLEcfqsLf.eval", 351, 39, 0.897436),
        ("2025-05-12T20-28-13-04-00_popularity.json", 3, 3, 0.666667),
        ("log_formats.json", 1, 1, 0.0),
    ],
)
def test_real_logs_after_the_real_converter(log, lines, judgements, mean, shared, tmp_path):
    """Inspect logs, converted by the package of the format, where it is installed."""
    module = pytest.importorskip("every_eval_ever.converters.inspect.__main__")
    cli = pytest.importorskip("every_eval_ever.cli")
    del module
    folder = tmp_path / "data"
    source = shared / "formats" / "inspect" / log
    words = ["convert", "inspect", "--log_path", str(source), "--output_dir", str(folder)]
    assert not cli.main(words)
    conversion = read(folder)
    assert (conversion.rows_read, conversion.judgements.num_rows) == (lines + 1, judgements)
    assert not conversion.failures
    scores = conversion.judgements["score"].to_pylist()
    assert sum(scores) / len(scores) == pytest.approx(mean, abs=1e-6)
