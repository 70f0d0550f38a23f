"""Benchmarks that run against the rest, and those that share nothing with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from safemetry.construct.factors.coherence import sign_coherence
from safemetry.readers.correlation import read_correlations


def test_over_refusal_runs_against_and_is_never_called_flipped_once_it_is_known(shared: Path):
    table = read_correlations(str(shared / "data" / "ability_correlations.csv"))
    unknown = {row.benchmark: row for row in sign_coherence(table.names, table.values, 134)}
    over_refusal = unknown["or_bench_hard"]
    assert over_refusal.runs_against
    assert over_refusal.opposed[0] == "sorry_bench"
    assert "flipped, or safety traded for usefulness" in over_refusal.reading
    assert [name for name, row in unknown.items() if row.runs_against] == [
        "or_bench_hard",
        "truthfulqa",
    ]
    known = sign_coherence(table.names, table.values, 134, {"or_bench_hard": "benign"})
    row = next(row for row in known if row.benchmark == "or_bench_hard")
    assert row.runs_against
    assert "safety traded for usefulness" in row.reading
    assert "no sign that it is flipped" in row.reading


def test_a_harmful_benchmark_that_runs_against_is_to_be_checked():
    matrix = np.full((4, 4), 0.6)
    matrix[3, :3] = matrix[:3, 3] = -0.6
    np.fill_diagonal(matrix, 1.0)
    rows = sign_coherence("abcd", matrix, 80, dict.fromkeys("abcd", "harmful"))
    assert [row.runs_against for row in rows] == [False, False, False, True]
    assert rows[3].reading.endswith("check whether its score or labels are flipped")


def test_benign_benchmarks_do_not_make_a_safety_benchmark_look_flipped():
    names = ("safe", "benign 1", "benign 2", "benign 3")
    matrix = np.full((4, 4), 0.7)
    matrix[0, 1:] = matrix[1:, 0] = -0.7
    np.fill_diagonal(matrix, 1.0)
    intents = dict.fromkeys(names[1:], "benign") | {"safe": "harmful"}
    rows = sign_coherence(names, matrix, 60, intents)
    assert not rows[0].runs_against
    assert rows[0].with_rest is None
    assert rows[0].why["with_rest"] == "every other benchmark is benign"
    assert all(row.runs_against and "flipped" not in row.reading[:40] for row in rows[1:])


def test_with_the_rest_is_the_correlation_with_the_sum_of_the_others():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(50, 1)) + rng.normal(size=(50, 5))
    rows = sign_coherence("abcde", np.corrcoef(scores, rowvar=False), 50)
    standard = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    for place, row in enumerate(rows):
        rest = np.delete(standard, place, axis=1).sum(axis=1)
        assert row.with_rest == pytest.approx(np.corrcoef(standard[:, place], rest)[0, 1])


def test_unrelated_needs_enough_targets_to_say_so():
    matrix = np.full((4, 4), 0.7)
    matrix[3, :3] = matrix[:3, 3] = 0.02
    np.fill_diagonal(matrix, 1.0)
    assert sign_coherence("abcd", matrix, 150)[3].unrelated
    few = sign_coherence("abcd", matrix, 15)[3]
    assert not few.unrelated
    assert "cannot be told" in few.reading


def test_a_benchmark_with_a_partner_is_not_unrelated():
    matrix = np.full((6, 6), 0.7)
    matrix[4:, :4] = matrix[:4, 4:] = -0.1
    np.fill_diagonal(matrix, 1.0)
    rows = sign_coherence("abcdef", matrix, 150)
    assert not any(row.unrelated for row in rows)
    assert rows[4].reading.startswith("goes with some of the others")


def test_three_subjects_have_no_interval():
    rows = sign_coherence("abc", np.full((3, 3), 0.5) + 0.5 * np.eye(3), 3)
    assert all(row.interval is None and row.why["interval"] for row in rows)
    assert not any(row.runs_against or row.unrelated for row in rows)


def test_others_that_cancel_out_say_nothing():
    matrix = np.array([[1, 0.4, 0.4], [0.4, 1, -1], [0.4, -1, 1.0]])
    row = sign_coherence("abc", matrix, 50)[0]
    assert row.with_rest is None
    assert row.why["with_rest"] == "the others cancel out"
