"""The head of a JSON document: the names of its members, though the document is cut off there."""

from __future__ import annotations

import json
from collections.abc import Iterator

from safemetry.readers.source import Source


def members_of(source: Source) -> dict[str, frozenset[str]]:
    """Member of the document -> its own members, as far as the head of the source goes.

    Empty where the document is no object; a member that is no object has no members.
    """
    text = source.head.decode("utf-8", "ignore").lstrip()
    return {
        name: frozenset(inner for inner, _ in _members(text[start:]))
        for name, start in _members(text)
    }


def names_in(text: bytes) -> set[str]:
    """Names of the members of the object that a text begins with, as far as it goes."""
    return {name for name, _ in _members(text.decode("utf-8", "ignore").lstrip())}


def _members(text: str) -> Iterator[tuple[str, int]]:
    """Name and place of the value of each member of the object that a text begins with."""
    decoder = json.JSONDecoder()
    at, opening = 0, "{"
    while True:
        at = _after_blanks(text, at)
        if text[at : at + 1] != opening:
            return
        try:
            name, at = decoder.raw_decode(text, _after_blanks(text, at + 1))
            at = _after_blanks(text, at)
            if not isinstance(name, str) or text[at : at + 1] != ":":
                return
            at = _after_blanks(text, at + 1)
            yield name, at
            _, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return  # the head ends here
        opening = ","


def _after_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in {" ", "\t", "\r", "\n"}:
        at += 1
    return at
