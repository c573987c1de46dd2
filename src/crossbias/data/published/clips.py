"""Clips: eight frames from a video file or from a folder of frames."""

import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from PIL import Image

from crossbias.data.extras import check_installed
from crossbias.data.memory_maps import cache_folder
from crossbias.data.published.image_source import images_in
from crossbias.errors import CrossbiasError

FRAMES: Final = 8
STRIDE: Final = 8  # a clip has eight frames, eight apart, at thirty frames per second (ReBias)


def clip_files(clip: Path) -> list[Path]:
    """The image files of the eight frames of a clip; a video is decoded once and kept as images."""
    if clip.is_dir():
        frames = images_in(clip)
        if not frames:
            raise CrossbiasError(f"the clip {clip} is a folder without image files")
        return [frames[position] for position in middle(len(frames))]
    status = clip.stat()
    key = f"{clip.absolute()} {status.st_size} {status.st_mtime_ns} {FRAMES} {STRIDE}"
    folder = cache_folder() / "clips" / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not folder.is_dir():
        _decode(clip, folder)
    return images_in(folder)


def middle(length: int) -> list[int]:
    """Positions of eight frames with a stride of eight around the middle of a clip.

    A shorter clip gets a smaller stride, so there are always eight frames in order.

    >>> middle(100)
    [21, 29, 37, 45, 53, 61, 69, 77]
    >>> middle(4)
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    span = (FRAMES - 1) * STRIDE
    if length <= span:
        return [position * length // FRAMES for position in range(FRAMES)]
    first = (length - 1 - span) // 2
    return [first + STRIDE * number for number in range(FRAMES)]


def _decode(video: Path, folder: Path) -> None:
    """Write the eight frames as PNG files; the folder appears when all of them are written."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        whole = Path(unfinished, "whole")
        whole.mkdir()
        for number, frame in enumerate(_chosen_frames(video)):
            frame.save(whole / f"{number}.png")
        try:
            os.rename(whole, folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise


def _chosen_frames(video: Path) -> Iterator[Image.Image]:
    """The eight frames, found in two passes, so the whole video is never in memory."""
    length = sum(1 for _ in _decoded(video))
    if not length:
        raise CrossbiasError(f"the video {video} has no frames")
    wanted = Counter(middle(length))
    for position, frame in enumerate(_decoded(video)):
        if position in wanted:
            yield from [frame.to_image()] * wanted[position]


def _decoded(video: Path) -> Iterator[Any]:
    check_installed(
        "av", what=f"reading the video {video}", instead="give each clip as a folder of frames"
    )
    import av

    try:
        with av.open(str(video)) as container:
            yield from container.decode(video=0)
    except (av.FFmpegError, IndexError) as error:
        raise CrossbiasError(f"{video} cannot be read as a video: {error}") from error
