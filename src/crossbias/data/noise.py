"""Label noise: some labels are made wrong, and the true ones are kept as an attribute."""

from dataclasses import replace
from typing import Final

import torch

from crossbias.data.assignment import below, shuffled
from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.parameters import Fraction, convert
from crossbias.seeds import generator_for

CLEAN: Final = "clean"  # name of the attribute that holds the true labels


def with_label_noise(dataset: BiasedDataset, *, fraction: float, seed: int) -> BiasedDataset:
    """The same samples, with some targets changed to a random wrong class.

    Which samples change depends neither on their class nor on their bias, as in PGD (ICLR 2022
    submission, appendix B.3). The true labels become the attribute ``clean``. The alignment table
    stays as it was, so a changed sample counts as aligned or conflicting by its new label.

    Args:
        dataset: Any data set of two or more classes.
        fraction: Fraction of the targets to change; exactly round(fraction * n) of n.
        seed: Decides which targets change, and to which class.

    >>> data = BiasedDataset(inputs=torch.zeros(10, 2), targets=torch.arange(10) % 5)
    >>> noisy = with_label_noise(data, fraction=0.3, seed=0)
    >>> int((noisy.targets != data.targets).sum()), noisy.attributes["clean"].tolist()
    (3, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
    """
    fraction = convert(fraction, Fraction, "fraction of label noise")
    if dataset.num_classes < 2:
        raise CrossbiasError(f"{dataset.name} has only one class: there is no wrong label to give")
    if CLEAN in dataset.attributes:
        raise CrossbiasError(
            f"{dataset.name} already has an attribute {CLEAN!r}, as after label noise; "
            f"apply the noise to the data set as it was before"
        )
    generator = generator_for(seed, "label noise", dataset.split)
    rows = shuffled(torch.arange(len(dataset)), generator)[: round(fraction * len(dataset))]
    shift = 1 + below(dataset.num_classes - 1, len(rows), generator=generator)
    targets = dataset.targets.clone()
    targets[rows] = (targets[rows] + shift) % dataset.num_classes
    tables = {name: dataset.with_bias(name).alignment() for name in dataset.attributes}
    return replace(
        dataset,
        targets=targets,
        attributes={**dataset.attributes, CLEAN: dataset.targets},
        values={**dataset.values, CLEAN: dataset.classes},
        alignments=tables | {CLEAN: torch.eye(dataset.num_classes, dtype=torch.bool)},
        origin={**dataset.origin, "label_noise": fraction},
    )
