"""Clips: eight frames from a video file or from a folder of frames."""

import hashlib
import os
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from PIL import Image

from crossbias.data.memory_maps import cache_folder
from crossbias.data.published.image_source import images_in
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed

FRAMES: Final = 8
RATE: Final = 30  # frames per second, of a folder of frames and of the stride
STRIDE: Final = Fraction(8, RATE)  # seconds between two of the eight frames (ReBias)

VIDEOS: Final = frozenset(
    {".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm"}
)


def clips_in(folder: Path) -> list[Path]:
    """The clips in a folder, which are folders and video files; all other files are ignored."""
    found = (
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and (path.is_dir() or path.suffix.lower() in VIDEOS)
    )
    return sorted(found)


def clip_files(clip: Path) -> list[Path]:
    """The image files of the eight frames of a clip; a video is decoded once and kept as images."""
    if clip.is_dir():
        frames = images_in(clip)
        if not frames:
            raise CrossbiasError(f"the clip {clip} is a folder without image files")
        return [frames[position] for position in middle(len(frames))]
    try:
        status = clip.stat()
    except OSError as error:
        raise CrossbiasError(
            f"cannot read the clip {clip}: {error.strerror}; repair it or remove it"
        ) from error
    key = f"{clip.absolute()} {status.st_size} {status.st_mtime_ns} {FRAMES} {STRIDE}"
    folder = cache_folder() / "clips" / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not folder.is_dir():
        _decode(clip, folder)
    return images_in(folder)


def middle(length: int) -> list[int]:
    """Positions of the eight frames in a clip with thirty frames per second.

    >>> middle(100)
    [21, 29, 37, 45, 53, 61, 69, 77]
    >>> middle(4)
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    return positions([Fraction(number, RATE) for number in range(length)])


def positions(times: Sequence[Fraction]) -> list[int]:
    """Positions of the frames that are shown at eight times around the middle of a clip.

    The times are a stride apart. In a clip that is too short for that, they are spread over all
    of it, so there are always eight frames in order.

    Args:
        times: When each frame appears, in seconds and in order.
    """
    first, last = times[0], times[-1]
    stride, start = STRIDE, (first + last - (FRAMES - 1) * STRIDE) / 2
    if start < first:
        shown = (last - first) / max(len(times) - 1, 1)  # how long a frame is shown on average
        stride, start = (last - first + shown) / FRAMES, first
    return [bisect_right(times, start + number * stride) - 1 for number in range(FRAMES)]


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
    times = [_time(frame, position) for position, frame in enumerate(_decoded(video))]
    if not times:
        raise CrossbiasError(f"the video {video} has no frames")
    wanted = Counter(positions(times))
    for position, frame in enumerate(_decoded(video)):
        if position in wanted:
            yield from [frame.to_image()] * wanted[position]


def _time(frame: Any, position: int) -> Fraction:
    """When a frame appears; some streams do not tell, and are taken for thirty per second."""
    if frame.pts is None or frame.time_base is None:
        return Fraction(position, RATE)
    return Fraction(frame.pts * frame.time_base)


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
