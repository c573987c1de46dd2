"""Plain training on samples that are drawn equally often from every class, or from every group."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from crossbias.data.order import Sampling, balanced_weights
from crossbias.errors import CrossbiasError
from crossbias.methods.erm import ERM
from crossbias.methods.symptoms import class_share_symptoms
from crossbias.networks.network import Network
from crossbias.train.config import TrainConfig
from crossbias.train.method import Supervision

if TYPE_CHECKING:
    from crossbias.train.run import Run


@dataclass(kw_only=True)
class ClassBalanced(ERM):
    """Plain training that draws every class equally often."""

    name: ClassVar[str] = "class-balanced"
    paper: ClassVar[str] = "plain training, class-balanced"
    sampling: ClassVar[Sampling] = "class-balanced"

    def fit(self, run: "Run") -> Network:
        """One training with the sampling of that name."""
        return run.train(self, config=sampled(run, self.sampling, self.name))


@dataclass(kw_only=True)
class GroupBalanced(ClassBalanced):
    """Plain training that draws every (target, bias) group equally often."""

    name: ClassVar[str] = "group-balanced"
    paper: ClassVar[str] = "plain training, group-balanced"
    supervision: ClassVar[Supervision] = "bias labels"
    sampling: ClassVar[Sampling] = "group-balanced"


def sampled(run: "Run", sampling: Sampling, method: str) -> TrainConfig:
    """The configuration with the sampling that a method is made for; warns if classes shift.

    Args:
        run: The run; refused if its configuration asks for yet another sampling.
        sampling: How the method draws.
        method: Its name, for the message.
    """
    if run.config.sampling not in ("uniform", sampling):
        raise CrossbiasError(
            f"{method} draws {sampling}, but train.sampling is {run.config.sampling!r}; leave "
            f"train.sampling out, or take erm with it"
        )
    weights = balanced_weights(run.data, sampling)
    assert weights is not None
    for symptom in class_share_symptoms(weights, run.data):
        run.warn(*symptom)
    return replace(run.config, sampling=sampling)
