"""Make a re-textured copy of training images by AdaIN, as for Stylized ImageNet."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from crossbias.data.assignment import below
from crossbias.data.dataset import BiasedDataset
from crossbias.data.images.decoding import open_image
from crossbias.data.stylized import ABOUT, facts_of, image_files
from crossbias.errors import CrossbiasError
from crossbias.networks.style_transfer import SMALLEST_SIDE, StyleTransfer
from crossbias.parameters import Fraction, convert
from crossbias.progress import Progress
from crossbias.runs.files import hash_of, read_json, write_atomically, write_json
from crossbias.seeds import generator_for

_STYLE_SIDE = 512  # pixels of a style's short side, as for Stylized ImageNet
_BATCH = 16  # images at a time; a resumed program forms the same batches
_SUFFIXES = (".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


def write_stylized(
    data: BiasedDataset,
    out: Path,
    *,
    styles: Path,
    encoder: Path,
    decoder: Path,
    strength: float = 1.0,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> int:
    """Write every training image in the style of another picture, as PNG files of the same size.

    Files that are there already are kept, so an interrupted program continues where it stopped.

    Args:
        data: The training split.
        out: Folder of the copy.
        styles: Folder of pictures; each image gets the style of one of them, drawn by the seed.
        encoder: Weights of AdaIN's encoder, ``vgg_normalised.pth``.
        decoder: Weights of AdaIN's decoder, ``decoder.pth``.
        strength: 1 for the style alone, 0 for the image's own.
        seed: Decides which image gets which style.
        device: Where to compute; the CPU if not given.
        progress: Receives reports.

    Returns:
        The number of images that were written now.
    """
    strength = convert(strength, Fraction, "strength of the style")
    facts, pictures = facts_of(data), _pictures(styles)
    if data.inputs.shape[-1] < SMALLEST_SIDE:
        raise CrossbiasError(
            f"images of {data.inputs.shape[-1]} pixels are too small for AdaIN; {data.name} needs "
            f"at least {SMALLEST_SIDE}"
        )
    about = facts | {
        "styles": [picture.relative_to(styles).as_posix() for picture in pictures],
        "encoder": hash_of(encoder),
        "decoder": hash_of(decoder),
        "strength": strength,
        "seed": seed,
    }
    transfer = StyleTransfer.from_files(encoder, decoder).to(device or torch.device("cpu"))
    _begin(out, about)
    chosen = below(len(pictures), len(data), generator=generator_for(seed, "style"))
    return _write_all(data, out, transfer, pictures, chosen, strength, progress or Progress())


def _pictures(styles: Path) -> list[Path]:
    """All pictures in a folder and its subfolders, in the order of their names."""
    found = sorted(path for path in styles.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not found:
        raise CrossbiasError(f"there are no pictures in {styles}; name a folder of style pictures")
    return found


def _begin(out: Path, about: dict[str, Any]) -> None:
    """Make the folder, or check that it is the same copy that was begun."""
    path = out / ABOUT
    if path.exists():
        before = read_json(path)
        known = before if isinstance(before, dict) else {}
        if differ := [name for name, value in about.items() if known.get(name) != value]:
            raise CrossbiasError(
                f"{out} was begun with other {', '.join(differ)}; name another folder, or repeat "
                f"the command that began it"
            )
    elif out.exists() and any(out.iterdir()):
        raise CrossbiasError(f"{out} exists and is no re-textured copy; name another folder")
    else:
        out.mkdir(parents=True, exist_ok=True)
        write_json(path, about)


def _write_all(
    data: BiasedDataset,
    out: Path,
    transfer: StyleTransfer,
    pictures: Sequence[Path],
    chosen: Tensor,
    strength: float,
    progress: Progress,
) -> int:
    files, written = image_files(out, len(data)), 0
    known: dict[int, tuple[Tensor, Tensor]] = {}  # statistics of the styles met so far
    progress.note(f"{len(data):,} images in the style of {len(pictures):,} pictures")
    for rows in _missing(files):
        for number in set(chosen[rows].tolist()) - known.keys():
            known[number] = _statistics(transfer, pictures[number])
        mean, deviation = (
            torch.cat([known[number][which] for number in chosen[rows].tolist()])
            for which in (0, 1)
        )
        restyled = _restyled(data, rows, transfer, mean, deviation, strength)
        for row, pixels in zip(rows, restyled, strict=True):
            if not files[row].exists():
                image = Image.fromarray(pixels.squeeze(-1).numpy())
                write_atomically(files[row], partial(image.save, format="PNG"))
                written += 1
    return written


def _missing(files: Sequence[Path]) -> Iterator[list[int]]:
    """Batches of rows, always cut at the same places, that lack a file."""
    for start in range(0, len(files), _BATCH):
        rows = list(range(start, min(start + _BATCH, len(files))))
        if not all(files[row].exists() for row in rows):
            yield rows


@torch.no_grad()
def _statistics(transfer: StyleTransfer, picture: Path) -> tuple[Tensor, Tensor]:
    """Channel statistics of a style, (1, 512) each."""
    try:
        with picture.open("rb") as file, open_image(file) as image:
            rgb = image.convert("RGB")
    except (OSError, CrossbiasError) as error:
        raise CrossbiasError(f"the style {picture} cannot be used: {error}; remove it") from error
    scale = _STYLE_SIDE / min(rgb.size)
    width, height = (max(1, round(scale * side)) for side in rgb.size)
    resized = rgb.resize((width, height), Image.Resampling.BILINEAR)
    pixels = torch.frombuffer(bytearray(resized.tobytes()), dtype=torch.uint8)
    inputs = pixels.view(1, height, width, 3).permute(0, 3, 1, 2).float() / 255
    device = next(transfer.parameters()).device
    mean, deviation = transfer.style(inputs.to(device))
    return mean, deviation


@torch.no_grad()
def _restyled(
    data: BiasedDataset,
    rows: list[int],
    transfer: StyleTransfer,
    mean: Tensor,
    deviation: Tensor,
    strength: float,
) -> Tensor:
    """Images in other styles, (B, H, W, C) uint8 with as many channels as the data has."""
    images = data.inputs[rows].to(mean.device).float() / 255
    channels = images.shape[1]
    found: Tensor = transfer(images.expand(-1, 3, -1, -1), mean, deviation, strength)
    if channels == 1:
        found = found.mean(1, keepdim=True)
    return (255 * found).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu()
