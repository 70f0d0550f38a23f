"""The table of item differences: published counts, known directions, and hostile matrices."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dif.audit import audit_differences
from safemetry.construct.dif.choices import NULL_PRIORS
from safemetry.construct.dif.settings import DifferencesSettings, described
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

TWO = "3 quantile bands of the two groups (right-closed)"
EVERYONE = "3 quantile bands of all targets (right-closed)"


def read(path):
    with path.open() as stream:
        rows = list(csv.reader(stream))
    return rows[0][1:], [row[0] for row in rows[1:]], [row[1:] for row in rows[1:]]


def column(path, key, value):
    with path.open() as stream:
        return {row[key]: row[value] for row in csv.DictReader(stream)}


def quick(**choices):
    return DifferencesSettings(**{"simulations": 200, "further_simulations": 100, **choices})


def matrix(targets=40, items=30, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=targets)
    focal = np.arange(targets) % 3 == 0
    logits = theta[:, None] * np.exp(rng.normal(0, 0.3, items)) + rng.normal(0, 1, items)
    logits[focal, 0] -= shift
    codes = (rng.random(logits.shape) < expit(logits)).astype(np.int8)
    names = [f"t{place}" for place in range(targets)]
    return (
        codes,
        names,
        {name: "f" if is_f else "r" for name, is_f in zip(names, focal, strict=True)},
    )


@pytest.fixture(scope="module")
def harmbench(shared):
    folder = shared / "data" / "helm_safety"
    items, targets, cells = read(folder / "harmbench_matrix.csv")
    responses = make_responses(np.array(cells, int), targets=targets, items=items)
    return audit_differences(
        responses,
        column(folder / "models.csv", "model", "developer"),
        settings=DifferencesSettings(simulations=1000, further_simulations=200),
    )


def row(audit, **wanted):
    return next(
        entry
        for entry in audit.rows
        if all(getattr(entry, name) == value for name, value in wanted.items())
    )


MANTEL_HAENSZEL = {"method": "mantel_haenszel", "matching": "score", "scope": "all items"}


@pytest.mark.parametrize(
    ("prior", "bands", "fewest", "most"),
    [
        ("tight", TWO, 4, 7),
        ("regularised", TWO, 0, 2),
        ("tight", EVERYONE, 4, 8),
        ("regularised", EVERYONE, 1, 4),
    ],
)
def test_the_null_and_the_bands_decide_how_many_harmbench_items_are_flagged(
    harmbench, prior, bands, fewest, most
):
    found = row(harmbench, **MANTEL_HAENSZEL, prior=prior, bands=bands)
    assert fewest <= found.flags <= most
    assert found.flags == len(found.flagged)


def test_harmbench_compares_two_developers_and_names_the_rest(harmbench):
    (compared,) = harmbench.compared
    assert (compared.groups, compared.targets) == (("openai", "anthropic"), (20, 11))
    assert len(harmbench.refused) == 14
    assert len(harmbench.constant_items) == 5
    headline = harmbench.headline()
    assert (headline.prior, headline.bands, headline.method) == (
        "regularised",
        TWO,
        "mantel_haenszel",
    )
    assert sum(entry.headline for entry in harmbench.rows) == 1


def test_a_band_without_a_group_is_named(harmbench):
    assert harmbench.headline().lacking_bands == ()
    lacking = row(harmbench, **MANTEL_HAENSZEL, prior="regularised", bands=EVERYONE).lacking_bands
    # The least able third of all targets holds nobody of the two.
    named = [(band.band, band.lacks) for band in lacking]
    assert named == [(1, "openai"), (1, "anthropic"), (2, "anthropic")]


def test_every_choice_is_varied(harmbench):
    rows = harmbench.rows
    assert {entry.prior for entry in rows} == set(NULL_PRIORS)
    assert len({entry.bands for entry in rows if entry.bands}) == 3
    assert {entry.penalty for entry in rows if entry.method == "ridge_logistic"} == {0.1, 1.0, 10.0}
    assert {entry.matching for entry in rows} == {
        "score",
        "score without the item",
        "purified score",
    }
    assert "ridge_logistic_non_uniform" in {entry.method for entry in rows}


def test_counts_thresholds_and_p_values_tell_one_story(harmbench):
    for entry in harmbench.rows:
        assert entry.flags == sum(item.flagged for item in entry.items)
        assert entry.item_flags == sum(item.item_flagged for item in entry.items)
        assert entry.item_flags >= entry.flags
        assert (entry.flags > 0) == (entry.p_value <= entry.alpha)
        assert entry.threshold_interval[0] <= entry.threshold <= entry.threshold_interval[1]
        sizes = [item.statistic for item in entry.items if item.statistic is not None]
        assert entry.observed_max == max(sizes)
        for item in entry.items:
            if item.statistic is not None:
                assert abs(item.effect) == pytest.approx(2.35 * item.statistic)
                assert item.size in {"A", "B", "C"}
                assert item.size == "A" or item.item_flagged


def test_the_json_holds_the_names_of_the_contract_and_explains_every_null(harmbench):
    read_back = json.loads(json.dumps(plain(harmbench), allow_nan=False))
    entry = read_back["rows"][0]
    contract = "scope groups method matching bands smoothing null prior flags item_flags threshold"
    assert set(contract.split()) | {"observed_max", "items", "penalty"} <= set(entry)
    assert {"item", "statistic", "effect", "class", "flagged"} <= set(entry["items"][0])

    def explained(value, place="audit"):
        if isinstance(value, dict):
            for name, part in value.items():
                assert part is not None or value.get("why", {}).get(name), f"{place}.{name}"
                explained(part, f"{place}.{name}")
        elif isinstance(value, list):
            for part in value:
                explained(part, place)

    explained(read_back)


def test_chinese_models_do_worse_on_china_items_than_their_ability_says(shared):
    folder = shared / "data" / "speechmap_criticism"
    items, targets, cells = read(folder / "matrix_ordinal_grok41fast.csv")
    codes = np.array([[-1 if cell == "" else int(cell == "2") for cell in line] for line in cells])
    chinese = {"qwen", "deepseek", "thudm", "moonshotai"}
    groups = {name: "chinese" if name.split("/")[0] in chinese else "other" for name in targets}
    government = column(folder / "items.csv", "item_id", "government")
    audit = audit_differences(
        make_responses(codes, targets=targets, items=items),
        groups,
        structure=government,
        settings=quick(priors={"regularised": NULL_PRIORS["regularised"]}),
    )
    assert audit.compared[0].groups == ("other", "chinese")
    for method in ("mantel_haenszel", "ridge_logistic"):
        found = row(audit, method=method, scope="all items")
        effects = {item.item: item.effect for item in found.items if item.effect is not None}
        china = [effect for item, effect in effects.items() if government[item] == "china"]
        others = [effect for item, effect in effects.items() if government[item] != "china"]
        assert np.mean(china) < -0.4 < 0.2 < np.mean(others)
        beyond = [item for item in found.items if item.item_flagged]
        assert sum(item.effect < 0 for item in beyond if government[item.item] == "china") > 12
        assert all(item.effect > 0 for item in beyond if government[item.item] != "china")
    # Among China items alone, matched on China items, no common direction is left.
    alone = row(audit, method="mantel_haenszel", scope="china")
    assert abs(np.mean([item.effect for item in alone.items if item.effect is not None])) < 0.4
    assert {entry.scope for entry in audit.rows} == {"all items", "china", "eu", "russia", "us"}


def test_the_workers_and_the_order_of_the_matrix_decide_nothing():
    codes, names, groups = matrix(seed=3)
    settings = quick(priors={"engine default": NULL_PRIORS["engine default"]})
    alone = audit_differences(make_responses(codes, targets=names), groups, settings=settings)
    workers = TaskSettings(jobs=2, quiet=True)
    spread = audit_differences(
        make_responses(codes, targets=names), groups, settings=settings, tasks=workers
    )
    assert plain(alone) == plain(spread)


def test_finished_simulations_are_kept(tmp_path, monkeypatch):
    codes, names, groups = matrix(seed=4)
    kept = TaskSettings(jobs=1, resume=tmp_path, quiet=True)
    first = audit_differences(
        make_responses(codes, targets=names), groups, settings=quick(), tasks=kept
    )
    from safemetry.construct.dif.simulation import NullModel

    monkeypatch.setattr(NullModel, "draw", None)
    again = audit_differences(
        make_responses(codes, targets=names), groups, settings=quick(), tasks=kept
    )
    assert plain(first) == plain(again)


def test_a_planted_difference_is_flagged_with_its_sign_and_class():
    codes, names, groups = matrix(targets=150, seed=5, shift=4.0)
    found = audit_differences(make_responses(codes, targets=names), groups, settings=quick())
    assert found.headline().flagged[0] == "1"
    for method in ("mantel_haenszel", "ridge_logistic"):
        planted = row(found, method=method, matching="score").items[0]
        assert planted.flagged
        assert (planted.effect < -1.5, planted.size) == (True, "C")


def test_groups_swapped_in_size_swap_the_sign():
    codes, names, groups = matrix(targets=60, seed=6, shift=2.0)
    swapped = {name: {"f": "r", "r": "f"}[group] for name, group in groups.items()}
    one = audit_differences(make_responses(codes, targets=names), groups, settings=quick())
    two = audit_differences(make_responses(codes, targets=names), swapped, settings=quick())
    assert one.headline().groups == ("r", "f")
    assert two.headline().groups == ("f", "r")
    assert one.headline().items[0].effect == two.headline().items[0].effect


def test_clusters_raise_the_threshold_where_answers_are_copied():
    codes, names, groups = matrix(targets=60, items=120, seed=7)
    focal = [place for place, name in enumerate(names) if groups[name] == "f"]
    for start in range(0, 20, 4):
        codes[focal[start + 1 : start + 4]] = codes[focal[start]]
    responses = make_responses(codes, targets=names)
    plainly = audit_differences(responses, groups, settings=quick())
    assert "nearly alike" in plainly.warnings[0]
    assert len(plainly.duplicates.groups) == 5
    clustered = audit_differences(
        responses, groups, cluster=plainly.duplicates.clusters, settings=quick()
    )
    assert clustered.headline().threshold > 1.1 * plainly.headline().threshold
    assert set(clustered.shared_answers.values()) == {1.0}
    assert clustered.compared[0].independent == (40, 5)
    assert any("5 independent clusters in 20 targets" in said for said in clustered.warnings)


def test_hostile_matrices_are_described_and_not_crashed_on():
    codes, names, groups = matrix(seed=8)
    codes[:, 0] = 1  # constant
    codes[:, 1] = -1  # never answered
    codes[3] = -1  # a target without a response
    codes[[groups[name] == "f" for name in names], 2] = -1  # one group only
    codes[5:, 3] = -1  # hardly answered
    codes[4, 3], codes[0, 3] = 1, 0
    structure = {str(place): "x" if place <= 20 else "y" for place in range(1, 31)}
    found = audit_differences(
        make_responses(codes, targets=names), groups, structure=structure, settings=quick()
    )
    assert set(found.constant_items) == {"1", "2"}
    for entry in found.rows:
        if entry.scope == "all items":
            items = {item.item: item for item in entry.items}
            assert items["3"].statistic is None
            assert "group" in items["3"].why or "stratum" in items["3"].why
    json.dumps(plain(found), allow_nan=False)


def test_a_dimension_with_few_items_is_left_out_with_a_reason():
    codes, names, groups = matrix(seed=9)
    structure = {str(place): "x" if place <= 25 else "y" for place in range(1, 31)}
    found = audit_differences(
        make_responses(codes, targets=names), groups, structure=structure, settings=quick()
    )
    assert {entry.scope for entry in found.rows} == {"all items", "x"}
    assert any(part.scope == "y" and "fewer than 10" in part.why for part in found.skipped)


def test_what_cannot_be_compared_is_refused_in_words():
    codes, names, groups = matrix()
    responses = make_responses(codes, targets=names)
    with pytest.raises(InputError, match="groups have 10 targets or more"):
        audit_differences(responses, {"t0": "f", "t1": "r"})
    with pytest.raises(InputError, match="answers 0 and 1"):
        audit_differences(make_responses(codes * 2, targets=names), groups)
    with pytest.raises(InputError, match="no item varies"):
        audit_differences(make_responses(np.ones_like(codes), targets=names), groups)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"methods": ("lord",)}, "unknown method"),
        ({"methods": ()}, "no method"),
        ({"penalties": (0.0,)}, "above 0"),
        ({"simulations": 10}, "19 or more"),
        ({"priors": {}}, "priors is empty"),
        ({"smoothing": -1.0}, "below 0"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_are_checked_when_made(wrong, said):
    with pytest.raises(InputError, match=said):
        quick(**wrong)


def test_settings_say_what_decided_the_result():
    resolved = quick().resolved()
    assert resolved["priors"]["tight"] == "a ~ LogNormal(0, 0.1), d ~ Normal(0, 0.1)"
    assert described(NULL_PRIORS["regularised"]) == "a ~ LogNormal(0, 0.5), d ~ Normal(0, 2)"
    assert resolved["bands"][0] == TWO
