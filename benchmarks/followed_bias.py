"""Do features that follow the bias tell which trainings gained nothing?

python -m benchmarks.followed_bias FOLDER_OF_ALL_DATA

EnD, LNL and ReBias in several settings, from useless to strong, on six small sets: what each gains
on conflicting test images over plain training, and how far the features of test images, and of
training images, follow the bias.
"""

import sys
from pathlib import Path
from typing import Any

import torch

import crossbias
from benchmarks.measure import keep
from benchmarks.small_data import fashion, network, planted, pullovers, stacked, x_ray_splits
from crossbias.data import BiasedDataset
from crossbias.methods import ERM, LNL, EnD, ReBias
from crossbias.methods.followed_bias import similarities
from crossbias.train.evaluation import batches_for, evaluation_pass
from crossbias.train.method import Method

EPOCHS, SEED = 12, 0
COLOR = "crossbias.demo:color_network"
BALANCED = {"sampling": "group-balanced"}
WAYS: dict[str, tuple[Method, dict[str, Any]]] = {
    "plain training": (ERM(), {}),
    "EnD, defaults": (EnD(), {}),
    "EnD, 1 and 1, groups drawn evenly": (EnD(alpha=1.0, beta=1.0), BALANCED),
    "EnD as in the paper, 5 and 2": (EnD(variant="paper", alpha=5.0, beta=2.0), {}),
    "EnD as in the paper, 5 and 2, groups drawn evenly": (
        EnD(variant="paper", alpha=5.0, beta=2.0),
        BALANCED,
    ),
    "LNL, defaults": (LNL(), {}),
    "LNL, ten times as strong": (LNL(lambda_f=0.1, mu=1.0, lr_factor=1.0), {}),
    "ReBias, color": (ReBias(biased=COLOR), {}),
    "ReBias, color, as in the demo": (ReBias(biased=COLOR, lambda_f=30.0, lambda_g=10.0), {}),
}


def main() -> None:
    root = Path(sys.argv[1])
    torch.set_num_threads(1)
    sets = {
        "drawn digits, color": [
            crossbias.load("glyphs", split, size=3000, image_size=20, rho=0.94)
            for split in ("train", "test")
        ],
        "Fashion-MNIST, color": fashion(root),
        "pullover or coat, color": pullovers(root),
        "pullover or coat over 7 or 9": stacked(root),
        "X-rays, watermark": [planted(data, "watermark") for data in x_ray_splits(root)],
        "X-rays, their own bias": x_ray_splits(root),
    }
    rows = [row for name, splits in sets.items() for row in measured(name, *splits)]
    keep("followed_bias", {"epochs": EPOCHS, "seed": SEED, "rows": rows}, "cpu")


def measured(name: str, train: BiasedDataset, test: BiasedDataset) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for way, (method, changes) in WAYS.items():
        if isinstance(method, ReBias) and "color" not in name:
            continue
        rows.append({"data": name, "way": way} | numbers(method, changes, train, test))
        gain = rows[-1]["conflicting"] - rows[0]["conflicting"]
        rows[-1]["gain"] = round(gain, 1)
        print(rows[-1], flush=True)
    return rows


def numbers(
    method: Method, changes: dict[str, Any], train: BiasedDataset, test: BiasedDataset
) -> dict[str, float]:
    config = crossbias.TrainConfig(
        epochs=EPOCHS, batch_size=64, lr=1e-3, seed=SEED, device="cpu", **changes
    )
    result = crossbias.fit(method, train, network=network(train), config=config, progress=False)
    conflicting = result.evaluate(test)["test"].conflicting
    assert conflicting is not None
    found = {"conflicting": round(100 * conflicting.value, 1)}
    for split, data in (("test", test), ("training", train)):
        outputs = evaluation_pass(result.network, batches_for(result.network, data))
        alike = similarities(outputs, data)
        assert alike is not None
        found[f"followed by {split} images"] = round(alike.followed, 2)
    return found


if __name__ == "__main__":
    main()
