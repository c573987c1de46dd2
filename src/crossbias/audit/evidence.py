"""Attributes and cues tested against the target, together."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from crossbias.audit.attributes import AttributeFinding, audit_attributes
from crossbias.audit.cues import image_cues
from crossbias.audit.file_cues import file_cues
from crossbias.audit.permutation import enough_permutations, holm
from crossbias.audit.probed_cues import CueFinding, audit_cues
from crossbias.data.dataset import BiasedDataset
from crossbias.progress import Progress


def evidence_of(
    data: BiasedDataset,
    some: BiasedDataset,
    *,
    files: Sequence[Path] | None,
    permutations: int,
    seed: int,
    progress: Progress | None = None,
) -> tuple[list[AttributeFinding], list[CueFinding]]:
    """What attributes and cues reveal about the target, with p-values corrected over all of them.

    Attributes are compared with the target in all of ``data``. Cues are tested in ``some`` of its
    samples and in their image files, if there are files.
    """
    names = [some.classes[target] for target in some.targets.tolist()]
    cues = file_cues(files, names) if files is not None else []
    cues += image_cues(some.inputs, progress=progress) if some.inputs.ndim == 4 else []
    tests = len(data.attributes) + len(cues)
    permutations = enough_permutations(permutations, tests=tests)
    settings = {"permutations": permutations, "tests": tests, "seed": seed}
    attributes = audit_attributes(data, **settings)
    found = audit_cues(cues, some, **settings, progress=progress)
    return _corrected(attributes, found)


def _corrected(
    attributes: Sequence[AttributeFinding], cues: Sequence[CueFinding]
) -> tuple[list[AttributeFinding], list[CueFinding]]:
    """Holm's correction over everything that was tested."""
    tested: list[AttributeFinding | CueFinding] = [*attributes, *cues]
    corrected = iter(holm([found.p for found in tested if found.p is not None]))
    return (
        [a if a.p is None else replace(a, p_corrected=next(corrected)) for a in attributes],
        [c if c.p is None else replace(c, p_corrected=next(corrected)) for c in cues],
    )
