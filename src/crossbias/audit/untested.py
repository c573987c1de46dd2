"""What an audit says nothing about, in sentences."""

from collections.abc import Iterator, Sequence

import torch

from crossbias.audit.attributes import AttributeFinding
from crossbias.audit.model import ModelFinding
from crossbias.audit.shortcuts import CLASSES, CueFinding
from crossbias.data.dataset import BiasedDataset


def untested_data(data: BiasedDataset, *, audited: int, with_files: bool) -> Iterator[str]:
    """What the data did not let the audit see.

    Args:
        data: All of it.
        audited: How many of its samples were looked at.
        with_files: Whether the files behind the samples are known.
    """
    if not data.attributes:
        yield "No attribute is known, such as hospital, sex or camera; name columns to test them."
    if data.inputs.ndim == 4:
        yield "Shortcuts of other kinds: objects, shapes, written text, or several cues together."
    else:
        yield "The inputs are no images, so no cue was looked for in them."
    if not with_files:
        yield "Image size, compression and folder: the files behind the samples are not known."
    if audited < len(data):
        yield f"Cues were looked for in {audited:,} of the {len(data):,} samples, at random."
    counts = torch.bincount(data.targets)
    if int((counts > 0).sum()) > CLASSES:
        yield f"Cues were looked for in the {CLASSES} largest classes only."
    if (counts == 1).any():
        yield "Cues were not looked for in classes of one sample."


def untested_findings(
    attributes: Sequence[AttributeFinding], cues: Sequence[CueFinding], model: ModelFinding | None
) -> Iterator[str]:
    """What was tried in vain, and what would have been too weak to notice."""
    everything: list[AttributeFinding | CueFinding] = [*attributes, *cues]
    for found in everything:
        if found.reason:
            yield f"{found.name!r} could not be tested: {found.reason}."
    limits = [(cue.noticeable, cue.chance or 0.0) for cue in cues if cue.noticeable is not None]
    if limits:
        highest, chance = max(limits)
        yield (
            f"Weak cues: with so many samples, one that tells the class of fewer than "
            f"{100 * highest:.0f} % of them (chance {100 * chance:.0f} %) may go unnoticed."
        )
    if model is None:
        yield "Whether a trained model follows any of this; audit its run to see."
