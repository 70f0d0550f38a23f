"""A map says what a source leaves open, and an entry that it cannot mean is refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.maps import EvidenceMap, make_map, read_map
from safemetry.evidence.schema import CLASSES, OUTSIDE

MAPS = Path(__file__).resolve().parents[2] / "docs" / "maps"

REFUSED = {
    "an entry it does not know": ({"colums": {}}, "map entry colums: "),
    "a column of no table": (
        {"columns": {"colour": "c"}},
        "map: columns: 'colour' is not a column of the judgements table",
    ),
    "a constant of no table": ({"constants": {"colour": "red"}}, "constants: 'colour' is not a"),
    "a constant verdict": ({"constants": {"label": "comply"}}, "constants.label: it is read from"),
    "a constant status": ({"constants": {"status": "ok"}}, "constants.status: it is read from"),
    "a constant epoch that is no number": (
        {"constants": {"epoch": "first"}},
        "constants.epoch: 'first' is not a whole number",
    ),
    "a constant intent it does not know": (
        {"constants": {"intent": "evil"}},
        "constants.intent: 'evil' is not one of harmful, benign, contested",
    ),
    "a constant beside a column": (
        {"constants": {"judge": "j"}, "columns": {"judge": "who"}},
        "constants.judge: it is taken from a column as well",
    ),
    "one class": ({"classes": ["refuse"]}, "classes: give at least two different classes"),
    "a class twice": ({"classes": ["refuse", "comply", "refuse"]}, "classes: give at least two"),
    "a class inside and outside": (
        {"outside": ["comply"]},
        "classes: ['comply'] stand both inside and outside the order",
    ),
    "a label of no class": ({"labels": {"2": "partial"}}, "labels.2: 'partial' is not a class"),
    "a label of no reason": (
        {"labels": {"x": "missing:bored"}},
        "labels.x: 'bored' is not one of invalid_response_format, refusal",
    ),
    "a judge's label of no class": (
        {"judges": {"j": {"labels": {"x": "partial"}}}},
        "judges.j.labels.x: 'partial' is not a class",
    ),
    "a judge's class of no order": (
        {"judges": {"j": {"classes": ["partial"]}}},
        "judges.j.classes: 'partial' is not a class of this map",
    ),
    "a scale upside down": (
        {"judges": {"j": {"scale_min": 1, "scale_max": 0}}},
        "map entry judges.j: scale_min must be below scale_max",
    ),
    "a direction of neither kind": (
        {"judges": {"j": {"higher_is": "better"}}},
        "map entry judges.j.higher_is: ",
    ),
    "an intent of no kind": (
        {"intent": {"column": "c", "values": {"a": "evil"}}},
        "intent.values.a: 'evil' is not one of harmful, benign, contested",
    ),
    "a status of no reason": (
        {"status": {"column": "c", "values": {"a": "missing"}}},
        "status.values.a: 'missing' is neither ok nor a known reason",
    ),
    "no mapping": (["labels"], "a map is a mapping of entries"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_entry_that_cannot_be_meant_is_named(case):
    content, said = REFUSED[case]
    with pytest.raises(InputError) as caught:
        make_map(content, file="map.yaml")
    assert str(caught.value).startswith("map.yaml: ")
    assert said in str(caught.value)


def test_an_empty_map_is_the_vocabulary_of_the_documentation(tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text("# nothing yet\n")
    assert read_map(path) == EvidenceMap()
    assert (EvidenceMap().classes, EvidenceMap().outside) == (CLASSES, OUTSIDE)
    assert EvidenceMap().known_labels == ("refuse", "evasive", "comply", "gibberish")


def test_labels_are_compared_as_the_text_of_the_cell(tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text(
        "labels: {yes: comply, no: refuse, true: comply, False: refuse, 1: comply, 0.5: evasive}\n"
        "intent: {column: day, values: {2026-05-01: harmful}}\n"
    )
    known = read_map(path)
    assert known.labels == {
        "yes": "comply",
        "no": "refuse",
        "true": "comply",
        "False": "refuse",
        "1": "comply",
        "0.5": "evasive",
    }
    assert known.intent.values == {"2026-05-01": "harmful"}
    assert make_map({"labels": {True: "comply", 0: "evasive"}}).labels == {
        "True": "comply",
        "0": "evasive",
    }


def test_a_file_that_is_no_map_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent.yaml: cannot read the map \(No such file"):
        read_map(tmp_path / "absent.yaml")
    path = tmp_path / "map.yaml"
    path.write_text("labels: {a: comply\n")
    with pytest.raises(InputError, match=r"map.yaml: the map is not readable YAML"):
        read_map(path)
    path.write_bytes(b"labels: {\xff: comply}\n")
    with pytest.raises(InputError, match=r"map.yaml: the map is not readable YAML"):
        read_map(path)
    path.write_text("constants: {intent: !!python/object/apply:os.getcwd []}\n")
    with pytest.raises(InputError, match=r"map.yaml: the map is not readable YAML"):
        read_map(path)


def test_the_digest_changes_with_any_entry_and_not_with_their_order():
    one = make_map({"labels": {"a": "comply", "b": "refuse"}, "intent": "harmful"})
    same = make_map({"intent": "harmful", "labels": {"b": "refuse", "a": "comply"}})
    assert one.digest == same.digest
    others = [{"labels": {"a": "comply"}}, {"intent": "harmful"}, {"outside": []}, {"rewarded": 0}]
    assert len({make_map(other).digest for other in others} | {one.digest}) == 5


def test_a_star_stands_for_every_judge_not_named():
    known = make_map({"judges": {"*": {"higher_is": "worse"}, "j": {"higher_is": "safer"}}})
    assert (known.scale("j").higher_is, known.scale("k").higher_is) == ("safer", "worse")
    assert EvidenceMap().scale("k").higher_is is None


def test_constants_hold_for_every_row():
    data = pa.table({"target": ["m", "m"], "item": ["1", "2"], "label": ["comply", "refuse"]})
    known = {"constants": {"judge": "j", "benchmark": "b", "intent": "benign", "epoch": 3}}
    rows = as_evidence(data, known).rows.collect("pyarrow").to_arrow().to_pylist()
    kept = {(row["judge"], row["benchmark"], row["intent"], row["epoch"]) for row in rows}
    assert kept == {("j", "b", "benign", 3)}


def test_a_declared_order_decides_what_complies():
    from safemetry.rates import measure_rates

    known = {"classes": ["blocked", "hedged", "warned", "done"], "outside": [], "intent": "harmful"}
    labels = ["blocked", "hedged", "warned", "done"]
    data = pa.table({"target": ["m"] * 4, "item": list("1234"), "label": labels})
    for success, events in (("comply", 1), ("non_refusal", 3)):
        found = measure_rates(data, evidence_map=known, success=success)
        assert found.find("attack_success_rate").events == events


@pytest.mark.parametrize("path", sorted(MAPS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_maps_of_the_documentation_are_maps(path):
    known = read_map(path)
    assert known.columns
    assert path.read_text().startswith("# ")


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "map.yaml"
    path.write_text("labels: {good: refuse, good: comply}\n", encoding="utf-8")
    with pytest.raises(InputError, match="the key 'good' stands twice"):
        read_map(path)


@pytest.mark.parametrize(
    ("entries", "place", "known"),
    [
        ({"foo": 1}, "foo", "columns, constants, classes"),
        ({"judges": {"j": {"foo": 1}}}, "judges.j.foo", "classes, labels, scale_min"),
        ({"limits": {"foo": 1}}, "limits.foo", "table_bytes, document_bytes"),
        ({"status": {"column": "a", "values": {}, "foo": 1}}, "status.foo", "column, values"),
    ],
)
def test_an_unknown_entry_is_answered_with_the_known_ones(entries, place, known):
    with pytest.raises(InputError) as caught:
        make_map(entries)
    assert str(caught.value).startswith(
        f"map entry {place}: there is no such entry; the entries here are {known}"
    )
