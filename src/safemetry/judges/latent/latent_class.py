"""A latent class behind the labels of several judges: likelihood, EM and cluster-robust errors.

A response of group g (such as a target) is of true class c with probability pi_gc; judge j then
gives it label l with probability theta_jcl, whatever the other judges say. Rows with the same group
and labels have the same likelihood, so everything is computed on distinct patterns with weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

_LARGEST_KEY: Final = 2**60
_CHUNK: Final = 16_384


@dataclass(frozen=True)
class Patterns:
    """Distinct rows of labels within groups.

    Parameters
    ----------
    labels
        Shape ``(P, J)``, codes 0 ... K - 1, -1 where there is no verdict.
    group
        Shape ``(P,)``, codes 0 ... G - 1.
    weight
        Responses with the pattern, shape ``(P,)``.
    row
        Pattern of each response, shape ``(R,)``.
    """

    labels: CodeArray
    group: IntArray
    weight: FloatArray
    row: IntArray


@dataclass(frozen=True)
class LatentClass:
    """Estimates of the model.

    Parameters
    ----------
    prevalence
        pi, shape ``(G, K)``.
    confusion
        theta by judge, true class and label, shape ``(J, K, K)``.
    log_likelihood
        Without the prior.
    objective
        Log-likelihood and log prior.
    iterations
        EM steps.
    converged
        Whether the last step changed no probability by more than the tolerance.
    """

    prevalence: FloatArray
    confusion: FloatArray
    log_likelihood: float
    objective: float
    iterations: int
    converged: bool


def distinct_patterns(labels: CodeArray, group: IntArray, classes: int) -> Patterns:
    """Responses with the same group and labels, put together.

    Parameters
    ----------
    labels
        Shape ``(R, J)``, -1 where there is no verdict.
    group
        Shape ``(R,)``, codes >= 0.
    classes
        Number K of classes.

    Examples
    --------
    >>> found = distinct_patterns(np.array([[0, 1], [1, 1], [0, 1]], np.int8), np.zeros(3, int), 2)
    >>> found.weight.tolist(), found.row.tolist()
    ([2.0, 1.0], [0, 1, 0])
    """
    key = group.astype(np.int64)
    size = int(key.max(initial=0)) + 1
    for column in labels.T:
        if size * (classes + 1) > _LARGEST_KEY:
            key = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
            size = int(key.max(initial=0)) + 1
        key = key * (classes + 1) + column + 1
        size *= classes + 1
    _, first, row, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    return Patterns(
        labels[first], group[first].astype(np.int64), count.astype(np.float64), row.reshape(-1)
    )


class Likelihood:
    """The model on given patterns.

    Parameters
    ----------
    patterns
        Distinct patterns.
    can_emit
        Whether a judge can give a label, shape ``(J, K)``; what it cannot give has probability 0.
    groups
        Number G of groups.
    pseudo
        Responses that the prior adds to every prevalence and to every row of a confusion matrix,
        evenly over their classes; > 0.
    """

    def __init__(self, patterns: Patterns, can_emit: BoolArray, groups: int, pseudo: float) -> None:
        from scipy import sparse

        self.patterns, self.can_emit, self.groups = patterns, can_emit, groups
        self.judges, self.classes = can_emit.shape
        self.prior_share = pseudo / self.classes
        self.prior_label = pseudo * can_emit / np.maximum(can_emit.sum(1, keepdims=True), 1)
        self.responses = patterns.weight.sum()
        place, judge = np.nonzero(patterns.labels >= 0)
        column = judge * self.classes + patterns.labels[place, judge]
        shape = (len(patterns.weight), self.judges * self.classes)
        self._given: Any = sparse.csr_array((np.ones(len(place)), (place, column)), shape)
        self._back: Any = self._given.T.tocsr()
        spread = (patterns.weight, (patterns.group, np.arange(len(patterns.weight))))
        self._by_group: Any = sparse.csr_array(spread, (groups, len(patterns.weight)))

    def start(self, rng: np.random.Generator | None = None) -> FloatArray:
        """Shares of labels in a pattern as first guess of its class, or a random mixture of them.

        Source: Dawid & Skene (1979), section 3.3 (shares of labels).
        """
        counted = (self.patterns.labels[:, :, None] == np.arange(self.classes)).sum(axis=1)
        shares = (counted + 0.01) / (counted + 0.01).sum(axis=1, keepdims=True)
        if rng is None:
            return np.asarray(shares)
        # A random trust in each judge: its label counts as often as an exponential number says.
        trust: FloatArray = np.square(rng.exponential(1.0, (self.judges,)))
        weighted = np.zeros_like(shares)
        for judge in range(self.judges):
            weighted += trust[judge] * (self.patterns.labels[:, [judge]] == np.arange(self.classes))
        weighted += 0.1 * rng.dirichlet(np.ones(self.classes), len(shares))
        return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))

    def maximise(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Prevalences and confusion matrices that the classes imply (M step)."""
        share = self._by_group @ posterior + self.prior_share
        weighted = self.patterns.weight[:, None] * posterior
        counted = (self._back @ weighted).reshape(self.judges, self.classes, self.classes)
        label = counted.transpose(0, 2, 1) + self.prior_label[:, None, :]
        return (
            share / share.sum(axis=1, keepdims=True),
            label / np.maximum(label.sum(axis=2, keepdims=True), 1e-300),
        )

    def expect(self, prevalence: FloatArray, confusion: FloatArray) -> tuple[FloatArray, float]:
        """Probability of each class by pattern ``(P, K)``, and log-likelihood (E step)."""
        logs = np.log(np.where(confusion > 0, confusion, 1.0)).transpose(0, 2, 1)
        joint = self._given @ logs.reshape(-1, self.classes)
        joint += np.log(prevalence)[self.patterns.group]
        top = joint.max(axis=1, keepdims=True)
        np.exp(joint - top, out=joint)
        total = joint.sum(axis=1, keepdims=True)
        joint /= total
        found = float(self.patterns.weight @ (np.log(total) + top)[:, 0])
        return joint, found

    def log_prior(self, prevalence: FloatArray, confusion: FloatArray) -> float:
        """Logarithm of the Dirichlet priors, up to a constant."""
        logs = np.log(np.where(confusion > 0, confusion, 1.0))
        label = float((self.prior_label[:, None, :] * logs).sum())
        return float(label + self.prior_share * float(np.log(prevalence).sum()))

    def fit(
        self, posterior: FloatArray, *, tolerance: float = 1e-6, most: int = 2000
    ) -> LatentClass:
        """The nearest maximum of the posterior density, by EM with squared extrapolation.

        Source: Dawid & Skene (1979), equations 2.3 to 2.5; Varadhan & Roland (2008), Scandinavian
        Journal of Statistics 35, 335-353, scheme S3, here on logarithms of the probabilities.
        """
        now = self.maximise(posterior)
        steps, converged = 0, False
        held = -np.inf
        while steps < most and not converged:
            first, value = self._step(now)
            second, after = self._step(first)
            steps += 2
            converged = _distance(first, second) < tolerance
            further = second if converged else _extrapolated(now, first, second, self.can_emit)
            # An extrapolation may overshoot; the plain step never lowers the objective.
            if further is not second:
                tried = self.objective(*further)
                further = further if tried >= max(after, value, held) else second
            now, held = further, value
        _, likelihood = self.expect(*now)
        objective = likelihood + self.log_prior(*now)
        return LatentClass(*now, likelihood, objective, steps, converged)

    def objective(self, prevalence: FloatArray, confusion: FloatArray) -> float:
        """Log-likelihood and log prior."""
        return self.expect(prevalence, confusion)[1] + self.log_prior(prevalence, confusion)

    def _step(
        self, now: tuple[FloatArray, FloatArray]
    ) -> tuple[tuple[FloatArray, FloatArray], float]:
        posterior, likelihood = self.expect(*now)
        return self.maximise(posterior), likelihood + self.log_prior(*now)


def _distance(a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray]) -> float:
    return max(float(np.abs(x - y).max(initial=0.0)) for x, y in zip(a, b, strict=True))


def _extrapolated(
    start: tuple[FloatArray, FloatArray],
    first: tuple[FloatArray, FloatArray],
    second: tuple[FloatArray, FloatArray],
    can_emit: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    def logs(point: tuple[FloatArray, FloatArray]) -> FloatArray:
        return np.concatenate([np.log(np.where(x > 0, x, 1.0)).ravel() for x in point])

    origin, one, two = logs(start), logs(first), logs(second)
    change = one - origin
    bend = two - one - change
    size = float(bend @ bend)
    length = min(-1.0, -np.sqrt(float(change @ change) / size)) if size > 0 else -1.0
    found = origin - 2 * length * change + length**2 * bend
    cut = start[0].size
    share = np.exp(np.clip(found[:cut], -700, 50)).reshape(start[0].shape)
    label = np.exp(np.clip(found[cut:], -700, 50)).reshape(start[1].shape) * can_emit[:, None, :]
    return (
        share / share.sum(axis=1, keepdims=True),
        label / np.maximum(label.sum(axis=2, keepdims=True), 1e-300),
    )


def named_classes(fit: LatentClass, weights: FloatArray) -> LatentClass:
    """The same estimates with each latent class under the name that judges most often give it.

    Labels of latent classes are arbitrary; they are matched to the class order so that the
    probability that a judge names a response's class is highest.

    Parameters
    ----------
    fit
        Estimates.
    weights
        Of the judges, shape ``(J,)``: their numbers of verdicts.

    Source: the assignment problem, as in Stephens (2000), JRSS B 62, 795-809.
    """
    from scipy.optimize import linear_sum_assignment

    named = np.tensordot(weights / weights.sum(), fit.confusion, axes=1)
    latent, name = linear_sum_assignment(-named)
    order = np.empty(len(latent), np.int64)
    order[name] = latent
    return LatentClass(
        fit.prevalence[:, order],
        fit.confusion[:, order],
        fit.log_likelihood,
        fit.objective,
        fit.iterations,
        fit.converged,
    )


@dataclass(frozen=True)
class Influence:
    """What each unit moves.

    Parameters
    ----------
    scores
        Derivative of the log-likelihood by logits, summed over each unit, shape ``(U, Q)``: first
        the prevalences ``(G, K)``, then the confusion matrices by true class ``(K, J, K)``.
    inverse
        Of the observed information, shape ``(Q, Q)``.
    """

    scores: FloatArray
    inverse: FloatArray

    def of(self, gradient: FloatArray) -> FloatArray:
        """First-order change of functions with these gradients by logits ``(T, Q)``: ``(U, T)``."""
        centred = self.scores - self.scores.mean(axis=0)
        found: FloatArray = centred @ (self.inverse @ gradient.T)
        return found


def influence(model: Likelihood, fit: LatentClass, unit: IntArray) -> Influence:
    """Scores of units and the observed information, on multinomial logits.

    The variance of an estimate is the sum of squares of the units' influence, which is right also
    where responses of a unit go together, and where judges depend on each other (for what the
    model then estimates).

    Parameters
    ----------
    model, fit
        Data and estimates.
    unit
        Independent unit of each response, codes 0 ... U - 1, shape ``(R,)``.

    Source: Louis (1982), JRSS B 44, 226-233, equation 3.2; White (1982), Econometrica 50, 1-25.
    """
    from scipy import linalg, sparse

    patterns, groups, classes = model.patterns, model.groups, model.classes
    width = model.judges * classes
    size = groups * classes + classes * width
    units = int(unit.max(initial=0)) + 1
    counts: Any = sparse.csc_array(
        (np.ones(len(unit)), (unit, patterns.row)), (units, len(patterns.weight))
    )
    posterior, _ = model.expect(fit.prevalence, fit.confusion)
    scores, missing = np.zeros((units, size)), np.zeros((size, size))
    for start in range(0, len(posterior), _CHUNK):
        part = slice(start, start + _CHUNK)
        score, second = _derivatives(model, fit, posterior[part], part)
        scores += counts[:, part] @ score
        missing += second
    information = _complete_information(model, fit, posterior) - missing
    # Logits of one multinomial may all move by a constant: those directions carry no information.
    blocks = [np.ones((classes, classes))] * (groups + classes * model.judges)
    idle = linalg.block_diag(*blocks) * max(1.0, float(np.diag(information).max()))
    emit = np.concatenate([np.ones(groups * classes), np.tile(model.can_emit.ravel(), classes)])
    idle *= emit[:, None] * emit[None, :]
    idle[np.diag_indices(size)] += 1 - emit
    return Influence(scores, np.asarray(linalg.pinvh(information + idle)))


def _derivatives(
    model: Likelihood, fit: LatentClass, posterior: FloatArray, part: slice
) -> tuple[FloatArray, FloatArray]:
    """Scores of patterns, and the part of the complete information that they do not show."""
    classes, groups = model.classes, model.groups
    width = model.judges * classes
    labels, weight = model.patterns.labels[part], model.patterns.weight[part]
    group = model.patterns.group[part]
    judged = labels >= 0
    given = (labels[:, :, None] == np.arange(classes)).astype(np.float64)
    score = np.zeros((len(labels), groups * classes + classes * width))
    second = np.zeros((score.shape[1],) * 2)
    cells = group[:, None] * classes + np.arange(classes)
    rows = np.arange(len(labels))[:, None]
    share = fit.prevalence[group]
    score[rows, cells] = posterior - share
    for c in range(classes):
        place = slice(groups * classes + c * width, groups * classes + (c + 1) * width)
        away = ((given - fit.confusion[:, c]) * judged[:, :, None]).reshape(len(labels), width)
        likely = weight * posterior[:, c]
        score[:, place] = posterior[:, [c]] * away
        second[place, place] += away.T @ (likely[:, None] * away)
        cross = np.zeros((len(labels), groups * classes))
        cross[rows, cells] = (np.arange(classes) == c) - share
        block = cross.T @ (likely[:, None] * away)
        second[: groups * classes, place] += block
        second[place, : groups * classes] += block.T
        second[: groups * classes, : groups * classes] += cross.T @ (likely[:, None] * cross)
    second -= score.T @ (weight[:, None] * score)
    return score, second


def _complete_information(model: Likelihood, fit: LatentClass, posterior: FloatArray) -> FloatArray:
    from scipy import linalg

    patterns, classes = model.patterns, model.classes
    size = np.bincount(patterns.group, patterns.weight, model.groups) + model.prior_share * classes
    judged = (patterns.labels >= 0).astype(np.float64)
    expected = (patterns.weight[:, None] * posterior).T @ judged + model.prior_label.sum(axis=1)
    blocks = [n * (np.diag(p) - np.outer(p, p)) for n, p in zip(size, fit.prevalence, strict=True)]
    for c in range(classes):
        for j in range(model.judges):
            p = fit.confusion[j, c]
            blocks.append(expected[c, j] * (np.diag(p) - np.outer(p, p)))
    return np.asarray(linalg.block_diag(*blocks))
