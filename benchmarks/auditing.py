"""How long an audit of 5,000 images of 224 x 224 pixels in memory takes.

python -m benchmarks.auditing
"""

import time

import torch

from benchmarks.measure import keep, seconds
from crossbias import BiasedDataset
from crossbias.audit import audit
from crossbias.seeds import generator_for

SAMPLES, SIDE, CLASSES = 5_000, 224, 2


def main() -> None:
    generator = generator_for(0, "auditing")
    images = torch.randint(256, (SAMPLES, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)
    targets = torch.arange(SAMPLES) % CLASSES
    data = BiasedDataset(inputs=images, targets=targets, attributes={"half": targets.flip(0)})
    began = time.process_time()
    wall = seconds(lambda: audit(data, device="cpu"))
    found = {
        "samples": SAMPLES, "side": SIDE, "classes": CLASSES,
        "seconds": round(wall, 1), "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip
    keep("auditing", found, "cpu")


if __name__ == "__main__":
    main()
