"""Sources of PyRIT for tests: message pieces, scores and attack results in either layout."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from conformance import MARKER

SCHEMA = {
    "pyrit_memory_alembic_version": "version_num VARCHAR(32) NOT NULL",
    "PromptMemoryEntries": (
        "id CHAR(36) NOT NULL PRIMARY KEY, role VARCHAR, conversation_id VARCHAR, "
        "sequence INTEGER, timestamp DATETIME, prompt_metadata JSON, converter_identifiers JSON, "
        "response_error VARCHAR, original_value_data_type VARCHAR, original_value VARCHAR, "
        "original_value_sha256 VARCHAR, converted_value_data_type VARCHAR, "
        "converted_value VARCHAR, original_prompt_id CHAR(36)"
    ),
    "ScoreEntries": (
        "id CHAR(36) NOT NULL PRIMARY KEY, score_value VARCHAR, score_value_description VARCHAR, "
        "score_type VARCHAR, score_category JSON, score_rationale VARCHAR, "
        "scorer_class_identifier JSON, prompt_request_response_id CHAR(36), timestamp DATETIME, "
        "objective VARCHAR, pyrit_version VARCHAR, status VARCHAR(16), scorable JSON"
    ),
    "AttackResultEntries": (
        "id CHAR(36) NOT NULL PRIMARY KEY, conversation_id VARCHAR(36), objective VARCHAR, "
        "atomic_attack_identifier JSON, last_response_id CHAR(36), last_score_id CHAR(36), "
        "outcome VARCHAR, outcome_reason VARCHAR, attack_metadata JSON, "
        "pruned_conversation_ids JSON, timestamp DATETIME, pyrit_version VARCHAR, labels JSON, "
        "targeted_harm_categories JSON"
    ),
    "Conversations": "conversation_id VARCHAR(36) PRIMARY KEY, target_identifier JSON",
}
"""The tables and columns of release 1.1 that hold what is read, and the texts beside it."""

ATTACK = {
    "__type__": "PromptSendingAttack",
    "__module__": "pyrit.executor.attack.single_turn.prompt_sending",
}
TARGET = {"class_name": "StubTarget", "class_module": "stubs", "model_name": "model-1"}
REFUSAL = {
    "class_name": "SelfAskRefusalScorer",
    "class_module": "pyrit.score.true_false.self_ask_refusal_scorer",
    "scorer_type": "true_false",
    "score_aggregator": "OR_",
    "system_prompt_template": f"{MARKER} rubric",
}


def objective_of(item: str) -> str:
    return f"{MARKER} for {item}"


def piece(number: int, role: str, text: str) -> dict[str, Any]:
    name = f"{role}-{number}"
    return {
        "id": name,
        "role": role,
        "conversation_id": f"talk-{number}",
        "sequence": 0 if role == "user" else 1,
        "timestamp": "2026-01-02T03:04:05",
        "labels": {},
        "prompt_metadata": {},
        "converter_identifiers": [],
        "prompt_target_identifier": {**TARGET, "pyrit_version": "0.11.0"},
        "attack_identifier": ATTACK,
        "original_value_data_type": "text",
        "original_value": text,
        "converted_value": text,
        "response_error": "none",
        "original_prompt_id": name,
        "scores": [],
    }


def score(number: int, item: str) -> dict[str, Any]:
    return {
        "id": f"score-{number}",
        "score_value": "true",
        "score_value_description": f"{MARKER} described",
        "score_type": "true_false",
        "score_category": ["refusal"],
        "score_rationale": f"{MARKER} because",
        "score_metadata": {},
        "scorer_class_identifier": REFUSAL,
        "message_piece_id": f"assistant-{number}",
        "timestamp": "2026-01-02T03:04:06",
        "objective": objective_of(item),
    }


def write_memory(path: Path, tables: dict[str, list[dict[str, Any]]]) -> Path:
    """A database of release 1.1; lists and objects become JSON, as there."""
    with sqlite3.connect(path) as database:
        for name, columns in SCHEMA.items():
            database.execute(f'CREATE TABLE "{name}" ({columns})')
        for name, records in tables.items():
            for record in records:
                cells = [
                    json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict | list) else cell
                    for cell in record.values()
                ]
                listed = ", ".join(f'"{column}"' for column in record)
                marks = ", ".join("?" * len(record))
                database.execute(f'INSERT INTO "{name}" ({listed}) VALUES ({marks})', cells)
    database.close()
    return path


def memory_of(pieces: list[dict[str, Any]], **more: Any) -> dict[str, list[dict[str, Any]]]:
    """The tables that hold these message pieces, as release 1.1 keeps them."""
    talks = {entry["conversation_id"]: entry["prompt_target_identifier"] for entry in pieces}
    apart = ("labels", "prompt_target_identifier", "attack_identifier", "scores")
    scores = [given for entry in pieces for given in entry["scores"]]
    return {
        "pyrit_memory_alembic_version": [{"version_num": "8d1e3f5a7b9c"}],
        "PromptMemoryEntries": [
            {name: cell for name, cell in entry.items() if name not in apart} for entry in pieces
        ],
        "ScoreEntries": [
            {
                **{
                    n: c
                    for n, c in given.items()
                    if n not in {"message_piece_id", "score_metadata"}
                },
                "prompt_request_response_id": given["message_piece_id"],
                "status": given.get("status", "complete"),
            }
            for given in scores
        ],
        "Conversations": [
            {"conversation_id": talk, "target_identifier": target}
            for talk, target in talks.items()
            if target
        ],
        **more,
    }


def attack_result(number: int, item: str) -> dict[str, Any]:
    attack = {
        "class_name": ATTACK["__type__"],
        "class_module": ATTACK["__module__"],
        "children": {"objective_scorer": REFUSAL, "objective_target": TARGET},
    }
    return {
        "id": f"result-{number}",
        "conversation_id": f"talk-{number}",
        "objective": objective_of(item),
        "atomic_attack_identifier": {
            "class_name": "AtomicAttack",
            "children": {"attack_technique": {"class_name": "T", "children": {"attack": attack}}},
        },
        "last_response_id": f"assistant-{number}",
        "last_score_id": f"score-{number}",
        "outcome": "success",
        "outcome_reason": MARKER,
        "timestamp": "2026-01-02 03:04:07",
    }
