"""Settings of `calibrate`, checked when made, and priors as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from safemetry.errors import InputError
from safemetry.irt.parameters import ItemModel
from safemetry.irt.priors import NO_PRIORS, Beta, ItemPriors, LogitNormal, LogNormal, Normal

AbilityMethod = Literal["map", "eap", "wle"]
_KINDS: Final[Mapping[str, Any]] = {
    "normal": Normal,
    "log-normal": LogNormal,
    "beta": Beta,
    "logit-normal": LogitNormal,
}
_PARTS: Final = ("slope", "intercept", "lower", "upper")


@dataclass(frozen=True)
class CalibrationSettings:
    """Settings of `calibrate`.

    Parameters
    ----------
    model
        Item model.
    priors
        Of the item parameters; None for the defaults of the method, `NO_PRIORS` for maximum
        likelihood.
    dims
        Number of dimensions of an exploratory fit.
    structure
        Item -> its dimension or dimensions, for a confirmatory fit.
    general
        Whether all items load on a general dimension beside their own, uncorrelated (bifactor).
    structure_name
        Where the structure is from, for the record.
    ability
        ``map`` (posterior mode), ``eap`` (posterior mean) or ``wle`` (Warm), in one dimension; in
        several it is the posterior mean.
    rotation
        Of an exploratory fit: ``oblimin``, ``varimax``, ``promax``, ``geomin`` or ``none``.
    allow_negative
        Whether slopes may be negative; they are always reported.
    restarts, seed
        Starts of a fit in several dimensions, and their seed.
    sensitivity
        Whether the fit is repeated with other priors.
    """

    model: ItemModel = ItemModel.TWO_PL
    priors: ItemPriors | None = None
    dims: int = 1
    structure: Mapping[str, str | tuple[str, ...]] | None = None
    general: bool = False
    structure_name: str | None = None
    ability: AbilityMethod = "map"
    rotation: str = "oblimin"
    allow_negative: bool = False
    restarts: int = 5
    seed: int = 0
    sensitivity: bool = True

    def __post_init__(self) -> None:
        if self.dims < 1:
            raise InputError(f"{self.dims} dimensions are asked for", fix="ask for one at least")
        if self.structure is not None and self.dims > 1:
            raise InputError("a structure has its own dimensions", fix="leave out --dims")
        if self.general and self.structure is None:
            raise InputError(
                "a general dimension stands beside those of a structure", fix="give --structure"
            )
        if self.ability not in {"map", "eap", "wle"}:
            raise InputError(f"there is no ability {self.ability!r}", fix="use map, eap or wle")

    @property
    def one_dimension(self) -> bool:
        """Whether the fit has one dimension and no structure."""
        return self.dims == 1 and self.structure is None

    def resolved(self) -> dict[str, Any]:
        """Every setting as plain values."""
        priors = ItemPriors() if self.priors is None else self.priors
        return {
            "model": str(self.model),
            "dims": self.dims,
            "structure": self.structure_name,
            "general": self.general,
            "rotation": None if self.one_dimension or self.structure is not None else self.rotation,
            "ability": self.ability if self.one_dimension else "eap",
            "allow_negative": self.allow_negative,
            "restarts": None if self.one_dimension else self.restarts,
            "seed": self.seed,
            "priors": written(priors) if self.one_dimension else None,
        }


def written(priors: ItemPriors) -> dict[str, Any]:
    """Priors as plain values, as `read_priors` reads them."""
    found: dict[str, Any] = {}
    for part in _PARTS:
        prior = getattr(priors, part)
        if prior is None:
            found[part] = "none"
            continue
        kind = next(name for name, made in _KINDS.items() if isinstance(prior, made))
        values = {
            name: "estimated" if value is None else value for name, value in asdict(prior).items()
        }
        found[part] = {"kind": kind, **values}
    return found


def read_priors(text: str) -> ItemPriors | None:
    """Priors as the command line names them.

    Parameters
    ----------
    text
        ``default``, ``none``, or the name of a YAML file such as::

            slope: {kind: log - normal, mean: estimated, sd: 0.5}
            intercept: {kind: normal, mean: 0, sd: 2}
            lower: {kind: beta, alpha: 5, beta: 17}
            upper: none

        A part that is left out has no prior.

    Raises
    ------
    InputError
        For a file that cannot be read, or a prior that does not exist.
    """
    if text == "default":
        return None
    if text == "none":
        return NO_PRIORS
    import yaml

    try:
        content = yaml.safe_load(Path(text).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"the priors cannot be read ({said})",
            file=text,
            fix="write default, none, or the name of a YAML file",
        ) from error
    if not isinstance(content, Mapping) or not set(content) <= set(_PARTS):
        raise InputError(
            "priors are a mapping", file=text, fix=f"its entries are {', '.join(_PARTS)}"
        )
    parts = {part: _prior(content.get(part), part, text) for part in _PARTS}
    return ItemPriors(**parts)


def _prior(content: Any, part: str, file: str) -> Any:
    if content is None or content == "none":
        return None
    if not isinstance(content, Mapping) or content.get("kind") not in _KINDS:
        raise InputError(
            f"the prior of {part} has no known kind",
            file=file,
            column=part,
            fix=f"write kind: {' or '.join(_KINDS)}",
        )
    values = {
        name: None if value == "estimated" else value
        for name, value in content.items()
        if name != "kind"
    }
    try:
        return _KINDS[content["kind"]](**values)
    except (TypeError, InputError) as error:
        said = error.problem if isinstance(error, InputError) else str(error)
        raise InputError(f"the prior of {part}: {said}", file=file, column=part) from error
