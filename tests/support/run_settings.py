"""Settings of runs that tests make: one whose evidence is made up, and a small one as words of a command."""

from certcal.settings import CertifySettings, DataSettings, ModelSettings, RunSettings

SETTINGS = RunSettings(
    model=ModelSettings(name="lenet"), data=DataSettings(name="mnist"), certify=CertifySettings(sigma=0.25)
)
WORDS = ["--model", "small-cnn", "--data", "digits", "--limit", 5, "--sigma", 0.25, "--n", 250, "--no-figures"]
