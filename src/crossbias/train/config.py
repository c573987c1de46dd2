"""TrainConfig: everything about a training that is not the method, the data or the network."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from crossbias.data.order import Sampling
from crossbias.errors import CrossbiasError
from crossbias.parameters import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    PositiveFraction,
    WholeNumber,
    validated,
)

Selection = Literal["last", "validation-accuracy", "validation-loss", "validation-worst-group"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, how fast and on what device to train.

    Args:
        epochs: Passes over the training set.
        steps: Number of updates, instead of ``epochs``; the last pass is cut short.
        epoch_size: Samples in a pass; as many as the training set has if not given.
        batch_size: Samples in an update, over all processes together.
        accumulate: In how many parts a process computes its share of a batch, one after the other.
            More need less memory and more time. For methods whose loss is a mean over samples.
        sampling: How samples are drawn. ``uniform`` takes each sample once in a pass.
            ``class-balanced`` draws every class equally often, ``group-balanced`` every (target,
            bias) group, which uses bias labels. A training that a method gives sampling weights
            of its own follows those.
        optimizer: ``adam`` has coupled weight decay, as in the papers. ``adamw`` and ``adamp``
            (Heo et al., ICLR 2021, recommended by ReBias) have decoupled weight decay. ``adamp``
            reads values on the host, so its steps are not replayed as CUDA graphs.
        lr: Learning rate at the start.
        momentum: Momentum of ``sgd``.
        weight_decay: Weight decay, as the optimizer understands it.
        schedule: ``step`` multiplies the learning rate by ``decay`` every ``decay_epochs``.
            ``milestones`` does so at each fraction of the training in ``milestones``. ``cosine``
            lets the rate fall to zero.
        decay: Factor of ``step`` and ``milestones``.
        decay_epochs: Epochs between two decays of ``step``.
        milestones: Fractions of the training at which ``milestones`` decays.
        gradient_clip: Largest norm of the gradient of one network; ``None`` for no limit.
        precision: ``float32``, or ``bf16`` for mixed precision. Statistics stay in float32.
        seed: Seed of everything random in the training: weights, order, augmentation, dropout.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.
        processes: Number of processes, each with its own device, that share every batch.
        sync_batch_norm: Whether batch normalization of several processes uses the statistics of the
            whole batch instead of each process's share.
        compile: Compile the networks with ``torch.compile``.
        cuda_graphs: Replay steps as a CUDA graph, on one device and for methods that allow it.
        augment: Augmentations of training batches, in this order; the data's own if ``None``.
        validation_interval: Epochs between two validations. The last epoch always has one.
        selection: The rule that picks the epoch whose network is kept: the last one, or the best
            on validation data by accuracy, by mean cross-entropy (the lowest) or by worst-group
            accuracy (which needs bias labels).
        resident_bytes: Training data up to this size is kept on the device.
        workers: Threads that read larger data, or processes where images are decoded whenever
            they are read.
    """

    epochs: Count = 10
    steps: Count | None = None
    epoch_size: Count | None = None
    batch_size: Count = 128
    accumulate: Count = 1
    sampling: Sampling = "uniform"
    optimizer: Literal["adam", "adamw", "sgd", "adamp"] = "adam"
    lr: Positive = 1e-3
    momentum: Fraction = 0.9
    weight_decay: NonNegative = 0.0
    schedule: Literal["none", "step", "milestones", "cosine"] = "none"
    decay: PositiveFraction = 0.1
    decay_epochs: Count = 20
    milestones: tuple[PositiveFraction, ...] = ()
    gradient_clip: Positive | None = None
    precision: Literal["float32", "bf16"] = "float32"
    seed: WholeNumber = 0
    device: str = "auto"
    processes: Count = 1
    sync_batch_norm: bool = False
    compile: bool = False
    cuda_graphs: bool = True
    augment: tuple[str, ...] | None = None
    validation_interval: Count = 1
    selection: Selection = "last"
    resident_bytes: WholeNumber = 4 * 2**30
    workers: WholeNumber = 2

    def __post_init__(self) -> None:
        for name, value in validated(TrainConfig, asdict(self), "training").items():
            object.__setattr__(self, name, value)  # frozen; this converts, it does not change
        if self.schedule == "milestones" and not self.milestones:
            raise CrossbiasError(
                "schedule 'milestones' needs milestones, such as milestones = [0.4, 0.8]"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainConfig":
        """A configuration from names and values, or their text; unknown names are refused."""
        return cls(**validated(cls, values, "training"))
