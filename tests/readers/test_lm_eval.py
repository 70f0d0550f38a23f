"""Samples of the lm-evaluation-harness: a real file, and what releases, filters and mishaps do."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import rows, said

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import make_map, read_map
from safemetry.evidence.matrix import response_matrix
from safemetry.evidence.success import SuccessRule
from safemetry.rates import measure_rates
from safemetry.readers import read_evidence
from safemetry.readers.conversion import TextReader
from safemetry.readers.lm_eval import LmEvalReader
from safemetry.readers.source import Source

DOCUMENTED = Path(__file__).parents[2] / "docs" / "readers-lm-eval.md"
TIME = "2025-01-02T03-04-05.678901"
TARGET = {"constants": {"target": "target-a"}}
ANSWER = {"scale_min": 0, "scale_max": 1, "higher_is": "safer"}
SECRET = "sk-not-a-real-key"


def document(number: int = 0, **more: Any) -> dict[str, Any]:
    """A line of a multiple-choice task in the form of release 0.4.13."""
    metrics = {name: value for name, value in more.items() if name.startswith(("acc", "exact"))}
    rest = {name: value for name, value in more.items() if name not in metrics}
    metrics = metrics or ({} if "metrics" in rest else {"acc": 1.0})
    line = {
        "doc_id": number,
        "doc": {"question": f"which colour {number}", "kind": "odd" if number % 2 else "even"},
        "target": "0",
        "arguments": {"gen_args_0": {"arg_0": f"ask {number}", "arg_1": " red"}},
        "resps": [[["-0.5", "False"]], [["-0.7", "False"]]],
        "filtered_resps": [["-0.5", "False"], ["-0.7", "False"]],
        "filter": "none",
        "metrics": list(metrics),
        "doc_hash": f"{number:064x}",
        "prompt_hash": "a" * 64,
        "target_hash": "b" * 64,
    }
    return {name: value for name, value in {**line, **metrics, **rest}.items() if value != "absent"}


def unnamed(number: int, **more: Any) -> dict[str, Any]:
    """The same in the form of releases before 0.4.7, which name neither filters nor metrics."""
    return document(number, **{"filter": "absent", "metrics": "absent", "acc": 1.0, **more})


def generated(number: int, *said: str, **more: Any) -> dict[str, Any]:
    """A line of a task in which the model writes."""
    return document(
        number,
        arguments={"gen_args_0": {"arg_0": f"ask {number}", "arg_1": {"until": ["\n"]}}},
        resps=[list(said)],
        filtered_resps=list(said[:1]),
        **more,
    )


def results(**more: Any) -> dict[str, Any]:
    return {
        "results": {"demo": {"alias": "demo", "acc,none": 0.5, "acc_stderr,none": 0.1}},
        "configs": {"demo": {"metric_list": [{"metric": "acc", "aggregation": "mean"}]}},
        "n-shot": {"demo": 5},
        "n-samples": {"demo": {"original": 9, "effective": 2}},
        "config": {"model": "hf", "model_args": {"pretrained": "x/y", "token": SECRET}},
        "lm_eval_version": "0.4.13",
        "model_name": "org/model-1",
        "chat_template_sha": "c" * 64,
        "fewshot_as_multiturn": False,
        **more,
    }


@pytest.fixture
def write(tmp_path):
    def put(
        *lines: Any,
        name: str = f"samples_demo_{TIME}.jsonl",
        folder: str = "out",
        beside: dict[str, Any] | str | None = None,
        beside_name: str = f"results_{TIME}.json",
    ) -> Path:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        path = place / name
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        if beside is not None:
            content = beside if isinstance(beside, str) else json.dumps(beside)
            (place / beside_name).write_text(content, encoding="utf-8")
        return path

    return put


def convert(path: Path, **entries: Any):
    evidence_map = make_map(entries or TARGET)
    return LmEvalReader().read(Source(str(path), evidence_map.limits), evidence_map)


@pytest.fixture
def read(write):
    def put(*lines: Any, map_: dict[str, Any] | None = None, **place: Any):
        return convert(write(*lines, **place), **(TARGET if map_ is None else map_))

    return put


# --- a real file ------------------------------------------------------------------------------


@pytest.fixture
def real(shared) -> Path:
    (path,) = (shared / "formats" / "lm_eval").glob("samples_*.jsonl")
    return path


def test_exact_totals_of_a_real_file(real):
    assert LmEvalReader().recognises(Source(str(real)))
    conversion = convert(real, constants={"target": "EleutherAI/pythia-14m"})
    assert (conversion.rows_read, conversion.converted) == (25, 25)
    assert not conversion.skipped
    assert not conversion.failures
    assert not conversion.warnings
    assert Counter(rows(conversion, "score")) == {0.0: 20, 1.0: 5}
    right = [item for item, score in rows(conversion, "item", "score") if score == 1]
    assert right == [f"metabench_truthfulqa_permute/{n}" for n in (0, 8, 9, 10, 18)]
    assert set(
        rows(conversion, "run", "target", "benchmark", "judge", "epoch", "status", "timestamp")
    ) == {
        (
            "2024-11-26T10-47-32.305387",
            "EleutherAI/pythia-14m",
            "metabench_truthfulqa_permute",
            "acc",
            1,
            "ok",
            "2024-11-26T10:47:32.305387",
        )
    }
    # The digests of this copy are removed, so that nothing says which documents are alike.
    assert "behaviour" not in conversion.judgements.column_names
    assert conversion.scales["acc"].higher_is is None
    assert conversion.default_rule == SuccessRule("at_least:1")
    assert conversion.judges == (JudgeIdentity(name="acc", parser="lm-eval"),)


def test_a_real_file_in_a_folder_without_a_model_asks_for_its_target(real):
    with pytest.raises(InputError, match=r"names? .*target.*--set target=NAME"):
        LmEvalReader().read(Source(str(real)), make_map({}))


def test_a_real_file_gives_a_matrix_of_right_answers_once_the_map_says_what_counts(real):
    evidence = read_evidence(
        str(real), evidence_map={"constants": {"target": "pythia"}, "judges": {"acc": ANSWER}}
    )
    matrix = response_matrix(evidence)
    assert matrix.targets == ("pythia",)
    assert matrix.outcomes.shape == (1, 25)
    assert (int(matrix.outcomes.sum()), matrix.missing) == (5, 0)
    (claim,) = measure_rates(evidence).claims
    assert (claim.metric, claim.events, claim.trials) == ("rewarded_rate", 5, 25)


def test_a_right_answer_has_no_rate_before_the_map_says_what_it_stands_for(real):
    evidence = read_evidence(str(real), evidence_map={"constants": {"target": "pythia"}})
    with pytest.raises(InputError, match=r"safer or worse"):
        response_matrix(evidence)


# --- metrics and filters ----------------------------------------------------------------------


def test_each_metric_is_a_judge(read):
    conversion = read(document(0, acc=1.0, acc_norm=0.0), document(1, acc=0, acc_norm=True))
    assert rows(conversion, "item", "judge", "score") == [
        ("demo/0", "acc", 1.0),
        ("demo/0", "acc_norm", 0.0),
        ("demo/1", "acc", 0.0),
        ("demo/1", "acc_norm", 1.0),
    ]
    assert conversion.converted == 2


def test_the_filters_of_a_document_are_judges_and_not_repeats(read):
    conversion = read(
        generated(0, "red", filter="strict-match", exact_match=0.0),
        generated(1, "red", filter="strict-match", exact_match=1.0),
        generated(0, "red", filter="flexible-extract", exact_match=1.0),
        generated(1, "red", filter="flexible-extract", exact_match=1.0),
    )
    assert set(rows(conversion, "epoch")) == {1}
    assert rows(conversion, "item", "judge", "score") == [
        ("demo/0", "exact_match/strict-match", 0.0),
        ("demo/1", "exact_match/strict-match", 1.0),
        ("demo/0", "exact_match/flexible-extract", 1.0),
        ("demo/1", "exact_match/flexible-extract", 1.0),
    ]
    assert {judge.parser for judge in conversion.judges} == {
        "lm-eval, filter strict-match",
        "lm-eval, filter flexible-extract",
    }
    assert not conversion.warnings


def test_filters_that_the_file_does_not_name_are_told_by_their_equal_responses(read):
    lines = [unnamed(0, acc=0), unnamed(1, acc=0), unnamed(0, acc=1), unnamed(1, acc=1)]
    conversion = read(*lines)
    assert rows(conversion, "judge", "epoch", "score") == [
        ("acc/filter-1", 1, 0.0),
        ("acc/filter-1", 1, 0.0),
        ("acc/filter-2", 1, 1.0),
        ("acc/filter-2", 1, 1.0),
    ]
    said(conversion, "does not name its filters")
    figures = {"demo": {"alias": "demo", "acc,strict": 0, "acc_stderr,strict": 0, "acc,loose": 1}}
    named = read(*lines, beside=results(results=figures))
    assert rows(named, "judge") == ["acc/strict"] * 2 + ["acc/loose"] * 2


def test_a_document_that_is_answered_again_is_a_repeat(read):
    again = unnamed(0, acc=0, resps=[[["-9", "False"]]])
    conversion = read(unnamed(0, acc=1), again)
    assert rows(conversion, "judge", "epoch", "score") == [("acc", 1, 1.0), ("acc", 2, 0.0)]
    said(conversion, "1 line of")
    named = read(document(0), document(0), document(0))
    assert rows(named, "epoch") == [1, 2, 3]
    said(named, "2 lines of")


def test_metrics_of_old_releases_are_what_stands_beside_the_fields(read):
    conversion = read(unnamed(0, acc=0.25, likelihood=-3.5))
    assert rows(conversion, "judge", "score") == [("acc", 0.25), ("likelihood", -3.5)]


def test_only_metrics_whose_range_the_harness_fixes_have_a_scale(read):
    conversion = read(unnamed(0, acc=1, likelihood=-3.5))
    assert set(conversion.scales) == {"acc"}
    scale = conversion.scales["acc"]
    assert (scale.scale_min, scale.scale_max, scale.higher_is) == (0, 1, None)


def test_columns_beside_listed_metrics_are_no_metrics(read):
    conversion = read(document(0, note=3))
    assert rows(conversion, "judge") == ["acc"]


@pytest.mark.parametrize("value", [[0, "[0.2 0.8]"], {"a": 1}, "0.5", [-0.9, 7], [1, {"idx": 0}]])
def test_a_metric_over_all_documents_together_judges_none(read, value):
    conversion = read(
        document(0, acc=1.0, metrics=["acc", "whole"], whole=value),
        document(1, acc=0.0, metrics=["acc", "whole"], whole=value),
    )
    assert rows(conversion, "judge") == ["acc", "acc"]
    assert conversion.converted == 2
    assert "whole" in said(conversion, "Left out of demo")


def test_documents_with_nothing_but_such_metrics_are_skipped_aloud(read):
    conversion = read(*(document(n, metrics=["whole"], whole=[-0.9, 7]) for n in range(3)))
    assert conversion.judgements.num_rows == 0
    assert conversion.skipped == {"document without a score of its own": 3}
    said(conversion, "Left out of demo")


@pytest.mark.parametrize("value", [None, 999])
def test_bypass_is_no_metric(read, value):
    conversion = read(generated(0, "red", metrics=["bypass"], bypass=value))
    assert conversion.skipped == {"document without a score of its own": 1}


def test_a_document_without_metrics_is_skipped(read):
    assert read(document(0, metrics=[])).skipped == {"document without a metric": 1}


# --- what is no score -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "status", "reason"),
    [
        ("NaN", "missing", "scoring_failed"),
        ("null", "missing", "scoring_failed"),
        ("-Infinity", "error", "out_of_scale"),
        ("1e999", "error", "out_of_scale"),
        ("1.5", "error", "out_of_scale"),
        ("-0.1", "error", "out_of_scale"),
        ('"high"', "error", "invalid_response_format"),
        ("[1]", "error", "invalid_response_format"),
        ("0.75", "ok", None),
        ("true", "ok", None),
    ],
)
def test_what_is_no_score_has_a_status_and_a_reason(read, written, status, reason):
    line = json.dumps(document(1, acc=0.625)).replace("0.625", written)
    conversion = read(document(0), line)
    assert rows(conversion, "status", "reason")[1] == (status, reason)
    assert (rows(conversion, "score")[1] is not None) == (status == "ok")
    assert conversion.converted == 2


def test_nan_beside_the_metrics_hurts_nobody(read):
    line = json.dumps(document(0, doc={"weight": "X"})).replace('"X"', "NaN")
    assert rows(read(line), "score") == [1.0]


def test_a_range_that_the_map_declares_is_checked_by_the_border(write):
    path = write(document(0, acc=40.0))
    percent = {"acc": {"scale_min": 0, "scale_max": 100, "higher_is": "safer"}}
    evidence = read_evidence(str(path), evidence_map={**TARGET, "judges": percent}, kind="lm-eval")
    matrix = response_matrix(evidence, success="at_least:50")
    assert matrix.outcomes.tolist() == [[0]]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, ["ok", "out_of_scale", "out_of_scale"]),
        ({"acc": {"higher_is": "safer"}}, ["ok", "out_of_scale", "out_of_scale"]),
        ({"*": {"higher_is": "safer"}}, ["ok", "out_of_scale", "out_of_scale"]),
        ({"acc": ANSWER}, ["ok", "out_of_scale", "out_of_scale"]),
        ({"acc": {**ANSWER, "scale_max": 10}}, ["ok", "ok", "out_of_scale"]),
        ({"acc": {"scale_max": 10, "higher_is": "safer"}}, ["ok", "ok", "out_of_scale"]),
        ({"acc": {**ANSWER, "scale_min": -1, "scale_max": 10}}, ["ok", "ok", "ok"]),
    ],
)
def test_the_range_of_a_metric_holds_whatever_a_map_adds(write, declared, expected):
    path = write(document(0), document(1, acc=7), document(2, acc=-0.5))
    evidence = read_evidence(str(path), evidence_map={**TARGET, "judges": declared}, kind="lm-eval")
    table = evidence.rows.collect("pyarrow").to_arrow().sort_by("source_row").to_pylist()
    assert [row["reason"] or row["status"] for row in table] == expected
    assert [row["score"] is not None for row in table] == [said == "ok" for said in expected]


def test_the_range_holds_for_a_metric_under_each_filter(read):
    lines = [generated(0, "a", filter=name, exact_match=7) for name in ("strict", "loose")]
    conversion = read(*lines, map_={**TARGET, "judges": {"*": {"higher_is": "safer"}}})
    assert rows(conversion, "judge", "reason") == [
        ("exact_match/strict", "out_of_scale"),
        ("exact_match/loose", "out_of_scale"),
    ]


def test_a_right_answer_to_a_harmful_question_can_be_the_worse_one(write):
    path = write(document(0), document(1, acc=0.0), document(2))
    worse = {"acc": {**ANSWER, "higher_is": "worse"}}
    evidence = read_evidence(
        str(path), evidence_map={**TARGET, "judges": worse, "intent": "harmful"}
    )
    found = {claim.metric: (claim.events, claim.trials) for claim in measure_rates(evidence).claims}
    assert found["attack_success_rate"] == (2, 3)


def test_a_rule_is_implied_where_no_score_lies_between_0_and_1(read):
    assert read(document(0)).default_rule == SuccessRule("at_least:1")
    assert read(document(0), document(1, acc=0.5)).default_rule is None
    assert read(document(0, metrics=["whole"], whole=[1])).default_rule == SuccessRule("at_least:1")


# --- who was asked, and what ------------------------------------------------------------------


def test_the_target_is_what_the_results_of_the_same_run_name(read):
    conversion = read(document(0), document(1, acc=0.0), beside=results(), map_={"rewarded": 1})
    assert set(rows(conversion, "target")) == {"org/model-1"}
    said(conversion, f"named by results_{TIME}.json")
    assert conversion.targets == {
        "org/model-1": {
            "backend": "hf",
            "num_fewshot": 5,
            "chat_template": "c" * 16,
            "fewshot_as_multiturn": False,
        }
    }
    assert SECRET not in repr(conversion.targets)
    (judge,) = conversion.judges
    assert judge.parser == "lm-eval 0.4.13"


def test_settings_that_differ_between_tasks_are_given_for_each(read):
    generation = {"until": ["\n"], "temperature": 0.7, "do_sample": True}
    beside = results(
        model_name="target-a",
        **{"n-shot": {"demo": 0, "other": 5}},
        configs={"demo": {"generation_kwargs": generation}, "other": {"generation_kwargs": "x"}},
    )
    (settings,) = read(document(0), beside=beside).targets.values()
    assert settings["num_fewshot"] == {"demo": 0, "other": 5}
    assert (settings["temperature"], settings["do_sample"]) == (0.7, True)
    assert "until" not in settings


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ("pretrained=org/m,dtype=float", "org/m"),
        ("base_url=http://x,model=gpt-x", "gpt-x"),
        ({"pretrained": "org/m", "peft": "org/adapter"}, "org/adapter"),
    ],
)
def test_results_that_do_not_name_the_model_hold_its_arguments(read, arguments, target):
    beside = results(model_name=None, config={"model": "hf", "model_args": arguments})
    conversion = read(document(0), beside=beside, map_={"rewarded": 1})
    assert rows(conversion, "target") == [target]


def test_results_named_for_an_output_file_are_found_by_their_time(read):
    conversion = read(
        document(0), beside=results(), beside_name=f"mine_{TIME}.json", map_={"rewarded": 1}
    )
    said(conversion, f"named by mine_{TIME}.json")


def test_results_of_another_run_name_nobody(read):
    with pytest.raises(InputError, match="does not name its target"):
        read(
            document(0),
            beside=results(),
            beside_name="results_2025-01-02T03-04-06.000000.json",
            map_={"rewarded": 1},
        )


@pytest.mark.parametrize(
    ("folder", "target"),
    [
        ("org__model-1", "org/model-1"),
        ("out/org__model__v2", "org/model/v2"),
        ("__models__llama", "/models/llama"),
    ],
)
def test_a_folder_in_the_manner_of_the_harness_names_the_target(read, folder, target):
    conversion = read(document(0), folder=folder, map_={"rewarded": 1})
    assert rows(conversion, "target") == [target]
    said(conversion, "by the folder")


@pytest.mark.parametrize("folder", ["out", "gpt-x", "tmp__x1", "__pycache__", "a____b", "x__"])
def test_a_folder_that_could_be_any_folder_names_nobody(read, folder):
    with pytest.raises(InputError, match=r"constants: \{target: NAME\}"):
        read(document(0), folder=folder, map_={"rewarded": 1})


def test_the_map_names_the_target_before_all_others(read):
    conversion = read(document(0), folder="org__m", beside=results(model_name="other/name"))
    assert rows(conversion, "target") == ["target-a"]
    said(conversion, "names 'other/name'")


@pytest.mark.parametrize("content", ["{", "[]", '{"results": '])
def test_damaged_results_are_not_used(read, content):
    conversion = read(document(0), beside=content)
    said(conversion, "was not used")
    with pytest.raises(InputError, match="does not name its target"):
        read(document(0), beside=content, map_={"rewarded": 1})


@pytest.mark.parametrize(
    "content",
    [
        {"results": [], "config": 3, "n-shot": "x", "configs": {"demo": {"metric_list": [1]}}},
        {"results": {"demo": {"acc,none": "N/A"}}, "n-samples": {"demo": 3}},
        {"model_name": "\ud800", "config": {"model_args": 4}},
        {"lm_eval_version": 4, "chat_template_sha": SECRET},
    ],
)
def test_results_of_any_shape_are_read_with_care(read, content):
    conversion = read(document(0), beside=content)
    assert rows(conversion, "score") == [1.0]
    assert SECRET not in repr(conversion.targets)


def test_a_file_of_another_name_stands_for_its_task_aloud(read):
    conversion = read(document(0), name="mine.jsonl")
    assert rows(conversion, "item", "benchmark") == [("mine/0", "mine")]
    assert "run" not in conversion.judgements.column_names
    said(conversion, "stands for the task")
    named = read(
        document(0),
        name="mine.jsonl",
        map_={"constants": {"target": "a", "benchmark": "arc"}},
    )
    assert rows(named, "item") == ["arc/0"]


def test_a_task_may_hold_underscores_and_dates(read):
    conversion = read(document(0), name=f"samples_leaderboard_math_2024-01-01_{TIME}.jsonl")
    assert rows(conversion, "benchmark", "run") == [("leaderboard_math_2024-01-01", TIME)]


# --- comparison with the results --------------------------------------------------------------


def test_results_that_agree_are_not_mentioned(read):
    conversion = read(document(0), document(1, acc=0.0), beside=results(model_name="target-a"))
    assert not conversion.warnings


def test_a_mean_that_differs_from_the_results_is_said_with_both_numbers(read):
    conversion = read(document(0), document(1), beside=results(model_name="target-a"))
    assert said(conversion, "gives acc,none of demo as 0.5000") == (
        f"results_{TIME}.json gives acc,none of demo as 0.5000, its 2 samples as 1.0000; the "
        "samples are kept."
    )


def test_documents_that_are_absent_are_counted(read):
    conversion = read(document(0, acc=0.5), beside=results(model_name="target-a"))
    said(conversion, "counts 2 documents of demo, the samples hold 1")


def test_a_figure_that_is_no_mean_is_not_compared(read):
    listed = {"demo": {"metric_list": [{"metric": "acc", "aggregation": "median"}]}}
    beside = results(model_name="target-a", configs=listed)
    assert not read(document(0), document(1), beside=beside).warnings


def test_another_release_is_named(read):
    conversion = read(document(0, acc=0.5), beside=results(lm_eval_version="0.5.1"))
    said(conversion, "written by lm-eval 0.5.1")


# --- items and context ------------------------------------------------------------------------


def test_the_same_document_in_two_tasks_is_one_cluster(write):
    one = convert(write(document(7)))
    two = convert(write(document(7), name=f"samples_other_{TIME}.jsonl"))
    assert rows(one, "item") != rows(two, "item")
    assert rows(one, "behaviour") == rows(two, "behaviour") == [f"{7:064x}"[:16]]


def test_one_number_for_two_documents_fails(read):
    conversion = read(document(0), document(0, doc_hash="f" * 64))
    assert len(conversion.failures) == 1
    assert "stands for two documents" in str(conversion.failures[0])
    assert "row 2 (line 2), column 'doc_id'" in str(conversion.failures[0])


def test_the_map_takes_context_from_any_field(write):
    entries = {
        **TARGET,
        "columns": {"category": "doc.kind", "item": "doc.question"},
        "intent": {"column": "target", "values": {"0": "benign"}},
        "judges": {"acc": ANSWER},
    }
    path = write(document(0), document(1, acc=0.0))
    conversion = convert(path, **entries)
    assert rows(conversion, "item", "category") == [
        ("which colour 0", "even"),
        ("which colour 1", "odd"),
    ]
    evidence = read_evidence(
        str(path), evidence_map={**TARGET, "columns": {"category": "doc.kind"}, "intent": {
            "column": "doc.kind", "values": {"even": "benign", "odd": "harmful"}},
            "judges": {"acc": ANSWER}},
    )  # fmt: skip
    found = {claim.metric: (claim.events, claim.trials) for claim in measure_rates(evidence).claims}
    assert found["attack_success_rate"] == (1, 1)
    assert found["help_rate"][1] == 1


def test_nothing_but_numbers_and_names_leaves_the_file(read):
    conversion = read(generated(0, "a response", acc=1.0))
    kept = json.dumps(conversion.judgements.to_pylist())
    assert "a response" not in kept
    assert "ask" not in kept
    assert "colour" not in kept


def test_ids_of_any_script(read):
    conversion = read(document(0, doc_id="문항 🙂"), name=f"samples_과제_{TIME}.jsonl")
    assert rows(conversion, "item", "benchmark") == [("과제/문항 🙂", "과제")]


# --- lines of the wrong shape -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "column"),
    [
        ({"doc_id": None}, "doc_id"),
        ({"doc_id": True}, "doc_id"),
        ({"doc_id": [1]}, "doc_id"),
        ({"doc_id": "\ud800"}, "doc_id"),
        ({"resps": "absent"}, "resps"),
        ({"arguments": "absent"}, "arguments"),
        ({"filter": 3}, "filter"),
        ({"filter": " "}, "filter"),
        ({"metrics": "acc"}, "metrics"),
        ({"metrics": [3]}, "metrics"),
        ({"metrics": ["acc", "gone"]}, "metrics"),
    ],
)
def test_a_line_of_the_wrong_shape_fails_alone(read, wrong, column):
    conversion = read(document(0), document(1, acc=1.0, **wrong))
    (failure,) = conversion.failures
    assert (failure.row, failure.line, failure.column) == (2, 2, column)
    assert conversion.judgements.num_rows == 1


def test_a_line_of_an_unknown_release_says_which_are_known(read):
    conversion = read(
        document(0), document(1, filtered_resps="absent"), beside=results(lm_eval_version="0.5.0")
    )
    (failure,) = conversion.failures
    assert "lm-eval 0.4.0 to 0.4.13" in str(failure)
    assert "0.5.0" in str(failure)


@pytest.mark.parametrize("line", ["[]", "3", "{}", '{"doc_id": 0}', "not json", '{"doc_id": 0'])
def test_a_file_of_something_else_is_refused(read, line):
    with pytest.raises(InputError, match="holds no samples of lm-eval"):
        read(line)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        convert(tmp_path)


def test_too_many_judgements_are_refused(write):
    with pytest.raises(InputError, match=r"limits\.rows"):
        convert(write(document(0), document(1)), **TARGET, limits={"rows": 1})


@pytest.mark.parametrize(
    "line",
    [
        '{"doc_id": 0, "doc": {',
        '{"doc_id": "a\\"b", "doc": {}',
        '  {"doc_id":12,"doc":"x"}',
    ],
)
def test_samples_are_told_by_how_a_line_begins(write, line):
    assert LmEvalReader().recognises(Source(str(write(line, name="anything.txt"))))


@pytest.mark.parametrize("line", ['{"doc": {}, "doc_id": 0}', '{"doc_id": 0, "x": 1}', "[]", "x"])
def test_other_lines_are_not_taken_for_samples(write, line):
    assert not LmEvalReader().recognises(Source(str(write(line))))


# --- texts ------------------------------------------------------------------------------------


def test_texts_are_those_of_the_judged_responses(write):
    path = write(
        generated(0, "red", "blue", filter="strict", exact_match=1.0),
        generated(1, "green", filter="strict", exact_match=1.0),
        generated(2, "lost", filter="strict", metrics=["bypass"], bypass=None),
        generated(0, "red", "blue", filter="loose", exact_match=1.0),
        generated(1, "green", filter="loose", exact_match=1.0),
    )
    reader = LmEvalReader()
    assert isinstance(reader, TextReader)
    evidence_map = make_map(TARGET)
    texts = list(reader.texts(Source(str(path)), evidence_map))
    assert [(text.prompt, text.response) for text in texts] == [
        ("ask 0", "red\n\nblue"),
        ("ask 1", "green"),
    ]
    keys = {(text.run, text.target, text.item, text.epoch) for text in texts}
    assert keys == set(rows(convert(path), "run", "target", "item", "epoch"))


@pytest.mark.parametrize(
    ("arguments", "resps", "expected"),
    [
        ({"gen_args_0": {"arg_0": "ask", "arg_1": " red"}}, [[["-1", "True"]]], ("ask", None)),
        ({"gen_args_0": {"arg_0": "whole text"}}, [["-0.9"]], ("whole text", None)),
        ([["ask", {"until": []}]], [["said"]], ("ask", "said")),
        ([["ask", " red"]], [[[-1.5, False]]], ("ask", None)),
        ({"gen_args_0": {"arg_0": [{"role": "user"}], "arg_1": {}}}, [["x"]], (None, "x")),
        ({}, [], (None, None)),
        ([], [], (None, None)),
        ("ask", "said", (None, None)),
    ],
)
def test_texts_of_every_kind_of_request(write, arguments, resps, expected):
    path = write(document(0, arguments=arguments, resps=resps))
    (text,) = LmEvalReader().texts(Source(str(path)), make_map(TARGET))
    assert (text.prompt, text.response) == expected


# --- many files -------------------------------------------------------------------------------


def test_the_tasks_of_a_run_are_read_as_one_folder(write):
    write(document(0), document(1, acc=0.0), folder="org__m", beside=results(model_name="org/m"))
    path = write(document(0, acc=0.0), folder="org__m", name=f"samples_other_{TIME}.jsonl")
    write(document(0, acc=0.0), document(1, acc=0.0), folder="org__n")
    evidence = read_evidence(str(path.parents[1]), evidence_map={"judges": {"acc": ANSWER}})
    matrix = response_matrix(evidence)
    assert matrix.targets == ("org/m", "org/n")
    assert matrix.items == ("demo:demo/0", "demo:demo/1", "other:other/0")
    np.testing.assert_array_equal(matrix.outcomes, [[1, 0, 0], [0, 0, -1]])


def test_the_map_that_the_docs_show_gives_the_matrix_of_right_answers(write, tmp_path):
    text = DOCUMENTED.read_text(encoding="utf-8")
    stanza = text.partition("```yaml\n# answers.yaml")[2].partition("\n")[2].partition("```")[0]
    answers = tmp_path / "answers.yaml"
    answers.write_text(stanza, encoding="utf-8")
    path = write(document(0), document(1, acc=0.0), folder="EleutherAI__pythia-14m")
    evidence = read_evidence(str(path.parent), evidence_map=read_map(answers))
    matrix = response_matrix(evidence, judge="acc")
    assert matrix.targets == ("EleutherAI/pythia-14m",)
    assert matrix.outcomes.tolist() == [[1, 0]]
    (claim,) = measure_rates(evidence).claims
    assert claim.metric == "rewarded_rate"
