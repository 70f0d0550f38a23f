"""A form as it is kept: its items, the scale that reads them, and what it can see."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.forms.recovery.expectation import expected_full_scores
from safemetry.forms.recovery.regression import Recalibration
from safemetry.forms.recovery.table import score_table
from safemetry.irt.parameters import FloatArray, IntArray, ItemParameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

SCHEMA: Final = 1
_LARGEST: Final = 64 << 20
_MOST_CATEGORIES: Final = 100
_STEEPEST: Final = 1000.0


@dataclass(frozen=True)
class FormScore:
    """The full score that a target's answers to a form point to.

    Parameters
    ----------
    target
        Its name.
    score, error
        Over all items of the bank, and its standard error as held-out targets had it; None where
        the target answered nothing of the form.
    answered
        Items of the form with a response.
    why
        Why a field is None.
    """

    target: str
    score: float | None
    error: float | None
    answered: int
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LinearPart:
    """A linear reading of a form, blended with what one ability expects.

    Parameters
    ----------
    share
        Of the linear reading, in [0, 1].
    middle
        Mean full score of the calibration targets.
    means, slopes
        Mean outcome of each item of the form, and what the outcome less it adds, shape ``(L,)``.
    """

    share: float
    middle: float
    means: FloatArray
    slopes: FloatArray

    def blended(self, expected: FloatArray, outcomes: FloatArray) -> FloatArray:
        """Full scores ``(N,)``, from expected ones and outcomes ``(N, L)``, NaN where missing."""
        away = np.nan_to_num(outcomes - self.means)
        straight = np.clip(self.middle + away @ self.slopes, 0.0, 1.0)
        found: FloatArray = self.share * straight + (1 - self.share) * expected
        return found


@dataclass(frozen=True)
class Form:
    """A short form.

    Parameters
    ----------
    items
        Names, in the order chosen.
    method
        How they were chosen.
    bank, parameters
        Names and parameters of all J items that the full score is over.
    sd
        Of the ability in the population, around 0.
    categories
        Of each item of the bank, shape ``(J,)``.
    recalibration
        From expected to full scores; used where there is no linear part.
    linear
        For the blend; None for the other readings.
    error
        Root mean squared error of recovered scores of held-out targets; None where it is unknown.
    change
        The minimum detectable change, as plain values.
    digest
        Of the responses that it was made from.
    """

    items: tuple[str, ...]
    method: str
    bank: tuple[str, ...]
    parameters: ItemParameters
    sd: float
    categories: IntArray
    recalibration: Recalibration
    linear: LinearPart | None
    error: float | None
    change: Mapping[str, Any]
    digest: str

    def scores(self, codes: Codes, targets: Sequence[str]) -> list[FormScore]:
        """Full scores recovered from responses to the form.

        Parameters
        ----------
        codes
            Responses to the items of the form in its order, shape ``(N, L)``, -1 where missing.
        targets
            Names of the N targets.

        Raises
        ------
        InputError
            For responses that are not to these items.
        """
        if codes.shape != (len(targets), len(self.items)):
            raise InputError(
                f"responses of shape {codes.shape} are not those of {len(targets)} targets to "
                f"{len(self.items)} items"
            )
        if codes.min(initial=0) < -1:
            raise InputError("a response is below -1", fix="write a missing response as -1")
        places = np.array([self.bank.index(item) for item in self.items], np.int64)
        whole = np.full((len(targets), len(self.bank)), -1, np.int8)
        whole[:, places] = codes
        table = score_table(
            self.parameters, sd=self.sd, categories=self.categories, longest=len(places)
        )
        expected = expected_full_scores(table, whole, places[None]).scores[0]
        if self.linear is None:
            found = self.recalibration.apply(expected)
        else:
            highest = np.maximum(self.categories[places] - 1, 1)
            outcomes = np.where(codes >= 0, codes / highest, np.nan)
            found = self.linear.blended(expected, outcomes)
        answered = (codes >= 0).sum(axis=1).tolist()
        return [
            self._score(name, value, count)
            for name, value, count in zip(targets, found.tolist(), answered, strict=True)
        ]

    def _score(self, target: str, value: float, answered: int) -> FormScore:
        if not answered:
            nothing = dict.fromkeys(("score", "error"), "no item of the form has a response")
            return FormScore(target, None, None, 0, nothing)
        if answered < len(self.items) or self.error is None:
            reason = (
                "some items of the form have no response"
                if answered < len(self.items)
                else "the form was not evaluated on held-out targets"
            )
            return FormScore(target, value, None, answered, {"error": reason})
        return FormScore(target, value, self.error, answered)


class _Bank(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    items: tuple[str, ...]
    slopes: tuple[float, ...]
    intercepts: tuple[tuple[float, ...], ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    categories: tuple[int, ...]
    sd: float = Field(gt=0)


class _Map(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: Literal["identity", "line", "monotone"]
    knots: tuple[float, ...]
    values: tuple[float, ...]
    losses: dict[str, float] = Field(default_factory=dict)
    spread: float | None = None


class _Linear(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    share: float = Field(ge=0, le=1)
    middle: float
    means: tuple[float, ...]
    slopes: tuple[float, ...]


class _Record(BaseModel):
    """The JSON file; keys that a later version adds are passed over."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    schema_version: int = Field(alias="schema", ge=1)
    kind: Literal["form"]
    made_by: str
    items: tuple[str, ...] = Field(min_length=1)
    method: str
    bank: _Bank
    recalibration: _Map
    linear: _Linear | None = None
    error: float | None
    minimum_detectable_change: dict[str, Any]
    responses: str


def save_form(form: Form, path: Path | str) -> None:
    """Write a form as one JSON file, whole or not at all.

    Raises
    ------
    InputError
        Where it cannot be written.
    """
    steps = form.parameters.intercepts
    record = {
        "schema": SCHEMA,
        "kind": "form",
        "made_by": f"safemetry {version('safemetry')}",
        "items": list(form.items),
        "method": form.method,
        "error": form.error,
        "minimum_detectable_change": plain(form.change),
        "recalibration": {
            "kind": form.recalibration.kind,
            "knots": form.recalibration.knots.tolist(),
            "values": form.recalibration.values.tolist(),
            "losses": dict(form.recalibration.losses),
            "spread": form.recalibration.spread,
        },
        "linear": None
        if form.linear is None
        else {
            "share": form.linear.share,
            "middle": form.linear.middle,
            "means": form.linear.means.tolist(),
            "slopes": form.linear.slopes.tolist(),
        },
        "responses": form.digest,
        "bank": {
            "items": list(form.bank),
            "slopes": form.parameters.slopes[:, 0].tolist(),
            "intercepts": [row[np.isfinite(row)].tolist() for row in steps],
            "lower": form.parameters.lower.tolist(),
            "upper": form.parameters.upper.tolist(),
            "categories": form.categories.tolist(),
            "sd": form.sd,
        },
    }
    final = Path(path)
    draft = final.with_name(f".{final.name}.{secrets.token_hex(8)}")
    try:
        try:
            draft.write_text(
                json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n", "utf-8"
            )
            draft.replace(final)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error})", file=str(path)
        ) from error


def load_form(path: Path | str) -> Form:
    """Read a form.

    Raises
    ------
    InputError
        For a file that is none, is damaged, or is of a later version.
    """
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST:
            raise InputError("is too large for a form", file=str(path))
        content = json.loads(file.read_text("utf-8"))
        record = _Record.model_validate(content)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=str(path)) from error
    except (ValueError, RecursionError, ValidationError) as error:
        said = " ".join(str(error).split())[:160]
        raise InputError(
            f"is no form that can be read ({said})",
            file=str(path),
            fix="make it with safemetry shorten --form FILE",
        ) from error
    if record.schema_version > SCHEMA:
        raise InputError(
            f"was written with form schema {record.schema_version}, this version reads {SCHEMA}",
            file=str(path),
            fix="upgrade safemetry",
        )
    return _form_of(record, str(path))


def _check(record: _Record, file: str) -> None:
    """Refuse numbers that no form has."""
    bank, made = record.bank, record.recalibration
    steps = [len(row) for row in bank.intercepts]
    least = {"identity": 0, "line": 2, "monotone": 1}[made.kind]
    problems = {
        "it names an item twice": len(set(record.items)) < len(record.items),
        "an item has no intercept": min(steps, default=0) < 1,
        "an item has other categories than intercepts": any(
            not 1 + count <= categories <= _MOST_CATEGORIES
            for count, categories in zip(steps, bank.categories, strict=True)
        ),
        "an asymptote is out of order": any(
            not 0 <= low < high <= 1 for low, high in zip(bank.lower, bank.upper, strict=True)
        ),
        "a slope is too steep": any(abs(slope) > _STEEPEST for slope in bank.slopes),
        "its error is below 0": record.error is not None and record.error < 0,
        "its map has not one value for each knot": len(made.knots) != len(made.values)
        or len(made.knots) < least
        or bool((np.diff(made.knots) <= 0).any()),
    }
    for problem, is_so in problems.items():
        if is_so:
            raise InputError(problem, file=file, fix="make the form again")


def _form_of(record: _Record, file: str) -> Form:
    bank, size = record.bank, len(record.bank.items)
    parts = (bank.slopes, bank.intercepts, bank.lower, bank.upper, bank.categories)
    if any(len(part) != size for part in parts) or len(set(bank.items)) < size:
        raise InputError("its bank has not one entry for each item", file=file)
    _check(record, file)
    strange = [item for item in record.items if item not in set(bank.items)]
    if strange:
        raise InputError(f"item {strange[0]!r} is not in its bank", file=file)
    line = record.linear
    if line is not None and {len(line.means), len(line.slopes)} != {len(record.items)}:
        raise InputError("its linear part has not one entry for each item", file=file)
    wide = max(len(row) for row in bank.intercepts)
    steps: FloatArray = np.full((size, max(wide, 1)), -np.inf)
    for place, row in enumerate(bank.intercepts):
        steps[place, : len(row)] = row
    made = record.recalibration
    return Form(
        record.items,
        record.method,
        bank.items,
        ItemParameters(
            np.array(bank.slopes)[:, None], steps, np.array(bank.lower), np.array(bank.upper)
        ),
        bank.sd,
        np.array(bank.categories, np.int64),
        Recalibration(
            made.kind, np.array(made.knots), np.array(made.values), dict(made.losses), made.spread
        ),
        None
        if line is None
        else LinearPart(line.share, line.middle, np.array(line.means), np.array(line.slopes)),
        record.error,
        record.minimum_detectable_change,
        record.responses,
    )
