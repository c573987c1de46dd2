"""Counts over many data sets: quiet where there is nothing, right where something was planted."""

from dataclasses import replace

import pytest
import torch

from crossbias import BiasedDataset

NAMED = {
    "color": "color",
    "brightness": "color",
    "texture": "texture",
    "mark": "border marks",
    "frame": "border marks",
    "light": "thumbnail",
}
"""What an audit should call each planted shortcut."""

RHOS = (0.8, 0.9, 0.95, 0.99)

# Samples and how many of them are of the second class.
NULLS = {"permuted labels": (80, 40), "99:1": (300, 3), "small n": (24, 12)}


@pytest.fixture
def alarms(blank, verdict):
    """How many of so many data sets without any rule are said to have a shortcut."""

    def counted(kind: str, sets: int) -> int:
        samples, second = NULLS[kind]
        found = 0
        for seed in range(sets):
            generator = torch.Generator().manual_seed(1000 + seed)
            labels = (torch.arange(samples) < second).long()
            labels = labels[torch.randperm(samples, generator=generator)]
            found += bool(verdict(blank(labels, seed=seed, side=16), seed=seed).findings)
        return found

    return counted


@pytest.fixture
def named(planted, verdict):
    """Of all planted shortcuts: how many there are, are found, and are called by their name."""

    def counted(seeds: range) -> tuple[int, int, int]:
        first = []
        for kind in NAMED:
            for rho in RHOS:
                for seed in seeds:
                    findings = verdict(planted(kind, rho=rho, seed=seed), seed=seed).findings
                    first.append((kind, findings[0].name if findings else None))
        found = sum(name is not None for _, name in first)
        return len(first), found, sum(name == NAMED[kind] for kind, name in first)

    return counted


# If 5% of audits raise a false alarm, more than 6 of 40 do with a probability of .3%.
@pytest.mark.parametrize("kind", NULLS)
def test_without_a_shortcut_there_is_no_evidence_at_the_stated_rate(kind, alarms):
    assert alarms(kind, 40) <= 6


def test_planted_shortcuts_are_found_and_named(named):
    count, found, right = named(range(100, 101))
    assert found == count == 24
    assert right >= 22


@pytest.mark.slow
@pytest.mark.parametrize("kind", NULLS)
def test_the_stated_rate_over_many_sets(kind, alarms):
    # More than 33 of 400 with a probability of .2% if the rate is 5%.
    assert alarms(kind, 400) <= 33


@pytest.mark.slow
def test_planted_shortcuts_are_found_and_named_many_times(named):
    count, found, right = named(range(100, 110))
    assert found == count == 240
    assert right >= 0.95 * count


def test_a_found_shortcut_may_be_the_task_itself_and_the_words_say_so(planted, verdict):
    sentence = verdict(planted("color", rho=0.9, seed=0)).sentence
    assert "cannot know whether this is a shortcut or the task itself" in sentence
    assert "the cue 'color' alone" in sentence


def test_no_evidence_is_said_with_its_error_rate(blank, verdict):
    labels = torch.arange(60) % 2
    sentence = verdict(blank(labels, seed=0)).sentence
    assert sentence.startswith("No shortcut was found: none of the 4 attributes and cues")
    assert "at most 5% of such audits" in sentence


def test_images_of_one_patient_raise_no_alarm_once_the_patient_is_named(blank, verdict):
    """Twenty patients of four images that look alike: without clusters every set is an alarm."""
    alarms = {True: 0, False: 0}
    patient = torch.arange(20).repeat_interleave(4)
    for seed in range(12):
        once = blank(torch.arange(20) % 2, seed=seed, side=16)
        noise = torch.randint(-8, 9, (80, 3, 16, 16), generator=torch.Generator().manual_seed(seed))
        images = (once.inputs[patient] + noise).clamp(0, 255).to(torch.uint8)
        data = BiasedDataset(inputs=images, targets=once.targets[patient])
        for clustered in alarms:
            named = replace(data, cluster=patient if clustered else None)
            alarms[clustered] += bool(verdict(named, seed=seed).findings)
    assert alarms[False] == 12
    assert alarms[True] <= 3  # more has a probability of .2% at a rate of 5%
