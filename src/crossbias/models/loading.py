"""load_model: somebody's model from an ONNX file, from code by its name, or from a callable."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crossbias.errors import CrossbiasError
from crossbias.models.onnx_model import OnnxModel
from crossbias.networks.network import Network, Normalization
from crossbias.networks.outside import Answered, OutsideModel
from crossbias.networks.trace import first_line
from crossbias.parameters import imported

_AS_THEY_ARE: Normalization = ((0.0,), (1.0,))  # images stay in [0, 1]


def load_model(
    model: str | Path | Callable[..., Any],
    *,
    classes: Sequence[str] | None = None,
    outputs: Answered | None = None,
) -> OutsideModel:
    """A classifier that somebody else trained, to be judged and audited.

    Args:
        model: An ONNX file; code such as ``my_package:load_model``, which is imported and, if it
            needs no argument, called to get the model; or any callable on a batch of images.
        classes: Names of the classes, in the order of the outputs. If left out, what the file or
            the ``classes`` of the callable say, if anything.
        outputs: ``"logits"`` or ``"probabilities"``. If left out, the first batch tells.

    Returns:
        A torch module. ``crossbias.evaluate`` and ``crossbias.audit`` take it.

    Raises:
        CrossbiasError: There is no such file or code, or it is not a classifier of images.
    """
    if isinstance(model, str | Path):
        name = str(model)
        if name.endswith(".onnx") or ":" not in name:
            return _from_file(Path(name), classes, outputs)
        model = _made(name)
    else:
        name = getattr(model, "__name__", type(model).__name__)
    if isinstance(model, OutsideModel):  # what a person's own function may return
        model.classes = model.classes if classes is None else tuple(classes)
        model.answered = outputs or model.answered
        return model
    own = getattr(model, "classes", None)
    named = own if classes is None and isinstance(own, list | tuple) else classes
    found = OutsideModel(
        model, name=name, classes=None if named is None else list(map(str, named)), answered=outputs
    )
    if isinstance(model, Network):
        found.normalization = model.normalization
    return found


def _from_file(path: Path, classes: Sequence[str] | None, outputs: Answered | None) -> OutsideModel:
    if path.suffix != ".onnx":
        raise CrossbiasError(
            f"{str(path)!r} is no model: name an ONNX file (model.onnx), or code that gives a "
            f"model, as my_package.module:load_model"
        )
    model = OnnxModel(path)
    found = model.metadata
    named = None if found is None else found.classes
    if None not in (named, classes) and named != tuple(classes or ()):
        raise CrossbiasError(
            f"the outputs of {path} are {', '.join(named or ())}, as the file says, and not "
            f"{', '.join(classes or ())}; leave the classes out"
        )
    return OutsideModel(
        model,
        name=str(path),
        classes=named if classes is None else classes,
        answered=outputs or ("logits" if found else None),
        normalization=_AS_THEY_ARE if found or model.input.takes_bytes else None,
        shape=model.input.shape,
        reading={} if found is None else found.reading,
    )


def _made(name: str) -> Callable[..., Any]:
    """The callable that a name stands for: itself, or what it returns if it needs no argument."""
    found = imported(name)
    try:
        made: Callable[..., Any] = found() if _is_loader(found) else found
    except CrossbiasError:
        raise
    except Exception as error:  # a stranger's function may raise anything
        raise CrossbiasError(
            f"{name} fails ({type(error).__name__}: {first_line(error)}); it must return a model "
            f"without being given anything"
        ) from error
    if not callable(made):
        raise CrossbiasError(
            f"{name} gives a {type(made).__name__}; it must give a model that is called with a "
            f"batch of images"
        )
    return made


def _is_loader(found: Any) -> bool:
    """Whether something is a function or class that is called without arguments to get a model."""
    if not isinstance(found, type) and not inspect.isroutine(found):
        return False  # an object that is callable is the model itself
    parameters = inspect.signature(found).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(each.default is not each.empty or each.kind in kinds for each in parameters)
