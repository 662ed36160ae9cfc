"""What training minimises: one small function on a batch per method. docs/training.md."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from certcal.errors import InputError
from certcal.models import as_outputs
from certcal.scalars import guarded
from certcal.settings import (
    AcceActStarSettings,
    CertifiedSettings,
    ConsistencySettings,
    NoiseSettings,
    ObjectiveSettings,
    PgdSettings,
    PlainSettings,
    SmoothAdvSettings,
)
from certcal.training import certificate
from certcal.training.aims import Acce, Brier, Cce, SmoothAdv
from certcal.training.certificate import check_finite
from certcal.training.copies import Copies, log_mean, log_odds, weight_loss
from certcal.training.search import Aim, climb_cross_entropy, search
from certcal.training.step import Objective, Step

Loss = Callable[[nn.Module, Tensor, Tensor, Step, Any], Tensor]  # the last are the settings of the objective
MakeAim = Callable[[Tensor, Step, Any], Aim]


def plain(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: PlainSettings) -> Tensor:
    """Cross-entropy on the inputs as they are."""
    return cross_entropy(as_outputs(model(inputs), len(inputs)), labels)


def noise(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: NoiseSettings) -> Tensor:
    """Cross-entropy on noisy copies. Cohen et al. (2019)."""
    copies = Copies.drawn(model, inputs, step, settings.draws)
    return weight_loss(copies.logits(inputs), labels, settings.draws, settings.update)


def consistency(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: ConsistencySettings) -> Tensor:
    """Noise training whose copies shall agree: + λ · KL(p̄ ‖ p_j) + η · H(p̄), means over copies j and inputs.

    p̄ is the mean of an input's copies. Jeong and Shin (2020), Eq. (6) to (8).
    """
    logits = Copies.drawn(model, inputs, step, settings.draws).logits(inputs)
    each = logits.log_softmax(dim=1).reshape(len(inputs), settings.draws, -1)
    log_p = log_mean(logits, settings.draws)
    entropy = -(log_p.exp() * log_p).sum(dim=1)
    divergence = -(log_p.exp() * each.mean(dim=1)).sum(dim=1) - entropy
    agreement = (settings.consistency * divergence + settings.entropy * entropy).mean()
    return weight_loss(logits, labels, settings.draws, settings.update) + agreement


def against(make_aim: MakeAim) -> Loss:
    """Cross-entropy on noisy copies of attacked inputs: SmoothAdv, and ACT by what the adversary aims at.

    Paper: Sec. 4, Eq. (7), Alg. 2; Salman et al. (2019). Without adversary (ε = 0) it is noise training.
    """

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: SmoothAdvSettings) -> Tensor:
        copies = Copies.drawn(model, inputs, step, settings.draws)
        point = inputs
        if step.epsilon > 0:
            point = search(copies, inputs, make_aim(labels, step, settings), step.epsilon, settings)
        return weight_loss(copies.logits(point), labels, settings.draws, settings.update)

    return loss


def acce_act_star(
    model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: AcceActStarSettings
) -> Tensor:
    """η · cross-entropy + (1 − η) · ACCE, both on attacked inputs, the latter at the adversary's last assignment a*.

    Paper: App. J.4 ("ACCE-ACT*"). Without adversary there is no a*, and it is noise training.
    """
    if step.epsilon == 0:
        return noise(model, inputs, labels, step, settings)
    copies = Copies.drawn(model, inputs, step, settings.draws)
    aim = Acce(labels, step, settings)
    logits = copies.logits(search(copies, inputs, aim, step.epsilon, settings))
    assert aim.predicted is not None
    confidence = log_odds(log_mean(logits, settings.draws), aim.predicted).sigmoid()
    error = aim.error(confidence) / (len(labels) if settings.reduction == "mean" else 1)
    entropy = weight_loss(logits, labels, settings.draws, settings.update)
    return settings.eta * entropy + (1 - settings.eta) * error


def linf(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: PgdSettings) -> Tensor:
    """Cross-entropy of the base model on inputs attacked in ℓ∞, without noise. Madry et al. (2018); Paper: App. B.2."""
    point = climb_cross_entropy(model, inputs, labels, step, settings) if step.epsilon > 0 else inputs
    return cross_entropy(as_outputs(model(point), len(point)), labels)


def certified(score: certificate.Score) -> Loss:
    """Cross-entropy + λ · a certified score of the batch at R, as a few draws estimate it; no adversary needed.

    The cross-entropy is that of noise training, whose copies the certificate is read off, or of SmoothAdv at ε, with
    the certificate from a second pass on the unattacked copies. At R = 0, or without noise, nothing is added.
    """

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step, settings: CertifiedSettings) -> Tensor:
        radius = step.epsilon if settings.radius is None else settings.radius
        copies = Copies.drawn(model, inputs, step, settings.draws)
        attacked = settings.base == "smoothadv" and step.epsilon > 0
        point = search(copies, inputs, SmoothAdv(labels), step.epsilon, settings) if attacked else inputs
        logits = copies.logits(point)
        entropy = weight_loss(logits, labels, settings.draws, settings.update)
        if radius == 0 or step.sigma == 0 or settings.weight == 0:
            return entropy
        logits = copies.logits(inputs) if attacked else logits
        term = certificate.estimate(logits, labels, step, radius, settings, score)
        return entropy + settings.weight * term.to(entropy)

    return loss


OBJECTIVES: dict[str, Loss] = {
    "ce": plain,
    "noise": noise,
    "consistency": consistency,
    "smoothadv": against(lambda labels, step, settings: SmoothAdv(labels)),
    "brier-act": against(lambda labels, step, settings: Brier(labels)),
    "acce-act": against(Acce),
    "acce-act*": acce_act_star,
    "cce-act": against(Cce),
    "pgd": linf,
    "certified-brier": certified(certificate.brier),
    "certified-log": certified(certificate.log),
    "certified-cce": certified(certificate.cce),
}


def check_budget(settings: ObjectiveSettings, epsilon: float) -> None:
    """Refuse to train an adversary without room: what is learned would be noise training under another name."""
    certifies = isinstance(settings, CertifiedSettings)
    attacks = isinstance(settings, SmoothAdvSettings | PgdSettings) and not getattr(settings, "radius", None)
    if epsilon == 0 and attacks:
        room = ", or `radius` to be," if certifies else ""
        raise InputError.expected("epsilon", f"be > 0{room} for the objective {settings.name!r}", epsilon)


@guarded
def make_objective(settings: ObjectiveSettings) -> Objective:
    """The objective of the settings: a function of model, inputs, labels and step that gives the loss of the batch.

    Paper: Sec. 4, Eq. (7) and (8), Alg. 2, App. F.
    Raises: InputError if the settings name no objective; the objective CertcalError where its loss is not finite.

    >>> import torch
    >>> objective = make_objective(ObjectiveSettings(name="smoothadv", draws=2, steps=2))
    >>> model = nn.Linear(3, 2)
    >>> step = Step(sigma=0.25, epsilon=0.5, generator=torch.Generator().manual_seed(0))
    >>> loss = objective(model, torch.rand(4, 3), torch.tensor([0, 1, 1, 0]), step)
    >>> loss.shape, loss.requires_grad, model.weight.grad
    (torch.Size([]), True, None)
    """
    chosen = OBJECTIVES[settings.name]

    def checked(model: nn.Module, inputs: Tensor, labels: Tensor, step: Step) -> Tensor:
        loss = chosen(model, inputs, labels, step, settings)
        check_finite(loss.detach(), "The loss")
        return loss

    return checked
