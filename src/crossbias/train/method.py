"""Method: a de-biasing algorithm in three nested verbs, loss in step in fit."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch.optim import Optimizer

from crossbias.networks.network import Network
from crossbias.parameters import parameters_of
from crossbias.types import Batch, Losses

if TYPE_CHECKING:
    from crossbias.train.run import Run

Supervision = Literal["none", "kind of bias", "bias labels"]
"""What a method must know about the bias, beyond the targets."""


class Method:
    """A de-biasing algorithm. Its hyper-parameters are its constructor's keywords.

    Write a subclass as a keyword-only dataclass whose fields are the hyper-parameters, and
    override the smallest verb that says what the paper says: ``loss`` for a regularizer, ``step``
    for several objectives or networks, ``fit`` for several stages. The constructor only stores
    values; networks are built in ``setup``. ``docs/writing-a-method.md`` has an example of each.

    Attributes:
        name: The name on the command line and in files; empty for a part of other methods.
        paper: The paper, for tables and pages.
        supervision: What the method must know about the bias.
        minimum_batch: Number of samples below which the loss is not defined.
        capturable: Whether a step is the same sequence of device operations every time, so that
            it can be replayed as a CUDA graph.
        mean_loss: Whether every training of the method minimizes a mean over samples in the default
            ``step``. ``accumulate`` can then compute a batch in parts, and the samples of a batch
            that several processes cannot divide evenly count alike.
        figures: For each kind of figure that the report can draw, the names of the stages it is
            drawn from: ``sampling`` from one number for each training row, ``denoiser`` from
            losses, entropies and a threshold, ``guidance`` from pictures and maps.
        curves: Logged numbers that need an axis of their own in the learning curves because
            their size differs from that of losses: the title of the axis, and the label.
    """

    name: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    supervision: ClassVar[Supervision] = "none"
    minimum_batch: ClassVar[int] = 1
    capturable: ClassVar[bool] = False
    mean_loss: ClassVar[bool] = False
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    curves: ClassVar[Mapping[str, tuple[str, str]]] = {}

    run: "Run"
    network: Network
    optimizer: Optimizer

    def network_for(self, make: Callable[[], Network]) -> Network:
        """A network of the form that training ends with.

        A finished run is rebuilt through here. Override it where the method trains something
        else than the run's own network, such as two encoders or another head, and build with it:
        ``run.build(lambda: self.network_for(run.make_network))``.

        Args:
            make: Makes one of the run's own networks.
        """
        return make()

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
        """Called before the first step of each epoch, for what changes once an epoch.

        After an interruption in mid-epoch it is called again, and then everything in ``state``
        is put back to what it was.
        """

    def end_epoch(self) -> dict[str, float]:
        """Called after the last step of each epoch; the result is logged with the losses."""
        return {}

    def examine(self, epochs: Sequence[Mapping[str, float]]) -> None:
        """Called after the last epoch; report with ``self.run.warn`` what kept it from working.

        Args:
            epochs: What this training logged in each epoch: the means of its losses.
        """

    def fit(self, run: "Run") -> Network:
        """The whole algorithm."""
        return run.train(self)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds, by name: modules, optimizers, and tensors changed in place."""
        return {"network": self.network, "optimizer": self.optimizer}

    def page(self) -> dict[str, Any]:
        """What the report needs to know about this method: its ``figures`` and ``curves``."""
        return {"figures": dict(self.figures), "curves": dict(self.curves)}

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


def name_of(method: Method) -> str:
    """The name under which a method is made again: its own, or the dotted path of its class."""
    kind = type(method)
    return kind.name or f"{kind.__module__}:{kind.__qualname__}"


def described(method: Method) -> dict[str, Any]:
    """Name and hyper-parameters, from which ``crossbias.create`` makes the method again."""
    values = method.hyperparameters()
    return {"name": name_of(method)} | {
        key: described(value) if isinstance(value, Method) else value
        for key, value in values.items()
    }
