"""Where learning rate, σ and ε stand in each epoch. Paper: App. I, and its baselines' schedules."""

from certcal.settings import TrainSettings


def learning_rate(settings: TrainSettings, epoch: int) -> float:
    """Decayed by a factor every so many epochs; epochs count from 0.

    >>> settings = TrainSettings(sigma=0.25, learning_rate=0.1, decay_every=4)
    >>> [round(learning_rate(settings, epoch), 9) for epoch in (0, 3, 4, 8)]
    [0.1, 0.1, 0.01, 0.001]
    """
    return float(settings.learning_rate * settings.decay ** (epoch // settings.decay_every))


def sigma(settings: TrainSettings, epoch: int) -> float:
    """Linear from σ/k in the first epoch to σ in the k-th.

    >>> [sigma(TrainSettings(sigma=1.0, sigma_warmup=4), epoch) for epoch in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return settings.sigma * _risen(epoch, settings.sigma_warmup)


def epsilon(settings: TrainSettings, epoch: int) -> float:
    """Zero for some epochs, then linear from ε/k to ε in k epochs.

    >>> [epsilon(TrainSettings(sigma=1.0, epsilon=1.0, epsilon_zero=2, epsilon_warmup=2), epoch) for epoch in range(5)]
    [0.0, 0.0, 0.5, 1.0, 1.0]
    """
    after = epoch - settings.epsilon_zero
    return 0.0 if after < 0 else settings.epsilon * _risen(after, settings.epsilon_warmup)


def _risen(epoch: int, over: int) -> float:
    return 1.0 if over == 0 else min((epoch + 1) / over, 1.0)
