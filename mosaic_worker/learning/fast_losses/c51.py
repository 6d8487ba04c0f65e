"""The gradient of C51's cross-entropy, written out, and the projection of distributions without loops."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mosaic_worker.learning.adam import FlatAdam
from mosaic_worker.learning.fast_losses.rectified import RectifiedLayers
from mosaic_worker.learning.replay_buffer import Batch


def textbook_projection(
    probabilities: Tensor, rewards: Tensor, terminated: Tensor, atoms: Tensor, gamma: float
) -> Tensor:
    """What :func:`project` computes, atom by atom as Bellemare et al. (2017) write it. For reading and for tests."""
    last = len(atoms) - 1
    spacing = (atoms[-1] - atoms[0]) / last
    projected = torch.zeros_like(probabilities)
    for row in range(len(probabilities)):
        for atom in range(len(atoms)):
            moved = (rewards[row] + gamma * (1 - terminated[row]) * atoms[atom]).clamp(atoms[0], atoms[-1])
            place = float(((moved - atoms[0]) / spacing).clamp(0, last))
            below = min(int(place), last - 1)
            projected[row, below] += probabilities[row, atom] * (below + 1 - place)
            projected[row, below + 1] += probabilities[row, atom] * (place - below)
    return projected


def project(probabilities: Tensor, rewards: Tensor, terminated: Tensor, atoms: Tensor, gamma: float) -> Tensor:
    """The distribution of reward plus discounted return, put back onto the atoms.

    Each atom moves to where the reward takes it, or to the nearest end of their range, and its probability is
    shared between the two atoms around that place, the nearer one taking more. A terminated episode has no
    future: all of its probability moves to the reward.
    """
    last = len(atoms) - 1
    lowest, highest = atoms[0], atoms[-1]
    moved = torch.addcmul(rewards.unsqueeze(1), (1 - terminated).unsqueeze(1), atoms, value=gamma)
    places = moved.sub_(lowest).mul_(last / (highest - lowest)).clamp_(0, last)
    below = places.floor().clamp_(max=last - 1)
    to_above = places.sub_(below).mul_(probabilities)
    index = below.long()
    projected = torch.zeros_like(probabilities).scatter_add_(1, index, probabilities - to_above)
    return projected.scatter_add_(1, index.add_(1), to_above)


def textbook_loss(
    q_network: nn.Module, target_network: nn.Module, atoms: Tensor, batch: Batch, gamma: float
) -> tuple[Tensor, Tensor]:
    """(mean cross-entropy, mean value of the chosen actions), for autograd; networks give (rows, actions, atoms)."""
    rows = torch.arange(len(batch.rewards), device=atoms.device)
    with torch.no_grad():
        following = target_network(batch.next_observations).softmax(dim=2)
        best = (following @ atoms).argmax(dim=1)
        targets = project(following[rows, best], batch.rewards, batch.terminated, atoms, gamma)
    log_probabilities = q_network(batch.observations)[rows, batch.actions.squeeze(1)].log_softmax(dim=1)
    return -(targets * log_probabilities).sum(dim=1).mean(), (log_probabilities.exp() @ atoms).mean()


class C51Gradient:
    """Fills an optimiser's gradient with that of :func:`textbook_loss`, sooner than autograd."""

    def __init__(self, adam: FlatAdam, target_network: nn.Module, atoms: Tensor, gamma: float) -> None:
        """`target_network` asks for no gradients, and `adam` holds a network that `is_rectified`."""
        self.layers, self.target_network = RectifiedLayers(adam), target_network
        self.atoms, self.gamma = atoms, gamma

    def targets(self, batch: Batch) -> Tensor:
        """The distributions that the chosen actions should have had, by the target network."""
        probabilities = self.target_network(batch.next_observations).softmax(dim=2)
        best = (probabilities @ self.atoms).argmax(dim=1)
        after_best = probabilities[torch.arange(len(best), device=best.device), best]
        return project(after_best, batch.rewards, batch.terminated, self.atoms, self.gamma)

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        targets = self.targets(batch)
        activations = self.layers.activations(batch.observations)
        logits = activations[-1].view(len(targets), -1, len(self.atoms))
        chosen = torch.arange(len(logits), device=logits.device), batch.actions.squeeze(1)
        log_probabilities = logits[chosen].log_softmax(dim=1)
        probabilities = log_probabilities.exp()
        # The slope of a cross-entropy in the logits: what was said minus what should have been.
        slopes = torch.zeros_like(logits)
        slopes[chosen] = (probabilities - targets).div_(len(logits))
        self.layers.propagate(activations, slopes.view_as(activations[-1]))
        loss = -torch.vdot(targets.view(-1), log_probabilities.view(-1)) / len(logits)
        return loss, (probabilities @ self.atoms).mean()
