"""Settings of runs that tests make: one whose evidence is made up, and a small one as words of a command."""

from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings

# At three radii: by default there are nine, and each takes its time.
SETTINGS = RunSettings(
    model=ModelSettings(name="lenet"),
    data=DataSettings(name="mnist"),
    certify=CertifySettings(sigma=0.25),
    evaluate=EvaluateSettings(radii=(0.0, 0.125, 0.25)),
)
WORDS = ["--model", "small-cnn", "--data", "digits", "--limit", 5, "--sigma", 0.25, "--n", 250]
WORDS += ["--radii", "0,0.125", "--no-figures"]
