"""Plain training on samples that are drawn equally often from every class, or from every group."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from crossbias.data.order import Sampling
from crossbias.methods.erm import ERM
from crossbias.networks.network import Network
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
        """One training; the sampling of the configuration is replaced."""
        return run.train(self, config=replace(run.config, sampling=self.sampling))


@dataclass(kw_only=True)
class GroupBalanced(ClassBalanced):
    """Plain training that draws every (target, bias) group equally often."""

    name: ClassVar[str] = "group-balanced"
    paper: ClassVar[str] = "plain training, group-balanced"
    supervision: ClassVar[Supervision] = "bias labels"
    sampling: ClassVar[Sampling] = "group-balanced"
