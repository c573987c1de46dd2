"""Method: a de-biasing algorithm in three nested verbs, loss in step in fit."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch.optim import Optimizer

from crossbias.networks.network import Network
from crossbias.parameters import parameters_of
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run

Supervision = Literal["none", "kind of bias", "bias labels"]
"""What a method consumes beyond targets."""


class Method:
    """A de-biasing algorithm. Constructor keywords are its hyper-parameters and nothing else.

    Override the smallest verb that says what the paper says: ``loss`` for a regularizer, ``step``
    for several objectives or networks, ``fit`` for several stages. The constructor only stores;
    networks are built in ``setup``.
    """

    paper: ClassVar[str] = ""
    supervision: ClassVar[Supervision] = "none"
    minimum_batch: ClassVar[int] = 1  # samples below which the loss is not defined
    capturable: ClassVar[bool] = False  # step is the same device operations every time

    run: "Run"
    network: Network
    optimizer: Optimizer

    def setup(self, run: "Run") -> None:
        """Build networks, optimizers and tables."""
        self.run = run
        self.network, self.optimizer = run.build()

    def loss(self, batch: Batch) -> Losses:
        """The objective on one batch: ``"loss"`` is minimized, all entries are logged."""
        raise NotImplementedError

    def step(self, batch: Batch) -> Losses:
        """One update."""
        losses = self.loss(batch)
        self.run.minimize(losses["loss"], self.optimizer)
        return losses

    def begin_epoch(self) -> None:
        """Called before the first step of each epoch, for what changes once an epoch."""

    def end_epoch(self) -> dict[str, float]:
        """Called after the last step of each epoch; what it returns is logged with the losses."""
        return {}

    def fit(self, run: "Run") -> Network:
        """The whole algorithm."""
        return run.train(self)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds, by name: modules, optimizers and tensors changed in place."""
        return {"network": self.network, "optimizer": self.optimizer}

    def hyperparameters(self) -> dict[str, Any]:
        """The constructor's keywords and their values."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Method)
            and type(self) is type(other)
            and self.hyperparameters() == other.hyperparameters()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.hyperparameters().items())
        return f"{type(self).__name__}({values})"
