"""What the page says of a guaranteed error: each part with its step, and no gain that was not foreseen."""

from certcal.evaluation import Gap
from certcal.report import advice_section


def view(**change):
    parts = {"clean": 0.04, "adversary": 0.2, "uncertified": 0.0, "sampling": 0.05}
    own = {"radius": 0.25, **parts, "more_draws": 0.26, "half_radius": 0.15, "sharper": 0.4, "softer": 0.4} | change
    own.setdefault("guaranteed", sum(own[name] for name in parts))
    said = advice_section(
        [Gap(**own)], sigma=0.5, draws=1000, more=("make 10,000 draws", "certcal certify m --n 10000"),
        tempered=lambda value: (f"divide by {value}", f"--temperature {value}"),
        recalibrate="certcal recalibrate m", recalibrated={0.25: 0.1},
    )["views"][0]  # fmt: skip
    return said, {row["cause"]: row for row in said["rows"]}


def test_each_gain_is_that_of_its_step():
    said, rows = view()
    nearer = rows["the adversary"]
    assert nearer["action"] == "ask for half the radius, R = 0.125, which lessens all parts"
    assert nearer["gain"] == "−14.0 points"
    assert rows["sampling error"]["gain"] == "−3.0 points"
    assert rows["the model's own miscalibration"]["gain"] == "−19.0 points"
    assert "inputs without a certificate" not in rows
    assert said["next"] == "recalibrate the confidences (about −19.0 points)."


def test_inputs_without_a_certificate_have_a_step_and_the_most_it_can_gain():
    said, rows = view(uncertified=0.3)
    row = rows["inputs without a certificate"]
    assert "certcal train --objective noise --sigma 0.5" in row["action"]
    assert row["gain"] == "up to −30.0 points"
    assert said["next"].startswith("recalibrate")  # which is foreseen, and not only possible
    said, _ = view(clean=0.0, adversary=0.0, sampling=0.0, uncertified=0.1, more_draws=0.1, half_radius=0.1)
    assert "train under this noise" in said["next"]
    assert said["next"].endswith("(up to −10.0 points).")


def test_nothing_to_do_is_said():
    said, _ = view(clean=0.1, adversary=0.0, sampling=0.0, more_draws=0.1, half_radius=0.1)
    assert said["next"] == "no step known here would lower it by half a point."
    said, _ = view(guaranteed=float("nan"))
    assert "no prediction is proven" in said["why"]


def test_a_temperature_that_would_help_has_its_way():
    _, rows = view(sharper=0.2)
    row = rows["the temperature"]
    assert (row["action"], row["command"], row["gain"]) == ("divide by 0.25", "--temperature 0.25", "−9.0 points")
    assert "the temperature" not in view()[1]
