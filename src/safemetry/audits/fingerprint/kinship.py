"""How much of its answers one known target shares with another, beyond their abilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safemetry.audits.fingerprint.reruns import CONCENTRATIONS, NOISE_SHARES
from safemetry.audits.fingerprint.roster import Roster
from safemetry.irt.parameters import FloatArray


@dataclass(frozen=True)
class Kinship:
    """Likeness of all pairs of R known targets.

    Parameters
    ----------
    likeness
        One less the noise share under which the answers of one target are most likely as a re-run
        of the other: near 1 for copies, 0 where nothing but ability is shared. Shape ``(R, R)``,
        symmetric (the smaller of both directions), 1 on the diagonal.
    evidence
        Log-likelihood at that noise share less that of sharing nothing, at least 0, symmetric.
    """

    likeness: FloatArray
    evidence: FloatArray


def kinship(roster: Roster) -> Kinship:
    """Likeness of known targets, on the scale of the noise shares of `reruns`.

    Parameters
    ----------
    roster
        R known targets; their own noise does not enter.
    """
    count = len(roster.names)
    shares = roster.shares.reshape(count, -1)
    total = roster.counts.sum(axis=-1, keepdims=True)
    alone = np.log(roster.means).reshape(count, -1) @ shares.T
    best, place = np.zeros((count, count)), np.full((count, count), -1)
    for step, concentration in enumerate(CONCENTRATIONS):
        chances = (roster.counts + concentration * roster.means) / (total + concentration)
        gain = np.log(chances).reshape(count, -1) @ shares.T - alone
        better = gain > best
        best, place = np.where(better, gain, best), np.where(better, step, place)
    likeness = np.where(place >= 0, 1 - NOISE_SHARES[place], 0.0)
    likeness = np.minimum(likeness, likeness.T)
    np.fill_diagonal(likeness, 1.0)
    return Kinship(likeness, np.minimum(best, best.T))
