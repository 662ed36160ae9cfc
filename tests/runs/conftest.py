"""A run on digits to type commands at."""

import shutil

import pytest

from attack_models import trained_on_digits
from certcal.models import save_checkpoint
from certcal.runs import RunFolder, certify_run, evaluate_run
from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with a small run on digits: 40 inputs, five radii, of which the last certifies nobody."""
    folder = tmp_path_factory.mktemp("attacks")
    save_checkpoint(trained_on_digits(sigma=0.25), folder / "net.pt")
    settings = RunSettings(
        model=ModelSettings(name="small-cnn", weights=str(folder / "net.pt")),
        data=DataSettings(name="digits", split="test", limit=40),
        certify=CertifySettings(sigma=0.25, n=1000, device="cpu"),
        evaluate=EvaluateSettings(radii=(0.0, 0.1, 0.2, 9.0), alpha=0.01),
    )
    run = RunFolder(folder / "runs" / "mine")
    certify_run(run, settings, progress=False)
    evaluate_run(run, settings.evaluate, figures=False)
    return folder


@pytest.fixture
def desk(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def run(desk):
    return RunFolder(desk / "runs" / "mine")
