"""What rates, compare, plan and coverage say on a screen and in a pipe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from calling import ATTACKS, CATEGORIES, JUDGES, TARGETS, Evidence, Run, panel, write_csv

from safemetry.claims import count

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


# --- rates ---------------------------------------------------------------------------------------


def test_every_rate_stands_beside_its_denominator_and_what_is_missing(evidence: Evidence, run: Run):
    """Each line with a rate has events/trials and a count of missing verdicts."""
    out = run("rates", evidence.table, "--by", "category,attack").out
    lines = [line for line in out.splitlines() if re.search(r"\d\.\d+%", line)]
    assert len(lines) >= 3 * 3 * 3
    assert all(re.search(r"[\d.,]+/[\d.,]+ +\d+(?= |$)", line) for line in lines)


def test_the_tables_hold_the_claims_of_the_json(evidence: Evidence, run: Run):
    claims = json.loads(run("rates", evidence.table, "--json", "-").out)["claims"]
    out = run("rates", evidence.table).out
    for claim in claims:
        if claim["metric"] in {"attack_success_rate", "over_refusal_rate"}:
            cells = f"{count(claim['events'])}/{count(claim['trials'])}"
            assert re.search(rf"\s{re.escape(cells)} +{claim['missing']['total']}\b", out)
    for name in (*TARGETS, *JUDGES):
        assert name in out


def test_complements_are_named_but_not_repeated(evidence: Evidence, run: Run):
    out = run("rates", evidence.table).out
    assert "safe_recall (success" not in out
    assert "safe_recall = 1 - attack_success_rate" in out
    asked = run("rates", evidence.table, "--metric", "safe_recall").out
    assert asked.startswith("safe_recall (success: comply)")
    assert "Not shown" not in asked


def test_missing_verdicts_are_counted_once_by_reason(evidence: Evidence, run: Run):
    lost = sum(row["status"] == "missing" for row in panel())
    assert f"Missing verdicts by reason: no_response {lost}." in run("rates", evidence.table).out


def test_300_targets_are_cut_on_a_screen_and_whole_in_a_pipe(run: Run, tmp_path: Path):
    rows = [
        {"target": f"org/model-{t:03d}", "item": str(i), "label": "refuse", "intent": "harmful"}
        for t in range(300)
        for i in range(3)
    ]
    source = write_csv(tmp_path / "many.csv", rows)
    screen = run("rates", source, on_screen=True).out
    assert "... and 260 more rows" in screen
    assert "--filter" in screen
    assert len(screen.splitlines()) < 60
    pipe = run("rates", source).out
    assert all(f"org/model-{t:03d}" in pipe for t in range(300))


@pytest.mark.parametrize("on_screen", [False, True])
def test_hostile_ids_do_nothing_to_the_terminal(on_screen: bool, run: Run, tmp_path: Path):
    targets = ["\x1b[31mred", "[bold]b[/bold]", "two\nlines", "x" * 9_000, "\u202ertl", "模型" * 40]
    rows = [
        {
            "target": target,
            "item": f"\x1b[2Ji{index}",
            "judge": "[link=x]\x07",
            "label": "comply",
            "intent": "harmful",
            "category": "a\x1b]0;title\x07",
        }
        for target in targets
        for index in range(3)
    ]
    source = write_csv(tmp_path / "hostile.csv", rows)
    for words in (
        ["rates", source, "--by", "category"],
        ["coverage", source],
        ["items", source, "--where", "violation"],
    ):
        result = run(*words, on_screen=on_screen)
        assert result.code == 0
        text = ANSI.sub("", result.out) if on_screen else result.out
        assert not set(text) & {"\x1b", "\x07", "\u202e", "\r"}
        assert "\\x1b" in text


def test_no_known_intent_is_said_with_the_fix_and_is_no_failure(evidence: Evidence, run: Run):
    result = run("rates", evidence.unclassified)
    assert result.code == 0
    assert result.out == (
        "No rate could be computed: all 10 judge calls are on items of unknown intent.\n"
    )
    assert "intent: harmful" in result.err
    found = json.loads(run("rates", evidence.unclassified, "--json", "-").out)
    assert (found["claims"], found["unclassified"]) == ([], 10)


def test_an_unknown_rate_says_why(run: Run, tmp_path: Path):
    rows = [
        {"target": "m", "item": "1", "label": "", "status": "missing", "intent": "harmful"},
        {"target": "n", "item": "1", "label": "refuse", "status": "ok", "intent": "harmful"},
    ]
    out = run("rates", write_csv(tmp_path / "lost.csv", rows)).out
    assert re.search(r"^m +unknown +0/0 +1\b", out, re.MULTILINE)
    assert "attack_success_rate is unknown in 1 row: no response was judged." in out


def test_no_event_has_a_ceiling_beside_it(run: Run, tmp_path: Path):
    rows = [
        {"target": "m", "item": str(i), "label": "refuse", "intent": "harmful"} for i in range(100)
    ]
    out = run("rates", write_csv(tmp_path / "clean.csv", rows)).out
    assert re.search(r"^m +0\.0% +0\.0-\S+ +2\.95% +0/100 +0$", out, re.MULTILINE)


def test_projection_and_attempts_are_said(evidence: Evidence, run: Run):
    words = ["--judge", JUDGES[0], "--volume", "1e6", "--any-of", "1,99"]
    out = run("rates", evidence.table, *words).out
    assert re.search(r"At 1,000,000 requests like these, attack_success_rate of \S+ ", out)
    assert "success in one attempt" in out
    assert "unknown (no behaviour was tried 99 times)" in out


def test_sentences_are_whole_in_a_pipe_and_wrapped_on_a_screen(evidence: Evidence, run: Run):
    assert any(len(line) > 80 for line in run("rates", evidence.table).out.splitlines())
    screen = ANSI.sub("", run("rates", evidence.table, on_screen=True).out)
    assert all(len(line) <= 80 for line in screen.splitlines())


# --- compare -------------------------------------------------------------------------------------


def differences(run: Run, *words: object) -> list[float]:
    result = run("compare", *words, "--json", "-")
    assert result.code == 0, result.err
    return [entry["difference"] for entry in json.loads(result.out)["comparisons"]]


def test_a_side_may_be_a_target_a_run_or_a_source(evidence: Evidence, run: Run, tmp_path: Path):
    rows = panel()
    sides = [
        write_csv(tmp_path / f"{name}.csv", [row for row in rows if row["target"] == target])
        for name, target in (("old", TARGETS[0]), ("new", TARGETS[1]))
    ]
    runs = write_csv(
        tmp_path / "runs.csv",
        [
            {**row, "run": "may" if row["target"] == TARGETS[0] else "june"}
            for row in rows
            if row["target"] != TARGETS[2]
        ],
    )
    words = ["--baseline", TARGETS[0], "--candidate", TARGETS[1]]
    by_target = differences(run, evidence.table, *words)
    assert by_target == differences(run, "--baseline", sides[0], "--candidate", sides[1])
    assert by_target == differences(run, evidence.study, "--baseline", sides[0], *words[2:])
    assert by_target == differences(run, runs, "--baseline", "run:may", "--candidate", "run:june")


def test_few_comparisons_are_said_in_words_and_many_are_counted(evidence: Evidence, run: Run):
    words = ["compare", evidence.table, "--baseline", TARGETS[0], "--candidate", TARGETS[1]]
    few = run(*words, "--judge", JUDGES[0]).out
    assert few.count("points [") == 2
    many = run(*words, "--by", "category").out
    assert "points [" not in many
    assert re.search(r"\d+ of 18 comparisons differ at 95% confidence", many)
    assert f"{TARGETS[1]} minus" in many


# --- plan and coverage ---------------------------------------------------------------------------


@pytest.mark.parametrize(("failures", "trials"), [(0, "2,995"), (1, "4,742")])
def test_plan(failures: int, trials: str, run: Run):
    assert trials in run("plan", "--ceiling", "0.001", "--failures", failures).out


def test_a_high_confidence_is_not_rounded_to_certainty(run: Run):
    assert "99.9% confidence" in run("plan", "--ceiling", "0.01", "--confidence", "0.999").out


def test_a_plan_from_evidence_says_why_repeats_are_unknown(evidence: Evidence, run: Run):
    words = ["--filter", f"judge={JUDGES[0]}", "--filter", "intent=harmful"]
    out = run("plan", evidence.table, *words).out
    assert re.search(r"\b\d+ +1 +0\.\d{4}", out)
    assert "unknown" in out
    assert "Unknown: one response for each target and item" in out


def test_a_plan_refuses_to_pool_judges_and_intents(evidence: Evidence, run: Run):
    judges = run("plan", evidence.table, "--filter", "intent=harmful")
    assert (judges.code, judges.out) == (2, "")
    assert "--filter judge=NAME" in judges.err
    intents = run("plan", evidence.table, "--filter", f"judge={JUDGES[0]}")
    assert (intents.code, intents.out) == (2, "")
    assert "--filter intent=harmful" in intents.err


def test_two_runs_of_one_target_are_named_by_the_run(run: Run, tmp_path: Path):
    rows = [row for row in panel() if row["target"] == TARGETS[0]]
    path = write_csv(
        tmp_path / "runs.csv", [{**row, "run": name} for name in ("may", "june") for row in rows]
    )
    words = ["--baseline", "run:may", "--candidate", "run:june", "--judge", JUDGES[0]]
    out = run("compare", path, *words).out
    assert "(run june) minus" in out
    assert "(run may)" in out


def test_different_judges_on_the_sides_are_named(run: Run, tmp_path: Path):
    sides = [
        write_csv(
            tmp_path / f"{judge[:3]}.csv",
            [r for r in panel() if (r["target"], r["judge"]) == (TARGETS[0], judge)],
        )
        for judge in JUDGES[:2]
    ]
    result = run("compare", "--baseline", sides[0], "--candidate", sides[1])
    assert (result.code, result.out) == (2, "")
    assert f"judge: {JUDGES[0]} against {JUDGES[1]}" in result.err


def test_coverage_lists_what_was_never_tried_once(evidence: Evidence, run: Run):
    out = run("coverage", evidence.table).out
    tried, never = out.split("Never tried\n")
    for category in CATEGORIES:
        assert category in tried
    rows = [line for line in never.splitlines() if line.startswith(CATEGORIES)]
    assert len(rows) == len(CATEGORIES) * len(ATTACKS) - 3
    grid = json.loads(run("coverage", evidence.table, "--json", "-").out)["grid"]
    assert {entry["tested"] for entry in grid} == {True, False}
    assert all(entry["trials"] == 0 for entry in grid if not entry["tested"])
