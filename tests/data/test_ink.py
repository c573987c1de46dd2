import numpy as np
import torch

from crossbias.data.generated.strokes import ink


def distance(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    span = end - start
    position = np.clip(np.dot(point - start, span) / np.dot(span, span), 0, 1)
    return float(np.linalg.norm(point - start - position * span))


def test_ink_equals_pixel_by_pixel_distance() -> None:
    generator = torch.Generator().manual_seed(0)
    pieces = 16 * torch.rand(3, 5, 2, 2, dtype=torch.float64, generator=generator)
    radius = torch.tensor([[0.6], [1.0], [2.5]], dtype=torch.float64)
    images = ink(pieces, radius, image_size=16)
    assert images.shape == (3, 16, 16)
    for image in range(3):
        inner, outer = (float(radius[image]) + side for side in (-0.5, 0.5))
        for y in range(16):
            for x in range(16):
                center = np.array([x + 0.5, y + 0.5])
                near = min(distance(center, *piece) for piece in pieces[image].numpy())
                full = (outer**2 - near**2) / (outer**2 - inner**2)
                assert abs(int(images[image, y, x]) - 255 * min(max(full, 0), 1)) < 0.51
