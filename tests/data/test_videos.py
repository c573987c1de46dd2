"""Clips: eight frames of a video, decoded once."""

import itertools
import sys
from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image

from crossbias.data.published import clips
from crossbias.data.published.clips import clip_files, middle, positions
from crossbias.errors import CrossbiasError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("length", [1, 5, 8, 56, 57, 58, 300])
def test_eight_positions_in_order_inside_the_clip(length):
    positions = middle(length)
    assert len(positions) == 8
    assert positions == sorted(positions)
    assert 0 <= positions[0] <= positions[-1] < length
    if length > 56:
        assert {after - before for before, after in itertools.pairwise(positions)} == {8}
        assert abs(positions[0] - (length - 1 - positions[-1])) <= 1  # as much before as after


def write_video(path, *, frames: int, rate: int = 30):
    """Frames that get brighter."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width = stream.height = 32
        for number in range(frames):
            pixels = np.full((32, 32, 3), 3 * number, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.fixture
def video(tmp_path):
    return write_video(tmp_path / "clip.mp4", frames=70)


def levels_of(files) -> np.ndarray:
    return np.array([int(np.asarray(Image.open(file)).mean()) for file in files])


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        # 84 frames; the last of the eight is 56/30 s after the first.
        (15, [27, 31, 35, 39, 43, 47, 51, 55]),
        (30, [13, 21, 29, 37, 45, 53, 61, 69]),
        (60, [0, 10, 21, 31, 42, 52, 63, 73]),  # shorter than 56/30 s: spread over all of it
    ],
)
def test_frames_are_chosen_by_time_whatever_the_frame_rate(rate, expected, tmp_path):
    path = write_video(tmp_path / "clip.mp4", frames=84, rate=rate)
    levels = levels_of(clip_files(path))
    assert np.abs(levels - 3 * np.array(expected)).max() <= 4  # the codec is lossy


def test_frames_of_an_uneven_clip_are_those_shown_at_each_time():
    """Slow, then fast: two seconds of ten frames and two of sixty."""
    slow = [Fraction(i, 5) for i in range(10)]
    times = slow + [2 + Fraction(i, 30) for i in range(60)]
    chosen = positions(times)
    shown = [float(times[position]) for position in chosen]
    middle_of_it = float(times[-1]) / 2
    wanted = [middle_of_it + (number - 3.5) * 8 / 30 for number in range(8)]
    assert all(0 <= at - time < 0.2 for at, time in zip(wanted, shown, strict=True))
    assert chosen == sorted(chosen)


def test_frames_of_a_video_are_those_of_the_middle_and_decoded_once(video, monkeypatch):
    files = clip_files(video)
    expected = [3 * position for position in middle(70)]
    assert np.abs(levels_of(files) - expected).max() <= 4  # the codec is lossy
    monkeypatch.setattr(clips, "_decoded", None)
    assert clip_files(video) == files


def test_a_file_that_is_no_video_and_a_video_without_frames_are_refused(tmp_path):
    path = tmp_path / "bad.mp4"
    path.write_bytes(b"no video at all")
    with pytest.raises(CrossbiasError, match=r"bad\.mp4 cannot be read as a video"):
        clip_files(path)
    empty = tmp_path / "empty.avi"
    with av.open(str(empty), "w") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width = stream.height = 32
        container.start_encoding()
    with pytest.raises(CrossbiasError, match=r"empty\.avi"):
        clip_files(empty)
    assert not list((tmp_path / "cache").rglob("*.png"))


def test_without_the_library_the_message_says_what_to_install(video, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(CrossbiasError, match=r"needs PyAV: pip install 'crossbias\[video\]'"):
        clip_files(video)
