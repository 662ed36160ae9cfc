"""Declared settings: checks, help and options follow from one line."""

import pickle
from dataclasses import MISSING, dataclass, replace

import pytest

from certcal import InputError
from certcal.settings import (
    BoundsSettings,
    DataSettings,
    EvaluateSettings,
    ObjectiveSettings,
    RecalibrateSettings,
    Record,
    build,
    declared,
    options_of,
    setting,
)
from certcal.settings.checks import at_least_1


@dataclass(frozen=True, kw_only=True)
class Sample(Record, panel="Things"):
    size: int = setting(..., "How large.", check=at_least_1)
    share: float = setting(0.25, "How much")
    colour: str = setting("red", "Which colour", choices=("red", "green", "blue"), option="--paint", panel="Looks")
    parts: tuple[int, ...] | None = setting(None, "Which parts", shown="all", metavar="A,…")
    extra: tuple[str, ...] = setting((), "What else", choices=("a", "b"))
    table: dict[str, int] = setting({}, "More.", option=None)  # noqa: RUF009
    loud: bool = setting(False, "Say so.", was="noisy")


def test_what_is_declared_is_told():
    size, share, colour, parts, extra, table, loud = declared(Sample)
    assert size.default is MISSING
    assert [one.describe() for one in (size, share, parts)] == [
        "How large.",
        "How much (default: 0.25).",
        "Which parts (default: all).",
    ]
    assert colour.describe() == "Which colour: red, green or blue (default: red)."
    assert extra.describe() == "What else: some of a, b."
    assert [one.option for one in (size, colour, table, loud)] == ["--size", "--paint", None, "--loud"]
    assert (size.panel, colour.panel, parts.metavar) == ("Things", "Looks", "A,…")
    assert (parts.kind, parts.many, parts.optional, share.optional) == (int, True, True, False)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 0}, "Expected `size` to be an integer ≥ 1, but got 0."),
        ({"share": "x"}, "Expected `share` to be a number, but got the text 'x'"),
        ({"share": None}, "Expected `share` to be a number, but got None."),
        ({"colour": "pink"}, "Expected `colour` to be one of 'red', 'green', 'blue', but got 'pink'."),
        ({"parts": ()}, "Expected `parts` to hold at least one value, but got none."),
        ({"parts": (1, 2.5)}, "Expected `parts` to be an integer"),
        ({"extra": ("c",)}, "Expected `extra` to be one of 'a', 'b', but got 'c'."),
        ({"table": 3}, "Expected `table` to be a table, but got 3."),
        ({"loud": 1}, "Expected `loud` to be True or False, but got 1."),
    ],
)
def test_python_checks_what_is_declared(wrong, message):
    with pytest.raises(InputError) as caught:
        Sample(**{"size": 1} | wrong)
    assert str(caught.value).startswith(message)


def test_tables_are_not_shared_between_records():
    first, second = Sample(size=1), Sample(size=1)
    assert first == second
    assert first.table is not second.table


def test_a_key_of_an_earlier_version_is_read():
    assert build(Sample, {"size": 1, "noisy": True}, "old.toml").loud
    assert build(EvaluateSettings, {"joint": False}, "old.toml").split_alpha is False


def test_an_objective_has_its_own_options_only():
    own = ObjectiveSettings(name="cce-act", draws=4)
    assert replace(own, steps=2).steps == 2
    assert pickle.loads(pickle.dumps(own)) == own
    assert options_of("ce") == ()
    assert options_of("noise") == ("draws", "update")
    assert "eta" not in options_of("acce-act")
    with pytest.raises(
        InputError, match=r"`eta` to be left out for the objective 'noise', as it belongs to acce-act\*"
    ):
        ObjectiveSettings(name="noise", eta=0.5)


def test_a_file_may_name_options_of_its_objective_only():
    read = {"name": "noise", "draws": 3}
    with pytest.raises(
        InputError, match=r"^Unknown setting objective.eta in mine.toml \(it belongs to acce-act\*\)\.$"
    ):
        build(ObjectiveSettings, read | {"eta": 0.9}, "mine.toml", where="objective")  # its default there
    with pytest.raises(InputError, match="did you mean draws"):
        build(ObjectiveSettings, {"name": "noise", "drawss": 3}, "mine.toml")


def test_weights_of_radii_come_with_radii():
    with pytest.raises(InputError, match="`radius_weights` to come with radii"):
        RecalibrateSettings(radius_weights=(1.0,))


def test_the_help_names_only_what_is_typed():
    """A run of a table says so in its file; nobody types it after `certify --certifier`."""
    (own,) = [one for one in declared(BoundsSettings) if one.name == "certifier"]
    assert own.describe() == "Who certifies: smoothing, lirpa or lipschitz (default: smoothing)."
    assert BoundsSettings(certifier="table").certifier == "table"


def test_what_inputs_hold_and_where_they_may_be_moved_are_two_words():
    options = {record: {one.option for one in declared(record)} for record in (DataSettings, BoundsSettings)}
    assert "--values" in options[DataSettings]
    assert "--domain" not in options[DataSettings]
    assert "--domain" in options[BoundsSettings]
    assert not {one.name for one in declared(DataSettings)} & {one.name for one in declared(BoundsSettings)}
    older = build(DataSettings, {"name": "table.npz", "domain": "any"}, "config.toml")
    assert older == DataSettings(name="table.npz", values="any")
