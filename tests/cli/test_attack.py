"""What `certcal attack` shows on the screen."""

from page_samples import attacked_sample


def test_a_narrow_terminal_cuts_no_number(capsys, monkeypatch):
    from certcal.cli.attack import _show_ace
    from certcal.cli.screen import wide_console

    monkeypatch.setenv("COLUMNS", "80")
    record = attacked_sample(budgets=(2 / 255, 3 / 255, 8 / 255))[1]["ace"]
    _show_ace(wide_console(), record)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.rstrip().endswith("90.00 %") for line in lines) == 5
    assert sum(line.startswith("unattacked ") for line in lines) == 1
    assert any(line.rstrip().endswith("accuracy") for line in lines)
