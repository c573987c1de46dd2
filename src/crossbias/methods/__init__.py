"""De-biasing methods, one class a paper."""

from crossbias.methods.denoised import Denoised
from crossbias.methods.end import EnD
from crossbias.methods.erm import ERM
from crossbias.methods.ie import IE
from crossbias.methods.lnl import LNL
from crossbias.methods.pgd import PGD
from crossbias.methods.rebias import ReBias
from crossbias.train.method import Method, Supervision

METHODS: dict[str, type[Method]] = {
    "erm": ERM,
    "end": EnD,
    "rebias": ReBias,
    "pgd": PGD,
    "lnl": LNL,
    "ie": IE,
    "denoised": Denoised,
}
"""Methods by name; the reader's own are named by dotted path, ``my_package.module:MyMethod``."""

__all__ = [
    "ERM",
    "IE",
    "LNL",
    "METHODS",
    "PGD",
    "Denoised",
    "EnD",
    "Method",
    "ReBias",
    "Supervision",
]
