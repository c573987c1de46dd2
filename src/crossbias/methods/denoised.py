"""Denoised: leave out samples whose label looks wrong, then train any method on the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.data.noise import CLEAN
from crossbias.errors import CrossbiasError
from crossbias.functional import NoiseThreshold, clean_samples, noise_threshold
from crossbias.methods.erm import ERM
from crossbias.methods.pgd import PGD
from crossbias.methods.scores import entropy, loss
from crossbias.networks.network import Network
from crossbias.parameters import Count
from crossbias.train.method import Method, Supervision
from crossbias.types import UNKNOWN

if TYPE_CHECKING:
    from crossbias.train.run import Run

DENOISER_STAGES: Final = ("cross-entropy", "entropy", "threshold")
"""Stages that hold each training row's loss and entropy, and delta of eq. 2."""

Counts = dict[str, dict[str, int]]
"""Numbers of samples by kind: ``{"clean majority": {"before": 90, "kept": 88}, ...}``."""


@dataclass(kw_only=True)
class Denoised(Method):
    """The de-noising module of PGD (Ahn et al., ICLR 2022 submission), Algorithm 3 and eq. 2.

    Methods that emphasize rare samples emphasize wrong labels as well. A plain network is trained
    first. Samples whose loss is high although the network is sure of its answer are left out, and
    the method inside is trained on the rest. A class that would lose all its samples is kept whole.

    Where the data has an attribute ``clean`` with the true labels, the run counts how many samples
    of each kind it kept (Table 16). Training does not look at that attribute.

    Args:
        inner: The method trained on the kept samples, PGD if not given:
            ``Denoised(inner=PGD(q=0.5))``. In a file it is the table ``[method.inner]``, on the
            command line ``--set inner=pgd --set inner.q=0.5``.
        noise_epochs: Length of the plain training; the configured number of epochs if not given.
        threshold: How delta of eq. 2 is computed. ``losses`` divides the sum of all losses by that
            of all entropies; ``ratios`` has the sum of losses over entropies in the place of the
            first, as the equation does, read literally. It keeps more samples: more rare ones, and
            more wrong labels.
    """

    name: ClassVar[str] = "denoised"
    paper: ClassVar[str] = "De-noising of PGD (ICLR 2022 submission)"
    mean_loss: ClassVar[bool] = True
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {"denoiser": DENOISER_STAGES}

    inner: Method = field(default_factory=PGD)
    noise_epochs: Count | None = None
    threshold: NoiseThreshold = "losses"

    @property
    def supervision(self) -> Supervision:  # type: ignore[override]  # depends on a keyword here
        """What the method inside must know."""
        return self.inner.supervision

    def network_for(self, make: Callable[[], Network]) -> Network:
        """A network as the method inside trains it."""
        return self.inner.network_for(make)

    def page(self) -> dict[str, Any]:
        """The figures of the de-noiser and those of the method inside."""
        own, inner = super().page(), self.inner.page()
        nested = {
            kind: tuple(f"inner/{stage}" for stage in stages)
            for kind, stages in inner["figures"].items()
        }
        return {"figures": nested | own["figures"], "curves": inner["curves"]}

    def fit(self, run: "Run") -> Network:
        """Plain network, losses and entropies, the method inside on what looks clean."""
        if isinstance(self.inner, Denoised):
            raise CrossbiasError("denoised in denoised would train the same plain network twice")
        keep = _with_lost_classes(run, self._keep(run))
        counts = kept_counts(run.data, keep)
        run.progress.note(_in_words(counts))
        run.keep("kept", counts)
        inner = run.nested("inner", data=run.data.subset(keep))
        network = self.inner.fit(inner)
        run.plain = run.plain or inner.plain
        return network

    def _keep(self, run: "Run") -> Tensor:
        """Which samples of the run's data to keep, (n,); the folder keeps the grounds for it."""
        plain = run.train(ERM(), name="noise", epochs=self.noise_epochs)
        if self.noise_epochs is None:
            run.plain = plain
        rows, (loss_stage, entropy_stage, threshold_stage) = run.data.index, DENOISER_STAGES
        shape = (run.data.full_size,)
        losses = run.stage(loss_stage, lambda: loss(run, plain), shape=shape)
        entropies = run.stage(entropy_stage, lambda: entropy(run, plain), shape=shape)
        own = losses[rows], entropies[rows]
        run.stage(threshold_stage, lambda: noise_threshold(*own, threshold=self.threshold))
        return clean_samples(*own, threshold=self.threshold)


def kept_counts(data: BiasedDataset, keep: Tensor) -> Counts:
    """How many samples were kept, by kind where the true labels are known (Table 16).

    Args:
        data: The training data. An attribute ``clean`` holds the true labels, if they are known;
            the majority are the samples whose true label is aligned with their bias.
        keep: ``(n,)`` bool, the samples that were kept.
    """
    kinds = {"all": torch.ones_like(keep)}
    if CLEAN in data.attributes:
        truth = data.attributes[CLEAN]
        right, wrong = truth == data.targets, (truth != data.targets) & (truth != UNKNOWN)
        kinds |= {"clean": right, "noisy": wrong}
        if data.bias not in (None, CLEAN) and data.has_bias_labels:
            known = (data.biases != UNKNOWN) & (truth != UNKNOWN)
            majority = data.alignment()[truth, data.biases] & known
            minority = ~majority & known
            for name, rows in {"clean": right, "noisy": wrong}.items():
                kinds |= {f"{name} majority": rows & majority, f"{name} minority": rows & minority}
    return {
        name: {"before": int(rows.sum()), "kept": int((rows & keep).sum())}
        for name, rows in kinds.items()
    }


def _with_lost_classes(run: "Run", keep: Tensor) -> Tensor:
    """Refuse to continue without any sample; keep a class whole rather than lose it."""
    data = run.data
    if not keep.any():
        raise CrossbiasError(
            f"denoised would leave out all samples of {data.name}: its plain network says the same "
            f"of every one; set noise_epochs or lr higher, or train {data.name} without denoised"
        )
    counts = torch.bincount(data.targets[keep], minlength=data.num_classes)
    lost = counts[data.targets] == 0  # (n,) samples of classes that would be lost
    if lost.any():
        names = [data.classes[number] for number in sorted(set(data.targets[lost].tolist()))]
        run.progress.note(
            f"every label of class {', '.join(names)} looks wrong: the class is kept whole"
        )
    return keep | lost


def _in_words(counts: Counts) -> str:
    parts = [f"{name} {found['kept']} of {found['before']}" for name, found in counts.items()]
    return f"kept samples: {', '.join(parts)}"
