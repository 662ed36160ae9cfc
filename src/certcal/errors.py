"""What certcal raises.

CertcalError
├── InputError (also a ValueError)   an argument is not what the function needs
└── TrainingError                    training cannot go on

CertcalWarning (a UserWarning)       what was given may not be what was meant
"""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

_OURS = str(Path(__file__).parent)
Errors = type[Exception] | tuple[type[Exception], ...]


def one_line(error: BaseException, *, most: int = 400) -> str:
    """What another library's error says, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else f"{text[: most - 1]}…"


class CertcalError(Exception):
    """Base of every error raised on purpose by certcal."""


class InputError(CertcalError, ValueError):
    """An argument is not what the function needs."""

    @classmethod
    def expected(cls, argument: str, requirement: str, got: object) -> Self:
        """The one sentence in which all bad input is answered.

        >>> str(InputError.expected("n_bins", "be an integer ≥ 1", 0))
        'Expected `n_bins` to be an integer ≥ 1, but got 0.'
        """
        # The verb reads naturally after "to": "to be …", "to lie in …", "to hold …".
        return cls(f"Expected `{argument}` to {requirement}, but got {' '.join(str(got).splitlines())}.")

    @classmethod
    @contextmanager
    def expecting(
        cls,
        argument: str,
        requirement: str,
        got: str | Callable[[Exception], str] = one_line,
        *,
        on: Errors = Exception,
    ) -> Iterator[None]:
        """Within this context errors of other code are answered in that sentence; those of certcal stay as they are.

        Args:
            got: what there is instead, or what to say of the error.
        """
        try:
            yield
        except CertcalError:
            raise
        except on as error:
            raise cls.expected(argument, requirement, got if isinstance(got, str) else got(error)) from error


def renamed(text: str, names: Mapping[str, str]) -> str:
    """What an error says, with arguments under other names, such as those of options."""
    for known, typed in names.items():
        text = text.replace(f"Expected `{known}` to", f"Expected `{typed}` to")
    return text


@contextmanager
def renaming(names: Mapping[str, str], *, hint: Callable[[str], str] = lambda error: "") -> Iterator[None]:
    """Within this context errors call arguments by other names, and end in a hint, if there is one."""
    try:
        yield
    except InputError as error:
        raise type(error)(renamed(str(error), names) + hint(str(error))) from error


class CertcalWarning(UserWarning):
    """What was given may not be what was meant."""


class TrainingError(CertcalError):
    """Training cannot go on: the loss is no longer a number."""


def kind_of(value: object) -> str:
    """The type of a value, with its article: "an int"; of a list or tuple also those of its entries."""
    named = with_article(type(value).__name__)
    kinds = dict.fromkeys(type(one).__name__ for one in value) if isinstance(value, list | tuple) else ()
    return f"{named} of {', '.join(kinds)}" if kinds else named


def with_article(name: str) -> str:
    """The name of a type with its article.

    >>> with_article("Evidence"), with_article("ndarray"), with_article("Report")
    ('an Evidence', 'an ndarray', 'a Report')
    """
    return f"{'an' if name.startswith(('nd', *'aeiouAEIO')) else 'a'} {name}"


def several(count: int, noun: str = "input", nouns: str | None = None) -> str:
    """A count with its noun.

    >>> several(1), several(1200), several(2, "radius", "radii")
    ('1 input', '1,200 inputs', '2 radii')
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def raised(error: Exception) -> str:
    """An exception of the user's code with the place it comes from: theirs, not ours or that of a library they call."""
    theirs = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and not frame.filename.startswith(("<", _OURS))
    ]
    place = f" in {Path(theirs[-1].filename).name}, line {theirs[-1].lineno}" if theirs else ""
    return f"{type(error).__name__}: {one_line(error)}{place}"
