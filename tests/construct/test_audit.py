"""The whole audit of the construct on simulated responses, and on the published sets."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
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
    found = audit_construct(responses, settings=few).to_dict()
    assert not found["saturation"]["modelable"]
    assert found["verdict"]["single_attribute"] != "supported"


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
    assert flags["3 quantile bands of the two groups", "regularised"] <= 2
    assert 4 <= flags["3 quantile bands of the two groups", "tight"] <= 8
    assert flags["3 quantile bands of all targets", "regularised"] <= 4
