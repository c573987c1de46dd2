"""Texture clusters: grouping images by the Gram matrices of a layer of VGG-16."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import torch
from torch import Tensor, nn

from crossbias.data.dataset import BiasedDataset
from crossbias.data.order import batches
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.runs.files import write_atomically

Layer = Literal["conv3_3", "relu1_2"]

LAYERS: Final[dict[Layer, int]] = {"relu1_2": 4, "conv3_3": 15}
"""How many of VGG-16's feature modules to apply: relu1_2 in the paper, conv3_3 in its code."""

_BATCH: Final = 1024  # samples in a step of mini-batch k-means, as in the authors' code


def gram(maps: Tensor) -> Tensor:
    """Gram matrices of feature maps (B, C, h, w), flattened to (B, C * C) and of unit length.

    >>> gram(torch.ones(1, 2, 3, 3))
    tensor([[0.5000, 0.5000, 0.5000, 0.5000]])
    """
    flat = maps.flatten(2)  # (B, C, hw)
    matrices = flat @ flat.transpose(1, 2) / flat[0].numel()
    return nn.functional.normalize(matrices.flatten(1), dim=1)


def texture_features(
    data: BiasedDataset, features: nn.Module, *, layer: Layer = "conv3_3", batch_size: int = 32
) -> Tensor:
    """Gram matrices of all images of a data set as a network sees them, (n, C * C) float32.

    ``features`` are the modules of VGG-16, such as ``torchvision.models.vgg16().features``. The
    released clusters come from ``conv3_3``, before its ReLU; the paper says ``relu1_2``.
    """
    network = nn.Sequential(*list(features.children())[: LAYERS[layer]]).eval()
    with torch.no_grad():
        found = [gram(network(images)) for images in _normalized(data, batch_size)]
    return torch.cat(found)


def texture_clusters(
    features: Tensor, *, clusters: int = 9, seeds: Sequence[int] = (0, 1, 2)
) -> Tensor:
    """Cluster texture features by mini-batch k-means, once per seed, (len(seeds), n) int64."""
    check_installed("sklearn", what="clustering images by texture")
    from sklearn.cluster import MiniBatchKMeans

    if len(features) < clusters:
        raise CrossbiasError(f"{len(features)} images cannot form {clusters} clusters; use more")
    found = [
        MiniBatchKMeans(clusters, batch_size=_BATCH, random_state=seed, n_init=3).fit_predict(
            features.numpy()
        )
        for seed in seeds
    ]
    return torch.stack([torch.from_numpy(labels).long() for labels in found])


def write_texture_clusters(path: Path, files: Sequence[str], clusters: Tensor) -> None:
    """Write the CSV file for ``imagenet-9``: a row for each file, a column for each clustering."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("path", *(f"cluster{number}" for number in range(1, len(clusters) + 1))))
    writer.writerows(zip(files, *clusters.tolist(), strict=True))
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def _normalized(data: BiasedDataset, batch_size: int) -> Iterator[Tensor]:
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (data.mean, data.std))
    for rows in batches(torch.arange(len(data)), batch_size):
        yield (data.pictures(rows).float() / 255 - mean) / std
