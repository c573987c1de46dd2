"""Near-duplicates are found and named; ordinary images are left in peace."""

from dataclasses import replace
from pathlib import Path

import torch

from crossbias import BiasedDataset, load
from crossbias.audit.near_duplicates import near_duplicates
from crossbias.audit.verdict import verdict_of


def copies(blank, times: int) -> tuple[BiasedDataset, torch.Tensor]:
    """Several noisy shots of each of forty scenes, in random order, and the scene of each."""
    once = blank(torch.arange(40) % 2, seed=0)
    scene = torch.arange(40).repeat(times)
    draw = torch.Generator().manual_seed(1)
    noise = 6 * torch.randn(len(scene), 3, 32, 32, generator=draw)
    light = 0.8 + 0.3 * torch.rand(len(scene), 1, 1, 1, generator=draw)
    images = (once.inputs[scene] * light + noise).clamp(0, 255).to(torch.uint8)
    return BiasedDataset(inputs=images, targets=scene % 2), scene


def test_shots_of_one_scene_are_named_with_the_remedy(blank):
    data, scene = copies(blank, 3)
    files = [Path(f"shot{row // 40}-of-{row % 40}.png") for row in range(120)]
    found = near_duplicates(data, files=files, seed=0)
    assert (found.number, found.examined) == (120, 120)
    first, second = (name.partition("-")[2] for name in found.pair)
    assert first == second
    assert found.pair[0] != found.pair[1]
    sentence = verdict_of([], [], None, [], found).sentence.split("\n\n")[-1]
    assert sentence.startswith("120 of 120 samples have a near-duplicate that counts as independ")
    assert f"such as {found.pair[0]} and {found.pair[1]}." in sentence
    assert "name the column that says so (--cluster)" in sentence
    assert near_duplicates(replace(data, cluster=scene), seed=0) is None


def test_other_images_are_left_in_peace(blank):
    assert near_duplicates(blank(torch.arange(120) % 2, seed=0), seed=0) is None
    assert near_duplicates(load("glyphs", "train").subset(torch.arange(400)), seed=0) is None
    shades = torch.arange(100, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 16, 16)
    plain = BiasedDataset(inputs=shades.contiguous(), targets=torch.arange(100) % 2)
    assert near_duplicates(plain, seed=0) is None
    vectors = BiasedDataset(inputs=torch.zeros(100, 4), targets=torch.arange(100) % 2)
    assert near_duplicates(vectors, seed=0) is None
