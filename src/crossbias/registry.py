"""Things by name: methods, data sets and networks, and how to make one."""

from typing import Any

from crossbias.data import DATASETS, create_source
from crossbias.errors import CrossbiasError
from crossbias.methods import METHODS, Method
from crossbias.networks import NETWORKS, create_network
from crossbias.networks.recipe import is_network
from crossbias.parameters import closest, imported, validated

__all__ = ["DATASETS", "METHODS", "NETWORKS", "create", "create_method", "name_of"]


def create(name: str, **options: Any) -> Any:
    """Make a method, a data source or a network by its name.

    Args:
        name: A key of ``METHODS``, ``DATASETS`` or ``NETWORKS``, a timm model, or a dotted path
            such as ``my_package.module:MyMethod``. The tables share no name.
        **options: Its constructor's keywords, checked against the signature.

    >>> create("end", alpha=1.0)
    EnD(alpha=1.0, beta=0.1, variant='released')
    >>> create("convnet", num_classes=10, kernel=1).num_features
    128
    """
    if name.partition(":")[0] in DATASETS:  # first: a name may go on with the path of the data
        return create_source(name, **options)
    if ":" in name:
        found = imported(name)
        return found(**validated(found, options, repr(name)))
    if name in METHODS:
        return create_method(name, **options)
    if is_network(name):
        return create_network(name, **options)
    known = [*METHODS, *DATASETS, *NETWORKS]
    raise CrossbiasError(
        f"there is no {name!r}{closest(name, known)}; there are the methods {', '.join(METHODS)}; "
        f"the data sets {', '.join(DATASETS)}; the networks {', '.join(NETWORKS)} and timm's"
    )


def create_method(name: str, **hyperparameters: Any) -> Method:
    """A method by name, its hyper-parameters checked.

    >>> create_method("ned")
    Traceback (most recent call last):
    crossbias.errors.CrossbiasError: there is no method 'ned' (did you mean 'end'?); ...
    """
    if ":" not in name and name not in METHODS:
        raise CrossbiasError(
            f"there is no method {name!r}{closest(name, METHODS)}; "
            f"there are: {', '.join(METHODS)}; your own is named package.module:Class"
        )
    kind = METHODS[name] if name in METHODS else imported(name)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise CrossbiasError(f"{name!r} is not a subclass of crossbias.Method")
    return kind(**validated(kind, hyperparameters, f"method {name!r}"))


def name_of(method: Method) -> str:
    """The name under which ``create_method`` makes this method again."""
    names = {kind: name for name, kind in METHODS.items()}
    kind = type(method)
    return names.get(kind, f"{kind.__module__}:{kind.__qualname__}")
