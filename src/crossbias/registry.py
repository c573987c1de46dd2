"""Things by name: methods, data sets and networks, and how to make one."""

from collections.abc import Mapping
from typing import Any, get_args

from crossbias.data import DATASETS, create_source
from crossbias.errors import CrossbiasError
from crossbias.methods import METHODS, Method
from crossbias.networks import NETWORKS, create_network
from crossbias.networks.recipe import is_network
from crossbias.parameters import closest, imported, parameters_of, unknown, validated

__all__ = ["DATASETS", "METHODS", "NETWORKS", "create", "create_method"]


def create(name: str, **options: Any) -> Any:
    """Make a method, a data source or a network by its name.

    Args:
        name: A key of ``METHODS``, ``DATASETS`` or ``NETWORKS``, a timm model, or a dotted path
            such as ``my_package.module:MyMethod``. The tables share no name.
        **options: Its constructor's keywords, checked against the signature.

    >>> create("end", alpha=1.0)
    EnD(alpha=1.0, beta=0.1, variant='released', layer='')
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

    A hyper-parameter that is a method itself is given as a method, as its name, or as a table
    with its name and hyper-parameters, which may also be written ``inner.q``.

    >>> create_method("denoised", **{"inner": "rebias", "inner.lambda_f": "2"}).inner.lambda_f
    2.0
    >>> create_method("ned")
    Traceback (most recent call last):
    crossbias.errors.CrossbiasError: there is no method 'ned' (did you mean 'end'?); ...
    """
    if ":" not in name and name not in METHODS:
        own = "; your own is named package.module:Class"
        raise unknown("there is no method", name, METHODS, more=own)
    kind = METHODS[name] if name in METHODS else imported(name)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise CrossbiasError(f"{name!r} is not a subclass of crossbias.Method")
    owner = f"method {name!r}"
    _check_fixed(kind, hyperparameters, owner)
    return kind(**validated(kind, _with_methods_made(kind, hyperparameters, owner), owner))


def _check_fixed(kind: type[Method], hyperparameters: Mapping[str, Any], owner: str) -> None:
    """Refuse a hyper-parameter of the parent method that this method is made by fixing."""
    for parent in kind.__bases__:
        if not (issubclass(parent, Method) and parent.name):
            continue
        for key in hyperparameters.keys() & (parameters_of(parent).keys() - parameters_of(kind)):
            raise CrossbiasError(
                f"{key} of {owner} is fixed at {getattr(kind, key)!r}, got {hyperparameters[key]}; "
                f"leave it out, or take the method {parent.name!r}, where it can be set"
            )


def _with_methods_made(
    kind: type[Method], hyperparameters: Mapping[str, Any], owner: str
) -> dict[str, Any]:
    """Make the hyper-parameters that are methods; leave the others as they are."""
    annotations = {key: p.annotation for key, p in parameters_of(kind).items()}
    nested = [key for key, kinds in annotations.items() if Method in (kinds, *get_args(kinds))]
    made = {k: v for k, v in hyperparameters.items() if k.partition(".")[0] not in nested}
    for key in nested:
        prefix, given = f"{key}.", hyperparameters.get(key)
        inside = {
            k.removeprefix(prefix): v for k, v in hyperparameters.items() if k.startswith(prefix)
        }
        if isinstance(given, str):
            inside["name"] = given
        elif isinstance(given, Mapping):
            inside = {**given, **inside}
        if inside and "name" not in inside:
            raise CrossbiasError(f"{key} of {owner} has no name; say which method, as {key}=pgd")
        if inside:
            made[key] = create_method(**inside)
        elif given is not None:
            made[key] = given
    return made
