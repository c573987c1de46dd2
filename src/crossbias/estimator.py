"""CrossbiasClassifier: the methods as a scikit-learn classifier, for vectors of features."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from crossbias.data.dataset import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.networks import Network, Recipe
from crossbias.registry import create_method
from crossbias.train.config import TrainConfig
from crossbias.train.fit import fit
from crossbias.train.method import Method
from crossbias.verify.given_columns import Column, label_column

_ROWS = 4096  # of one forward pass


class CrossbiasClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # no types there
    """Train a head over features with any method that takes vectors.

    Features are used as they are: put a ``StandardScaler`` before it in a ``Pipeline``.

    Args:
        method: A name from ``crossbias list methods``, or a method such as ``GroupDRO(...)``.
        network: ``linear``, ``mlp``, another name, a recipe, or a torch model for ``(n, D)``.
        epochs: Passes over the training data.
        batch_size: Samples in each update.
        lr: Learning rate.
        weight_decay: Weight decay.
        settings: Further fields of ``TrainConfig``, such as ``{"optimizer": "sgd"}``.
        device: ``cpu``, ``cuda``, ``cuda:1``, ``mps`` or ``auto``.
        random_state: Seed, or a numpy generator; equal ones give equal bits on the same machine.

    Attributes:
        classes_: The classes, sorted.
        n_features_in_: Number of features.
        network_: The trained network.
        n_iter_: Number of passes over the training data.
    """

    def __init__(
        self,
        method: str | Method = "erm",
        network: str | Recipe | nn.Module = "mlp",
        *,
        epochs: int = 30,
        batch_size: int = 64,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        settings: Mapping[str, Any] | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.settings = settings
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, bias: Column | None = None) -> "CrossbiasClassifier":  # noqa: N803
        """Train.

        Args:
            X: ``(n, D)`` features.
            y: ``(n,)`` classes, numbers or text.
            bias: ``(n,)`` value of the bias for each sample, numbers or text, None or NaN where it
                is not known. Methods without bias labels need none. In a ``Pipeline`` or a search,
                ask for it with ``set_fit_request(bias=True)``.
        """
        features, targets = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(targets)
        self.classes_, numbers = np.unique(targets, return_inverse=True)
        if len(self.classes_) < 2:
            raise CrossbiasError(f"y has one class, {self.classes_[0]!r}; two are needed")
        result = fit(
            self.method if isinstance(self.method, Method) else create_method(self.method),
            self._data(features, numbers, bias),
            network=self.network,
            config=self._config(),
            progress=False,
        )
        self.network_: Network = result.network.cpu()
        self.n_iter_ = self.epochs
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities of the classes, ``(n, classes)``."""
        check_is_fitted(self)
        features = validate_data(self, X, dtype=np.float64, reset=False)
        # In float64, so that a row has the same answer among other rows
        network = deepcopy(self.network_).double()
        parts = torch.tensor(features).split(_ROWS)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            return torch.cat([network(part).logits.softmax(1) for part in parts]).numpy()

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each sample, ``(n,)``."""
        probabilities = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return found

    def _data(
        self, features: NDArray[np.float32], numbers: NDArray[np.int64], bias: Column | None
    ) -> BiasedDataset:
        known: dict[str, Any] = {}
        if bias is not None:
            column = label_column("bias", bias)
            if len(column.numbers) != len(numbers):
                raise CrossbiasError(
                    f"bias has {len(column.numbers)} values, but X has {len(numbers)} samples; "
                    f"pass one value for each"
                )
            known = {
                "attributes": {"bias": torch.from_numpy(column.numbers)},
                "values": {"bias": column.values},
                "bias": "bias",
            }
        return BiasedDataset(
            inputs=torch.tensor(features),
            targets=torch.from_numpy(numbers.astype(np.int64)),
            classes=tuple(map(str, self.classes_)),
            **known,
        )

    def _config(self) -> TrainConfig:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        own = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "device": self.device,
            "seed": seed,
        }
        return TrainConfig.from_dict({**own, **(self.settings or {})})
