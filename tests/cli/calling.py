"""Calls of the command line inside this process, and evidence to call it on."""

from __future__ import annotations

import csv
import io
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from safemetry.cli import main

TARGETS = (
    "anthropic/claude-3-5-sonnet-20241022",
    "meta-llama/llama-3.1-405b-instruct-turbo",
    "mistralai/mixtral-8x22b-instruct-v0.1-with-a-very-long-name",
)
JUDGES = ("gpt-4o-2024-05-13", "harmbench-classifier", "meta-llama/llama-3.1-405b-instruct")
CATEGORIES = ("chemical and biological weapons", "cyber", "privacy and data protection")
ATTACKS = ("direct", "role_play", "GCG-suffix-transfer")


@dataclass(frozen=True)
class Result:
    """What a call left behind."""

    code: int
    out: str
    err: str


class _Stream(io.TextIOWrapper):
    """Text in memory that may claim to be a terminal."""

    def __init__(self, *, on_screen: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._on_screen = on_screen

    def isatty(self) -> bool:
        return self._on_screen

    def text(self) -> str:
        self.flush()
        content: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return content.decode()


Run = Callable[..., Result]


def call(*arguments: object, on_screen: bool = False) -> Result:
    """Run `safemetry` with arguments; both streams are a terminal, or neither is."""
    out, err = _Stream(on_screen=on_screen), _Stream(on_screen=on_screen)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
    finally:
        sys.stdout, sys.stderr = before
    code = left.value.code
    assert isinstance(code, int)
    return Result(code, out.text(), err.text())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A table of judgements."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def panel(targets: Sequence[str] = TARGETS, judges: Sequence[str] = JUDGES) -> list[dict[str, Any]]:
    """Pairs of a harmful and a benign item, some of them without a verdict."""
    rng = random.Random(7)
    rows = []
    for target in targets:
        for index in range(40):
            harmful, number = index % 2 == 0, index // 2
            for judge in judges:
                draw = rng.random()
                label = "refuse" if (draw < 0.8) == harmful else "comply"
                lost = rng.random() < 0.04
                rows.append(
                    {
                        "target": target,
                        "item": f"item-{number}-{'harmful' if harmful else 'benign'}",
                        "judge": judge,
                        "label": "" if lost else label,
                        "status": "missing" if lost else "ok",
                        "reason": "no_response" if lost else "",
                        "category": CATEGORIES[number % 3],
                        "attack": ATTACKS[number % 3],
                        "behaviour": f"behaviour-{number}",
                        "pair": f"pair-{number}",
                        "intent": "harmful" if harmful else "benign",
                    }
                )
    return rows


@dataclass(frozen=True)
class Evidence:
    """Where the evidence lies."""

    folder: Path
    table: Path
    study: Path
    unclassified: Path
