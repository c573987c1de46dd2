"""Use the loss functions of several methods in your own training loop.

Run it with: python examples/own_loop.py [STEPS]
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

import crossbias
from crossbias import load
from crossbias.functional import end_terms, generalized_cross_entropy, hsic

data = load("glyphs", "train", size=2000, rho=0.95)
body = nn.Sequential(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
head = nn.Linear(32, 10)
color_only = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    rows = torch.randint(len(data), (64,))
    images, target, bias = data.inputs[rows] / 255, data.targets[rows], data.biases[rows]
    features = body(images)
    logits = head(features)

    # EnD: samples with the same bias apart, samples of a class with different biases together.
    disentangling, entangling = end_terms(features, target, bias, variant="released")
    # ReBias: make the features independent of those of a network that sees only color.
    dependence = hsic(features, color_only(images).detach())
    # PGD and LfF train a second network with this loss, to amplify the bias. Here it is only shown.
    amplified = generalized_cross_entropy(logits.detach(), target, q=0.7).mean()

    loss = F.cross_entropy(logits, target) + 0.1 * disentangling + 0.1 * entangling + dependence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.3f}  HSIC {dependence.item():.5f}  amplified {amplified.item():.3f}")

# The loop above gave images in [0, 1] to the network, so they are not normalized here either.
test = load("glyphs", "test", test_size=1000)
metrics = crossbias.evaluate(nn.Sequential(body, head), test, normalize="none", training=data)
print(f"aligned {metrics.aligned.value:.3f}  conflicting {metrics.conflicting.value:.3f}")
