"""What LNL is compared with in its Table 1: BlindEye, gradient reversal, and both together."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from crossbias.methods.lnl import LNL

# Each row of the table is LNL with some of its keywords fixed. A field that becomes a ClassVar is
# no keyword any more, so a value that would make another row of it is refused.


@dataclass(kw_only=True)
class BlindEye(LNL):
    """BlindEye (Alvi et al., ECCV Workshops 2018), in the form in which LNL compares with it.

    A bias network h learns to predict the bias from the lower part f of the network. f is trained
    towards features from which h gives every bias value the same probability::

        f, g: min CE(g(f(x)), y) - lambda E[mean_b log Q(b|f(x))],  Q = h, fixed
        h:    min CE(h(f(x)), b),  which leaves f as it is

    It is ``lnl`` with ``unlearn=confusion`` and ``mu=0``.

    Args:
        target: What h predicts, as for ``lnl``: bias ``labels``, or ``color``, which needs none.
        layer: Name of the last layer of f; chosen as by ``lnl`` if empty.
        lambda_f: Weight of the confusion loss. LNL's paper does not give it; .01 is LNL's own.
        from_biased: Start from a network that plain training has biased, as LNL does.
        biased_epochs: Length of that training; the configured number of epochs if not given.
        lr_factor: Learning rate after that training, divided by the configured one.
    """

    name: ClassVar[str] = "blindeye"
    paper: ClassVar[str] = "BlindEye (ECCV Workshops 2018)"

    unlearn: ClassVar[Literal["confusion"]] = "confusion"  # type: ignore[misc]
    mu: ClassVar[float] = 0.0  # type: ignore[misc]


@dataclass(kw_only=True)
class GRL(LNL):
    """Gradient reversal (Ganin et al., JMLR 2016), in the form in which LNL compares with it.

    A bias network h learns to predict the bias from the lower part f of the network, and f takes
    the opposite step::

        f, g: min CE(g(f(x)), y)
        h:    min L_B = CE(h(f(x)), b),  while f takes a step along -mu times its gradient

    It is ``lnl`` with ``lambda_f=0``.

    Args:
        target: What h predicts, as for ``lnl``: bias ``labels``, or ``color``, which needs none.
        layer: Name of the last layer of f; chosen as by ``lnl`` if empty.
        mu: How strongly the gradient is reversed; .1 in LNL's code. Ganin et al. let it grow to 1.
        from_biased: Start from a network that plain training has biased, as LNL does.
        biased_epochs: Length of that training; the configured number of epochs if not given.
        lr_factor: Learning rate after that training, divided by the configured one.
    """

    name: ClassVar[str] = "grl"
    paper: ClassVar[str] = "gradient reversal (JMLR 2016)"

    unlearn: ClassVar[Literal["entropy"]] = "entropy"  # type: ignore[misc]  # weighs nothing
    lambda_f: ClassVar[float] = 0.0  # type: ignore[misc]


@dataclass(kw_only=True)
class BlindEyeGRL(LNL):
    """BlindEye and gradient reversal together, a row of LNL's Table 1.

    It is ``lnl`` with ``unlearn=confusion``: f is trained by the confusion loss, and takes the
    opposite of the step in which the bias network h learns to predict the bias.

    Args:
        target: What h predicts, as for ``lnl``: bias ``labels``, or ``color``, which needs none.
        layer: Name of the last layer of f; chosen as by ``lnl`` if empty.
        lambda_f: Weight of the confusion loss. LNL's paper does not give it; .01 is LNL's own.
        mu: How strongly the gradient of h's loss is reversed into f; .1 in LNL's code.
        from_biased: Start from a network that plain training has biased, as LNL does.
        biased_epochs: Length of that training; the configured number of epochs if not given.
        lr_factor: Learning rate after that training, divided by the configured one.
    """

    name: ClassVar[str] = "blindeye+grl"
    paper: ClassVar[str] = "BlindEye with gradient reversal (LNL, CVPR 2019)"

    unlearn: ClassVar[Literal["confusion"]] = "confusion"  # type: ignore[misc]
