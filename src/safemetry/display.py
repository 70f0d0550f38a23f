"""How names and texts that others wrote are shown: visible, short, and harmless wherever pasted."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

NAME_WIDTH: Final = 60
_KEPT_SPACES: Final = frozenset("\N{IDEOGRAPHIC SPACE}")
_WIDE_SIGNS: Final = (
    "\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
)
# Some spreadsheets take the wide forms for the plain ones.
FORMULA: Final = rf"^'*[=+\-@\t\r\n{_WIDE_SIGNS}]"
"""Beginning of a text that a spreadsheet runs, for the engines of Python and of Arrow."""
NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""A plain number, which does no harm though it may begin with a sign."""


def visible(text: str) -> str:
    r"""Text in which everything that a terminal would act on, or hide, is written as an escape.

    >>> print(visible("red \x1b[31m, two\nlines"))
    red \x1b[31m, two\nlines
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in _KEPT_SPACES
        else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in text
    )


def shown(value: object, width: int = NAME_WIDTH) -> str:
    """A value as text that fits a cell; a long id loses its middle, None is empty.

    >>> shown("a" * 100, width=9)
    'aaaaa…aaa'
    """
    text = "" if value is None else str(value)
    # Only the ends of an id can be seen, however long it is.
    if len(text) > 4 * width:
        text = text[: 2 * width] + "\N{HORIZONTAL ELLIPSIS}" + text[-2 * width :]
    return shortened(visible(text), width)


def defused(text: str) -> str:
    """Text that no spreadsheet takes for a formula when it is pasted there.

    >>> defused("=1+1"), defused("-1.5")
    ("'=1+1", '-1.5')
    """
    is_formula = re.match(FORMULA, text) and not re.match(NUMBER, text)
    return f"'{text}" if is_formula else text


def undefused(text: str) -> str:
    """The text behind one that `defused` may have marked.

    >>> undefused("'=1+1"), undefused("'quoted'")
    ('=1+1', "'quoted'")
    """
    return text[1:] if text.startswith("'") and re.match(FORMULA, text) else text


def shortened(text: str, width: int) -> str:
    """Text without its middle where it is wider than `width` columns; both ends tell it apart."""
    if cell_width(text) <= width:
        return text
    tail = _cut(text[::-1], width // 3)[::-1]
    head = _cut(text, width - 1 - cell_width(tail))
    return f"{head}\N{HORIZONTAL ELLIPSIS}{tail}"


def _cut(text: str, width: int) -> str:
    used = 0
    for index, letter in enumerate(text):
        used += _letter_width(letter)
        if used > width:
            return text[:index]
    return text


def cell_width(text: str) -> int:
    """Columns that a text takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
