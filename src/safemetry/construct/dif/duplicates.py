"""Targets that answer alike, and how much the answers of a family have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, pdtr

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemModel
from safemetry.irt.responses import Responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional

if TYPE_CHECKING:
    from numpy.typing import NDArray

AGREEMENT: Final = 0.99
MINORITY: Final = 5
"""An item is informative if its rarer answer was given this often."""
FEWEST_ITEMS: Final = 20
_EXPECTED: Final = 3.0
"""Differences that independent targets would show before identical answers mean anything."""
_CHANCE: Final = 0.01
"""Probability that any pair of independent targets is called near-duplicate."""


@dataclass(frozen=True)
class DuplicateGroup:
    """Targets that answer alike, directly or through others of the group.

    Parameters
    ----------
    targets
        Two or more names.
    family
        Their family if it is the same, else None.
    least_agreement
        Smallest share of equal answers among the linked pairs.
    expected_agreement
        What independent targets with these abilities would share, the largest over linked pairs.
    items
        Fewest informative items that a linked pair answered.
    """

    targets: tuple[str, ...]
    family: str | None
    least_agreement: float
    expected_agreement: float
    items: int

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with the reason where the family is None."""
        found: dict[str, Any] = {
            "targets": list(self.targets),
            "family": self.family,
            "least_agreement": self.least_agreement,
            "expected_agreement": self.expected_agreement,
            "items": self.items,
        }
        if self.family is None:
            found["why"] = {"family": "not known, or not the same for all of them"}
        return found


@dataclass(frozen=True)
class NearDuplicates:
    """Near-duplicates of a response matrix.

    Parameters
    ----------
    groups
        Those of one family first, then the larger ones.
    informative_items
        Items on which they were judged.
    agreement
        Share of equal answers above which targets are called near-duplicates.
    why
        Why none could be looked for; empty if they could.
    """

    groups: tuple[DuplicateGroup, ...]
    informative_items: int
    agreement: float
    why: str = ""

    @property
    def clusters(self) -> dict[str, str]:
        """Target -> its cluster, named for its first target; only targets that have duplicates."""
        return {name: group.targets[0] for group in self.groups for name in group.targets}

    def sentence(self) -> str:
        """Which targets answer alike, and what that does to an audit; empty where none do."""
        if not self.groups:
            return ""
        named = "; ".join(", ".join(group.targets[:4]) for group in self.groups[:3])
        more = "; ..." if len(self.groups) > 3 else ""
        return (
            f"{len(self.clusters)} targets answer (nearly) alike ({named}{more}): they are not "
            "independent, and copies can look like a dimension of their own or like item "
            "differences. Keep one of each, or name their families (--families) for item "
            "differences."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; a reason where no search was possible."""
        found: dict[str, Any] = {
            "agreement": self.agreement,
            "informative_items": self.informative_items,
            "groups": None if self.why else [group.to_dict() for group in self.groups],
        }
        return {**found, "why": {"groups": self.why}} if self.why else found


def near_duplicates(
    responses: Responses,
    families: Mapping[str, str] | None = None,
    *,
    agreement: float = AGREEMENT,
    fewest_items: int = FEWEST_ITEMS,
) -> NearDuplicates:
    """Targets whose answers agree more than independent targets of their abilities would.

    Two targets are linked if they gave the same answer to more than `agreement` of the informative
    items that both answered, *and* so few differences are improbable (1% over all pairs) for
    independent targets of the same abilities in a two-parameter model. The second condition keeps
    strong targets apart that agree because nearly everything is passed. Targets without any
    difference are linked where three or more would be expected.

    Parameters
    ----------
    responses
        Of N targets to items answered 0 or 1. Items whose rarer answer was given less than 5 times
        say nothing about likeness and are left out.
    families
        Target -> its family (developer, base model).
    agreement
        Share of equal answers, between 0 and 1.
    fewest_items
        Informative items that a pair must have answered, at least 1.

    Raises
    ------
    InputError
        For an agreement outside (0, 1).

    Notes
    -----
    The number of differences is a sum of independent events with small probabilities, nearly
    Poisson (Le Cam 1960).
    """
    if not 0 < agreement < 1:
        raise InputError(f"an agreement of {agreement:g} is not between 0 and 1")
    codes = responses.codes
    ones, answered = (codes == 1).sum(axis=0), (codes >= 0).sum(axis=0)
    informative = np.minimum(ones, answered - ones) >= MINORITY
    count = int(informative.sum())
    if count < fewest_items:
        reason = (
            f"{count} items have {MINORITY} or more of the rarer answer, fewer than "
            f"{fewest_items}: agreement on the others means nothing"
        )
        return NearDuplicates((), count, agreement, reason)
    held = responses.select_items(informative)
    chances = _chances(held)
    seen = held.observed.astype(np.float64)
    right = np.equal(held.codes, 1).astype(np.float64)
    wrong = seen - right
    common = seen @ seen.T
    different = common - right @ right.T - wrong @ wrong.T
    pass_, fail = chances * seen, (1 - chances) * seen
    expected = pass_ @ fail.T + fail @ pass_.T
    pairs = len(codes) * (len(codes) - 1) / 2
    alike = (common >= fewest_items) & (different < (1 - agreement) * common - 1e-9)
    improbable = pdtr(different, expected) < _CHANCE / max(pairs, 1.0)
    identical = (different < 0.5) & (expected >= _EXPECTED)
    linked = alike & (improbable | identical)
    np.fill_diagonal(linked, val=False)
    share = np.divide(different, common, out=np.ones_like(common), where=common > 0)
    likely = np.divide(expected, common, out=np.ones_like(common), where=common > 0)
    found = [
        _group(members, responses.targets, families or {}, linked, (share, likely, common))
        for members in _components(linked)
    ]
    found.sort(key=lambda group: (group.family is None, -len(group.targets), group.targets))
    return NearDuplicates(tuple(found), count, agreement)


def shared_answers(codes: NDArray[np.int8], chances: FloatArray, cluster: IntArray) -> FloatArray:
    """How much of their answers the targets of each cluster share beyond their abilities.

    Model: each answer of a target is, with probability sqrt(rho), decided by one random number that
    its cluster has for the item, and otherwise by one of its own. Chances of single answers stay
    what they are; rho = 0 are independent targets and rho = 1 copies (where abilities are equal).
    rho is estimated from the observed agreement within the cluster by the method of moments.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: 1, 0, or -1 for missing.
    chances
        Probability of a 1 given the ability of the target, shape ``(N, J)``.
    cluster
        Of each target, from 0, shape ``(N,)``.

    Returns
    -------
    numpy.ndarray
        rho of each cluster, in [0, 1]; 0 for a cluster of one.
    """
    count = int(cluster.max()) + 1
    rho = np.zeros(count)
    for label in range(count):
        rows = np.flatnonzero(cluster == label)
        if len(rows) < 2:
            continue
        excess, most = 0.0, 0.0
        for place, one in enumerate(rows[:-1]):
            others = rows[place + 1 :]
            both = (codes[one] >= 0) & (codes[others] >= 0)
            p, q = chances[one], chances[others]
            alone = p * q + (1 - p) * (1 - q)
            excess += float(((codes[one] == codes[others]) - alone)[both].sum())
            most += float((1 - np.abs(p - q) - alone)[both].sum())
        rho[label] = min(max(excess / most, 0.0), 1.0) if most > 0 else 0.0
    return rho


def _chances(responses: Responses) -> FloatArray:
    fit = fit_unidimensional(responses, ItemModel.TWO_PL, errors=False)
    slopes, intercepts = fit.parameters.slopes[:, 0], fit.parameters.intercepts[:, 0]
    found: FloatArray = expit(fit.abilities.estimates[:, None] * slopes + intercepts)
    return found


def _components(linked: BoolArray) -> list[IntArray]:
    """Positions of the targets of each group of two or more."""
    _, label = connected_components(linked, directed=False)
    sizes = np.bincount(label)
    return [np.flatnonzero(label == one) for one in np.flatnonzero(sizes > 1)]


def _group(
    members: IntArray,
    targets: tuple[str, ...],
    families: Mapping[str, str],
    linked: BoolArray,
    figures: tuple[FloatArray, FloatArray, FloatArray],
) -> DuplicateGroup:
    different, expected, common = (part[np.ix_(members, members)] for part in figures)
    links = linked[np.ix_(members, members)]
    names = tuple(sorted(targets[place] for place in members))
    kinds = {families.get(name) for name in names}
    family = kinds.pop() if len(kinds) == 1 else None
    return DuplicateGroup(
        names,
        family,
        float(1 - different[links].max()),
        float(1 - expected[links].min()),
        int(common[links].min()),
    )
