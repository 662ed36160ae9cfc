"""The choices that settings have, by name. They are here so that `certcal --help` loads no room that computes."""

from enum import StrEnum

LIBRARIES = ("timm:", "hf:")  # how a model's name begins that another library opens, without running code of its files
PROGRAMS = (".jit", ".pt", ".pt2", ".pth", ".torchscript", ".ts")  # files that, named as a model, are programs


def is_program(model: str) -> bool:
    """Whether a model's name is that of a file whose program would run."""
    return ":" not in model and model.lower().endswith(PROGRAMS)


class Method(StrEnum):
    """From which statistic of the draws the confidence bounds are made."""

    STANDARD = "standard"  # mean score, Hoeffding: the paper's Standard certificate
    STANDARD_BERNSTEIN = "standard-bernstein"  # mean and variance, empirical Bernstein
    CDF = "cdf"  # distribution, DKW band: the paper's CDF certificate
    CDF_CP = "cdf-cp"  # distribution, Clopper–Pearson at each threshold: narrow where the CDF is nearly 0 or 1
    CDF_CP_MEAN = "cdf-cp-mean"  # both: the distribution held to the Bernstein limits of its mean; best at small radii


class RunnerUp(StrEnum):
    """How the probability p_B of the second class is bounded."""

    COMPLEMENT = "complement"  # p_B ≤ 1 − p_A, all of alpha for p_A
    BOUNDED = "bounded"  # p_B from its own votes, half of alpha for p_A and half for the other classes together


class Population(StrEnum):
    """Which inputs a row is about."""

    CERTIFIED = "certified"  # those whose prediction is certified at R, as in the paper
    ALL = "all"  # every input; those not certified as far from being right as their bounds allow


class Claim(StrEnum):
    """How the guaranteed calibration error of the set allows for sampling error."""

    FAILURES = "failures"  # so many certificates of the set may fail
    BEST = "best"  # the least of that, of an α that suits the set, and of pooled errors; each has a part of δ


class Norm(StrEnum):
    """How far an input may move is measured in this."""

    L2 = "l2"  # the Euclidean distance
    LINF = "linf"  # the largest difference of any entry
    L1 = "l1"  # the sum of the differences of all entries
    PATCH = "patch"  # the side of a square in which every pixel may change
    DECLARED = "declared"  # whatever the maker of the bounds says


class Domain(StrEnum):
    """Where a moved input may lie."""

    EVERYWHERE = "everywhere"  # anywhere within R
    BOX = "box"  # within R and in [0, 1], as images are


class Certifier(StrEnum):
    """Who certifies."""

    SMOOTHING = "smoothing"  # certcal, from noisy draws
    LIRPA = "lirpa"  # auto_LiRPA's bounds of the margins
    LIPSCHITZ = "lipschitz"  # the network's own Lipschitz constant
    TABLE = "table"  # somebody else: the bounds are read from a table


class Relaxation(StrEnum):
    """How auto_LiRPA bounds margins, from quick and wide to slow and narrow."""

    IBP = "ibp"
    CROWN_IBP = "crown-ibp"
    CROWN = "crown"


class Approximation(StrEnum):
    """The paper's approximations of the worst case."""

    ADMM = "admm"
    DECE = "dece"
    BRIER = "brier"


class MapKind(StrEnum):
    """Which maps to choose from."""

    ISOTONIC = "isotonic"  # all non-decreasing maps
    TEMPERATURE = "temperature"  # one number
    BETA = "beta"  # three numbers
    STEPS = "steps"  # three steps, for the certified calibration error


class Objective(StrEnum):
    """What a map is fitted to minimise, each mixed with the same score (or the Brier score) of clean confidences."""

    BRIER = "brier"  # certified Brier score
    LOG = "log"  # certified log score
    CALIBRATION = "calibration"  # certified calibration error, exactly; a constant map can make it 0: watch sharpness


class OnFailure(StrEnum):
    """What to do with inputs that cannot teach a map."""

    RAISE = "raise"
    IDENTITY = "identity"  # the map that changes nothing, with the reason in `about`


class Adversary(StrEnum):
    """What an attack on the smoothed model wants."""

    SMOOTHADV = "smoothadv"  # a large cross-entropy: Salman et al. (2019)
    BRIER = "brier"  # a large Brier score: each confidence away from its correctness
    ACCE = "acce"  # the paper's: a large calibration error, by ADMM over bins and gradient steps on inputs
    CCE = "cce"  # each confidence in its direction at the exact worst case within given bounds
    REACH = "reach"  # the exact worst case within the confidences that gradient ascent attains


class Outputs(StrEnum):
    """What a model gives."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"


class Values(StrEnum):
    """What inputs hold, before anybody moves them."""

    UNIT = "unit"  # in [0, 1], as images do
    ANY = "any"  # tables, signals, embeddings: σ and radii are in their own units

    @property
    def units(self) -> str:
        """What σ and radii are measured in."""
        return "inputs in [0, 1]" if self is Values.UNIT else "the inputs as they are"


class Scaling(StrEnum):
    """What inputs that live anywhere are divided by."""

    NONE = "none"
    STD = "std"  # the standard deviation of each feature, or channel: σ and radii are in standard deviations


class Precision(StrEnum):
    """In which numbers a model runs."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class Tracker(StrEnum):
    """Tools that keep experiments."""

    MLFLOW = "mlflow"
    WANDB = "wandb"
    TENSORBOARD = "tensorboard"
