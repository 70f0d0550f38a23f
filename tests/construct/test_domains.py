"""Leaving a domain out: the one that carries the second dimension is found, and only then named."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dimensions.domains import drop_one_domain
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

QUICK = {"splits": 3, "restarts": 1, "max_dims": 2, "tasks": TaskSettings(jobs=1, quiet=True)}
DOMAINS = ("plain", "indirect", "recall")


def draw(correlation, seed=1, targets=70, items=75):
    """Responses whose last domain measures a second trait."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky([[1, correlation], [correlation, 1]])
    theta = rng.standard_normal((targets, 2)) @ root.T
    domain = np.arange(items) % 3
    linear = 1.7 * theta[:, (domain == 2).astype(int)] + rng.normal(0, 1, items)
    responses = make_responses((rng.random(linear.shape) < expit(linear)).astype(int))
    return responses, {
        name: DOMAINS[place] for name, place in zip(responses.items, domain, strict=True)
    }


def test_the_domain_with_a_trait_of_its_own_carries_the_gain():
    responses, domains = draw(0.1)
    (found,) = drop_one_domain(responses, {"harm": domains}, **QUICK)
    assert found.carrier == "recall"
    assert found.whole.items == 75
    by_domain = {row.domain: row for row in found.without}
    assert by_domain["recall"].share_of_whole < 0.2
    assert min(by_domain[name].share_of_whole for name in DOMAINS[:2]) > 0.5
    assert [row.items for row in found.without] == [50, 50, 50]
    assert "recall" in found.sentence
    json.dumps(plain(found), allow_nan=False)


def test_no_domain_is_named_where_there_is_one_dimension():
    responses, domains = draw(0.999)
    (found,) = drop_one_domain(responses, {"harm": domains}, **QUICK)
    assert found.carrier is None
    assert plain(found)["why"]["carrier"] == found.sentence


def test_on_harmbench_copyright_carries_the_gain(shared):
    folder = shared / "data/helm_safety"
    with (folder / "harmbench_matrix.csv").open() as lines:
        header, *rows = list(csv.reader(lines))
    with (folder / "harmbench_items.csv").open() as lines:
        kinds = dict(list(csv.reader(lines))[1:])
    codes = np.array(rows)[:, 1:]
    codes = np.where(codes == "", "-1", codes).astype(int)
    varied = np.ptp(codes, axis=0) > 0
    items = np.array(header[1:])[varied].tolist()
    responses = make_responses(codes[:, varied], items=items)
    (found,) = drop_one_domain(responses, {"type": kinds}, **QUICK | {"splits": 2})
    assert found.carrier == "copyright"
    by_domain = {row.domain: row for row in found.without}
    assert by_domain["copyright"].share_of_whole < 0.6
    assert by_domain["copyright"].gain.gain > 0.005


def test_too_few_items_are_a_reason_and_no_figure():
    responses, domains = draw(0.1, items=12)
    (found,) = drop_one_domain(responses, {"harm": domains}, **QUICK)
    assert found.whole.gain is not None
    read = plain(found)
    assert all(row["gain"] is None for row in read["without"])
    assert all({"gain", "share_of_whole"} == set(row["why"]) for row in read["without"])
    assert found.carrier is None


def test_a_structure_must_cover_the_items_with_two_domains():
    responses, domains = draw(0.1)
    with pytest.raises(InputError, match="has no domain"):
        drop_one_domain(responses, {"harm": {"1": "plain"}}, **QUICK)
    with pytest.raises(InputError, match="has one domain"):
        drop_one_domain(responses, {"harm": dict.fromkeys(domains, "plain")}, **QUICK)
    with pytest.raises(InputError, match="explored"):
        drop_one_domain(responses, {"harm": domains}, **QUICK | {"max_dims": 1})
