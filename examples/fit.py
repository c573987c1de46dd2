"""Train a de-biasing method on your own torch model with one call.

Run it: python examples/fit.py
"""

import sys

import torchvision

import crossbias
from crossbias.data import load
from crossbias.methods import EnD

# 28-pixel digits whose background color gives 95 % of the answers away.
train = load("glyphs", "train", rho=0.95)
validation = load("glyphs", "validation", rho=0.95)
test = load("glyphs", "test")  # here the color says nothing

model = torchvision.models.resnet18(num_classes=10)  # any torchvision or timm classifier
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500

result = crossbias.fit(
    EnD(alpha=1.0, beta=1.0),
    train,
    validation,
    network=crossbias.as_network(model),
    config=crossbias.TrainConfig(steps=steps, batch_size=64),
)

metrics = result.evaluate(test)["test"]  # the test split is seen here for the first time
for name in ("overall", "aligned", "conflicting"):
    estimate = getattr(metrics, name)
    print(f"{name:12} {estimate.value:.3f}  [{estimate.low:.3f}, {estimate.high:.3f}]")
print("worst group ", metrics.worst_group)
