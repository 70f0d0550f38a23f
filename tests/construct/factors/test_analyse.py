"""From correlations, scores and items to factors: published figures and what is said of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from safemetry.construct.factors import FactorsFinding, analyse_factors
from safemetry.construct.factors.parallel import Kind
from safemetry.errors import InputError
from safemetry.evidence.matrix import ResponseMatrix
from safemetry.irt.responses import make_responses
from safemetry.readers import read_evidence
from safemetry.readers.correlation import CorrelationTable, read_correlations
from safemetry.readers.scores import ScoreTable
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)


@pytest.fixture(scope="module")
def eight(shared: Path) -> FactorsFinding:
    table = read_correlations(str(shared / "data" / "ability_correlations.csv"))
    return analyse_factors(table, subjects=134)


def column(path: Path, name: str) -> dict[str, str]:
    with path.open() as lines:
        return {row["item_id"]: row[name] for row in csv.DictReader(lines)}


def nulls_without_reason(value: Any, place: str = "") -> list[str]:
    if isinstance(value, dict):
        why = value.get("why") or {}
        own = [
            f"{place}.{name}" for name, part in value.items() if part is None and name not in why
        ]
        return own + [
            found
            for name, part in value.items()
            for found in nulls_without_reason(part, f"{place}.{name}")
        ]
    if isinstance(value, list):
        return [
            f for n, part in enumerate(value) for f in nulls_without_reason(part, f"{place}[{n}]")
        ]
    return []


def assert_is_whole(finding: FactorsFinding) -> None:
    made = json.loads(finding.to_json())
    assert not nulls_without_reason(made)
    assert finding.to_frame().num_rows == len(finding.solutions)
    assert finding.chart() is not None


# --- the published matrix ------------------------------------------------------------------------


def test_every_published_figure(eight: FactorsFinding):
    printed = [
        tuple(f"{row[name]:.3f}".lstrip("0") for name in ("variance", "rmsea", "cfi"))
        for row in eight.records()
    ]
    assert printed == [
        (".471", ".319", ".651"),
        (".689", ".232", ".881"),
        (".770", ".148", ".974"),
        (".814", ".100", ".997"),
    ]
    assert eight.parallel[Kind.MINRES].factors == 3
    assert eight.parallel[Kind.PCA].factors == 2
    three = eight.solutions[2]
    phi = np.abs(three.rotated.correlations[np.triu_indices(3, 1)])
    assert [f"{value:.2f}" for value in sorted(phi, reverse=True)] == ["0.65", "0.04", "0.00"]
    assert three.heywood == ("sorry_bench", "health_orsc")


def test_what_is_said_of_the_published_matrix(eight: FactorsFinding):
    said = eight.sentence()
    assert "keeps 3 factors (minres) and 2 components (PCA)" in said
    assert "or_bench_hard and truthfulqa run against the rest" in said
    assert "more than one dimension" in said
    assert any("Heywood" in text and "sorry_bench" in text for text in eight.warnings)
    assert_is_whole(eight)


def test_the_contract_has_the_counts_of_parallel_analysis(eight: FactorsFinding):
    made = eight.own_keys()
    assert (made["parallel"]["minres"], made["parallel"]["pca"]) == (3, 2)
    assert made["subjects"] == 134
    first = made["solutions"][0]
    assert first["correlations"] == [[1.0]]
    assert {row["benchmark"] for row in first["loadings"]} == set(eight.correlations.names)


def test_maximum_likelihood_reaches_the_same_conclusion(shared: Path):
    table = read_correlations(str(shared / "data" / "ability_correlations.csv"))
    found = analyse_factors(table, subjects=134, extraction="ml", replicates=200)
    assert found.own_keys()["parallel"].keys() == {"minres", "ml", "pca", "detail"}
    assert found.suggested.factors == 3
    assert "or_bench_hard" in found.sentence()


def test_a_benchmark_known_to_be_benign_is_not_called_flipped(shared: Path):
    table = read_correlations(str(shared / "data" / "ability_correlations.csv"))
    found = analyse_factors(table, subjects=134, benign={"or_bench_hard"})
    said = next(text for text in found.warnings if text.startswith("or_bench_hard runs"))
    assert "safety traded for usefulness" in said
    assert "check whether" not in said


# --- items of several benchmarks -----------------------------------------------------------------


def test_criticism_of_governments_has_two_dimensions(shared: Path):
    folder = shared / "data" / "speechmap_criticism"
    evidence = read_evidence(str(folder / "matrix_ordinal_grok41fast.csv"))
    items = column(folder / "items.csv", "government")
    sets = {item: item.rsplit("_", 1)[0] for item in items}
    found = analyse_factors(evidence, structure=sets, tasks=ALONE)
    eigenvalues = [f"{value:.2f}" for value in found.parallel[Kind.PCA].observed[:3]]
    assert eigenvalues == ["3.88", "1.47", "0.34"]
    assert found.correlations.subjects == 36
    assert found.parallel[Kind.MINRES].factors == 2
    loadings = dict(
        zip(found.suggested.names, found.suggested.rotated.loadings.tolist(), strict=True)
    )
    china = {"china", "fi_china", "zh_china"}
    own = {name: int(np.argmax(np.abs(row))) for name, row in loadings.items()}
    assert len({own[name] for name in china}) == 1
    assert {own[name] for name in china}.isdisjoint({own[name] for name in set(own) - china})
    assert found.why["cross_validation"].startswith("outcomes are ordered")
    assert_is_whole(found)


@pytest.fixture(scope="module")
def safety_block(shared: Path) -> FactorsFinding:
    folder = shared / "data" / "rewardbench_rm"
    evidence = read_evidence(str(folder / "matrix_binary.parquet"))
    subset, category = (column(folder / "items.csv", name) for name in ("subset", "category"))
    structure = {item: subset[item] for item in subset if category[item] == "Safety"}
    return analyse_factors(evidence, structure=structure, dims=2, restarts=1, tasks=ALONE)


def test_graders_refuse_on_one_trait_and_respond_on_another(safety_block: FactorsFinding):
    names = safety_block.correlations.names
    respond = names.index("xstest-should-respond")
    refuse = [place for place in range(len(names)) if place != respond]
    within = safety_block.correlations.values[np.ix_(refuse, refuse)]
    within = within[np.triu_indices(4, 1)]
    assert (f"{within.min():.2f}", f"{within.max():.2f}") == ("0.67", "0.86")
    across = safety_block.correlations.values[respond, refuse]
    assert across.min() > -0.05
    assert across.max() < 0.11


def test_a_trait_of_one_benchmark_shows_though_no_second_factor_can(safety_block: FactorsFinding):
    assert safety_block.parallel[Kind.MINRES].factors == 1
    row = next(r for r in safety_block.coherence if r.benchmark == "xstest-should-respond")
    assert row.unrelated
    assert safety_block.several
    assert "xstest-should-respond runs unrelated to the rest" in safety_block.sentence()
    prediction = safety_block.cross_validation
    assert prediction is not None
    assert prediction.beats_one_dimension
    assert_is_whole(safety_block)


def test_benchmarks_of_one_trait_are_not_said_to_have_several():
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(60, 1))
    chance = 1 / (1 + np.exp(-1.5 * theta - rng.normal(size=60)))
    codes = (rng.random((60, 60)) < chance).astype(np.int8)
    benchmarks = tuple(name for name in "abcd" for _ in range(15))
    matrix = ResponseMatrix(
        codes,
        tuple(f"m{i}" for i in range(60)),
        tuple(f"q{j:02}" for j in range(60)),
        benchmarks,
        ("harmful",) * 60,
    )
    found = analyse_factors(matrix, tasks=ALONE, restarts=1)
    assert found.parallel[Kind.MINRES].factors == 1
    assert not found.several
    assert "No model of the items predicts held-out targets better" in found.sentence()
    assert [row.intent for row in found.benchmarks] == ["harmful"] * 4
    assert found.alternatives is not None
    assert found.alternatives[0].measure == "ability"
    assert found.alternatives[0].largest_change < 0.2


# --- scores --------------------------------------------------------------------------------------


def table_of_scores(missing: float = 0.0) -> ScoreTable:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 1)) + 0.7 * rng.normal(size=(50, 5))
    values[rng.random(values.shape) < missing] = np.nan
    return ScoreTable(tuple(f"m{i}" for i in range(50)), tuple("abcde"), values, "scores.csv")


def test_scores_with_gaps_are_compared_in_pairs_and_it_is_said():
    found = analyse_factors(table_of_scores(0.15))
    assert found.settings["missing"] == "pairwise"
    assert found.correlations.subjects < 50
    assert any("each pair has in common" in text for text in found.warnings)
    assert found.suggested.factors == 1
    assert_is_whole(found)


def test_a_constant_benchmark_is_left_out_by_name():
    table = table_of_scores()
    table.values[:, 2] = 0.5
    found = analyse_factors(table)
    assert found.left_out == {"c": "all targets have the same score"}
    assert "c" not in found.correlations.names


def test_the_order_of_targets_and_benchmarks_does_not_matter():
    table = table_of_scores()
    rows, columns = np.random.default_rng(2).permutation(50), [3, 1, 4, 0, 2]
    other = ScoreTable(
        tuple(table.targets[row] for row in rows),
        tuple(table.benchmarks[place] for place in columns),
        table.values[rows][:, columns],
        "other.csv",
    )
    first, second = analyse_factors(table), analyse_factors(other)
    assert second.solutions[0].fit.rmsea == pytest.approx(first.solutions[0].fit.rmsea, abs=1e-6)
    assert second.suggested.factors == first.suggested.factors


# --- what cannot be done -------------------------------------------------------------------------


def test_three_benchmarks_have_a_factor_and_no_fit():
    found = analyse_factors(
        CorrelationTable(tuple("abc"), np.full((3, 3), 0.5) + 0.5 * np.eye(3), "x"), subjects=50
    )
    assert found.solutions[0].fit.rmsea is None
    assert_is_whole(found)


def test_a_matrix_that_is_not_definite_says_so():
    matrix = np.array(
        [[1, 0.9, 0.9, 0.1], [0.9, 1, -0.6, 0.2], [0.9, -0.6, 1, 0], [0.1, 0.2, 0, 1]]
    )
    found = analyse_factors(CorrelationTable(tuple("abcd"), matrix, "x"), subjects=50)
    (said,) = found.warnings
    assert "far from positive definite (its smallest eigenvalue is -0.6" in said
    assert "no scores of one set of subjects have such correlations" in said
    assert "nothing can be concluded" in found.sentence()
    assert "keeps" not in found.sentence()
    assert found.several is None
    assert_is_whole(found)


def test_a_matrix_that_rounding_made_indefinite_is_analysed():
    matrix = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    matrix[0, 1] = matrix[1, 0] = 1.0
    matrix[0, 2] = matrix[2, 0] = 0.501
    found = analyse_factors(CorrelationTable(tuple("abcd"), matrix, "x"), subjects=50)
    assert any("is not positive definite (too few targets, rounding" in t for t in found.warnings)
    assert "parallel analysis keeps" in found.sentence()


def test_benchmarks_that_are_one_up_to_scale_are_named():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(40, 4)) + rng.normal(size=(40, 1))
    values = np.column_stack([values, 2 * values[:, 1] + 3])
    table = ScoreTable(tuple(map(str, range(40))), tuple("abcde"), values, "x")
    found = analyse_factors(table)
    assert any(said.startswith("b, e correlate 1: they are the same") for said in found.warnings)


def test_too_few_targets_are_not_sent_to_pairs_that_have_no_more():
    rng = np.random.default_rng(1)
    table = ScoreTable(tuple("xyz"), tuple("abcd"), rng.normal(size=(3, 4)), "x")
    with pytest.raises(InputError, match="3 targets have scores on all benchmarks") as caught:
        analyse_factors(table)
    assert "pairwise" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "abilities.csv: a correlation matrix does not say .* --subjects N"),
        ({"subjects": 50, "factors": 4}, "4 factors are asked of 4 benchmarks"),
        ({"subjects": 50, "benign": {"z"}}, "there is no benchmark 'z'"),
        ({"subjects": 2}, "subjects is 2"),
        ({"subjects": 50, "rotation": "sideways"}, "there is no rotation 'sideways'"),
        ({"subjects": 50, "structure": {}}, "has no items"),
    ],
)
def test_what_cannot_be_used_is_one_error(options: dict[str, Any], said: str):
    table = CorrelationTable(tuple("abcd"), np.full((4, 4), 0.5) + 0.5 * np.eye(4), "abilities.csv")
    with pytest.raises(InputError, match=said):
        analyse_factors(table, **options)


def test_subjects_belong_to_a_matrix_of_correlations():
    with pytest.raises(InputError, match="counted where targets are known"):
        analyse_factors(table_of_scores(), subjects=50)


def test_items_without_a_benchmark_are_asked_for_it():
    codes = np.random.default_rng(1).integers(0, 2, (30, 9)).astype(np.int8)
    names = tuple(f"q{j}" for j in range(9))
    targets = tuple(f"m{i}" for i in range(30))
    matrix = ResponseMatrix(codes, targets, names, (None,) * 9, (None,) * 9)
    with pytest.raises(InputError, match="no item names its benchmark; name it with --structure"):
        analyse_factors(matrix)
    found = analyse_factors(
        matrix,
        structure={name: "abc"[int(name[1]) // 3] for name in names[:8]} | {"q8": "c"},
        cross_validate=False,
    )
    assert found.correlations.names == ("a", "b", "c")
    assert make_responses(codes).complete
