"""Oracle tables and simulated responses for the tests of the engine."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp

from safemetry.irt.parameters import ItemParameters, category_probabilities
from safemetry.irt.responses import make_responses


def _number(text):
    return np.nan if text in ("NA", "") else float(text)


@dataclass(frozen=True)
class Oracle:
    """Tables that other programs wrote: data, parameters, and what follows from them."""

    folder: Path

    def rows(self, name):
        """A table as mappings of texts."""
        with (self.folder / f"{name}.csv").open(newline="") as stream:
            return list(csv.DictReader(stream))

    def numbers(self, name, *columns):
        """Columns of numbers; all but the first where none is named."""
        rows = self.rows(name)
        chosen = columns or list(rows[0])[1:]
        return np.array([[_number(row[column]) for column in chosen] for row in rows])

    def responses(self, data):
        """Responses, with categories from 0."""
        found = self.numbers(f"data_{data}", *self.rows(f"data_{data}")[0])
        codes = np.where(np.isnan(found), -1, found).astype(int)
        lowest = codes[codes >= 0].min()
        return make_responses(
            np.where(codes >= 0, codes - lowest, -1), items=list(self.rows(f"data_{data}")[0])
        )

    def parameters(self, fit):
        """Parameters in slope and intercept form, and the standard deviation of the ability."""
        found = self.numbers(f"{fit}_coef_slopeint")
        names = list(self.rows(f"{fit}_coef_slopeint")[0])[1:]
        slopes = found[:, [names.index(name) for name in names if name.startswith("a")]]
        steps = found[:, [names.index(name) for name in names if name.startswith("d")]]
        lower, upper = (
            found[:, names.index(name)] if name in names else np.full(len(found), value)
            for name, value in (("g", 0.0), ("u", 1.0))
        )
        return ItemParameters(slopes, steps, lower, upper)

    def spread(self, fit):
        """Standard deviation of the ability, which Rasch fits estimate."""
        values = {row["name"]: row["value"] for row in self.rows(f"{fit}_mod2values")}
        return float(values["COV_11"]) ** 0.5


@pytest.fixture(scope="session")
def oracle(shared):
    return Oracle(shared / "oracle")


@pytest.fixture(scope="session")
def posterior_means():
    """Posterior means and standard deviations on 61 nodes, as the oracle has them."""

    def compute(responses, parameters, sd=1.0):
        theta = np.linspace(-6, 6, 61)
        total = -((theta / sd) ** 2) / 2 + np.zeros((len(responses.targets), 1))
        for code, chance in enumerate(category_probabilities(parameters, theta[:, None])):
            total += (responses.codes == code) @ np.log(np.maximum(chance, 1e-300)).T
        weights = np.exp(total - logsumexp(total, axis=1, keepdims=True))
        mean = weights @ theta
        return mean, np.sqrt(weights @ theta**2 - mean**2)

    return compute


@pytest.fixture(scope="session")
def simulated():
    """Parameters of items like those of this field, and responses drawn from them."""

    def draw(targets, items, rng, categories=2, dimensions=1):
        slopes = np.exp(rng.normal(0.1, 0.3, (items, dimensions)))
        steps = -np.sort(-rng.normal(0, 1.2, (items, categories - 1)), axis=1)
        steps -= np.arange(categories - 1) * 0.4
        parameters = ItemParameters(slopes, steps, np.zeros(items), np.ones(items))
        theta = rng.normal(size=(targets, dimensions))
        chances = category_probabilities(parameters, theta)
        codes = (rng.random((targets, items)) > np.cumsum(chances, axis=0)).sum(axis=0)
        return parameters, theta, make_responses(np.minimum(codes, categories - 1))

    return draw
