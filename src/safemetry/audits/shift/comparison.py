"""Two sides on one lattice, and what their difference does by chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.item_draws import DrawnItems, draw_items
from safemetry.audits.shift.estimate import (
    AbilityTable,
    ability_table,
    constrained_mode,
    profile_roots,
    shift_lattice,
    signed_roots,
)
from safemetry.audits.shift.sides import (
    EARLIER,
    LATER,
    AnsweredSide,
    Side,
    StoredAbility,
    StoredSide,
    answered,
    answered_side,
    side_mode,
)
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray

Alternative = Literal["two_sided", "lower"]


@dataclass(frozen=True)
class Replicates:
    """M repetitions of both sides under a known difference.

    Parameters
    ----------
    roots
        Signed roots for that difference, shape ``(M,)``.
    differences
        Estimated differences, shape ``(M,)``.
    theta
        The later ability behind them.
    codes
        The simulated later answers, shape ``(M, J')``; None where the later side is an estimate.
    """

    roots: FloatArray
    differences: FloatArray
    theta: float
    codes: NDArray[np.int8] | None


@dataclass(frozen=True)
class Comparison:
    """An earlier and a later side on one lattice.

    Parameters
    ----------
    before, now
        The sides.
    nodes
        The lattice, shape ``(Q,)``; its spacing divides the margin.
    drawn
        Item parameters from what the calibration leaves open, one set for each replicate. Both
        sides of a replicate share a set: the error of an item that was answered on both sides
        moves both estimates alike, and cancels as far as it does in truth.
    """

    before: Side
    now: Side
    nodes: FloatArray
    drawn: DrawnItems

    @property
    def spacing(self) -> float:
        """Distance of nodes."""
        return float(self.nodes[1] - self.nodes[0])

    @property
    def abilities(self) -> tuple[float, float]:
        """Estimates, earlier and later."""
        return side_mode(self.before, self.nodes), side_mode(self.now, self.nodes)

    def root(self, steps: int) -> float:
        """Observed signed root for a difference of a number of steps."""
        return float(signed_roots(self.before.curve, self.now.curve, steps, self.nodes)[0][0])

    def under(self, steps: int, rng: np.random.Generator, theta: float | None = None) -> Replicates:
        """Repetitions where the later ability is a number of steps higher.

        Parameters
        ----------
        steps
            The difference in steps of the lattice.
        rng
            Source of randomness.
        theta
            The earlier ability; the most likely one under that difference if None.
        """
        start = (
            constrained_mode(self.before.curve, self.now.curve, steps, self.nodes)
            if theta is None
            else theta
        )
        early, _ = self.before.replicates(start, self.drawn, rng)
        later = start + steps * self.spacing
        late, codes = self.now.replicates(later, self.drawn, rng)
        return Replicates(*signed_roots(early, late, steps, self.nodes), later, codes)

    def profile(self) -> tuple[FloatArray, FloatArray]:
        """Differences on the lattice and the observed signed root for each, shape ``(D,)``."""
        reach = (3 * len(self.nodes)) // 4
        return profile_roots(self.before.curve[0], self.now.curve[0], self.nodes, reach)

    def calibration_error(self, before: float, now: float) -> float:
        """Standard deviation of the difference that the items' errors cause at two abilities."""
        moved = self.now.moved(now, self.drawn) - self.before.moved(before, self.drawn)
        return float(moved.std())


@dataclass(frozen=True)
class Scale:
    """Calibrated items on a lattice of abilities, on which targets are compared.

    Parameters
    ----------
    calibrated
        Items with their errors.
    nodes
        The lattice, shape ``(Q,)``.
    drawn
        Item parameters, one set for each replicate.
    tables
        Tables of sets of items that were used already.
    """

    calibrated: Calibrated
    nodes: FloatArray
    drawn: DrawnItems
    tables: dict[bytes, AbilityTable] = field(default_factory=dict, repr=False, compare=False)

    def comparison(self, now: Responses, history: Responses | StoredAbility) -> Comparison:
        """One target's answers beside its history.

        Parameters
        ----------
        now, history
            Answers with a row for each run, to calibrated items by name; or an earlier estimate.
        """
        before: Side = (
            StoredSide(history, self.nodes)
            if isinstance(history, StoredAbility)
            else self._side(history, EARLIER)
        )
        return Comparison(before, self._side(now, LATER), self.nodes, self.drawn)

    def _side(self, runs: Responses, called: str) -> AnsweredSide:
        places, codes = answered(runs, self.calibrated, called)
        key = places.tobytes()
        if key not in self.tables:
            self.tables[key] = ability_table(self.calibrated.parameters.select(places), self.nodes)
        return answered_side(places, codes, self.calibrated, self.tables[key])


def make_scale(
    calibrated: Calibrated, *, margin: float, simulations: int, rng: np.random.Generator
) -> Scale:
    """A scale for many targets.

    Parameters
    ----------
    calibrated
        Items with their errors.
    margin
        Of equivalence, in units of ability.
    simulations
        Sets of item parameters, M.
    rng
        Source of randomness.
    """
    mean, sd = calibrated.latent_mean, calibrated.latent_sd
    nodes, _ = shift_lattice(calibrated.parameters, mean, sd, margin)
    return Scale(calibrated, nodes, draw_items(calibrated, simulations, rng))


def make_comparison(
    now: Responses,
    history: Responses | StoredAbility,
    calibrated: Calibrated,
    *,
    margin: float,
    simulations: int,
    rng: np.random.Generator,
) -> Comparison:
    """Put one target's answers and its history on a lattice; see `Scale.comparison`."""
    places = [answered(now, calibrated, LATER)[0]]
    if isinstance(history, Responses):
        places.append(answered(history, calibrated, EARLIER)[0])
    used = calibrated.select(np.unique(np.concatenate(places)))
    scale = make_scale(used, margin=margin, simulations=simulations, rng=rng)
    return scale.comparison(now, history)


def tails(replicates: FloatArray, observed: float) -> tuple[float, float]:
    """Chances of a root as low, and of one as high, as the observed one.

    One is added to both counts, so that the tests keep their level (Phipson & Smyth 2010).
    """
    count = len(replicates) + 1
    slack = 1e-6  # equal answers give equal roots up to rounding
    low = (1 + int((replicates <= observed + slack).sum())) / count
    return low, (1 + int((replicates >= observed - slack).sum())) / count
