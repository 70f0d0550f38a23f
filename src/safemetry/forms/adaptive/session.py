"""A live adaptive test: it hands out an item, takes an answer, and can be put away and resumed.

A session is a value: `answer` returns a new one. It keeps what was asked and answered, and
everything else follows from that, the calibration and the seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.adaptive.multidimensional import GaussianEvidence
from safemetry.forms.adaptive.process import (
    AdaptiveTest,
    Progress,
    begin,
    choose,
    exhausted,
    make_test,
    take,
)
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.forms.adaptive.stopping import GOES_ON, REASONS, SIDES, Decision, Stop
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import BoolArray

SCHEMA: Final = 1
_LARGEST_SEED: Final = 2**63 - 1
_MOST_CATEGORIES: Final = 99
UNSCORED: Final = -1
"""Code of an answer that could not be judged."""


@dataclass(frozen=True)
class Session:
    """One target's adaptive test.

    Parameters
    ----------
    test
        The pool and settings, made ready; shared by the sessions of a run.
    digest
        Of the pool.
    seed
        Decides whatever is random.
    closed
        Items that are never given.
    set_aside
        Items that exposure control refused.
    items, codes
        Asked and answered so far; `UNSCORED` where there was no valid judgement.
    theta, se
        After each item, a number for each dimension; None for an error that is unknown.
    stop
        Why the session ended, None while it goes on.
    decision
        Which side of the cut the target is on, once a test with a classification has ended.
    """

    test: AdaptiveTest = field(repr=False, compare=False)
    digest: str
    seed: int
    closed: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    theta: tuple[tuple[float, ...], ...] = ()
    se: tuple[tuple[float | None, ...], ...] = ()
    stop: Stop | None = None
    decision: Decision | None = None

    def to_dict(self) -> dict[str, Any]:
        """The session as plain JSON values, which `resume_session` reads."""
        return {
            "schema": SCHEMA,
            "kind": "adaptive session",
            "pool": self.digest,
            "settings": self.test.settings.to_dict(),
            "seed": self.seed,
            "closed": list(self.closed),
            "set_aside": list(self.set_aside),
            "items": list(self.items),
            "codes": list(self.codes),
            "theta": [list(values) for values in self.theta],
            "se": [list(values) for values in self.se],
            "stop": None if self.stop is None else str(self.stop),
            "decision": None if self.decision is None else str(self.decision),
            "why": self._why(),
        }

    def _why(self) -> dict[str, str]:
        why = {}
        if self.stop is None:
            why["stop"] = "the session goes on"
        if self.decision is None:
            classified = self.test.settings.classification is not None
            why["decision"] = "the session goes on" if classified else "no cut was given"
        if any(value is None for values in self.se for value in values):
            why["se"] = "the items tell nothing at this estimate"
        return why


def start_session(
    pool: ItemPool,
    settings: AdaptiveSettings,
    seed: int,
    *,
    closed: Sequence[str] = (),
    test: AdaptiveTest | None = None,
) -> Session:
    """A session before its first item.

    Parameters
    ----------
    pool
        Calibrated items.
    settings
        Of the test.
    seed
        Not negative; sessions of a run should differ in it.
    closed
        Items that are never given to this target.
    test
        `make_test(pool, settings)`, where several sessions share it.

    Raises
    ------
    InputError
        For settings or items that do not fit the pool.
    """
    if seed < 0:
        raise InputError(f"the seed is {seed}", fix="give a whole number from 0")
    made = make_test(pool, settings) if test is None else test
    if made.settings != settings:
        raise InputError("the test was made with other settings")
    pool.places(list(closed))
    session = Session(made, pool_digest(pool), seed, tuple(closed))
    return _ended_without_items(session, _restored(session))


def next_item(session: Session) -> str | None:
    """The item to ask next; None when the session has ended.

    It is the same however often it is asked for, before and after a session is resumed.
    """
    if session.stop is not None:
        return None
    progress = _restored(session)
    exhausted(session.test, progress)
    return session.test.pool.items[int(choose(session.test, progress)[0][0])]


def answer(session: Session, item: str, code: int) -> Session:
    """The session after an answer.

    Parameters
    ----------
    session
        That goes on.
    item
        The one that `next_item` gave.
    code
        Category of the answer, or `UNSCORED` where it could not be judged: the item is used up and
        counts towards the budget, and the ability stays as it was.

    Raises
    ------
    InputError
        For another item, a category that it lacks, or a session that has ended.
    """
    if session.stop is not None:
        raise InputError(f"the session has ended ({session.stop})", fix="start another one")
    test = session.test
    progress = _restored(session)
    exhausted(test, progress)
    chosen, refused = choose(test, progress)
    place = int(chosen[0])
    if item != test.pool.items[place]:
        raise InputError(
            f"item {item!r} was answered and {test.pool.items[place]!r} was asked",
            fix="answer the item that next_item gives",
        )
    if not UNSCORED <= code < int(test.pool.parameters.categories[place]):
        raise InputError(
            f"item {item!r} has {int(test.pool.parameters.categories[place])} categories and not "
            f"a {code}",
            fix="number categories from 0, and write -1 where there is no judgement",
        )
    reasons, decisions = take(test, progress, chosen, np.array([code], np.int64), refused)
    errors = tuple(float(se) if np.isfinite(se) else None for se in progress.se[0])
    found = replace(
        session,
        items=(*session.items, item),
        codes=(*session.codes, code),
        theta=(*session.theta, tuple(progress.theta[0].tolist())),
        se=(*session.se, errors),
        set_aside=(*session.set_aside, *_names(test, refused)),
    )
    if reasons[0] != GOES_ON:
        return _with_end(found, REASONS[int(reasons[0])], SIDES[int(decisions[0])])
    return _ended_without_items(found, progress)


def resume_session(
    content: Mapping[str, Any], pool: ItemPool, *, test: AdaptiveTest | None = None
) -> Session:
    """A session from plain values.

    Parameters
    ----------
    content
        What `Session.to_dict` gave.
    pool
        The pool that it was started with.
    test
        Made from that pool and the session's settings, where several sessions share it.

    Raises
    ------
    InputError
        For another pool, or content that is no session.
    """
    if content.get("kind") != "adaptive session" or content.get("schema") != SCHEMA:
        raise InputError("this is no adaptive session", fix="give what a session was saved as")
    digest = pool_digest(pool)
    if content.get("pool") != digest:
        raise InputError(
            "the session was started with another calibration",
            fix="resume it with that one, or start again",
        )
    try:
        settings = AdaptiveSettings.from_dict(content["settings"])
        stop, decision = content["stop"], content["decision"]
        session = Session(
            make_test(pool, settings) if test is None else test,
            digest,
            _whole(content["seed"], 0, _LARGEST_SEED),
            tuple(content["closed"]),
            tuple(content["set_aside"]),
            tuple(content["items"]),
            tuple(_whole(code, UNSCORED, _MOST_CATEGORIES) for code in content["codes"]),
            tuple(tuple(values) for values in content["theta"]),
            tuple(tuple(values) for values in content["se"]),
            None if stop is None else Stop(stop),
            None if decision is None else Decision(decision),
        )
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
        said = " ".join(repr(error).split())[:160]
        raise InputError(f"the session cannot be read ({said})") from error
    if session.test.settings != settings:
        raise InputError("the test was made with other settings than the session's")
    if not len(session.items) == len(session.codes) == len(session.theta) == len(session.se):
        raise InputError("the session has not as many answers as items")
    places = pool.places(list(session.items))
    pool.places([*session.closed, *session.set_aside])
    codes = np.array(session.codes, np.int64)
    if ((codes < UNSCORED) | (codes >= pool.parameters.categories[places])).any():
        raise InputError("the session has an answer that its item cannot have")
    return _replayed(session)


def _replayed(stored: Session) -> Session:
    """The session that its answers lead to: what a file says of them is not believed.

    Raises
    ------
    InputError
        Where an item was not the one that was asked, or the answers go on after the end.
    """
    test = stored.test
    found = start_session(test.pool, test.settings, stored.seed, closed=stored.closed, test=test)
    for item, code in zip(stored.items, stored.codes, strict=True):
        found = answer(found, item, code)
    return found


def _whole(value: Any, low: int, high: int) -> int:
    """A whole number between two limits.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        msg = f"{str(value)[:40]} is no whole number from {low} to {high}"
        raise ValueError(msg)
    return value


def _restored(session: Session) -> Progress:
    """Where a session stands, from its answers."""
    test = session.test
    used = _marked(test, [*session.items, *session.set_aside])
    progress = begin(test, np.array([session.seed]), _marked(test, session.closed)[None])
    progress.closed |= used
    progress.reserve &= ~used[: progress.reserve.shape[1]]
    progress.step = len(session.items)
    places = test.pool.places(list(session.items))
    if test.categories is not None:
        progress.given = np.bincount(
            test.categories.of_item[places], minlength=len(test.categories.names)
        )[None]
        progress.usable = test.categories.open_counts(~progress.closed)
    codes = np.array(session.codes, np.int64)
    for step in range(len(places)):
        now = slice(step, step + 1)
        test.engine.observe(progress.evidence, places[now], codes[now])
    evidence = progress.evidence
    if session.theta and isinstance(evidence, GaussianEvidence):
        evidence.mode = np.array(session.theta[-1:])  # a start from which the mode is near
    progress.theta, progress.se = test.engine.estimate(evidence)
    return progress


def _marked(test: AdaptiveTest, items: Sequence[str]) -> BoolArray:
    found = np.zeros(len(test.pool.items), bool)
    found[test.pool.places(list(items))] = True
    return found


def _names(test: AdaptiveTest, marked: BoolArray | None) -> list[str]:
    if marked is None:
        return []
    return [test.pool.items[place] for place in np.flatnonzero(marked[0]).tolist()]


def _with_end(session: Session, stop: Stop, decision: Decision) -> Session:
    classified = session.test.settings.classification is not None
    return replace(session, stop=stop, decision=decision if classified else None)


def _ended_without_items(session: Session, progress: Progress) -> Session:
    if exhausted(session.test, progress)[0]:
        return _with_end(session, Stop.EXHAUSTED, Decision.CANNOT_TELL)
    return session


def pool_digest(pool: ItemPool) -> str:
    """SHA-256 over names, parameters, population and properties of a pool."""
    digest = hashlib.sha256()
    properties = {name: list(pool.properties[name]) for name in sorted(pool.properties)}
    digest.update(json.dumps([list(pool.items), properties]).encode())
    parts = pool.parameters
    for values in (
        parts.slopes,
        parts.intercepts,
        parts.lower,
        parts.upper,
        pool.mean,
        pool.covariance,
    ):
        digest.update(np.ascontiguousarray(values, "<f8").tobytes())
        digest.update(str(values.shape).encode())
    return digest.hexdigest()
