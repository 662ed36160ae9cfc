"""A module for Lightning's Trainer, a callback that watches it, and the names of Lightning that tests use."""

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from pytorch_lightning.utilities.warnings import PossibleUserWarning
from torch import nn

from certcal.integrations.lightning import CertifyEvery

__all__ = [
    "Callback",
    "CertifyEvery",
    "EarlyStopping",
    "ModelCheckpoint",
    "Net",
    "PossibleUserWarning",
    "Trainer",
    "Watch",
]


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, batch):
        return self.body(batch)

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Watch(Callback):
    """Keeps what was logged, and whether the module trains, after each epoch."""

    def __init__(self):
        self.seen, self.training = [], []

    def on_validation_end(self, trainer, module):
        if not trainer.sanity_checking:
            self.seen.append({name: value.item() for name, value in trainer.callback_metrics.items()})

    def on_train_epoch_start(self, trainer, module):
        self.training.append(all(part.training for part in module.modules()))
