"""Settings of fits in several dimensions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from safemetry.errors import InputError
from safemetry.irt.multidimensional.hierarchy import HierarchicalPrior
from safemetry.irt.parameters import ItemModel
from safemetry.irt.priors import NO_PRIORS, ItemPriors

Method = Literal["variational", "quadrature"]


@dataclass(frozen=True)
class DimensionalSettings:
    """How a fit in several dimensions is made.

    Parameters
    ----------
    model
        ``"2pl"``, or ``"1pl"``: one slope for all items of a dimension, which needs a structure
        where there is more than one dimension.
    method
        ``"variational"`` for any shape, or ``"quadrature"`` for the exact marginal likelihood of a
        few dimensions and tens of items.
    priors
        A `HierarchicalPrior` for the variational method (the default), `ItemPriors` with normal
        slopes for quadrature (no prior by default).
    restarts
        Number of starts; the one that predicts the fitted responses best is kept.
    first_start
        Number of the first start. Start 0 is from the singular vectors of the responses, the others
        are random.
    seed
        Of the random starts.
    likelihood
        Whether the marginal log-likelihood is computed; it can take as long as the fit.
    jobs
        Parallel tasks for the restarts, as in `joblib.Parallel`; a backend set around the call by
        `joblib.parallel_config` is used.
    """

    model: ItemModel | str = ItemModel.TWO_PL
    method: Method = "variational"
    priors: HierarchicalPrior | ItemPriors | None = None
    restarts: int = 1
    first_start: int = 0
    seed: int = 0
    likelihood: bool = True
    jobs: int | None = None

    def __post_init__(self) -> None:
        if self.model not in {ItemModel.ONE_PL, ItemModel.TWO_PL}:
            raise InputError(
                f"model {self.model!s} has one dimension only",
                fix="use 1pl or 2pl, or one dimension",
            )
        if self.method not in {"variational", "quadrature"}:
            raise InputError(
                f"there is no method {self.method!r}", fix="use variational or quadrature"
            )
        if self.restarts < 1 or self.first_start < 0:
            raise InputError(
                f"{self.restarts} restarts are asked for, from number {self.first_start}",
                fix="ask for one at least, from number 0 or above",
            )
        wanted = HierarchicalPrior if self.method == "variational" else ItemPriors
        if self.priors is not None and not isinstance(self.priors, wanted):
            raise InputError(
                f"the {self.method} method takes a {wanted.__name__}, not a "
                f"{type(self.priors).__name__}"
            )


def resolved(settings: DimensionalSettings) -> dict[str, Any]:
    """The settings with their defaults filled in, as plain values."""
    default = HierarchicalPrior() if settings.method == "variational" else NO_PRIORS
    priors = settings.priors or default
    return {
        "model": str(settings.model),
        "method": settings.method,
        "restarts": settings.restarts,
        "first_start": settings.first_start,
        "seed": settings.seed,
        "likelihood": settings.likelihood,
        "priors": {"kind": type(priors).__name__, **asdict(priors)},
    }
