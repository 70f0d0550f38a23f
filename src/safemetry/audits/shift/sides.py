"""The two sides of a comparison: answers to calibrated items, or a stored ability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from scipy.special import expit

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.item_draws import DrawnItems
from safemetry.audits.person_fit.patterns import draw_patterns
from safemetry.audits.shift.estimate import AbilityTable, peak
from safemetry.errors import InputError
from safemetry.irt.information import item_information
from safemetry.irt.parameters import (
    FloatArray,
    IntArray,
    ItemParameters,
    category_probabilities,
    reaching,
)
from safemetry.irt.responses import Responses
from safemetry.irt.store import StoredCalibration

if TYPE_CHECKING:
    from numpy.typing import NDArray

EARLIER: Final = "earlier answers"
LATER: Final = "the answers"
_STEP: Final = 1e-4
_SMALLEST: Final = 1e-12


@dataclass(frozen=True)
class StoredAbility:
    """An earlier estimate of the ability of the target.

    Parameters
    ----------
    theta, error
        The estimate as if no population had been used, and its standard error.
    """

    theta: float
    error: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.theta) and np.isfinite(self.error) and self.error > 0):
            raise InputError(
                f"an earlier ability of {self.theta:g} with error {self.error:g} is no history",
                fix="give a finite ability with an error above 0",
            )


def stored_ability(calibration: StoredCalibration, target: str) -> StoredAbility:
    """What a calibration in one dimension says of a target.

    A posterior mean or mode is drawn towards the mean of the population, N(m, s^2). What the
    answers alone say is recovered with normal distributions: precision ``1/e^2 - 1/s^2``, and the
    mean that gives the stored one when it is combined with the population's.

    Raises
    ------
    InputError
        For an unknown target, several dimensions, or an ability of which the answers say nothing.
    """
    if calibration.parameters.dimensions != 1:
        raise InputError("the history has several dimensions; a shift is in one")
    if target not in calibration.targets:
        raise InputError(f"the calibration does not know a target {target!r}")
    place = calibration.targets.index(target)
    theta = float(calibration.abilities[place, 0])
    if np.ma.getmaskarray(calibration.errors)[place, 0]:
        raise InputError(f"the ability of {target!r} has no standard error")
    error = float(np.ma.getdata(calibration.errors)[place, 0])
    if calibration.settings.get("theta_method") == "wle":
        return StoredAbility(theta, error)
    mean, variance = float(calibration.mean[0]), float(calibration.covariance[0, 0])
    precision = 1 / error**2 - 1 / variance
    if not precision > 0:
        raise InputError(f"the calibration says no more of {target!r} than of any target")
    alone = (theta / error**2 - mean / variance) / precision
    return StoredAbility(alone, float(1 / np.sqrt(precision)))


class Side(Protocol):
    """One side of a comparison, on a lattice."""

    @property
    def curve(self) -> FloatArray:
        """What is said of the ability, shape ``(1, Q)``."""
        ...

    def replicates(
        self, theta: float, drawn: DrawnItems, rng: np.random.Generator
    ) -> tuple[FloatArray, NDArray[np.int8] | None]:
        """Curves of M simulated repetitions at an ability, and the simulated answers."""
        ...

    def variance(self, theta: FloatArray) -> FloatArray:
        """Sampling variance of the estimate at abilities, shape ``(T,)``, with known items."""
        ...

    def moved(self, theta: float, drawn: DrawnItems) -> FloatArray:
        """By how much each drawn set of parameters moves the estimate, shape ``(M,)``."""
        ...


@dataclass(frozen=True)
class StoredSide:
    """An earlier estimate as a normal likelihood; its error holds all that is uncertain of it."""

    stored: StoredAbility
    nodes: FloatArray

    @property
    def curve(self) -> FloatArray:
        """Shape ``(1, Q)``."""
        return self._curves(np.array([self.stored.theta]))

    def replicates(
        self, theta: float, drawn: DrawnItems, rng: np.random.Generator
    ) -> tuple[FloatArray, None]:
        """Curves of repeated estimates."""
        estimates = theta + self.stored.error * rng.standard_normal(len(drawn.slopes))
        return self._curves(estimates), None

    def variance(self, theta: FloatArray) -> FloatArray:
        """The same at all abilities."""
        return np.full(np.shape(theta), self.stored.error**2)

    def moved(self, theta: float, drawn: DrawnItems) -> FloatArray:  # noqa: ARG002 (protocol)
        """Nothing: the items behind it are not known to be the same."""
        return np.zeros(len(drawn.slopes))

    def _curves(self, estimates: FloatArray) -> FloatArray:
        away = (self.nodes - estimates[:, None]) / self.stored.error
        found: FloatArray = -(away**2) / 2
        return found


@dataclass(frozen=True)
class AnsweredSide:
    """Answers of one target to some calibrated items.

    Parameters
    ----------
    places
        Of the answered items in the calibration, shape ``(J',)``.
    parameters
        Of these items.
    shares
        How much of the answer to each is category 1 .. C - 1, shape ``(C - 1, 1, J')``.
    table
        Of these items.
    """

    places: IntArray
    parameters: ItemParameters
    shares: FloatArray
    table: AbilityTable

    @property
    def curve(self) -> FloatArray:
        """Shape ``(1, Q)``."""
        return self.table.curves(self.shares)

    def replicates(
        self, theta: float, drawn: DrawnItems, rng: np.random.Generator
    ) -> tuple[FloatArray, NDArray[np.int8]]:
        """Curves and answers of M repetitions, each under parameters of its own."""
        codes = self.simulated(theta, drawn, rng)
        steps = self.parameters.intercepts.shape[1]
        shares = np.stack([codes == category for category in range(1, steps + 1)])
        return self.table.curves(shares), codes

    def simulated(
        self, theta: float, drawn: DrawnItems, rng: np.random.Generator
    ) -> NDArray[np.int8]:
        """Answers at an ability to items with drawn parameters, shape ``(M, J')``."""
        patterns = draw_patterns(
            np.full(len(drawn.slopes), theta),
            drawn.slopes[:, self.places],
            drawn.intercepts[:, :, self.places],
            (self.parameters.lower, self.parameters.upper),
            rng,
        )
        return patterns.astype(np.int8)

    def variance(self, theta: FloatArray) -> FloatArray:
        """Inverse of the test information."""
        total = item_information(self.parameters, theta).sum(axis=1)
        found: FloatArray = 1 / np.maximum(total, _SMALLEST)
        return found

    def moved(self, theta: float, drawn: DrawnItems) -> FloatArray:
        """One Newton step: the expected score function under drawn parameters over information."""
        near = np.array([[theta - _STEP], [theta], [theta + _STEP]])
        chances = np.maximum(category_probabilities(self.parameters, near), _SMALLEST)
        scores = np.log(chances[:, 2] / chances[:, 0]) / (2 * _STEP)
        centre = reaching(self.parameters, near[1:2])[:, 0]
        # The expected score of an answer is a sum over steps of what reaching each adds to it.
        gains = np.diff(scores, axis=0)
        gains = np.where(centre > 0, gains, 0.0)
        change = np.einsum("cmj,cj->m", self._at_least(theta, drawn) - centre[:, None], gains)
        found: FloatArray = change * float(self.variance(np.array([theta]))[0])
        return found

    def _at_least(self, theta: float, drawn: DrawnItems) -> NDArray[np.float32]:
        """Chances of at least each category, shape ``(C - 1, M, J')``."""
        linear = np.float32(theta) * drawn.slopes[:, self.places]
        steps = drawn.intercepts[:, :, self.places]
        ends = self.parameters.lower, self.parameters.upper
        lower, upper = (np.asarray(end, np.float32) for end in ends)
        found: NDArray[np.float32] = expit(linear + steps)
        if lower.any() or (upper < 1).any():
            found = lower + (upper - lower) * found
        return found


def answered_side(
    places: IntArray, codes: NDArray[np.int8], calibrated: Calibrated, table: AbilityTable
) -> AnsweredSide:
    """The side of one or more runs of one target.

    An item that was answered in several runs counts once, with the mean of its answers: answers of
    one target to one item repeat each other, and to count them as independent would promise a
    precision that is not there.

    Parameters
    ----------
    places, codes
        As `answered` returns them.
    calibrated
        Items with their errors.
    table
        Of the answered items.
    """
    parameters = calibrated.parameters.select(places)
    seen = (codes >= 0).sum(axis=0)
    steps = parameters.intercepts.shape[1]
    shares = np.stack([(codes == c).sum(axis=0) / seen for c in range(1, steps + 1)])
    return AnsweredSide(places, parameters, shares[:, None], table)


def answered(
    runs: Responses, calibrated: Calibrated, called: str
) -> tuple[IntArray, NDArray[np.int8]]:
    """Places in the calibration of the items with an answer, and the codes of those items.

    Parameters
    ----------
    runs
        A row for each run; items of the calibration, by name.
    calibrated
        Items.
    called
        How errors name these answers: `EARLIER` or `LATER`.

    Raises
    ------
    InputError
        For items that are not calibrated, answers that they cannot have, or no answer at all.
    """
    known = {item: place for place, item in enumerate(calibrated.items)}
    for item in runs.items:
        if item not in known:
            raise InputError(
                f"item {item!r} of {called} is not calibrated",
                fix="leave it out, or calibrate it on the same scale",
            )
    if len(set(runs.items)) < len(runs.items):
        raise InputError(f"{called} name an item twice", fix="give a second answer as another run")
    places = np.array([known[item] for item in runs.items], np.int64)
    beyond = runs.categories > calibrated.parameters.categories[places]
    if beyond.any():
        raise InputError(
            f"item {runs.items[int(np.argmax(beyond))]!r} has an answer beyond its calibrated "
            "categories"
        )
    kept = runs.observed.any(axis=0)
    if not kept.any():
        raise InputError(f"{called} hold no answer at all")
    return places[kept], runs.codes[:, kept]


def side_mode(side: Side, nodes: FloatArray) -> float:
    """The ability that a side speaks for."""
    return float(peak(side.curve, nodes)[0][0])
