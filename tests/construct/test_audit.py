"""The whole audit of the construct on simulated responses, and on the published sets."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from safemetry.construct import ConstructFinding, ConstructSettings, audit_construct
from safemetry.errors import InputError
from safemetry.irt.responses import Responses, make_responses

QUICK = {"splits": 2, "restarts": 1, "max_dims": 2, "replicates": 20, "simulations": 39}
AssertSound = Callable[..., dict[str, Any]]


def two_factors(targets: int = 40, items: int = 24) -> Responses:
    """Two unrelated abilities, half of the items each."""
    rng = np.random.default_rng(5)
    theta = 1.8 * rng.standard_normal((targets, 2))[:, np.arange(items) % 2]
    chance = 1 / (1 + np.exp(-theta - rng.normal(size=items)))
    return make_responses((rng.random(chance.shape) < chance).astype(int))


def settings(responses: Responses, **more: Any) -> ConstructSettings:
    structure = {item: ("odd", "even")[int(item) % 2] for item in responses.items}
    groups = {name: ("acme", "bolt")[int(name) % 2] for name in responses.targets}
    chosen = {"structures": {"parity": structure}, "groups": {"developer": groups}, **QUICK, **more}
    return ConstructSettings(jobs=1, quiet=True, **chosen)


@pytest.fixture(scope="module")
def audited() -> ConstructFinding:
    """One audit of two factors."""
    responses = two_factors()
    return audit_construct(responses, settings=settings(responses))


def test_two_factors_are_more_than_one(audited: ConstructFinding) -> None:
    found = audited.to_dict()
    assert found["verdict"]["single_attribute"] == "rejected"
    assert found["verdict"]["p_value"] == pytest.approx(0.01)
    names = [row["name"] for row in found["models"]]
    assert names[:4] == ["1D 1PL", "1D 2PL", "1D 3PL", "1D exploratory"]
    assert names[-1] == "parity (2D confirmatory)"
    of_parity = next(
        row for row in found["factor_correlations"] if row["model"].startswith("parity")
    )
    assert abs(of_parity["correlations"][0][1]) < 0.5
    assert found["spectrum"]["exceed_one_dimension"] >= 1


def test_every_part_is_there_and_sound(
    audited: ConstructFinding, assert_sound: AssertSound
) -> None:
    found = assert_sound(audited)
    for name in ("saturation", "spectrum", "comparisons", "prior_sensitivity", "dif"):
        assert found[name]
    assert found["by_judge"] is None
    assert "cannot be told" in found["why"]["by_judge"]
    assert {row["prior"] for row in found["dif"]} >= {"regularised", "tight"}
    assert len({row["bands"] for row in found["dif"]}) >= 3
    assert sum(row["headline"] for row in found["dif"]) == 1
    assert audited.chart() is not None
    assert "Rejected" in audited.sentence()


def test_the_result_does_not_depend_on_workers_or_on_resuming(tmp_path: Path) -> None:
    # Fewer models than the fixture has, since the same audit is made three times.
    responses = two_factors(24, 14)
    few = {"groups": {}, "structures": {}, "max_dims": 2}
    first = audit_construct(responses, settings=settings(responses, **few))
    kept = settings(responses, **few, resume=tmp_path)
    assert audit_construct(responses, settings=kept).to_dict() == first.to_dict()
    files = set(tmp_path.rglob("*"))
    assert files
    assert audit_construct(responses, settings=kept).to_dict() == first.to_dict()
    assert set(tmp_path.rglob("*")) == files


def test_too_few_items_are_not_compared_and_say_so() -> None:
    responses = two_factors(30, 6)
    finding = audit_construct(responses, settings=settings(responses, groups={}))
    found = finding.to_dict()
    assert found["verdict"]["single_attribute"] == "cannot_tell"
    assert found["models"] is None
    assert "10 of each is the least" in found["why"]["models"]


def test_saturated_items_never_support_one_attribute() -> None:
    rng = np.random.default_rng(2)
    codes = (rng.random((30, 40)) < 0.97).astype(int)
    responses = make_responses(codes)
    few = settings(responses, groups={}, structures={})
    finding = audit_construct(responses, settings=few)
    found = finding.to_dict()
    assert not found["saturation"]["modelable"]
    assert found["verdict"]["single_attribute"] != "supported"
    assert "<" not in finding.sentence()  # no object in the words
    assert "no model of several dimensions was asked for" not in finding.sentence()


def test_a_structure_that_a_constant_item_spoils_is_left_out_and_said() -> None:
    responses = two_factors(30, 14)
    codes = responses.codes.copy()
    codes[:, 0] = 1
    spoilt = make_responses(codes, items=responses.items)
    structure = {item: "b" if place < 2 else "a" for place, item in enumerate(spoilt.items)}
    few = settings(spoilt, groups={}, structures={"kind": structure})
    finding = audit_construct(spoilt, settings=few)
    assert finding.models
    said = "Structure 'kind' was not fitted: dimensions with fewer than 2 items that vary: b 1."
    assert said in finding.warnings
    assert "1 item was left out of all fits: every target responded alike." in finding.warnings


def test_a_structure_that_leaves_items_out_is_an_error_that_names_it() -> None:
    responses = two_factors(30, 14)
    few = settings(responses, structures={"kind": {"1": "a", "2": "a", "3": "b", "4": "b"}})
    with pytest.raises(InputError, match="structure 'kind' gives 10 of 14 items no dimension"):
        audit_construct(responses, settings=few)


def test_groups_that_cannot_be_compared_do_not_end_the_audit() -> None:
    responses = two_factors(30, 6)
    alone = {name: name for name in responses.targets}
    found = audit_construct(responses, settings=settings(responses, groups={"own": alone}))
    assert found.dif is None
    assert "0 of 30 groups have 10 targets" in found.why["dif"]
    assert any("were not compared by own" in said for said in found.warnings)


def test_groups_that_name_no_target_are_an_error() -> None:
    responses = two_factors(30, 6)
    with pytest.raises(InputError, match="grouping 'made' names none of the 30 targets"):
        audit_construct(responses, settings=settings(responses, groups={"made": {"x": "y"}}))


def audit_quickly(responses: Responses, **more: Any) -> ConstructFinding:
    few = {"groups": {}, "structures": {}, "max_dims": 1, **more}
    return audit_construct(responses, settings=settings(responses, **few))


def test_a_grouping_that_fails_leaves_the_rows_of_the_others() -> None:
    responses = two_factors(30, 6)
    good = {name: ("x", "y")[int(name) % 2] for name in responses.targets}
    both = {"good": good, "bad": dict.fromkeys(good, "z")}
    found = audit_quickly(responses, groups=both)
    assert found.dif
    assert [entry["grouping"] for entry in found.dif_groups] == ["good"]
    assert "dif" not in found.why
    assert any("were not compared by bad" in said for said in found.warnings)


def test_names_that_match_in_part_are_said() -> None:
    responses = two_factors(30, 6)
    groups = {name: ("x", "y")[int(name) % 2] for name in responses.targets[:28]}
    families = {"1": "f", "ghost": "f"}
    found = audit_quickly(responses, groups={"made": groups | {"old": "x"}}, clusters=families)
    said = found.warnings
    assert "Grouping 'made' gives 2 of 30 targets no group: 29, 30." in said
    assert "Grouping 'made' has 1 name that is no target: old." in said
    assert any(text.startswith("The column of families gives 29 of 30 targets") for text in said)
    assert "The column of families has 1 name that is no target: ghost." in said


@pytest.mark.parametrize(
    ("families", "said"),
    [
        ({"ghost": "f"}, "the column of families names none of the 30 targets"),
        ({"1": ""}, "the column of families gives no target a family"),
    ],
)
def test_families_that_name_no_target_are_an_error(families: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        audit_quickly(two_factors(30, 6), clusters=families)


def test_no_item_that_varies_is_said_of_the_groups() -> None:
    responses = make_responses(np.ones((24, 12), int))
    groups = {name: ("x", "y")[int(name) % 2] for name in responses.targets}
    found = audit_quickly(responses, groups={"made": groups})
    assert found.why["dif"] == "no item varies"
    assert "Items were not compared by made: no item varies." in found.warnings


def test_a_dimension_of_other_data_is_ignored() -> None:
    responses = two_factors(30, 6)
    wide = {item: "ab"[int(item) % 2] for item in responses.items} | {"z1": "c", "z2": "c"}
    found = audit_quickly(responses, structures={"kind": wide})
    assert "Structure 'kind' has no item of the matrix in c: ignored." in found.warnings
    assert not any("was not fitted" in said for said in found.warnings)


def test_a_structure_that_could_not_be_fitted_is_the_reason() -> None:
    responses = two_factors(30, 12)
    found = audit_quickly(responses, structures={"kind": dict.fromkeys(responses.items, "a")})
    why = "structure 'kind' was not fitted (it has one dimension)"
    assert why in found.verdict.why
    assert found.why["without_domain"] == why
    with pytest.raises(InputError, match="gives none of the 12 items a dimension"):
        audit_quickly(responses, structures={"kind": {}})


def test_models_that_are_left_out_for_one_reason_are_one_note() -> None:
    from safemetry.construct.dimensions.comparison import LeftOut, _warnings

    many = [LeftOut(f"{size}D exploratory", "too many") for size in range(5, 9)]
    (said,) = _warnings((), (), many)
    assert said == "5D exploratory to 8D exploratory (4 models) are left out: too many."


def test_groups_that_hardly_overlap_do_not_simply_differ() -> None:
    from safemetry.construct.dif.audit import audit_differences
    from safemetry.construct.dif.settings import DifferencesSettings
    from safemetry.construct.finding import _differing

    rng = np.random.default_rng(3)
    chance = np.where(np.arange(30) < 15, 0.95, 0.2)[:, None]
    responses = make_responses((rng.random((30, 12)) < chance).astype(int))
    groups = {name: ("x", "y")[int(name) > 15] for name in responses.targets}
    chosen = DifferencesSettings(
        simulations=39, further_simulations=39, methods=("mantel_haenszel",)
    )
    row = audit_differences(responses, groups, settings=chosen).headline()
    assert row.shared_bands == 1
    assert "Only 1 of 3 bands of ability holds both x and y: there" in _differing(row)
    assert "At equal ability" not in _differing(row)


def test_copies_are_named_beside_the_verdict() -> None:
    responses = two_factors(30, 60)
    copied = make_responses(np.concatenate([responses.codes, responses.codes[:4]]))
    few = settings(copied, groups={}, structures={}, max_dims=1)
    found = audit_construct(copied, settings=few)
    groups = found.to_dict()["near_duplicates"]["groups"]
    named = {tuple(group["targets"]) for group in groups}
    assert named == {("1", "31"), ("2", "32"), ("3", "33"), ("34", "4")}
    assert any("8 targets answer identically" in said for said in found.warnings)


def test_without_several_dimensions_nothing_is_decided() -> None:
    responses = two_factors(30, 14)
    few = settings(responses, groups={}, structures={}, max_dims=1)
    found = audit_construct(responses, settings=few)
    assert found.verdict.single_attribute == "cannot_tell"
    assert "no model of several dimensions" in found.sentence()


def test_departures_from_published_figures_are_named() -> None:
    responses = two_factors(30, 14)
    published = {"1D 1PL": 0.1, "2D exploratory": 0.9, "no such": 0.2}
    few = settings(responses, groups={}, structures={}, published=published)
    found = audit_construct(responses, settings=few)
    assert found.departures[0].first == "1D 1PL"
    assert "Published figures put 1D 1PL (0.100) ahead" in found.sentence()
    assert "No model is called no such." in found.warnings


def test_no_item_that_can_be_compared_is_not_no_item_that_differs() -> None:
    from safemetry.construct.dif.audit import audit_differences
    from safemetry.construct.dif.settings import DifferencesSettings
    from safemetry.construct.finding import _differing

    rng = np.random.default_rng(3)
    codes = np.full((30, 12), -1)
    codes[:15, :6] = rng.integers(0, 2, (15, 6))
    codes[15:, 6:] = rng.integers(0, 2, (15, 6))
    responses = make_responses(codes)
    groups = {name: ("x", "y")[int(name) > 15] for name in responses.targets}
    chosen = DifferencesSettings(
        simulations=39, further_simulations=39, methods=("mantel_haenszel",)
    )
    found = audit_differences(responses, groups, settings=chosen)
    assert _differing(found.headline()).startswith("No item can be compared between x and y")


def test_every_judge_is_compared_where_they_vote() -> None:
    from safemetry.evidence.evidence import as_evidence

    rows = {"target": [], "item": [], "judge": [], "label": []}
    codes = two_factors(12, 11).codes
    for (target, item), code in np.ndenumerate(codes):
        for judge in ("j", "k", "l"):
            values = (f"m{target}", f"q{item}", judge, ("comply", "refuse")[code])
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    evidence = as_evidence(pa.table(rows), {"intent": "harmful"})
    chosen = ConstructSettings(jobs=1, quiet=True, **QUICK)
    found = audit_construct(evidence, success="comply/majority", settings=chosen).to_dict()
    assert [row["judge"] for row in found["by_judge"]["judges"]] == ["j", "k", "l"]


def test_nothing_varies() -> None:
    responses = make_responses(np.ones((12, 12), int))
    found = audit_construct(responses, settings=settings(responses, groups={}, structures={}))
    assert found.to_dict()["spectrum"] is None
    assert found.to_dict()["verdict"]["single_attribute"] == "cannot_tell"


@pytest.mark.parametrize(
    ("field", "value"), [("splits", 1), ("null_sets", 98), ("level", 1.0), ("share", 0.0)]
)
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        ConstructSettings(**{field: value})


def read(path: Path) -> Responses:
    with path.open() as lines:
        rows = list(csv.reader(lines))
    codes = np.array([[int(cell) for cell in row[1:]] for row in rows[1:]])
    return make_responses(codes, targets=[row[0] for row in rows[1:]], items=rows[0][1:])


def columns(path: Path, key: str, value: str) -> dict[str, str]:
    with path.open() as lines:
        return {row[key]: row[value] for row in csv.DictReader(lines)}


@pytest.mark.slow
def test_harmbench(shared: Path, study_size: float) -> None:
    folder = shared / "data/helm_safety"
    chosen = ConstructSettings(
        structures={"type": columns(folder / "harmbench_items.csv", "item_id", "type")},
        groups={"developer": columns(folder / "models.csv", "model", "developer")},
        restarts=1,
        max_dims=4 if study_size >= 1 else 2,
        replicates=200,
        simulations=399,
        jobs=2,
        quiet=True,
    )
    finding = audit_construct(read(folder / "harmbench_matrix.csv"), settings=chosen)
    found = finding.to_dict()
    assert found["saturation"]["informative_items"] == 313
    observed = found["spectrum"]["observed"]
    assert [round(value, 1) for value in observed[:6]] == [139.2, 59.0, 28.9, 10.9, 10.4, 9.5]
    second, third = found["spectrum"]["null_q95_one_dimension"][1:3]
    assert 22 < second < 34
    assert 6 < third < 11
    assert found["verdict"]["single_attribute"] == "rejected"
    best = found["verdict"]
    assert best["splits_won"] == 5
    one = [row for row in found["models"] if row["dims"] == 1]
    many = [row for row in found["models"] if row["dims"] > 1]
    for row in many:
        for other in one:
            pairs = zip(row["log_loss"]["splits"], other["log_loss"]["splits"], strict=True)
            assert all(mine < theirs for mine, theirs in pairs)
    of_type = found["factor_correlations"][0]
    assert of_type["least_related"] == "copyright"
    tight = [row for row in found["prior_sensitivity"] if row["flagged"]]
    assert any(row["log_loss"]["mean"] == pytest.approx(0.428, abs=0.003) for row in tight)
    flags = {
        (row["bands"], row["prior"]): row["flags"]
        for row in found["dif"]
        if row["scope"] == "all items"
        and row["method"] == "mantel_haenszel"
        and row["matching"] == "score"
    }
    # With 399 simulated matrices a threshold moves by about .05, and a count by one or two.
    assert flags["3 quantile bands of the two groups (right-closed)", "regularised"] <= 2
    assert 4 <= flags["3 quantile bands of the two groups (right-closed)", "tight"] <= 8
    assert flags["3 quantile bands of all targets (right-closed)", "regularised"] <= 4
