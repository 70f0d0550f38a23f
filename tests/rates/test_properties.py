"""What must hold for any evidence, whatever its figures are."""

from __future__ import annotations

import csv
import json
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safemetry import compare_rates, cover, find_items, measure_rates, read_evidence
from safemetry.claims import ItemSet
from safemetry.errors import InputError, ScopeMismatchError
from safemetry.evidence.engine import connect
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.study import Study
from safemetry.findings import plain
from safemetry.rates import plan_repeats
from safemetry.readers import import_sources

FEW = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NAMES = (
    "target",
    "item",
    "epoch",
    "judge",
    "call",
    "label",
    "reason",
    "intent",
    "category",
    "behaviour",
    "pair",
)
LABELS = st.sampled_from(["refuse", "evasive", "comply", "gibberish", None])


@pytest.fixture(scope="module")
def engine():
    with connect(jobs=1) as connection:
        yield connection


@st.composite
def judgements(draw):
    """Rows of a small study: few targets, items with fixed contexts, repeated calls and epochs."""
    size = draw(st.integers(1, 6))
    contexts = [
        {
            "item": f"i{number}",
            "intent": draw(st.sampled_from(["harmful", "benign", "contested", None])),
            "category": draw(st.sampled_from(["x", "y", None])),
            "behaviour": draw(st.sampled_from(["b1", "b2", None])),
            "pair": draw(st.sampled_from(["p1", None])),
        }
        for number in range(size)
    ]
    keys = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["m", "n"]),
                st.integers(0, size - 1),
                st.integers(1, 2),
                st.sampled_from(["j", "k"]),
            ),
            min_size=1,
            max_size=25,
            unique=True,
        )
    )
    rows = []
    for target, item, epoch, judge in keys:
        for call in range(1, draw(st.integers(1, 3)) + 1):
            label = draw(LABELS)
            reason = None if label else draw(st.sampled_from(["grader_failed", None]))
            rows.append(
                {"target": target, "epoch": epoch, "judge": judge, "call": call}
                | {"label": label, "reason": reason}
                | contexts[item]
            )
    return rows


def table(rows):
    text = {name: pa.string() for name in NAMES} | {"epoch": pa.int64(), "call": pa.int64()}
    return pa.Table.from_pylist(rows, pa.schema(text))


def evidence_of(rows, engine):
    return as_evidence(table(rows), connection=engine)


def claims(evidence, **options):
    return measure_rates(evidence, any_of=[2], **options).claims


@FEW
@given(rows=judgements(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_nothing(rows, order, engine):
    shuffled = order.sample(rows, len(rows))
    found = [
        measure_rates(as_evidence(table(given), connection=engine), by="category", any_of=[1, 2])
        for given in (rows, shuffled)
    ]
    assert found[0].to_json() == found[1].to_json()


@FEW
@given(rows=judgements(), names=st.permutations([f"i{number}" for number in range(6)]))
def test_the_names_of_items_and_targets_change_nothing(rows, names, engine):
    others = [
        row | {"item": names[int(row["item"][1:])], "target": {"m": "z", "n": "a"}[row["target"]]}
        for row in rows
    ]

    def figures(evidence, targets):
        shown = [plain(claim) for claim in claims(evidence)]
        for claim in shown:
            claim["scope"]["target"] = targets[claim["scope"]["target"]]
            claim["scope"]["items"] = claim["scope"]["items"]["count"]
        return sorted(shown, key=json.dumps)

    first = figures(evidence_of(rows, engine), {"m": "m", "n": "n"})
    assert first == figures(evidence_of(others, engine), {"z": "m", "a": "n"})


@FEW
@given(rows=judgements(), more=st.integers(1, 4))
def test_missing_responses_only_widen_the_bounds(rows, more, engine):
    lost = [
        rows[0] | {"epoch": 3 + number, "call": 1, "label": None, "reason": "no_response"}
        for number in range(more)
    ]
    before = {key(claim): claim for claim in claims(evidence_of(rows, engine))}
    after = {key(claim): claim for claim in claims(evidence_of(rows + lost, engine))}
    assert set(before) == set(after)
    for name, claim in after.items():
        old = before[name]
        assert (claim.estimate, claim.interval, claim.ceiling) == (
            old.estimate,
            old.interval,
            old.ceiling,
        )
        assert (claim.events, claim.trials) == (old.events, old.trials)
        assert claim.missing.total in {old.missing.total, old.missing.total + more}
        if old.bounds_if_missing is not None:
            low, high = claim.bounds_if_missing
            assert low <= old.bounds_if_missing[0] + 1e-12
            assert high >= old.bounds_if_missing[1] - 1e-12
        if claim.estimate is not None:
            low, high = claim.bounds_if_missing
            assert low - 1e-12 <= claim.estimate <= high + 1e-12


def key(claim):
    return claim.metric, claim.scope.target, claim.scope.judge


@FEW
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=14),
    data=st.data(),
    population=st.sampled_from([None, 14, 40]),
)
def test_one_more_failure_never_lowers_a_ceiling(sizes, data, population, engine):
    failures = [data.draw(st.integers(0, size)) for size in sizes]
    room = [index for index, size in enumerate(sizes) if failures[index] < size]
    if not room:
        return
    worse = list(failures)
    worse[data.draw(st.sampled_from(room))] += 1

    def ceiling(failed):
        rows = [
            {
                "target": "m",
                "item": f"{cluster}-{attack}",
                "behaviour": str(cluster),
                "label": "comply" if attack < failed[cluster] else "refuse",
                "intent": "harmful",
                "epoch": 1,
                "judge": "j",
                "call": 1,
            }
            for cluster, size in enumerate(sizes)
            for attack in range(size)
        ]
        evidence = evidence_of(rows, engine)
        return measure_rates(evidence, population=population).find("attack_success_rate").ceiling

    assert ceiling(worse) >= ceiling(failures) - 1e-12


@FEW
@given(rows=judgements())
def test_every_interval_holds_its_estimate_and_every_ceiling_lies_above(rows, engine):
    for claim in claims(evidence_of(rows, engine)):
        if claim.estimate is None:
            assert set(claim.why) >= {"estimate", "interval", "ceiling", "method"}
            continue
        assert 0 <= claim.interval[0] <= claim.estimate + 1e-12
        assert claim.estimate - 1e-12 <= claim.interval[1] <= 1
        assert claim.estimate - 1e-12 <= claim.ceiling <= 1
        assert claim.effective_trials <= claim.trials + 1e-9
        assert claim.clusters <= claim.trials
        assert claim.missing.total == sum(claim.missing.by_reason.values())


@FEW
@given(rows=judgements())
def test_every_response_is_a_trial_missing_or_unclassified(rows, engine):
    evidence = evidence_of(rows, engine)
    finding = measure_rates(evidence)
    responses = {
        (row["target"], row["item"], row["epoch"], row["judge"]) for row in rows if row["intent"]
    }
    counted = sum(
        claim.trials + claim.missing.total
        for claim in finding.claims
        if claim.metric in {"attack_success_rate", "help_rate", "refusal_rate"}
    )
    assert counted == len(responses)
    assert finding.unclassified == sum(row["intent"] is None for row in rows)


@FEW
@given(rows=judgements())
def test_a_judge_is_measured_the_same_alone_and_among_others(rows, engine):
    evidence = evidence_of(rows, engine)
    together = claims(evidence)
    for judge in evidence.instruments:
        alone = claims(evidence.filter(judge=judge))
        assert list(alone) == [claim for claim in together if claim.scope.judge == judge]


@FEW
@given(
    rows=judgements(),
    success=st.sampled_from(["comply", "non_refusal/majority", "comply/unanimous"]),
    where=st.sampled_from(["violation", "missing", "disagree"]),
)
def test_findings_are_sound(rows, success, where, engine, assert_sound):
    evidence = evidence_of(rows, engine)
    assert_sound(measure_rates(evidence, success=success, by=["category"], any_of=[2], volume=1e6))
    assert_sound(cover(evidence, success=success))
    assert_sound(find_items(evidence, where, success=success))
    with suppress(InputError):  # nothing may be harmful, or judged
        one = evidence.filter(intent="harmful", judge=rows[0]["judge"])
        assert_sound(plan_repeats(one, success=success))
    if {row["target"] for row in rows} == {"m", "n"}:
        with suppress(InputError, ScopeMismatchError):  # the sides need not match
            assert_sound(compare_rates(evidence, "m", "n", shared_items=True, success=success))


# -- table form and study form ---------------------------------------------------------------------

STUDY = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@STUDY
@given(rows=judgements())
def test_a_table_and_the_study_made_of_it_give_the_same_claims(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forms")
    source = folder / "judgements.csv"
    with source.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, NAMES)
        writer.writeheader()
        writer.writerows(rows)
    report = import_sources([str(source)], folder / "study")
    assert report.complete, report.sources_read
    assert Study.is_study(folder / "study")
    forms = [
        as_evidence(table(rows), place="judgements.csv"),
        read_evidence(str(source), kind="tidy"),
        read_evidence(str(folder / "study")),
    ]
    found = [
        measure_rates(form, by=["category"], any_of=[2], success="non_refusal") for form in forms
    ]
    assert found[0].claims == found[1].claims == found[2].claims
    assert found[0].pairs == found[1].pairs == found[2].pairs
    assert found[0].any_of_k == found[1].any_of_k == found[2].any_of_k
    assert {entry.unclassified for entry in found} == {found[0].unclassified}
    items = [find_items(form, "missing").items for form in forms]
    assert items[0] == items[1] == items[2]


def test_ids_of_a_study_are_those_of_its_table(tmp_path: Path):
    source = tmp_path / "ids.csv"
    source.write_text(
        'target,item,label,intent\nm,001,refuse,harmful\nm,1,refuse,harmful\nm,"a,b",comply,harmful\n'
    )
    import_sources([str(source)], tmp_path / "study")
    found = [
        measure_rates(read_evidence(str(place))).find("attack_success_rate").scope.items
        for place in (source, tmp_path / "study")
    ]
    assert found[0] == found[1]
    assert isinstance(found[0], ItemSet)
    assert found[0].count == 3
