"""GroupDRO: minimize the loss of the groups that are worst off."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from crossbias.data.dataset import BiasedDataset
from crossbias.formatting import percent
from crossbias.functional import exponentiated_gradient, group_means
from crossbias.methods.balanced import sampled
from crossbias.networks.network import Network
from crossbias.parameters import NonNegative
from crossbias.runs.health import Symptom
from crossbias.train.method import Method, Supervision
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run

# With a weight above this in one group, the others together have less than a tenth of the loss.
_NEARLY_ALL = 0.9


@dataclass(kw_only=True)
class GroupDRO(Method):
    """Group distributionally robust optimization (Sagawa et al., ICLR 2020), Algorithm 1.

    Every (target, bias) group g has a weight q_g, and the loss is the weighted sum of the mean
    losses of the groups in the batch. Before each update of the network the weights follow the
    losses::

        q_g <- q_g exp(step_size (l_g + adjustment / sqrt(n_g))), divided by their sum

    where n_g is the number of training samples of the group, and l_g is 0 for a group that the
    batch does not have. Only groups with training samples have a weight. Samples of one class
    whose bias is not known are a group of their own. Groups are drawn equally often, and the means
    are over the whole batch, whatever the number of processes.

    Args:
        step_size: Speed of the weights, the paper's eta_q; .01 in the authors' code. With 0 all
            groups keep the same weight.
        adjustment: The paper's C, which raises the weight of small groups, since their training
            loss says less about new samples. 0, as in the authors' code by default, leaves it out;
            their search is over 0 to 5.
    """

    name: ClassVar[str] = "group-dro"
    paper: ClassVar[str] = "GroupDRO (ICLR 2020)"
    supervision: ClassVar[Supervision] = "bias labels"
    capturable: ClassVar[bool] = True
    curves: ClassVar[Mapping[str, tuple[str, str]]] = {
        "largest_weight": ("weight of a group", "largest")
    }

    step_size: NonNegative = 0.01
    adjustment: NonNegative = 0.0

    def setup(self, run: "Run") -> None:
        """Build the network, the table of groups and their weights, equal at first."""
        super().setup(run)
        _, number, sizes = _present_groups(run.data)
        self.group = torch.zeros(run.data.full_size, dtype=torch.int64)
        self.group[run.data.index] = number
        self.group, sizes = self.group.to(run.device), sizes.to(run.device)
        self.raised = self.adjustment / sizes.sqrt()
        self.log_weights = torch.full_like(self.raised, -math.log(len(sizes)))

    def fit(self, run: "Run") -> Network:
        """One training on groups that are drawn equally often."""
        config = sampled(run, "group-balanced", self.name)
        for symptom in group_symptoms(run.data):
            run.warn(*symptom)
        return run.train(self, config=config)

    def loss(self, batch: Batch) -> Losses:
        """Update the weights, then the weighted sum of the groups' losses."""
        logits = self.network(batch.inputs).logits
        each = F.cross_entropy(logits, batch.target, reduction="none")
        whole, group = self.run.gather(each), self.run.gather(self.group[batch.index])
        losses = group_means(whole, group, num_groups=len(self.log_weights))
        raised = losses.detach() + self.raised
        self.log_weights.copy_(
            exponentiated_gradient(self.log_weights, raised, step_size=self.step_size)
        )
        weights = self.log_weights.exp()
        return {
            "loss": (weights * losses).sum(),
            "task": each.mean(),
            "largest_weight": weights.max(),
        }

    def state(self) -> dict[str, Any]:
        """The network, its optimizer, and the weights of the groups."""
        return super().state() | {"log_weights": self.log_weights}

    def examine(self, epochs: Sequence[Mapping[str, float]]) -> None:
        """Warn where one group has nearly all of the weight in the end."""
        largest = epochs[-1]["largest_weight"]
        if len(self.log_weights) > 1 and largest > _NEARLY_ALL:
            keys, _, _ = _present_groups(self.run.data)
            name = _in_words(int(keys[self.log_weights.argmax().cpu()]), self.run.data)
            self.run.warn(
                "one group has nearly all weight",
                f"In the last epoch one group had {percent(largest)} of the weight on average, at "
                f"the end {name}: the others hardly count in the loss.",
                "Lower step_size or adjustment, or check the labels of that group: a group that "
                "cannot be learned takes all of the weight.",
            )


def group_symptoms(data: BiasedDataset) -> Iterator[Symptom]:
    """Whether combinations of a class and a bias value have no training sample.

    Args:
        data: The training data.
    """
    counts = data.counts()
    possible = (counts.sum(1, keepdim=True) > 0) & (counts.sum(0) > 0)
    empty = (possible & (counts == 0)).nonzero().tolist()
    if empty:
        target, bias = empty[0]
        yield Symptom(
            "groups without samples",
            f"{len(empty)} of {int(possible.sum())} groups have no training sample, such as "
            f"{_in_words(target * (data.num_biases + 1) + bias + 1, data)}: their loss is not "
            f"minimized, and the worst group of a test split may be one of them.",
            "Collect samples of these groups, or do not rely on the accuracy on them.",
        )


def _present_groups(data: BiasedDataset) -> tuple[Tensor, Tensor, Tensor]:
    """Groups that have samples: their keys, the number of each sample's group, and their sizes."""
    keys = data.targets * (data.num_biases + 1) + data.biases + 1  # an unknown bias is -1
    found: tuple[Tensor, Tensor, Tensor] = torch.unique(
        keys, return_inverse=True, return_counts=True
    )
    return found


def _in_words(key: int, data: BiasedDataset) -> str:
    target, value = divmod(key, data.num_biases + 1)
    names = ("unknown", *data.values[data.bias or ""])
    return f"{data.classes[target]} / {names[value]}"
