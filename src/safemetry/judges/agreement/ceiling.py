"""Chance-corrected agreement with gold labels, and the ceiling: how far humans agree themselves.

A judge cannot be asked to agree with people better than they agree with each other. Two figures are
shown. The mean over pairs compares like with like: a judge with each human, a human with each other
human. A human against the majority of the others says how far one person stands from gold; where
the others are split evenly there is no majority, so that with three people only responses on which
the other two agree are left, which are the easier ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.judges.agreement.agreement_figures import (
    AgreementSettings,
    PairFigures,
    pair_figures,
)
from safemetry.judges.agreement.coefficients import OF_PAIRS, Scale
from safemetry.judges.agreement.figure import Figure, bootstrapped
from safemetry.judges.agreement.gold import Gold, gold_of
from safemetry.judges.agreement.strata import Stratum
from safemetry.judges.panel import Panel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

AVERAGED: Final = ("raw", "cohen", "gwet_ac1")
_UNDEFINED: Final = "it is undefined for every pair, as where only one class was used"


@dataclass(frozen=True)
class GoldAgreement:
    """Agreement of one judge, or of one human, with gold labels.

    Parameters
    ----------
    intent, by, value
        The responses, as in `strata.Stratum`.
    judge
        Who is compared.
    gold
        Whose labels, or whose majority, it is compared with.
    n
        Responses with a gold label and a verdict.
    tied
        Responses without a gold label, because those who give it are split evenly.
    coefficients
        By name, as in `agreement_table.PairAgreement`.
    """

    intent: str
    by: str
    value: str
    judge: str
    gold: tuple[str, ...]
    n: int
    tied: int
    coefficients: Mapping[str, Figure]


@dataclass(frozen=True)
class JudgeBelowCeiling:
    """A judge with each human, beside humans with each other.

    Parameters
    ----------
    judge
        Its name.
    with_humans
        Mean over the humans of its agreement with each, by coefficient.
    below_ceiling
        Ceiling minus that mean; above 0 the judge agrees with people less than people do.
    """

    judge: str
    with_humans: Mapping[str, Figure]
    below_ceiling: Mapping[str, Figure]


@dataclass(frozen=True)
class Ceiling:
    """How far humans agree with each other, and judges with humans.

    Parameters
    ----------
    intent, by, value
        The responses, as in `strata.Stratum`.
    humans
        Their names.
    between_humans
        Mean over pairs of humans, by coefficient (``raw``, ``cohen``, ``gwet_ac1``).
    humans_against_others
        Each human against the majority of the others; empty for two humans.
    judges
        Each judge.
    """

    intent: str
    by: str
    value: str
    humans: tuple[str, ...]
    between_humans: Mapping[str, Figure]
    humans_against_others: tuple[GoldAgreement, ...]
    judges: tuple[JudgeBelowCeiling, ...]


@dataclass(frozen=True)
class _Columns:
    """Columns of labels: the judges of the panel, then gold, then the others of each human."""

    panel: Panel
    stratum: Stratum
    added: tuple[Gold, ...]

    def scale(self, one: int, other: int) -> Scale:
        judges = len(self.panel.judges)
        can_emit = [
            self.panel.can_emit[place] if place < judges else self.added[place - judges].can_emit
            for place in (one, other)
        ]
        return Scale.of(np.array(can_emit), self.panel.ordered)

    def figures(
        self,
        pairs: Sequence[tuple[int, int]],
        rng: np.random.Generator,
        settings: AgreementSettings,
    ) -> PairFigures:
        rows = self.stratum.rows
        columns = [self.panel.labels[rows], *(gold.labels[rows][:, None] for gold in self.added)]
        return pair_figures(
            np.hstack(columns),
            self.panel.cluster[rows],
            {pair: self.scale(*pair) for pair in pairs},
            (len(self.panel.classes), self.panel.ordered),
            rng,
            settings,
        )


def ceiling_of(
    panel: Panel,
    stratum: Stratum,
    gold: Gold,
    named: tuple[Sequence[str], Sequence[str]],
    rng: np.random.Generator,
    settings: AgreementSettings,
) -> tuple[list[GoldAgreement], list[Ceiling]]:
    """Agreement of judges with gold labels, and the ceiling where there are two humans.

    Parameters
    ----------
    panel, stratum
        The verdicts, and which responses.
    gold
        The gold labels of all responses.
    named
        The judges to compare, and the humans.
    rng, settings
        As in `agreement_table.measure_agreement`.
    """
    judges, people = ([panel.place(name) for name in names] for names in named)
    split = people if len(people) > 2 else []
    others = [
        gold_of(panel, [panel.judges[one] for one in people if one != place]) for place in split
    ]
    columns = _Columns(panel, stratum, (gold, *others))
    own = len(panel.judges)
    against = [(own, place) for place in judges]
    apart = [(own + 1 + which, place) for which, place in enumerate(split)]
    between = list(combinations(people, 2))
    mixed = [(min(one, place), max(one, place)) for place in judges for one in people]
    pairs = list(dict.fromkeys([*against, *apart, *between, *mixed]))
    found = columns.figures(pairs, rng, settings)
    where = {pair: index for index, pair in enumerate(pairs)}

    def row(pair: tuple[int, int]) -> GoldAgreement:
        held = columns.added[pair[0] - own]
        return GoldAgreement(
            intent=stratum.intent,
            by=stratum.by,
            value=stratum.value,
            judge=panel.judges[pair[1]],
            gold=held.judges,
            n=int(found.tables[where[pair]].sum()),
            tied=int(held.tied[stratum.rows].sum()),
            coefficients=found.coefficients[where[pair]],
        )

    of_gold = [row(pair) for pair in against]
    if len(people) < 2:
        return of_gold, []
    humans = np.array([where[pair] for pair in between])
    means = _Means(found, settings)
    ceiling = Ceiling(
        intent=stratum.intent,
        by=stratum.by,
        value=stratum.value,
        humans=tuple(named[1]),
        between_humans=means.figures(humans),
        humans_against_others=tuple(row(pair) for pair in apart),
        judges=tuple(
            JudgeBelowCeiling(name, means.figures(held), means.figures(humans, held))
            for name, held in (
                (panel.judges[place], _with(place, people, where)) for place in judges
            )
        ),
    )
    return of_gold, [ceiling]


def _with(place: int, people: Sequence[int], where: Mapping[tuple[int, int], int]) -> IntArray:
    return np.array([where[min(one, place), max(one, place)] for one in people])


@dataclass(frozen=True)
class _Means:
    """Means of coefficients over pairs."""

    found: PairFigures
    settings: AgreementSettings

    def figures(self, pairs: IntArray, less: IntArray | None = None) -> dict[str, Figure]:
        """The mean over some pairs, less the mean over others, by coefficient."""
        return {name: self._figure(OF_PAIRS.index(name), pairs, less) for name in AVERAGED}

    def _figure(self, which: int, pairs: IntArray, less: IntArray | None) -> Figure:
        estimate, units = 0.0, []
        draws, left_out = np.zeros(len(self.found.draws)), np.zeros(len(self.found.left_out))
        for places, sign in ((pairs, 1.0), (less, -1.0)):
            if places is None:
                continue
            defined = places[~np.isnan(self.found.estimate[places, which])]
            if not len(defined):
                return Figure.undefined(_UNDEFINED)
            estimate += sign * float(self.found.estimate[defined, which].mean())
            draws = draws + sign * self.found.draws[:, defined, which].mean(axis=1)
            left_out = left_out + sign * self.found.left_out[:, defined, which].mean(axis=1)
            units.append(self.found.units[defined].min())
        return bootstrapped(
            estimate,
            draws,
            left_out,
            int(min(units)),
            level=self.settings.level,
            method=self.settings.method,
        )
