"""Statistics of person fit against the values of other programs."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.audits.person_fit.likelihood_statistics import likelihood_fit
from safemetry.audits.person_fit.order_statistics import order_fit, scalability
from safemetry.audits.person_fit.residual_statistics import mean_squares
from safemetry.irt.parameters import ItemParameters


@pytest.fixture(scope="module")
def table(shared):
    def read(name, *columns):
        with (shared / "oracle" / f"{name}.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        chosen = columns or tuple(rows[0])
        return np.array(
            [[np.nan if row[c] in ("NA", "") else float(row[c]) for c in chosen] for row in rows]
        )

    return read


@pytest.fixture(scope="module")
def inadequacy(shared, table):
    """Codes and parameters of the 27 items that the other programs used."""
    with (shared / "oracle" / "PerFit_Inadequacy_IP_from_mirt.csv").open(newline="") as stream:
        names = [row[""] for row in csv.DictReader(stream)]
    codes = table("data_InadequacyData_PerFit", *names).astype(np.int8)
    a, b, g = table("PerFit_Inadequacy_IP_from_mirt", "a", "b", "g").T
    return codes, ItemParameters(a[:, None], (-a * b)[:, None], g, np.ones(len(a)))


@pytest.mark.parametrize("method", ["ML", "WL", "BM"])
def test_l_z_and_l_z_star_agree_for_every_estimator(inadequacy, table, method):
    codes, items = inadequacy
    found = table(
        "PerFit_Inadequacy_lz_lzstar", f"theta_{method}", f"lz_{method}", f"lzstar_{method}"
    )
    finite = np.isfinite(found[:, 0])
    fit = likelihood_fit(codes[: len(found)][finite], items, found[finite, 0])
    # The other program rounds to four decimals.
    assert np.abs(fit.l_z - found[finite, 1]).max() < 5.1e-5
    assert np.abs(fit.l_z_star - found[finite, 2]).max() < 6e-5


def test_infit_outfit_and_zh_agree_at_the_same_abilities(inadequacy, table):
    codes, items = inadequacy
    theta = table("PerFit_Inadequacy_lz_lzstar", "theta_ML")[:, 0]
    finite = np.isfinite(theta)
    oracle = table("PerFit_Inadequacy_mirt_personfit_ML", "outfit", "infit", "Zh")
    oracle = oracle[: len(theta)][finite]
    patterns, theta = codes[: len(theta)][finite], theta[finite]
    squares = mean_squares(patterns, items, theta)
    assert np.abs(squares.outfit - oracle[:, 0]).max() < 1e-9
    assert np.abs(squares.infit - oracle[:, 1]).max() < 1e-9
    assert np.abs(likelihood_fit(patterns, items, theta).l_z - oracle[:, 2]).max() < 1e-9


@pytest.mark.parametrize(
    ("data", "fit", "method"),
    [
        ("SAT12", "SAT12_2PL", "ML"),
        ("SAT12", "SAT12_2PL", "EAP"),
        ("LSAT7", "LSAT7_3PLprior", "EAP"),
        ("LSAT6", "LSAT6_2PL_tight", "EAP"),
    ],
)
def test_tables_of_other_fits_agree(table, data, fit, method):
    # Columns are EAP, MAP, ML and WLE with a standard error after each.
    theta = table(f"{fit}_fscores_first200")[:, {"EAP": 1, "ML": 5}[method]]
    codes = table(f"data_{data}")[: len(theta)].astype(np.int8)
    oracle = table(f"{fit}_personfit_{method}_first200", "outfit", "infit", "Zh")
    a, d, g, u = table(f"{fit}_coef_slopeint", "a1", "d", "g", "u").T
    items = ItemParameters(a[:, None], d[:, None], g, u)
    finite = np.isfinite(theta)
    squares = mean_squares(codes[finite], items, theta[finite])
    likely = likelihood_fit(codes[finite], items, theta[finite])
    assert np.abs(squares.outfit - oracle[finite, 0]).max() < 1e-6
    assert np.abs(squares.infit - oracle[finite, 1]).max() < 1e-6
    assert np.abs(likely.l_z - oracle[finite, 2]).max() < 1e-6


def test_graded_items_agree(table):
    theta = table("Science_graded_fscores_all", "EAP_F1")[:, 0]
    codes = (table("data_Science_polytomous") - 1).astype(np.int8)
    oracle = table("Science_graded_personfit_EAP_all", "outfit", "infit", "Zh")
    a, *steps = table("Science_graded_coef_slopeint", "a1", "d1", "d2", "d3").T
    items = ItemParameters(a[:, None], np.stack(steps, axis=1), np.zeros(len(a)), np.ones(len(a)))
    squares, likely = mean_squares(codes, items, theta), likelihood_fit(codes, items, theta)
    assert np.abs(squares.outfit - oracle[:, 0]).max() < 1e-6
    assert np.abs(squares.infit - oracle[:, 1]).max() < 1e-6
    assert np.abs(likely.l_z - oracle[:, 2]).max() < 1e-6


@pytest.mark.parametrize("name", ["Inadequacy", "LSAT7"])
def test_guttman_errors_u3_and_h_t_agree(inadequacy, table, name):
    lsat = name == "LSAT7"
    codes = table("data_LSAT7").astype(np.int8) if lsat else inadequacy[0]
    oracle = table(
        f"PerFit_{name}_nonparametric{'_all' if lsat else ''}", "G", "Gnormed", "U3", "Ht"
    )
    patterns = codes[: len(oracle)]
    order = order_fit(patterns, codes.mean(axis=0))
    others = (1 - np.eye(len(codes)))[: len(oracle)]
    along = scalability(patterns, codes.astype(float), others)
    known = np.isfinite(oracle).all(axis=1)
    assert known.sum() > 250
    assert (known == order.known).all()
    ours = np.column_stack([order.errors, order.normed, order.u3, along.h_t])
    assert np.abs(ours - oracle)[known].max() < 5.1e-5
