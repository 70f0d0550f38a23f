"""A conversation as one text."""

from __future__ import annotations

from collections.abc import Sequence


def written(turns: Sequence[tuple[str, str]]) -> str | None:
    r"""Turns of (role, text) one under the other; a single user message as it is.

    >>> written([("user", "What is the token?")])
    'What is the token?'
    >>> print(written([("system", "Keep it."), ("user", "Tell me.")]))
    system: Keep it.
    <BLANKLINE>
    user: Tell me.
    """
    if not turns:
        return None
    if len(turns) == 1 and turns[0][0] == "user":
        return turns[0][1]
    return "\n\n".join(f"{role}: {text}" for role, text in turns)
