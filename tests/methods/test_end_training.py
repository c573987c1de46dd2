"""A whole training by EnD against the authors' loop, written out with plain torch."""

import copy
import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import crossbias
from crossbias import TrainConfig
from crossbias.methods import EnD

EPOCHS, BATCH, DECAY_EPOCHS = 4, 16, 2
ALPHA, BETA = 0.3, 0.2


class Plain(nn.Module):
    """The released network: biases in the convolutions, Tanh at the end, unit features."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise((3, 16, 32, 64, 128)):
            convolution = nn.Conv2d(before, after, kernel, padding=kernel // 2)
            layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers[:-1], nn.Tanh()), nn.Linear(128, 3)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = F.normalize(F.adaptive_avg_pool2d(self.body(images), 1).flatten(1))
        return self.head(features), features

    def take(self, network: nn.Module) -> None:
        """The other network's weights, which has all but the biases of the convolutions."""
        unused = {id(m.bias) for m in self.modules() if isinstance(m, nn.Conv2d)}
        own = [parameter for parameter in self.parameters() if id(parameter) not in unused]
        with torch.no_grad():
            for parameter, given in zip(own, network.parameters(), strict=True):
                parameter.copy_(given)


def terms(features: Tensor, target: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """R_perp and R_par by pairs: the later sample of a pair is the first index."""
    similar = features @ features.T
    of_bias: dict[int, list[Tensor]] = {}
    entangled = []
    for late, early in itertools.combinations(range(len(features) - 1, -1, -1), 2):
        if bias[late] == bias[early]:
            of_bias.setdefault(int(bias[late]), []).append(similar[late, early])
        elif target[late] == target[early] and bias[late] < bias[early]:
            entangled.append((1 + similar[late, early]) / 2)
    pairs = sum(len(each) for each in of_bias.values())
    across = torch.stack([torch.stack(each).sum().abs() for each in of_bias.values()]).sum() / pairs
    return across, 1 - torch.stack(entangled).mean() if entangled else features.sum() * 0


def test_training_equals_the_released_loop(data, monkeypatch):
    network = crossbias.create("convnet-end", num_classes=3, kernel=3)
    plain = Plain(kernel=3)
    plain.take(copy.deepcopy(network))
    taken = []
    step = EnD.step

    def recorded(method, batch):
        losses = step(method, batch)
        taken.append((batch.index.clone(), losses["loss"].item()))
        return losses

    monkeypatch.setattr(EnD, "step", recorded)
    config = TrainConfig(
        epochs=EPOCHS, batch_size=BATCH, lr=1e-3, weight_decay=0.01, schedule="step", decay=0.1,
        decay_epochs=DECAY_EPOCHS, device="cpu",
    )  # fmt: skip
    method = EnD(alpha=ALPHA, beta=BETA, variant="released")
    crossbias.fit(method, data, network=network, config=config, fresh=False)

    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, DECAY_EPOCHS, 0.1)
    for number, (rows, found) in enumerate(taken[1:], 1):  # the first is that of the rehearsal
        logits, features = plain((data.inputs[rows].float() / 255 - 0.5) / 0.5)
        across, along = terms(features, data.targets[rows], data.biases[rows])
        loss = F.cross_entropy(logits, data.targets[rows]) + ALPHA * across + BETA * along
        torch.testing.assert_close(torch.tensor(found), loss.detach(), rtol=1e-4, atol=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % (len(data) // BATCH) == 0:
            schedule.step()
    assert len(taken[1:]) == EPOCHS * len(data) // BATCH
