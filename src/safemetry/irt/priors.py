"""Priors of item parameters, as objects that a result records."""

from __future__ import annotations

from dataclasses import dataclass, field

from safemetry.errors import InputError


@dataclass(frozen=True)
class Normal:
    """Normal prior; `mean` None is estimated from the items.

    For slopes it is the mean over items. For intercepts it is a line in the slope, m0 + m1 a, so
    that the prior does not set the origin of the abilities (moving that adds a multiple of a to
    every d); m1 is standard normal.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation, `sd` > 0.
    """

    mean: float | None
    sd: float

    def __post_init__(self) -> None:
        _positive("sd", self.sd)


@dataclass(frozen=True)
class LogNormal:
    """The logarithm is normal; `mean` None is estimated as the mean logarithm over items.

    A fixed mean sets the scale of the abilities where items are many and targets few: with 5,000
    items its weight is that of 5,000 observations, against as many as there are targets.

    The posterior mode is taken on the scale of log a, so that it does not depend on the unit of the
    abilities. A program that takes the mode of a itself (density with the factor 1 / a) has the
    same mode where its mean is higher by `sd` squared.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation of the logarithm, `sd` > 0.
    """

    mean: float | None
    sd: float

    def __post_init__(self) -> None:
        _positive("sd", self.sd)


@dataclass(frozen=True)
class Beta:
    """Beta prior of an asymptote: density proportional to x^(alpha - 1) (1 - x)^(beta - 1)."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        _positive("alpha", self.alpha)
        _positive("beta", self.beta)


@dataclass(frozen=True)
class LogitNormal:
    """Normal prior of the logit of an asymptote; its mode is taken on the logit scale.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation of the logit, `sd` > 0.
    """

    mean: float
    sd: float

    def __post_init__(self) -> None:
        _positive("sd", self.sd)


@dataclass(frozen=True)
class ItemPriors:
    """Priors of the parameters of every item; None stands for no prior.

    Parameters
    ----------
    slope
        Of a; a log-normal prior keeps it positive.
    intercept
        Of d.
    lower, upper
        Of the asymptotes g and u.
    """

    slope: Normal | LogNormal | None = field(default_factory=lambda: LogNormal(None, 0.5))
    intercept: Normal | None = field(default_factory=lambda: Normal(None, 3.0))
    lower: Beta | LogitNormal | None = field(default_factory=lambda: Beta(5.0, 17.0))
    upper: Beta | LogitNormal | None = field(default_factory=lambda: Beta(40.0, 2.0))


NO_PRIORS = ItemPriors(slope=None, intercept=None, lower=None, upper=None)


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise InputError(f"{name} of a prior is {value:g}", fix="give a number above 0")
