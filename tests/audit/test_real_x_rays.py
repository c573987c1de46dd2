"""The chest X-rays as they lie on disk: the audit finds that the source tells the diagnosis."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crossbias.audit.attributes import audit_attributes
from crossbias.audit.evidence import evidence_of
from crossbias.audit.verdict import verdict_of
from crossbias.data import create_source

ROOT = Path(os.environ["CROSSBIAS_DATA"])


@pytest.fixture(scope="module")
def x_rays(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSBIAS_CACHE", str(tmp_path_factory.mktemp("cache")))
        return create_source("covid-cxr").load("train", root=ROOT)


def test_the_source_is_a_strong_finding_and_the_first(x_rays):
    attributes, cues = evidence_of(x_rays, x_rays, files=None, permutations=199, seed=0)
    (source,), verdict = attributes, verdict_of(attributes, cues, None, [])
    assert source.name == "source"
    assert source.cramers_v.low > 0.4
    assert source.accuracy.low > source.majority  # it alone beats the most frequent class
    first = verdict.findings[0]
    assert (first.kind, first.name, first.strength) == ("attribute", "source", "strong")
    assert verdict.sentence.startswith(
        "An attribute gives the class away: the attribute 'source' alone predicts the class of 75% "
        "of the samples"
    )


def test_with_shuffled_diagnoses_the_source_is_suspected_as_rarely_as_stated(x_rays):
    alarms = 0
    for seed in range(100):
        order = torch.randperm(len(x_rays), generator=torch.Generator().manual_seed(seed))
        shuffled = replace(x_rays, targets=x_rays.targets[order])
        alarms += audit_attributes(shuffled, permutations=99, seed=seed)[0].p <= 0.05
    assert alarms <= 12  # more with a probability of .15% if the rate is 5%
