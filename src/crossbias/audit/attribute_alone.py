"""How well an attribute alone tells the target, out of fold."""

import torch
from torch import Tensor

from crossbias.audit.folds import fitting_folds, num_present, stratified_folds, testable
from crossbias.seeds import generator_for
from crossbias.verify import Estimate, wilson


def told_from_value(
    targets: Tensor, values: Tensor, shape: tuple[int, int], seed: int
) -> tuple[Estimate | None, float | None]:
    """Accuracy and balanced accuracy of the target told from the value alone.

    Args:
        targets: ``(n,)`` class numbers.
        values: ``(n,)`` attribute values, all known.
        shape: Number of classes and of values.
        seed: Of the folds.

    Returns:
        Both out of fold; None where fewer than two classes have samples for it.
    """
    usable = testable(targets)
    targets, values = targets[usable], values[usable]
    if num_present(targets) < 2:
        return None, None
    folds = fitting_folds(targets)
    fold = stratified_folds(targets, folds=folds, generator=generator_for(seed, "folds"))
    plain, balanced = torch.empty_like(targets), torch.empty_like(targets)
    for number in range(folds):
        train, test = fold != number, fold == number
        cells = targets[train] * shape[1] + values[train]
        table = torch.bincount(cells, minlength=shape[0] * shape[1]).view(shape).double()
        sizes = table.sum(1, keepdim=True)
        # The class's own size decides between equals, and for values that were never seen.
        plain[test] = (table + 1e-6 * sizes / sizes.sum()).argmax(0)[values[test]]
        balanced[test] = (table / sizes.clamp(min=1)).argmax(0)[values[test]]
    return wilson(int((plain == targets).sum()), len(targets)), _mean_recall(targets, balanced)


def _mean_recall(targets: Tensor, answers: Tensor) -> float:
    """The mean over the classes that are present of the share answered rightly."""
    sizes = torch.bincount(targets).double()
    right = torch.bincount(targets[answers == targets], minlength=len(sizes)).double()
    return float((right[sizes > 0] / sizes[sizes > 0]).mean())
