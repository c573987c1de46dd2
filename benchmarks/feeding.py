"""An epoch of BAR at 224 pixels from the cache, of pixels or of bytes, against decoding it.

Needs CROSSBIAS_DATA, with the folder bar/train in it. Both sides give the same uint8 batches, in
the same order; the first epoch checks that they are equal. Decoding is what a torchvision data
set does every epoch (open, resize, cut, to a tensor), in as many worker processes as there are
processors; the cache of pixels is read by one, and that of bytes by as many workers as the files.
Building the cache, in a temporary folder, is timed too.

    CROSSBIAS_DATA=... python -m benchmarks.feeding
"""

import os
import statistics
import tempfile
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from benchmarks.measure import alternate, keep, ratio, seconds
from crossbias import BiasedDataset
from crossbias.data.images.decoding import Fit, file_items, read_images, read_items
from crossbias.data.loader import Loader
from crossbias.data.order import batches, epoch_order
from crossbias.errors import CrossbiasError

BATCH = 64
SIZE = 224


class Files(Dataset[torch.Tensor]):
    """Image files, decoded whenever they are asked for."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.transform = v2.Compose([v2.Resize(SIZE), v2.CenterCrop(SIZE), v2.PILToTensor()])

    def __len__(self) -> int:
        """How many."""
        return len(self.files)

    def __getitem__(self, row: int) -> torch.Tensor:
        """One image, (3, 224, 224) uint8."""
        with Image.open(self.files[row]) as image:
            return self.transform(image.convert("RGB"))


def main() -> None:
    root = os.environ.get("CROSSBIAS_DATA")
    if root is None:
        raise CrossbiasError("set CROSSBIAS_DATA to the folder that contains bar/train")
    files = sorted(Path(root, "bar", "train").iterdir())
    cut = batches(epoch_order(len(files), 0, 0), BATCH)
    decoding = DataLoader(
        Files(files), batch_sampler=[part.tolist() for part in cut], num_workers=os.cpu_count() or 1
    )
    with tempfile.TemporaryDirectory() as folder:
        building = seconds(lambda: read_images(files, Fit(SIZE), cache=Path(folder)))
        inputs, digest = read_images(files, Fit(SIZE), cache=Path(folder))
        items = file_items(files, [file.name for file in files])
        encoded, _ = read_items(items, Fit(SIZE), store="bytes", cache=Path(folder))
        stored = DataLoader(encoded, batch_size=None, sampler=cut, num_workers=os.cpu_count() or 1)
        targets = torch.zeros(len(files), dtype=torch.int64)
        data = BiasedDataset(inputs=inputs, targets=targets, digest=digest)
        loader = Loader(data, torch.device("cpu"), resident_bytes=2**40, workers=0)
        for positions, batch, same in zip(cut, decoding, stored, strict=True):
            assert torch.equal(batch, inputs[positions])
            assert torch.equal(same, inputs[positions])
        actions = {
            "decoding": lambda: sum(len(batch) for batch in decoding),
            "bytes in shards": lambda: sum(len(batch) for batch in stored),
            "cached": lambda: sum(len(inputs[positions]) for positions in cut),
            "cached, as normalized floats": lambda: sum(
                len(batch.inputs) for batch in loader.batches(cut)
            ),
        }
        times = alternate(actions, repeats=3)
    found = {
        "images": len(files),
        "building_seconds": round(building, 2),
        "seconds": {name: round(statistics.median(taken), 3) for name, taken in times.items()},
        "ratio": round(ratio(times, "decoding", "cached"), 1),
    }
    keep("feeding", found, "cpu")


if __name__ == "__main__":
    main()
