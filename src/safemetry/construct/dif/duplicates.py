"""Targets that answer alike, and how much the answers of a family have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, gammaln, pdtr

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemModel
from safemetry.irt.responses import Responses, make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional

if TYPE_CHECKING:
    from numpy.typing import NDArray

AGREEMENT: Final = 0.99
MINORITY: Final = 5
"""An item is informative if its rarer answer was given this often."""
FEWEST_ITEMS: Final = 20
FEWEST_COPIED: Final = 10
"""Items that targets must have answered for equal rows to be called copies."""
_EXPECTED: Final = 3.0
"""Differences that independent targets would show before identical answers mean anything."""
_CHANCE: Final = 0.01
"""Probability that any pair of independent targets is called near-duplicate."""
_LIKELY: Final = 0.05
"""Expected sets of as many equal rows of independent targets, from which on they may be chance."""


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
        What independent targets with these abilities would share, the largest over linked pairs;
        None where no two items vary.
    items
        Fewest informative items that a linked pair answered; of copies all items they answered.
    identical
        Whether they gave the same answer to every item.
    may_be_chance
        Whether independent targets of these abilities would often answer alike: copies of which
        only their equality is known.
    """

    targets: tuple[str, ...]
    family: str | None
    least_agreement: float
    expected_agreement: float | None
    items: int
    identical: bool = False
    may_be_chance: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with the reason where the family is None."""
        found: dict[str, Any] = {
            "targets": list(self.targets),
            "family": self.family,
            "least_agreement": self.least_agreement,
            "expected_agreement": self.expected_agreement,
            "items": self.items,
            "identical": self.identical,
            "may_be_chance": self.may_be_chance,
        }
        reasons = {
            "family": "not known, or not the same for all of them",
            "expected_agreement": "too few items vary",
        }
        why = {name: said for name, said in reasons.items() if found[name] is None}
        return {**found, "why": why} if why else found


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
        Why only exact copies could be looked for; empty where near-duplicates could be too.
    """

    groups: tuple[DuplicateGroup, ...]
    informative_items: int
    agreement: float
    why: str = ""

    @property
    def clusters(self) -> dict[str, str]:
        """Target -> its cluster, named for its first target; only targets that have duplicates.

        Copies that may be chance are left out.
        """
        return {
            name: group.targets[0]
            for group in self.groups
            if not group.may_be_chance
            for name in group.targets
        }

    def sentence(self) -> str:
        """Which targets answer alike, what that does to an audit, and what was not looked for.

        Empty where near-duplicates were looked for and none were found.
        """
        firm = [group for group in self.groups if not group.may_be_chance]
        chance = [group for group in self.groups if group.may_be_chance]
        said = []
        if firm:
            alike = "identically" if all(group.identical for group in firm) else "(nearly) alike"
            said.append(
                f"{len(self.clusters)} targets answer {alike} ({_named(firm)}): they are not "
                "independent, and copies can look like a dimension of their own or like item "
                "differences. Keep one of each, or name their families (--families) for item "
                "differences."
            )
        if chance:
            count = sum(len(group.targets) for group in chance)
            said.append(
                f"{count} targets answer identically ({_named(chance)}), which may be chance: the "
                "items are so few, or so often answered alike, that independent targets would "
                "coincide too."
            )
        if self.why:
            said.append(
                f"Near-duplicates other than exact copies could not be looked for: {self.why}."
            )
        return " ".join(said)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; where only exact copies could be looked for, `why` says why."""
        found: dict[str, Any] = {
            "agreement": self.agreement,
            "informative_items": self.informative_items,
            "groups": [group.to_dict() for group in self.groups],
        }
        return {**found, "why": {"groups": f"copies only: {self.why}"}} if self.why else found


def _named(groups: Sequence[DuplicateGroup]) -> str:
    """The first targets of the first groups."""
    named = "; ".join(
        ", ".join(group.targets[:4]) + (", ..." if len(group.targets) > 4 else "")
        for group in groups[:3]
    )
    return named + ("; ..." if len(groups) > 3 else "")


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

    Targets with equal rows (the same items answered, 10 or more, and alike) are always named. They
    may be chance where .05 or more sets of so many equal rows are expected among independent
    targets of that ability.

    Parameters
    ----------
    responses
        Of N targets to items answered 0 or 1. Items whose rarer answer was given less than 5 times
        say nothing about likeness and count for exact copies only.
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
    copies = _copies(responses, families or {})
    if count < fewest_items:
        reason = (
            f"{count} items have {MINORITY} or more of the rarer answer, fewer than "
            f"{fewest_items}, and agreement on the others means nothing"
        )
        return NearDuplicates(tuple(sorted(copies, key=_order)), count, agreement, reason)
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
    equal = {name: group.targets for group in copies for name in group.targets}
    found = [
        _group(members, responses.targets, families or {}, linked, (share, likely, common), equal)
        for members in _components(linked)
    ]
    # Rows that are equal are linked to the same others, so that a set of copies is never split.
    there = {name for group in found for name in group.targets}
    found += [group for group in copies if not there.intersection(group.targets)]
    return NearDuplicates(tuple(sorted(found, key=_order)), count, agreement)


def _order(group: DuplicateGroup) -> tuple[bool, int, tuple[str, ...]]:
    return (group.family is None, -len(group.targets), group.targets)


def _copies(responses: Responses, families: Mapping[str, str]) -> list[DuplicateGroup]:
    """Sets of targets with equal rows."""
    rows, label = np.unique(responses.codes, axis=0, return_inverse=True)
    label = np.asarray(label).reshape(-1)
    sizes = np.bincount(label, minlength=len(rows))
    answered = (rows >= 0).sum(axis=1)
    copied = np.flatnonzero((sizes > 1) & (answered >= FEWEST_COPIED))
    if not copied.size:
        return []
    # One of each, so that copies do not make answers look predictable.
    varying = (rows == 1).any(axis=0) & (rows == 0).any(axis=0)
    # Distinct rows are few, and slopes of their own would make every answer look foreseen.
    chances = (
        _chances(make_responses(rows[:, varying]), ItemModel.ONE_PL) if varying.sum() > 1 else None
    )
    found = []
    for one in copied:
        names = tuple(sorted(responses.targets[place] for place in np.flatnonzero(label == one)))
        expected, chance = None, True
        if chances is not None:
            seen = rows[one][varying] >= 0
            p = chances[one][seen]
            if p.size:
                expected = float((p**2 + (1 - p) ** 2).mean())
            chance = _sets_expected(len(responses.targets), len(names), p) >= _LIKELY
        found.append(
            DuplicateGroup(
                names,
                _common_family(names, families),
                1.0,
                expected,
                int(answered[one]),
                identical=True,
                may_be_chance=chance,
            )
        )
    return found


def _sets_expected(targets: int, size: int, chances: FloatArray) -> float:
    """Sets of `size` equal rows among independent targets that all pass with these chances."""
    sets = gammaln(targets + 1) - gammaln(size + 1) - gammaln(targets - size + 1)
    equal = np.log(chances**size + (1 - chances) ** size).sum()
    return float(np.exp(min(sets + equal, 50.0)))


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


def _chances(responses: Responses, model: ItemModel = ItemModel.TWO_PL) -> FloatArray:
    fit = fit_unidimensional(responses, model, errors=False)
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
    equal: Mapping[str, tuple[str, ...]],
) -> DuplicateGroup:
    different, expected, common = (part[np.ix_(members, members)] for part in figures)
    links = linked[np.ix_(members, members)]
    names = tuple(sorted(targets[place] for place in members))
    return DuplicateGroup(
        names,
        _common_family(names, families),
        float(1 - different[links].max()),
        float(1 - expected[links].min()),
        int(common[links].min()),
        identical=equal.get(names[0]) == names,
    )


def _common_family(names: Sequence[str], families: Mapping[str, str]) -> str | None:
    kinds = {families.get(name) for name in names}
    return kinds.pop() if len(kinds) == 1 else None
