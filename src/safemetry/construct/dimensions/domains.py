"""Which domain of items carries the further dimensions: the comparison without each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from safemetry.construct.dimensions.contrasts import Contrasts
from safemetry.construct.dimensions.held_out import held_out_losses
from safemetry.construct.dimensions.models import CandidateModel, candidate_models
from safemetry.construct.dimensions.paired import PairedDifference
from safemetry.errors import InputError
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.responses import Responses
from safemetry.tasks import TaskSettings

FEWEST_ITEMS: Final = 10
"""With fewer items left a comparison of dimensions says nothing."""

LEAST_GAIN: Final = 0.005
"""Nats a response below which several dimensions are not worth having."""


@dataclass(frozen=True)
class WithoutDomain:
    """The gain of several dimensions without the items of one domain.

    Parameters
    ----------
    structure, domain
        Which; the domain is empty where no item is left out.
    items
        Items that are left.
    gain
        Of the best model with several dimensions over the best with one; None where too few items
        are left.
    share_of_whole
        That gain, of the gain with all items; None where either is missing or the latter is not
        above 0.
    why
        Why a field is None.
    """

    structure: str
    domain: str
    items: int
    gain: PairedDifference | None
    share_of_whole: float | None
    why: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, `why` only where something is None."""
        found = dict(self.__dict__)
        return found if self.why else {key: found[key] for key in found if key != "why"}


@dataclass(frozen=True)
class DomainFollowUp:
    """A structure, one domain left out after another.

    Parameters
    ----------
    structure
        Its name.
    whole
        With all items.
    without
        A row for each domain.
    carrier
        The domain without which the gain is smallest; None where no row has a gain, or several
        dimensions gain little with all items.
    sentence
        What follows, in words.
    """

    structure: str
    whole: WithoutDomain
    without: tuple[WithoutDomain, ...]
    carrier: str | None
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with `why` where there is no carrier."""
        missing = {"why": {"carrier": self.sentence}} if self.carrier is None else {}
        return {**self.__dict__, **missing}


def drop_one_domain(
    responses: Responses,
    structures: Mapping[str, Mapping[str, str]],
    *,
    max_dims: int = 3,
    splits: int = 5,
    share: float = 0.2,
    restarts: int = 2,
    seed: int = 2026,
    tasks: TaskSettings | None = None,
) -> tuple[DomainFollowUp, ...]:
    """Compare several dimensions with one again, without each domain in turn.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    structures
        Name of a structure -> item -> its domain, for every item.
    max_dims
        Most explored dimensions, at least 2. The structure of the domains that are left is fitted
        as well, where it has two domains or more.
    splits, share, restarts, seed, tasks
        As in `compare_models`; with few dimensions few starts will do.

    Raises
    ------
    InputError
        For an item without a domain, a single domain, or fewer than 2 explored dimensions.
    """
    if max_dims < 2:
        raise InputError(f"{max_dims} dimensions are explored", fix="explore 2 or more")
    common = tasks or TaskSettings()
    found = []
    for name, loads_on in structures.items():
        domain_of = _domains(responses, name, loads_on)
        rows: list[WithoutDomain] = []
        for domain in (None, *dict.fromkeys(domain_of)):
            part = responses.select_items(np.array([other != domain for other in domain_of]))
            gain = None
            if len(part.items) >= FEWEST_ITEMS and len(part.targets) > 2:
                label = name if domain is None else f"{name} without {domain}"
                losses = held_out_losses(
                    part,
                    _models(part, name, loads_on, max_dims),
                    split_responses(part, splits=splits, share=share, seed=seed),
                    restarts=restarts,
                    seed=seed,
                    tasks=replace(common, label=f"{common.label}: {label}"),
                )
                gain = Contrasts(losses, losses, int(part.observed.sum())).comparisons()[0]
            whole = rows[0].gain if rows else gain
            rows.append(_row((name, domain or "", len(part.items)), gain, whole))
        found.append(_conclude(name, rows))
    return tuple(found)


def _domains(responses: Responses, name: str, loads_on: Mapping[str, str]) -> list[str]:
    missing = [item for item in responses.items if item not in loads_on]
    if missing:
        raise InputError(
            f"item {missing[0]!r} has no domain in structure {name!r}", fix="give every item one"
        )
    found = [loads_on[item] for item in responses.items]
    if len(set(found)) < 2:
        raise InputError(f"structure {name!r} has one domain", fix="there is none to leave out")
    return found


def _models(
    responses: Responses, name: str, loads_on: Mapping[str, str], max_dims: int
) -> tuple[CandidateModel, ...]:
    """One dimension, a few explored ones, and the structure of the domains that are left."""
    left = {item: loads_on[item] for item in responses.items}
    sizes = [list(left.values()).count(domain) for domain in set(left.values())]
    structured = len(sizes) > 1 and min(sizes) > 1
    dims = min(max_dims, len(responses.targets) - 1, len(responses.items))
    return candidate_models(responses.items, {name: left} if structured else None, max_dims=dims)


def _row(
    place: tuple[str, str, int], gain: PairedDifference | None, whole: PairedDifference | None
) -> WithoutDomain:
    """The row of a structure, a domain and the number of items that are left."""
    name, domain, items = place
    why = {}
    share = None
    if gain is None:
        why["gain"] = f"{items} items are left, or there are fewer than 3 targets"
    if gain is not None and whole is not None and whole.gain > 0:
        share = gain.gain / whole.gain
    else:
        why["share_of_whole"] = "several dimensions gain nothing with all items, or it is unknown"
    return WithoutDomain(name, domain, items, gain, share, why)


def _conclude(name: str, rows: list[WithoutDomain]) -> DomainFollowUp:
    whole, without = rows[0], tuple(rows[1:])
    known = {row.domain: row.gain.gain for row in without if row.gain is not None}
    if whole.gain is None or whole.gain.gain < LEAST_GAIN or not known:
        sentence = (
            "Several dimensions gain little with all items: no domain of the structure "
            f"{name!r} can carry them."
        )
        if whole.gain is None or not known:
            sentence = (
                f"Structure {name!r}: too few items or targets to leave one of its domains out."
            )
        return DomainFollowUp(name, whole, without, None, sentence)
    carrier = min(known, key=known.__getitem__)
    left = known[carrier]
    rest = (
        "one dimension then predicts about as well as several"
        if left < LEAST_GAIN
        else "several dimensions still predict better without it"
    )
    sentence = (
        f"Without {carrier} the gain of several dimensions falls the most, from "
        f"{whole.gain.gain:.4f} to {left:.4f} nats a response; {rest}."
        if left < whole.gain.gain
        else "The gain of several dimensions falls without no domain: each of them has its own."
    )
    return DomainFollowUp(
        name, whole, without, carrier if left < whole.gain.gain else None, sentence
    )
