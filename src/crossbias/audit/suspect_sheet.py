"""Contact sheets of suspects, and of slices on which a model fails together."""

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from crossbias.audit.slices import Slices
from crossbias.audit.suspects import Suspects
from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent, short

SHOWN: Final = 24  # largest number of images on a sheet

COLUMNS: Final = 6

SLICES: Final = 4  # largest number of slices with a sheet

_SIDE: Final = 96  # pixels of a shown image; larger ones are thinned out


class SuspectPicture(NamedTuple):
    """A picture with its text, for people and for screen readers."""

    file: str
    alt: str
    caption: str
    content: bytes  # PNG

    def to_json(self) -> dict[str, str]:
        """The picture as ``audit.json`` has it: its file and its text."""
        return {"file": self.file, "alt": self.alt, "caption": self.caption}


def suspect_pictures(data: BiasedDataset, suspects: Suspects) -> tuple[SuspectPicture, ...]:
    """A sheet of the clearest suspects in the data; no picture if there are none."""
    if not suspects.rows:
        return ()
    shown = suspects.candidates[:SHOWN]
    titles = [f"{short(found.target)}\ntaken for {short(found.answer)}" for found in shown]
    images = data.inputs[torch.tensor(suspects.rows[: len(shown)])]
    what = f"{len(shown)} of {suspects.count} samples that a briefly trained network mistakes"
    return (
        SuspectPicture(
            "suspects.png",
            f"Contact sheet of {what} for another class, each with both classes",
            f"Samples that may conflict with a shortcut: {what} for another class, the most "
            f"confident mistakes first. The network is small and learns only what is easy. Look "
            f"at each sample: it may contradict a shortcut, be mislabeled, or simply be hard.",
            contact_sheet(images, titles),
        ),
    )


def slice_pictures(
    data: BiasedDataset, slices: Slices, answers: Sequence[int]
) -> Iterator[SuspectPicture]:
    """A sheet for each of the first slices, samples that were not searched first."""
    for number, found in enumerate(slices.found[:SLICES], start=1):
        rows = [*found.held_out, *(row for row in found.rows if row not in found.held_out)][:SHOWN]
        names = [data.classes[answers[row]] for row in rows]
        titles = [
            f"{short(found.target)}\n" + ("right" if name == found.target else short(name))
            for name in names
        ]
        what = f"{len(rows)} of {len(found.rows)} samples of slice {number}, class {found.target!r}"
        yield SuspectPicture(
            f"slice-{number}.png",
            f"Contact sheet of {what}, each with its class and the model's answer",
            f"Slice {number}: {what}, with the model's answers. The model is wrong on "
            f"{percent(found.errors.value, decimals=0)} of the slice's samples that were not "
            f"searched, against {percent(found.rest.value, decimals=0)} of the other samples of "
            f"the class.",
            contact_sheet(data.inputs[torch.tensor(rows)], titles),
        )


def contact_sheet(images: Tensor, titles: Sequence[str]) -> bytes:
    """A PNG file of at most ``SHOWN`` images (k, C, H, W), each under its title."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = list(zip(images, titles, strict=True))[:SHOWN]
    rows = max(1, math.ceil(len(shown) / COLUMNS))
    figure = Figure(figsize=(1.5 * COLUMNS, 1.9 * rows), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    for number in range(rows * COLUMNS):
        axes = figure.add_subplot(rows, COLUMNS, number + 1)
        axes.set_axis_off()
        if number < len(shown):
            image, title = shown[number]
            axes.imshow(_pixels(image).numpy(), interpolation="nearest")
            # A dollar sign in a class's name is text, not mathematics.
            axes.set_title(title, fontsize=7, parse_math=False)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _pixels(image: Tensor) -> Tensor:
    """The image (C, H, W) as it is shown, (h, w, 3); other than RGB, its first channel in gray."""
    step = max(1, math.ceil(max(image.shape[1:]) / _SIDE))
    image = image[:, ::step, ::step]
    colors = image if len(image) == 3 else image[:1].expand(3, -1, -1)
    return torch.as_tensor(colors).permute(1, 2, 0).contiguous()
