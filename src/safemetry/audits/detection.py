"""How often audits find organisms that misbehave in a known way, and flag ones that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.fit import largest_p_values, surrounding_nulls
from safemetry.audits.shift.comparison import Alternative, make_scale
from safemetry.audits.shift.union import SHIFT, FitScores, joint_test
from safemetry.errors import InputError
from safemetry.irt.responses import Responses, make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.rates.intervals import clopper_pearson
from safemetry.simulate.organisms import (
    Organism,
    OrganismSettings,
    SimulatedOrganisms,
    simulate_organisms,
)
from safemetry.tasks import Task, TaskSettings, run_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORGANISMS: Final = (
    Organism(),
    Organism("uniform", 1.5),
    Organism("targeted", 6.0),
    Organism("triggered", 6.0),
    Organism("sandbagging", 1.0),
    Organism("random", 0.3),
)
"""One of each kind, of a strength that is neither always nor never found."""

ABILITIES: Final = tuple(float(theta) for theta in range(-3, 4))

_MARGIN: Final = 0.5


@dataclass(frozen=True)
class DetectionSettings:
    """What a study of detection simulates.

    Parameters
    ----------
    items
        Sizes of item sets.
    organisms
        Kinds, an honest one among them.
    abilities
        At which organisms are made.
    calibrations
        Populations, each with items of its own, for each size.
    copies
        Organisms of each kind, ability and calibration.
    honest_copies
        The same for honest ones.
    population
        Targets that calibrate the items.
    levels
        False-positive rates that are asked for.
    alternative
        Of the shift.
    statistics
        Of person fit, each by itself; all if None.
    in_union
        Statistics of person fit in the union with the shift.
    simulations
        Behind each p-value.
    seed
        Of everything.
    benign_share
        Share of benign items.

    Raises
    ------
    InputError
        Where a setting is out of range.
    """

    items: tuple[int, ...] = (40, 100, 196)
    organisms: tuple[Organism, ...] = ORGANISMS
    abilities: tuple[float, ...] = ABILITIES
    calibrations: int = 40
    copies: int = 3
    honest_copies: int = 12
    population: int = 200
    levels: tuple[float, ...] = (0.05, 0.1)
    alternative: Alternative = "two_sided"
    statistics: tuple[str, ...] | None = None
    in_union: tuple[str, ...] = ("l_z_star",)
    simulations: int = 499
    seed: int = 0
    benign_share: float = 1.0

    def __post_init__(self) -> None:
        if min(self.calibrations, self.copies, self.honest_copies, *self.items) < 1:
            raise InputError("a study has one calibration, copy and item at least")
        if not all(0 < level < 1 for level in self.levels):
            raise InputError("levels lie between 0 and 1")
        if len(set(self.organisms)) < len(self.organisms):
            raise InputError("an organism is named twice")


@dataclass(frozen=True)
class DetectionRow:
    """How often one test flagged organisms of one kind.

    Parameters
    ----------
    items
        Number of items.
    organism, strength
        Its kind; for honest ones the rate is the false-positive rate.
    ability
        Of the organisms; None for all of them together.
    test
        A statistic of person fit (against its own null), ``ability_shift``, ``union`` (calibrated),
        ``union_naive`` (any of its parts at the level).
    level
        False-positive rate that was asked for.
    flagged, organisms
        Counts.
    rate, interval
        With its 95% Clopper-Pearson interval.
    """

    items: int
    organism: str
    strength: float
    ability: float | None
    test: str
    level: float
    flagged: int
    organisms: int
    rate: float
    interval: tuple[float, float]


def detection_study(
    settings: DetectionSettings | None = None, *, tasks: TaskSettings | None = None
) -> tuple[DetectionRow, ...]:
    """Detection and false-positive rates on organisms with known truth.

    In each calibration a population answers the items, the two-parameter model is fitted, and
    organisms are audited with the estimated items and their errors: their honest earlier answers to
    the same items are the history.

    Parameters
    ----------
    settings
        Sizes and kinds.
    tasks
        How they are run.

    Examples
    --------
    >>> small = DetectionSettings(
    ...     (40,), abilities=(0.0,), calibrations=1, copies=2, honest_copies=2, simulations=99
    ... )
    >>> rows = detection_study(small, tasks=TaskSettings(jobs=1, quiet=True))
    >>> rows[0].organism, rows[0].organisms
    ('honest', 2)
    """
    chosen = settings or DetectionSettings()
    jobs = [
        Task(f"{items} items, calibration {number}", {"items": items})
        for items in chosen.items
        for number in range(chosen.calibrations)
    ]
    found = run_tasks(
        audited_organisms,
        jobs,
        seed=chosen.seed,
        shared={"settings": chosen},
        settings=tasks or TaskSettings(label="calibrations"),
    )
    rows: list[DetectionRow] = []
    for items in chosen.items:
        parts = [
            part for task, part in zip(jobs, found, strict=True) if task.arguments["items"] == items
        ]
        tests = tuple(parts[0]["tests"])
        kinds, abilities, p_values = (
            np.concatenate([part[name] for part in parts])
            for name in ("kinds", "abilities", "p_values")
        )
        rows += _rows(items, chosen, tests, kinds, abilities, p_values)
    return tuple(rows)


def audited_organisms(
    rng: np.random.Generator, settings: DetectionSettings, items: int
) -> dict[str, Any]:
    """One calibration: kinds and abilities of its organisms, and p-values of all tests.

    Parameters
    ----------
    rng
        Source of randomness.
    settings
        Of the study.
    items
        Number of items.

    Returns
    -------
    dict
        ``tests`` (names), ``kinds`` (places in `settings.organisms`) and ``abilities``, shape
        ``(N,)``, and ``p_values``, shape ``(N, T)``; for ``union_naive`` the smallest of the parts.
    """
    made = simulate_organisms(
        OrganismSettings(
            items=items,
            population=settings.population,
            organisms=settings.organisms,
            abilities=settings.abilities,
            copies=max(settings.copies, settings.honest_copies),
            benign_share=settings.benign_share,
        ),
        rng,
    )
    kinds = np.array([settings.organisms.index(kind) for kind in made.truth.organisms])
    kept = np.flatnonzero(_kept(made, settings))
    calibrated = calibrate_population(made)
    # Organisms are told apart by a number, which decides their random numbers.
    names = tuple(made.targets[place] for place in kept)
    now, history = (
        make_responses(codes[kept], targets=names, items=made.items)
        for codes in (made.evaluated, made.history)
    )
    null, *around = surrounding_nulls(
        now,
        calibrated,
        statistics=settings.statistics,
        simulations=settings.simulations,
        rng=rng,
    )
    unions = np.array(list(_unions(now, history, calibrated, settings, rng)))
    return {
        "tests": [*null.statistics, SHIFT, "union", "union_naive"],
        "kinds": kinds[kept],
        "abilities": made.truth.abilities[kept],
        "p_values": np.concatenate([largest_p_values(null, around), unions], axis=1),
    }


def calibrate_population(made: SimulatedOrganisms) -> Calibrated:
    """Items as estimated from the population that answered them, with their errors."""
    return Calibrated.of_fit(fit_unidimensional(make_responses(made.population, items=made.items)))


def _kept(made: SimulatedOrganisms, settings: DetectionSettings) -> NDArray[np.bool_]:
    """The first copies of each kind at each ability, as many as its kind has."""
    most = max(settings.copies, settings.honest_copies)
    copy = np.arange(len(made.targets)) % most
    wanted = [
        settings.honest_copies if kind.behaviour == "honest" else settings.copies
        for kind in made.truth.organisms
    ]
    found: NDArray[np.bool_] = copy < np.array(wanted)
    return found


def _unions(
    now: Responses,
    history: Responses,
    calibrated: Calibrated,
    settings: DetectionSettings,
    rng: np.random.Generator,
) -> Iterator[tuple[float, float, float]]:
    """p-values of the shift, of the calibrated union, and the smallest of its parts."""
    scale = make_scale(calibrated, margin=_MARGIN, simulations=settings.simulations, rng=rng)
    fit = FitScores(calibrated, settings.in_union)
    for place, codes in enumerate(now.codes):
        comparison = scale.comparison(
            *(side.select_targets(np.array([place])) for side in (now, history))
        )
        found = joint_test(comparison, fit, codes, settings.levels[0], settings.alternative, rng)
        chances = [1.0 if part.p_value is None else part.p_value for part in found.parts]
        yield chances[0], found.p_value, min(chances)


def _rows(
    items: int,
    settings: DetectionSettings,
    tests: Sequence[str],
    kinds: NDArray[np.int64],
    abilities: NDArray[np.float64],
    p_values: NDArray[np.float64],
) -> Iterator[DetectionRow]:
    for place, kind in enumerate(settings.organisms):
        for ability in (*settings.abilities, None):
            chosen = kinds == place
            if ability is not None:
                chosen = chosen & (abilities == ability)
            count = int(chosen.sum())
            for column, test in enumerate(tests):
                for level in settings.levels:
                    flagged = int((p_values[chosen, column] <= level).sum())
                    interval = clopper_pearson(flagged, count)
                    yield DetectionRow(
                        items,
                        kind.behaviour,
                        kind.strength,
                        ability,
                        test,
                        level,
                        flagged,
                        count,
                        flagged / count,
                        (float(interval.lower), float(interval.upper)),
                    )
