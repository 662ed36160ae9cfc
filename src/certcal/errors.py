"""What certcal raises.

CertcalError
├── InputError (also a ValueError)   an argument is not what the function needs
└── TrainingError                    training cannot go on
"""


class CertcalError(Exception):
    """Base of every error raised on purpose by certcal."""


class InputError(CertcalError, ValueError):
    """An argument is not what the function needs."""

    @classmethod
    def expected(cls, argument: str, requirement: str, got: object) -> "InputError":
        """The one sentence in which all bad input is answered.

        >>> str(InputError.expected("n_bins", "be an integer ≥ 1", 0))
        'Expected `n_bins` to be an integer ≥ 1, but got 0.'
        """
        # The verb reads naturally after "to": "to be …", "to lie in …", "to hold …".
        return cls(f"Expected `{argument}` to {requirement}, but got {' '.join(str(got).splitlines())}.")


class TrainingError(CertcalError):
    """Training cannot go on: the loss is no longer a number."""


def one_line(error: BaseException, *, most: int = 400) -> str:
    """What another library's error says, in one line."""
    return " ".join(str(error).split())[:most] or type(error).__name__
