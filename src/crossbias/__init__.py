"""Classifiers that learned a shortcut: find the bias, train without it, prove it is gone."""

from crossbias.data import BiasedDataset
from crossbias.errors import CrossbiasError
from crossbias.methods import Method
from crossbias.networks import Network, Recipe, as_network
from crossbias.registry import create
from crossbias.train.config import TrainConfig
from crossbias.train.evaluation import evaluate
from crossbias.train.fit import fit
from crossbias.train.result import Result
from crossbias.types import Batch, Output

__all__ = [
    "Batch",
    "BiasedDataset",
    "CrossbiasError",
    "Method",
    "Network",
    "Output",
    "Recipe",
    "Result",
    "TrainConfig",
    "as_network",
    "create",
    "evaluate",
    "fit",
]
