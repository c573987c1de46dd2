"""Classifiers that learned a shortcut: find the bias, train without it, prove it is gone.

The verbs are those of the command line: ``load`` data, ``audit`` it, ``fit`` a method,
``evaluate`` the network, ``verify`` any model's predictions (``verify_table`` those of a file),
``compare`` runs, and ``report`` on them. ``load_run`` gives the model of a finished run,
``load_model`` that of somebody else.
"""

from typing import TYPE_CHECKING, Any

from crossbias.answers import verify_table
from crossbias.audit import audit
from crossbias.data import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.extras import check_installed
from crossbias.models import load_model
from crossbias.named_data import load
from crossbias.networks import Network, Recipe, as_network
from crossbias.registry import create
from crossbias.report import report
from crossbias.runs import compare
from crossbias.train.config import TrainConfig
from crossbias.train.environment import package_version
from crossbias.train.evaluation import evaluate
from crossbias.train.fit import fit
from crossbias.train.method import Method
from crossbias.train.result import Result
from crossbias.trained_run import TrainedRun, load_run
from crossbias.types import Batch, Output
from crossbias.verify import verify

if TYPE_CHECKING:
    from crossbias.estimator import CrossbiasClassifier
    from crossbias.train.run import Run

__version__ = package_version()

__all__ = [
    "Batch",
    "BiasedDataset",
    "CrossbiasClassifier",
    "CrossbiasError",
    "Method",
    "Network",
    "Output",
    "Recipe",
    "Result",
    "Run",
    "TrainConfig",
    "TrainedRun",
    "__version__",
    "as_network",
    "audit",
    "compare",
    "create",
    "evaluate",
    "fit",
    "load",
    "load_model",
    "load_run",
    "report",
    "verify",
    "verify_table",
]


def __getattr__(name: str) -> Any:
    """What takes a while to import, when it is asked for: it brings Fabric or scikit-learn."""
    if name == "Run":
        from crossbias.train.run import Run

        return Run
    if name == "CrossbiasClassifier":
        check_installed("sklearn", what="CrossbiasClassifier")
        from crossbias.estimator import CrossbiasClassifier

        return CrossbiasClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names; modules are reached by importing them."""
    return sorted(__all__)
