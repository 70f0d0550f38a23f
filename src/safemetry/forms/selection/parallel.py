"""Several forms that tell the same, for rotation, and for the day when one of them leaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse import block_diag, csr_array, eye_array, hstack, kron, vstack
from scipy.special import chdtri

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.limits import ItemClasses, Limits, by_name, classes_of, limits_of
from safemetry.forms.selection.objective import mean_information, nodes
from safemetry.forms.selection.programme import class_programme, first_form, minimise
from safemetry.irt.information import linear_information
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

_SWEEPS: Final = 30
_LEAST_GAIN: Final = 1e-12
_NEARLY: Final = 0.8
_MOST_DEALS: Final = 20
_DEALT_ITEMS: Final = 1500


@dataclass(frozen=True)
class ParallelForms:
    """Forms of equal information.

    Parameters
    ----------
    forms
        Positions in the pool of each form, each of shape ``(length,)``, sorted.
    common
        Positions of the items that stand in every form; no other item stands in two.
    mean_information
        Of each form over the population, shape ``(F,)``.
    largest_difference
        Largest over the central 95% of the population of (highest - lowest information of a form) /
        (their mean). In several dimensions information is summed over dimensions, and the centre
        is an ellipsoid.
    mean_difference
        The same as a mean over the population.
    """

    forms: tuple[IntArray, ...]
    common: IntArray
    mean_information: FloatArray
    largest_difference: float
    mean_difference: float


def parallel_forms(
    pool: ItemPool,
    constraints: Constraints,
    forms: int,
    *,
    overlap: int | None = None,
    time_limit: float = 10.0,
) -> ParallelForms:
    """Several forms, each of which keeps the constraints, with the same information.

    One integer programme chooses the items of all forms at once, with the highest total of mean
    information, and how many items of each kind (items that no constraint tells apart) each form
    gets. They are then dealt to the forms, and items of a kind are exchanged between forms, and
    with others that tell nearly as much, while that brings the information curves closer together
    (van der Linden 2005, chapter 6).

    Parameters
    ----------
    pool, constraints
        The items, and what each form must hold. Required items stand in every form.
    forms
        Number of forms, at least 2.
    overlap
        How many items stand in every form; as many as are required by default. No other item stands
        in two forms.
    time_limit
        Seconds for the programme.

    Raises
    ------
    InputError
        For constraints that no form, or not so many forms, can keep; an overlap that does not fit.
    """
    shared = len(set(constraints.required)) if overlap is None else overlap
    _check(forms, shared, constraints)
    ordered, positions = by_name(pool)
    limits = limits_of(ordered, constraints)
    worth = mean_information(ordered)
    first_form(limits, worth)
    classes = classes_of(limits)
    theta, weights = nodes(ordered)
    information = linear_information(ordered.parameters, theta)
    information *= (ordered.parameters.slopes**2).sum(axis=1)
    chosen, counts = _programme(limits, classes, worth, (forms, shared), time_limit)
    common = np.flatnonzero(chosen == 2)
    fixed = common, limits.allowed & (chosen == 0)
    central = _central(ordered, theta)
    best: ParallelForms | None = None
    # The exchanges end where no one helps, which may be far from equal: other deals end elsewhere.
    rng = np.random.default_rng(0)
    for start in range(1 + min(_MOST_DEALS, _DEALT_ITEMS // (forms * limits.length))):
        tilt = rng.uniform(0.5, 1.5, len(worth)) if start else np.ones(len(worth))
        of = _dealt(classes, chosen, counts, worth * tilt)
        of = _balanced(classes, of, fixed, information, weights)
        found = [np.sort(np.append(common, np.flatnonzero(of == form))) for form in range(forms)]
        curves = np.array([information[:, form].sum(axis=1) for form in found])
        deal = ParallelForms(
            tuple(np.sort(positions[form]) for form in found),
            np.sort(positions[common]),
            curves @ weights,
            *_differences(curves, weights, central),
        )
        if best is None or deal.largest_difference < best.largest_difference:
            best = deal
    if best is None:
        raise AssertionError  # there is one deal at least
    return best


def _check(forms: int, shared: int, constraints: Constraints) -> None:
    if forms < 2:
        raise InputError(f"{forms} parallel forms", fix="ask for two or more")
    required = len(set(constraints.required))
    if not required <= shared < constraints.length:
        raise InputError(
            f"{shared} items stand in every form of {constraints.length}, of which {required} are "
            "required",
            fix="give an overlap from the number of required items to less than the length",
        )


def _programme(
    limits: Limits,
    classes: ItemClasses,
    worth: FloatArray,
    numbers: tuple[int, int],
    time_limit: float,
) -> tuple[IntArray, IntArray]:
    """The items of all forms, and the numbers of items by class of each form.

    Parameters
    ----------
    limits, classes, worth
        What each form must keep; the mean information of items.
    numbers
        Of forms, and of items that stand in all of them.
    time_limit
        Seconds.

    Returns
    -------
    numpy.ndarray, numpy.ndarray
        0, 1, or 2 for items in no, one or every form, shape ``(J,)``; counts without the common
        items, shape ``(F, C)``.
    """
    forms, shared = numbers
    kept = _best_of_class(limits, classes, worth, numbers)
    size, groups = len(kept), len(classes.sizes)
    member = csr_array((np.ones(size), (classes.of[kept], np.arange(size))), shape=(groups, size))
    each_form, least, most = class_programme(limits, classes)
    # Variables: in one form (items), in every form (items), numbers of each form (forms x classes).
    rows = vstack(
        [
            # Every form keeps the limits with its own items and the common ones.
            hstack(
                [
                    csr_array((forms * len(least), size)),
                    kron(np.ones((forms, 1)), each_form @ member),
                    block_diag([each_form] * forms),
                ]
            ),
            # The numbers of the forms add up to the items of each class.
            hstack(
                [
                    member,
                    csr_array((groups, size)),
                    -kron(np.ones((1, forms)), eye_array(groups)),
                ]
            ),
            hstack([eye_array(size), eye_array(size), csr_array((size, forms * groups))]),
            hstack(
                [
                    csr_array((1, size)),
                    csr_array(np.ones((1, size))),
                    csr_array((1, forms * groups)),
                ]
            ),
        ]
    )
    required = np.isin(kept, limits.required).astype(np.float64)
    top = np.where(classes.allowed, np.minimum(classes.sizes, limits.length), 0)
    scale = max(float(worth.max()), 1e-300)
    found = minimise(
        np.concatenate(
            [-worth[kept] / scale, -forms * worth[kept] / scale, np.zeros(forms * groups)]
        ),
        csr_array(rows),
        np.concatenate([np.tile(least, forms), np.zeros(groups), np.zeros(size), [shared]]),
        np.concatenate([np.tile(most, forms), np.zeros(groups), np.ones(size), [shared]]),
        (
            np.concatenate([np.zeros(size), required, np.zeros(forms * groups)]),
            np.concatenate(
                [
                    limits.allowed[kept],
                    limits.allowed[kept] * float(shared > 0),
                    np.tile(top, forms),
                ]
            ),
        ),
        time_limit=time_limit,
        gap=1e-3,
    )
    if found is None:
        raise InputError(
            f"there is a form of {limits.length:,} items, but not {forms:,} of them with "
            f"{shared:,} in common",
            fix="ask for fewer or shorter forms, allow an overlap, or relax the quotas",
        )
    if found.values is None:
        raise InputError("no parallel forms were found in time", fix="raise the time limit")
    values = np.rint(found.values).astype(np.int64)
    chosen = np.zeros(len(limits.names), np.int64)
    chosen[kept] = values[:size] + 2 * values[size : 2 * size]
    return chosen, values[2 * size :].reshape(forms, groups)


def _best_of_class(
    limits: Limits, classes: ItemClasses, worth: FloatArray, numbers: tuple[int, int]
) -> IntArray:
    """Items that the forms may need: the best of each class, as many as they can hold."""
    room = classes.most(limits) * numbers[0]
    order = np.lexsort((-worth, classes.of))
    starts = np.concatenate([[0], np.cumsum(classes.sizes)[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, classes.sizes)
    best = order[rank < np.repeat(room, classes.sizes)]
    return np.union1d(best, limits.required)


def _dealt(classes: ItemClasses, chosen: IntArray, counts: IntArray, worth: FloatArray) -> IntArray:
    """Form of each item, -1 for none: best first, each to the form with the least so far."""
    of = np.full(len(chosen), -1, np.int64)
    left, total = counts.copy(), np.zeros(len(counts))
    single = np.flatnonzero(chosen == 1)
    for item in single[np.argsort(-worth[single], kind="stable")].tolist():
        open_forms = np.where(left[:, classes.of[item]] > 0, total, np.inf)
        form = int(np.argmin(open_forms))
        of[item] = form
        left[form, classes.of[item]] -= 1
        total[form] += worth[item]
    return of


def _balanced(
    classes: ItemClasses,
    of: IntArray,
    fixed: tuple[IntArray, BoolArray],
    information: FloatArray,
    weights: FloatArray,
) -> IntArray:
    """Forms after exchanges of items of one class, between forms and with a reserve.

    What is made small is the mean over the population of the squared differences of the
    informations from their mean, relative to it.

    Parameters
    ----------
    classes
        Of the items; an exchange within a class keeps every limit.
    of
        Form of each item, -1 for none, shape ``(J,)``.
    fixed
        Items in every form, and items in none that may be taken.
    information, weights
        Of the items over the population, shape ``(Q, J)``, and the weights of the abilities.
    """
    common, reserve = fixed[0], fixed[1].copy()
    of = of.copy()
    forms = int(of.max()) + 1
    base = information[:, common].sum(axis=1)
    curves = np.array([base + information[:, of == form].sum(axis=1) for form in range(forms)])
    scale = np.sqrt(weights) / np.maximum(curves.mean(axis=0), 1e-300)
    worth = weights @ information
    scaled, curves = (information * scale[:, None]).T, curves * scale
    for _ in range(_SWEEPS):
        improved = False
        for item in np.flatnonzero(of >= 0).tolist():
            form = int(of[item])
            alike = classes.of == classes.of[item]
            near = reserve & (worth >= _NEARLY * worth[item])
            others = np.flatnonzero(alike & (((of >= 0) & (of != form)) | near))
            if not others.size:
                continue
            change = scaled[others] - scaled[item]
            best, gain = _best_exchange(curves, form, of[others], change)
            if gain > _LEAST_GAIN:
                other = int(others[best])
                curves[form] += change[best]
                if of[other] >= 0:
                    curves[of[other]] -= change[best]
                reserve[item] = of[other] < 0
                of[item], of[other] = of[other], form
                improved = True
        if not improved:
            break
    return of


def _best_exchange(
    curves: FloatArray, form: int, theirs: IntArray, change: FloatArray
) -> tuple[int, float]:
    """Which of some exchanges brings curves closest together, and by how much.

    Parameters
    ----------
    curves
        Of F forms, shape ``(F, Q)``.
    form
        The one that changes by `change`, shape ``(M, Q)``.
    theirs
        The forms that change by as much the other way, shape ``(M,)``; -1 for none.
    """
    size = (change**2).sum(axis=1)
    between = -2 * ((curves[form] - curves[theirs]) * change).sum(axis=1) - 2 * size
    away = change @ (curves[form] - curves.mean(axis=0))
    alone = -2 * away - (1 - 1 / len(curves)) * size
    gain = np.where(theirs >= 0, between, alone)
    best = int(np.argmax(gain))
    return best, float(gain[best])


def _central(pool: ItemPool, theta: FloatArray) -> BoolArray:
    """Which abilities are in the central 95% of the population, shape ``(Q,)``."""
    away = theta - pool.mean
    squares = (away @ np.linalg.inv(pool.covariance) * away).sum(axis=1)
    found: BoolArray = squares <= chdtri(pool.parameters.dimensions, 0.05)
    return found


def _differences(
    curves: FloatArray, weights: FloatArray, central: BoolArray
) -> tuple[float, float]:
    mean = curves.mean(axis=0)
    known = mean > 0
    relative = np.zeros(len(mean))
    relative[known] = (curves.max(axis=0) - curves.min(axis=0))[known] / mean[known]
    return float(relative[central].max(initial=0.0)), float(weights @ relative)
