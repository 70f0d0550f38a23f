"""What goes wrong at the border, said once and in full.

Every error that a user can cause names the file, the row, the column and the fix. The command line
prints it as one line and leaves with exit code 2; inside the package such states do not exist.
"""

from __future__ import annotations


class SafemetryError(Exception):
    """Base of every error that safemetry raises on purpose."""


class InputError(SafemetryError):
    """A source, a map or an option that cannot be used as it stands.

    Parameters
    ----------
    problem
        What is wrong, in one clause without a full stop.
    file
        The source, as the user named it.
    row
        Data row, counted from 1 (a header is not a row).
    line
        Line of a text file, counted from 1, where it is known.
    column
        The column as the source names it.
    fix
        What to do about it, in one clause.

    Examples
    --------
    >>> print(
    ...     InputError(
    ...         "unknown label 'maybe'",
    ...         file="a.csv",
    ...         row=3,
    ...         line=4,
    ...         column="label",
    ...         fix="add it to the map",
    ...     )
    ... )
    a.csv, row 3 (line 4), column 'label': unknown label 'maybe'; add it to the map
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        row: int | None = None,
        line: int | None = None,
        column: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.row = row
        self.line = line
        self.column = column
        self.fix = fix
        super().__init__(self._message())

    def _message(self) -> str:
        place = [self.file] if self.file else []
        if self.row is not None:
            place.append(f"row {self.row}" + (f" (line {self.line})" if self.line else ""))
        elif self.line is not None:
            place.append(f"line {self.line}")
        if self.column:
            place.append(f"column {self.column!r}")
        said = f"{', '.join(place)}: {self.problem}" if place else self.problem
        return f"{said}; {self.fix}" if self.fix else said

    def at(self, file: str) -> InputError:
        """The same error with the file named, where it was not yet."""
        if self.file:
            return self
        return InputError(
            self.problem,
            file=file,
            row=self.row,
            line=self.line,
            column=self.column,
            fix=self.fix,
        )


class ScopeMismatchError(SafemetryError):
    """Two claims that do not speak of the same thing.

    Attributes
    ----------
    parts
        The parts of the scope that differ, as ``{part: (first, second)}``.
    """

    def __init__(self, parts: dict[str, tuple[object, object]]) -> None:
        self.parts = parts
        listed = "; ".join(
            f"{name}: {first} against {second}" for name, (first, second) in parts.items()
        )
        super().__init__(f"these claims are not comparable, their scopes differ in {listed}")


class MixedIntentError(SafemetryError):
    """A refusal rate asked for over harmful and benign items at once."""


class MissingExtraError(SafemetryError):
    """An optional dependency that is not installed."""
