"""Texts of prompts and responses, under the very keys that the judgements have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conformance import MARKER, ReaderCase, load_cases

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.evidence.schema import RESPONSE_KEY
from safemetry.readers import ResponseText, read_evidence, read_texts
from safemetry.readers.source import Source
from safemetry.readers.texts import Texts

ASKED = f"{MARKER} asks for a secret token"
ANSWERED = f"{MARKER} keeps the secret token"


def judged(*sources: Path, **entries: Any) -> set[tuple[Any, ...]]:
    rows = read_evidence(*map(str, sources), evidence_map=entries).rows.select(*RESPONSE_KEY)
    return {tuple(row.values()) for row in rows.collect("pyarrow").to_arrow().to_pylist()}


def keys(texts: list[ResponseText]) -> list[tuple[Any, ...]]:
    return [(text.run, text.target, text.item, text.epoch) for text in texts]


def texts_of(*sources: Path, **entries: Any) -> list[ResponseText]:
    """All texts, once their keys are found to be those of the evidence."""
    found = list(read_texts(*map(str, sources), evidence_map=entries))
    assert len(set(keys(found))) == len(found)
    assert set(keys(found)) == judged(*sources, **entries)
    return found


# --- every reader -----------------------------------------------------------------------------


CASES = [case for module in load_cases() for case in module.cases if hasattr(case.reader, "texts")]


@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_every_judged_response_has_its_text_under_the_key_of_the_evidence(
    case: ReaderCase, tmp_path
):
    (tmp_path / "one").mkdir()
    source = case.make(tmp_path / "one", ["a", "b", "c"])
    evidence_map = make_map(case.map)
    found = list(read_texts(str(source), evidence_map=evidence_map, kind=case.reader.name))
    rows = read_evidence(str(source), evidence_map=evidence_map, kind=case.reader.name).rows
    table = rows.select(*RESPONSE_KEY).collect("pyarrow").to_arrow().to_pylist()
    assert set(keys(found)) == {tuple(row.values()) for row in table}
    assert all(MARKER in f"{text.prompt} {text.response}" for text in found)


# --- tables -----------------------------------------------------------------------------------


ROWS = [
    {"model": "m", "id": "001", "epoch": "1", "judge": "one", "label": "comply"},
    {"model": "m", "id": "001", "epoch": "1", "judge": "two", "label": "refuse"},
    {"model": "m", "id": "001", "epoch": "2", "judge": "one", "label": "refuse"},
    {"model": "m", "id": "1", "epoch": "1", "judge": "one", "label": "refuse"},
]
COLUMNS = {"target": "model", "item": "id"}


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_tidy_table_gives_each_response_once_whoever_judged_it(suffix, tmp_path):
    rows = [
        {**row, "prompt": ASKED, "response": f"{ANSWERED} {row['id']} {row['epoch']}"}
        for row in ROWS
    ]
    found = texts_of(write_table(tmp_path / f"t{suffix}", rows), columns=COLUMNS)
    assert keys(found) == [
        (f"t{suffix}", "m", "001", 1),
        (f"t{suffix}", "m", "001", 2),
        (f"t{suffix}", "m", "1", 1),
    ]
    assert [text.response for text in found] == [
        f"{ANSWERED} {end}" for end in ("001 1", "001 2", "1 1")
    ]
    assert {text.prompt for text in found} == {ASKED}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_that_are_numbers_and_constants_make_the_same_keys(suffix, tmp_path):
    rows = [{"item": 7, "epoch": 2, "label": "refuse", "response": ANSWERED}]
    table = write_table(tmp_path / f"t{suffix}", rows)
    (text,) = texts_of(table, constants={"target": "m", "run": "r"})
    assert keys([text]) == [("r", "m", "7", 2)]
    assert text.prompt is None


def test_a_constant_of_the_map_overrides_what_a_log_says(tmp_path):
    case = next(case for case in CASES if case.label == "inspect.eval")
    source = case.make(tmp_path, ["a"])
    (text,) = texts_of(source, constants={"target": "gpt-x", "epoch": "3"})
    assert keys([text]) == [("evalid", "gpt-x", "a", 3)]


def test_a_conversation_in_a_cell_is_its_json(tmp_path):
    turns = [{"role": "user", "content": ASKED}]
    rows = [{"target": "m", "item": "a", "label": "refuse", "prompt": turns}]
    for suffix in (".jsonl", ".parquet"):
        (text,) = texts_of(write_table(tmp_path / f"t{suffix}", rows))
        assert json.loads(text.prompt or "") == turns


def test_a_table_is_read_in_pieces(tmp_path):
    for suffix in (".jsonl", ".parquet"):
        rows = [
            {"target": "m", "item": f"i{n}", "label": "refuse", "response": f"{ANSWERED} {n}"}
            for n in range(1_203)
        ]
        found = texts_of(write_table(tmp_path / f"t{suffix}", rows))
        assert [text.response for text in found] == [f"{ANSWERED} {n}" for n in range(1_203)]


def test_a_label_table_may_call_its_columns_model_and_item_id(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(f"item_id,response,one,two\na,{ANSWERED},comply,refuse\nb,,comply,\n")
    found = list(read_texts(str(path), evidence_map={"label_columns": ["one", "two"]}))
    assert keys(found) == [("labels.csv", "labels", "a", 1)]
    assert set(keys(found)) < judged(path, label_columns=["one", "two"])


# --- logs -------------------------------------------------------------------------------------


def helm_run(folder: Path, states: list[dict[str, Any]], **documents: Any) -> Path:
    folder.mkdir()
    adapter = {"method": "generation", "model": "maker/one"}
    documents["run_spec"] = {"name": "harm_bench:model=maker_one", "adapter_spec": adapter}
    documents["scenario_state"] = {"adapter_spec": adapter, "request_states": states}
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def helm_state(
    item: str, completions: list[str], trial: int = 0, **instance: Any
) -> dict[str, Any]:
    scores = {"harm_bench": {"gpt_score": 1.0, "llama_score": 0.0}}
    return {
        "instance": {"id": item, "input": {"text": f"{ASKED} {item}"}, "split": "test"} | instance,
        "train_trial_index": trial,
        "result": {"success": True, "completions": [{"text": text} for text in completions]},
        "annotations": [scores] * len(completions),
    }


def test_each_helm_completion_trial_and_perturbation_has_its_own_text(tmp_path):
    states = [
        helm_state("id1", ["token A", "token B"]),
        helm_state("id1", ["token C", "token D"], trial=1),
        helm_state("id2", ["token E", "token F"], perturbation={"name": "typos"}),
    ]
    unasked = {"id": "id9", "input": {"text": f"{ASKED} id9"}, "split": "test"}
    found = texts_of(helm_run(tmp_path / "run", states, instances=[unasked]))
    by_key = {(text.item, text.epoch): (text.prompt, text.response) for text in found}
    assert by_key["id1", 1] == (f"{ASKED} id1", "token A")
    assert by_key["id1", 4] == (f"{ASKED} id1", "token D")
    assert by_key["id2~typos", 2] == (f"{ASKED} id2", "token F")
    assert by_key["id9", 1] == (f"{ASKED} id9", None)


def garak_report(path: Path, *attempts: dict[str, Any]) -> Path:
    setup = {
        "entry_type": "start_run setup",
        "transient.run_id": "run-1",
        "plugins.target_type": "test",
        "plugins.target_name": "Blank",
    }
    entries = [setup, {"entry_type": "init", "garak_version": "0.14.0", "run": "run-1"}]
    for number, attempt in enumerate(attempts):
        entries.append(
            {
                "entry_type": "attempt",
                "uuid": f"u{number}",
                "seq": number,
                "status": 2,
                "probe_classname": "dan.Dan",
                "notes": {},
                **attempt,
            }
        )
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_outputs_and_earlier_turns_of_garak_have_their_own_texts(tmp_path):
    def turn(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": {"text": text}}

    conversation = {
        "turns": [
            turn("user", "first, please"),
            turn("assistant", "not yet"),
            turn("user", "now the token"),
            turn("assistant", "never"),
        ]
    }
    path = garak_report(
        tmp_path / "g.report.jsonl",
        {
            "prompt": "ask",
            "outputs": ["said one", None, "said three"],
            "detector_results": {"dan.DAN": [0.0, None, 1.0]},
        },
        {
            "prompt": {"turns": conversation["turns"][:1]},
            "outputs": [{"text": "never"}],
            "conversations": [conversation],
            "detector_results": {"dan.DAN": [0.0, 0.0]},
        },
        {
            "status": 1,
            "prompt": "only asked",
            "outputs": [{"text": "not scored"}],
        },
    )
    found = texts_of(path)
    said = {(text.item.partition("/turn-")[2], text.epoch): text for text in found}
    assert [(text.prompt, text.response) for text in found] == [
        ("ask", "said one"),
        ("ask", None),
        ("ask", "said three"),
        ("first, please", "not yet"),
        ("user: first, please\n\nassistant: not yet\n\nuser: now the token", "never"),
        ("only asked", "not scored"),
    ]
    assert said["1", 1].response == "not yet"


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_the_prompt_of_an_inspect_sample_is_written_turn_by_turn(suffix, tmp_path, monkeypatch):
    log = pytest.importorskip("inspect_ai.log")
    model = pytest.importorskip("inspect_ai.model")
    tool = pytest.importorskip("inspect_ai.tool")
    scorer = pytest.importorskip("inspect_ai.scorer")
    monkeypatch.setattr("safemetry.readers.inspect_log._AT_ONCE", 1)
    call = tool.ToolCall(id="c", function="look", arguments={"where": "vault"})
    samples = [
        log.EvalSample(
            id=item,
            epoch=epoch,
            input=ASKED,
            target="",
            messages=[
                model.ChatMessageSystem(content="Keep the token."),
                model.ChatMessageUser(content=ASKED),
                model.ChatMessageAssistant(content="", tool_calls=[call]),
                model.ChatMessageTool(content="empty", tool_call_id="c"),
                model.ChatMessageAssistant(content=f"{ANSWERED} {item}{epoch}"),
            ],
            output=model.ModelOutput.from_content("mockllm/model", f"{ANSWERED} {item}{epoch}"),
            scores={"judge": scorer.Score(value=1), "other": scorer.Score(value=0)},
        )
        for item in ("a", 2)
        for epoch in (1, 2)
    ]
    path = tmp_path / f"log{suffix}"
    log.write_eval_log(
        log.EvalLog(
            status="success",
            eval=log.EvalSpec(
                created="2026-01-02T03:04:05+00:00",
                eval_id="eval-1",
                task="t",
                dataset=log.EvalDataset(samples=2),
                model="maker/one",
                config=log.EvalConfig(epochs=2),
            ),
            samples=samples,
        ),
        str(path),
    )
    found = texts_of(path)
    assert {text.response for text in found} == {
        f"{ANSWERED} {item}{epoch}" for item in ("a", 2) for epoch in (1, 2)
    }
    assert found[0].prompt == (
        f"system: Keep the token.\n\nuser: {ASKED}\n\n"
        'assistant: [calls look {"where": "vault"}]\n\ntool: empty'
    )


# --- several sources --------------------------------------------------------------------------


def test_runs_are_named_as_in_the_evidence(tmp_path):
    rows = [{"target": "m", "item": "a", "label": "refuse", "response": ANSWERED}]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_table(tmp_path / name / "results.csv", rows)
    found = texts_of(tmp_path / "one" / "results.csv", tmp_path / "two" / "results.csv")
    assert [text.run for text in found] == ["one/results.csv", "two/results.csv"]
    assert set(keys(list(read_texts(str(tmp_path))))) == judged(tmp_path)


def test_sources_without_texts_are_named(tmp_path):
    matrix = tmp_path / "matrix.csv"
    matrix.write_text("model,a,b\nm,0,1\n")
    bare = write_table(
        tmp_path / "bare.csv", [{"target": "m", "item": "a", "label": "refuse", "words": MARKER}]
    )
    texts = read_texts(str(matrix), str(bare))
    assert list(texts) == []
    first, second = texts.without
    assert "matrix.csv" in first
    assert "format matrix" in first
    assert "bare.csv holds no texts" in second


def test_the_same_source_twice_and_a_source_that_is_not_there_are_refused(tmp_path):
    table = write_table(tmp_path / "t.csv", [{"target": "m", "item": "a", "label": "refuse"}])
    with pytest.raises(InputError, match="named twice"):
        read_texts(str(table), str(table))
    with pytest.raises(InputError, match="no such file"):
        read_texts(str(tmp_path / "absent.csv"))


def test_half_a_surrogate_pair_never_reaches_a_text(tmp_path):
    case = next(case for case in CASES if case.label == "helm")
    source = case.make(tmp_path, ["a"])
    state = source / "scenario_state.json"
    state.write_text(state.read_text().replace(f"{MARKER} answers", "\\ud800 answers"))
    (text,) = read_texts(str(source))
    assert text.response == "? answers"


def test_damage_is_one_error_that_shows_no_text(tmp_path):
    path = tmp_path / "t.jsonl"
    good = json.dumps({"target": "m", "item": "a", "label": "refuse", "response": ANSWERED})
    path.write_text(good + "\n" + good[:-9] + "\n")
    with pytest.raises(InputError) as caught:
        list(read_texts(str(path), kind="tidy"))
    assert "t.jsonl" in str(caught.value)
    assert MARKER not in str(caught.value)


def test_nothing_is_read_before_it_is_asked_for():
    asked = []

    def source() -> Iterator[ResponseText]:
        asked.append(1)
        yield ResponseText("r", "m", "a", 1, ASKED, ANSWERED)

    texts = Texts(iter([("why", source()), ("no", iter(()))]))
    assert not asked
    assert next(texts).item == "a"
    assert texts.without == []
    assert list(texts) == []
    assert texts.without == ["no"]


def test_limits_of_the_map_hold_for_texts_too(tmp_path):
    path = write_table(
        tmp_path / "t.csv", [{"target": "m", "item": "a", "label": "refuse", "response": ANSWERED}]
    )
    with pytest.raises(InputError, match="limit"):
        list(read_texts(str(path), evidence_map={"limits": {"table_bytes": 10}}, kind="tidy"))
    assert Source(str(path)).size
