"""Errors of other code are answered in our own sentence."""

import pytest

from certcal.errors import CertcalError, InputError


class TheirError(Exception):
    """One that another library made up."""


def test_errors_of_other_code_are_told_in_one_sentence():
    told = r"^Expected `n` to be a number, but got two lines\.$"
    with pytest.raises(InputError, match=told) as caught, InputError.expecting("n", "be a number"):
        raise TheirError("two\nlines")
    assert isinstance(caught.value.__cause__, TheirError)


@pytest.mark.parametrize("got", ["'x'", lambda error: repr(error.args[0])])
def test_what_there_was_instead_is_given_or_made_of_the_error(got):
    expecting = InputError.expecting("n", "be a number", got, on=(TypeError, ValueError))
    with pytest.raises(InputError, match=r"^Expected `n` to be a number, but got 'x'\.$"), expecting:
        raise ValueError("x")


@pytest.mark.parametrize(
    "error", [InputError("ours"), CertcalError("ours"), TypeError("not named"), KeyboardInterrupt()]
)
def test_errors_of_ours_and_those_that_are_not_named_stay_as_they_are(error):
    with pytest.raises(type(error)) as caught, InputError.expecting("n", "be a number", on=ValueError):
        raise error
    assert caught.value is error
