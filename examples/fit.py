"""Train a de-biasing method on your own torch model with one call.

Run it with: python examples/fit.py [STEPS]
"""

import sys

import torchvision

import crossbias
from crossbias import load
from crossbias.methods import EnD

# Digits of 28 x 28 pixels. In 95% of the training images the background color gives the digit away.
train = load("glyphs", "train", rho=0.95)
validation = load("glyphs", "validation", rho=0.95)
test = load("glyphs", "test")  # here every color is equally frequent for every digit

model = torchvision.models.resnet18(num_classes=10)  # or any other torchvision or timm classifier
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500

result = crossbias.fit(
    EnD(alpha=1.0, beta=1.0),
    train,
    validation,
    network=crossbias.as_network(model),
    config=crossbias.TrainConfig(steps=steps, batch_size=64),
)

metrics = result.evaluate(test)["test"]  # nothing before this line has seen the test split
for name in ("overall", "aligned", "conflicting"):
    accuracy = getattr(metrics, name)
    print(f"{name:12} {accuracy.value:.3f}  [{accuracy.low:.3f}, {accuracy.high:.3f}]")
worst = metrics.worst_group
print(f"worst group  {worst.accuracy.value:.3f}  (digit {worst.target} on {worst.bias})")
