"""Networks with the ordinary mistakes: tests copy this file into a user's folder."""

import torch
from torch import nn


def make(classes):
    """Tells squares of a side apart by the place of the bright one: right for inputs in [0, 1]."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, classes))
    nn.init.zeros_(net[1].bias)
    with torch.no_grad():
        net[1].weight[:16].copy_(SCALE * torch.eye(16).repeat(1, 3)[:classes])
        net[1].weight[16:] = 0.0
    return net


SCALE = 9.0


def untrained(classes):
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, classes))


def soft(classes):
    return nn.Sequential(make(classes), nn.Softmax(dim=1))


def shy(classes):
    """Sure of inputs as they are, blind under noise: it asks for exact zeros."""
    return nn.Sequential(Exact(), make(classes))


class Exact(nn.Module):
    def forward(self, x):
        return x * (x == 0).float().flatten(1).mean(1)[:, None, None, None].gt(0.5)


def shifted(classes):
    """Made for inputs of mean 0."""
    return nn.Sequential(Wants(), make(classes))


class Wants(nn.Module):
    def forward(self, x):
        return (x + 1) * (x.flatten(1).amin(1)[:, None, None, None] < -0.05).float()


def plain(classes):
    """Made for inputs in [0, 1]."""
    return nn.Sequential(Plain(), make(classes))


class Plain(nn.Module):
    def forward(self, x):
        return x * (x.flatten(1).amin(1)[:, None, None, None] > -0.3).float()


def constant(classes):
    """Says the same class of everything."""
    net = make(classes)
    with torch.no_grad():
        net[1].bias[3] = 100.0
    return net


def hundred():
    """Right about the first class, and mistakes the second for one of many others that it knows."""
    net = make(100)
    with torch.no_grad():
        net[1].weight[57] = 1.1 * net[1].weight[1]
    return net


def wide():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 1000))


def mixing(classes):
    return nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), make(classes))


def random(classes):
    return nn.Sequential(Noisy(), make(classes))


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


def sigmoids(classes):
    return nn.Sequential(make(classes), nn.Sigmoid())


def rather(classes):
    """Right about bright inputs as they are, and about all of them of mean 0."""
    return nn.Sequential(Rather(), make(classes))


class Rather(nn.Module):
    def forward(self, x):
        bright = x.flatten(1).amax(1)[:, None, None, None]
        return x * ((x.flatten(1).amin(1)[:, None, None, None] < -0.05) | (bright > 0.75)).float()


def buggy(classes):
    return Buggy()


class Buggy(nn.Module):
    def forward(self, x):
        return {}["head"]


def broken(classes):
    return nn.Sequential(make(classes), Nan())


class Nan(nn.Module):
    def forward(self, x):
        return x / 0 * 0
