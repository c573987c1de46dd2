"""JTT: train twice, the second time with copies of what the first network got wrong."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.methods.erm import ERM
from crossbias.methods.first_training import first_length
from crossbias.methods.symptoms import FEWEST_WRONG, class_share_symptoms, has_learned
from crossbias.networks.network import Network
from crossbias.parameters import Count
from crossbias.runs.health import Symptom
from crossbias.train.method import Method

if TYPE_CHECKING:
    from crossbias.train.run import Run

_PART = 1 / 5  # as on Waterbirds, 60 of 300 epochs


@dataclass(kw_only=True)
class JTT(Method):
    """Just train twice (Liu et al., ICML 2021).

    A network is trained plainly, but not for long. A second, new network is then trained plainly
    on the training set together with copies of the samples that the first one gets wrong.

    No bias label is used in training. But the right length of the first training and the number
    of copies depend on the data: the paper chooses both by the worst group of validation data, so
    its results need bias labels there.

    Args:
        first_epochs: Length of the first training, the paper's T; 60 of 300 epochs on Waterbirds
            and 1 of 50 on CelebA. If it is not given, a fifth of the configured training, but at
            least 200 steps or the whole of it.
        copies: How often each error is added to the training set, the paper's lambda; an error
            then counts one more time. 100 on Waterbirds, 50 on CelebA. If it is not given, so many
            that the errors together count as much as all other samples, rounded down, as in the
            authors' code.
    """

    name: ClassVar[str] = "jtt"
    paper: ClassVar[str] = "JTT (ICML 2021)"
    mean_loss: ClassVar[bool] = True
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {"sampling": ("draws",)}

    first_epochs: Count | None = None
    copies: Count | None = None

    def fit(self, run: "Run") -> Network:
        """First network, its errors, second network."""
        epochs, steps = self.first_epochs, None
        if epochs is None:
            epochs, steps = first_length(run.config, run.steps, part=_PART)
        first = run.train(ERM(), name="first", epochs=epochs, steps=steps)
        rows = (run.data.full_size,)
        draws = run.stage("draws", lambda: self._draws(run, first), shape=rows)
        return run.train(ERM(), weights=draws)

    def _draws(self, run: "Run", first: Network) -> Tensor:
        """How often each row is shown in an epoch, (full_size,) int64."""
        found = run.score(first, lambda batch, output: output.logits.argmax(1) != batch.target)
        wrong = found.cpu()[run.data.index] > 0
        copies = balancing_copies(wrong) if self.copies is None else self.copies
        draws = torch.zeros(run.data.full_size, dtype=torch.int64)
        draws[run.data.index] = 1 + copies * wrong.long()
        for symptom in (
            *error_symptoms(wrong, run.data), *class_share_symptoms(draws, run.data),
        ):  # fmt: skip
            run.warn(*symptom)
        run.progress.note(
            f"{int(wrong.sum())} of {len(wrong)} samples are errors of the first network; each "
            f"counts {copies + 1} times, and an epoch has {int(draws.sum())} samples"
        )
        return draws


def balancing_copies(wrong: Tensor) -> int:
    """Copies of each error with which all errors count as much as the rest, rounded down.

    Args:
        wrong: ``(n,)`` which samples are errors.

    >>> balancing_copies(torch.arange(100) < 5)  # 5 errors count 19 times, 95 samples once
    18
    """
    errors = int(wrong.sum())
    return max(0, (len(wrong) - errors) // errors - 1) if errors else 0


def error_symptoms(wrong: Tensor, data: BiasedDataset) -> Iterator[Symptom]:
    """Whether the errors of the first network can tell the second one anything.

    Args:
        wrong: ``(n,)`` which samples are errors.
        data: The training data.
    """
    share = float(wrong.float().mean())
    if share < FEWEST_WRONG:
        yield Symptom(
            "hardly any errors",
            f"The first network is wrong on {int(wrong.sum())} of {len(wrong)} training samples, "
            f"so the second training is plain training.",
            "Train the first network for fewer epochs with first_epochs, or with a lower rate.",
        )
    elif not has_learned(1 - share, data):
        yield Symptom(
            "errors everywhere",
            f"The first network is wrong on {percent(share)} of the training samples, hardly less "
            f"often than by always answering the largest class: its errors say nothing.",
            "Train the first network longer with first_epochs, or raise train.lr.",
        )
    else:
        yield from _unequal_classes(wrong, data)


def _unequal_classes(wrong: Tensor, data: BiasedDataset) -> Iterator[Symptom]:
    sizes = data.targets.bincount(minlength=data.num_classes)
    errors = data.targets[wrong].bincount(minlength=data.num_classes)
    without = ((sizes > 0) & (errors == 0)).nonzero().flatten().tolist()
    if without:
        yield Symptom(
            "classes without errors",
            f"The first network is right on every training sample of "
            f"{', '.join(data.classes[number] for number in without)}, so only other classes are "
            f"shown more often.",
            "Train the first network for fewer epochs with first_epochs, and look at the accuracy "
            "of each class.",
        )
