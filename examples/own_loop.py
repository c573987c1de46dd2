"""Use only the mathematics, in a training loop of your own.

Run it: python examples/own_loop.py
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

from crossbias.data import load
from crossbias.functional import end_terms, generalized_cross_entropy, hsic

data = load("glyphs", "train", size=2000, rho=0.95)
body = nn.Sequential(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
head = nn.Linear(32, 10)
color_blind_to_shape = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    rows = torch.randint(len(data), (64,))
    images, target, bias = data.inputs[rows] / 255, data.targets[rows], data.biases[rows]
    features = body(images)
    logits = head(features)

    # EnD: same bias apart, same class with another bias together.
    disentangling, entangling = end_terms(features, target, bias, variant="released")
    # ReBias: independent of what a network sees that knows color only.
    dependence = hsic(features, color_blind_to_shape(images).flatten(1).detach())
    # What a network that amplifies the bias would minimize (PGD, LfF).
    amplified = generalized_cross_entropy(logits.detach(), target, q=0.7).mean()

    loss = F.cross_entropy(logits, target) + 0.1 * disentangling + 0.1 * entangling + dependence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.3f}  hsic {dependence.item():.5f}  amplified {amplified.item():.3f}")
