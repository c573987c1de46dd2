"""What every function keeps: its name, float32 statistics, no reading of values by the host."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from crossbias import functional

Tensors = tuple[Tensor, ...]

SIGNATURES = {
    "hsic": "(u, v, *, sigma_u=1.0, sigma_v=1.0, unbiased=True)",
    "clean_samples": "(cross_entropy, entropy, *, threshold='losses')",
    "noise_threshold": "(cross_entropy, entropy, *, threshold='losses')",
    "end_terms": "(features, target, bias, *, variant)",
    "generalized_cross_entropy": "(logits, target, *, q)",
    "gradient_reversal": "(x, *, scale)",
    "negative_conditional_entropy": "(logits, *, dim=1)",
    "confusion": "(logits, *, dim=1)",
    "bias_cross_entropy": "(logits, bias)",
    "head_gradient_norm": "(logits, target, features, *, bias=True)",
    "vmf_log_density": "(directions)",
    "cam": "(maps, weight, target)",
    "intrinsic_weight": "(maps, partner_maps, cam, partner_cam, *, tau)",
    "median_bandwidth": "(*batches)",
    "color_levels": "(images, *, mean=0.0, std=1.0, size=14)",
}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
BIASES = torch.tensor([0, 1, 2, 1, -1, 0, 0, 2])
CASES: dict[str, tuple[Callable[..., Tensor | Tensors], Tensors]] = {
    "hsic": (functional.hsic, (draw(8, 5), draw(8, 3, seed=1))),
    "hsic, biased": (
        partial(functional.hsic, unbiased=False),
        (draw(8, 5), draw(8, 5, seed=1)),
    ),
    "end_terms, paper": (
        partial(functional.end_terms, variant="paper"),
        (draw(8, 5), LABELS, BIASES),
    ),
    "end_terms, released": (
        partial(functional.end_terms, variant="released"),
        (draw(8, 5), LABELS, BIASES),
    ),
    "generalized_cross_entropy": (
        partial(functional.generalized_cross_entropy, q=0.7),
        (draw(8, 3), LABELS),
    ),
    "negative_conditional_entropy": (
        functional.negative_conditional_entropy,
        (draw(8, 3, 2, 2),),
    ),
    "confusion": (functional.confusion, (draw(8, 3, 2, 2),)),
    "bias_cross_entropy": (functional.bias_cross_entropy, (draw(8, 3), BIASES)),
    "head_gradient_norm": (
        functional.head_gradient_norm,
        (draw(8, 3), LABELS, draw(8, 5, seed=1)),
    ),
    "vmf_log_density": (functional.vmf_log_density, (draw(8, 5) + 1,)),
    "cam": (functional.cam, (draw(8, 5, 3, 3), draw(3, 5, seed=1), LABELS)),
    "intrinsic_weight": (
        partial(functional.intrinsic_weight, tau=2.0),
        (draw(8, 5, 3, 3), draw(8, 5, 3, 3, seed=1), *draw(2, 8, 3, 3, seed=2).abs()),
    ),
    "noise_threshold": (functional.noise_threshold, (draw(8).abs(), draw(8, seed=1).abs())),
    "median_bandwidth": (functional.median_bandwidth, (draw(8, 5),)),
    "group_means": (partial(functional.group_means, num_groups=4), (draw(8), LABELS)),
    "exponentiated_gradient": (
        partial(functional.exponentiated_gradient, step_size=0.3),
        (draw(4).log_softmax(0), draw(4, seed=1)),
    ),
}
every_function = pytest.mark.parametrize(("function", "inputs"), CASES.values(), ids=CASES.keys())


def in_dtype(inputs: Tensors, dtype: torch.dtype) -> Tensors:
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def outputs(function: Callable[..., Tensor | Tensors], inputs: Tensors) -> Tensors:
    result = function(*inputs)
    return result if isinstance(result, tuple) else (result,)


def bare_signature(name: str) -> str:
    signature = inspect.signature(getattr(functional, name))
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def test_exported_names_and_signatures_are_the_settled_ones() -> None:
    found = {name: bare_signature(name) for name in SIGNATURES}
    assert found == SIGNATURES


def test_every_public_function_is_exported() -> None:
    for module in pkgutil.iter_modules(functional.__path__):
        own = importlib.import_module(f"crossbias.functional.{module.name}")
        for name, value in vars(own).items():
            defined = getattr(value, "__module__", "") == own.__name__
            if defined and inspect.isfunction(value) and not name.startswith("_"):
                assert name in functional.__all__, f"{own.__name__}.{name}"


@every_function
def test_half_precision_is_computed_in_float32(
    function: Callable[..., Tensor | Tensors], inputs: Tensors
) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        half = in_dtype(inputs, dtype)

        actual = outputs(function, half)

        expected = outputs(function, in_dtype(half, torch.float32))
        for value, reference in zip(actual, expected, strict=True):
            assert value.dtype == torch.float32
            assert torch.equal(value, reference)


@every_function
def test_float64_stays_float64(function: Callable[..., Tensor | Tensors], inputs: Tensors) -> None:
    for value in outputs(function, in_dtype(inputs, torch.float64)):
        assert value.dtype == torch.float64


@every_function
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_autocast_changes_neither_value_nor_gradient(
    function: Callable[..., Tensor | Tensors], inputs: Tensors, dtype: torch.dtype
) -> None:
    def run(autocast: bool) -> tuple[Tensors, list[Tensor | None]]:
        leaves = tuple(
            x.clone().requires_grad_() if x.is_floating_point() else x
            for x in in_dtype(inputs, dtype)
        )
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            values = outputs(function, leaves)
        total = sum(value.sum() for value in values)
        if isinstance(total, Tensor) and total.requires_grad:
            total.backward()
        return values, [x.grad for x in leaves]

    values, gradients = run(autocast=False)
    autocast_values, autocast_gradients = run(autocast=True)

    for value, reference in zip(autocast_values, values, strict=True):
        assert value.dtype == reference.dtype
        assert torch.equal(value, reference)
    for gradient, reference in zip(autocast_gradients, gradients, strict=True):
        assert (gradient is None) == (reference is None)
        assert gradient is None or torch.equal(gradient, reference)


@every_function
def test_no_value_is_read_by_the_host(
    function: Callable[..., Tensor | Tensors], inputs: Tensors
) -> None:
    with FakeTensorMode() as mode:  # tensors without values: reading one raises
        found = outputs(function, tuple(mode.from_tensor(x) for x in inputs))
    assert all(isinstance(value, FakeTensor) for value in found)


@pytest.mark.gpu
@every_function
def test_no_function_waits_for_the_device(
    function: Callable[..., Tensor | Tensors],
    inputs: Tensors,
    without_waiting: Callable[[], AbstractContextManager[None]],
) -> None:
    on_device = tuple(
        x.cuda().requires_grad_() if x.is_floating_point() else x.cuda() for x in inputs
    )
    outputs(function, on_device)  # libraries are set up on the first call
    with without_waiting():
        total = sum(value.sum() for value in outputs(function, on_device))
        if isinstance(total, Tensor) and total.requires_grad:
            total.backward()
    assert torch.as_tensor(total).isfinite()


@every_function
def test_inputs_are_left_as_they_were(
    function: Callable[..., Tensor | Tensors], inputs: Tensors
) -> None:
    copies = tuple(x.clone() for x in inputs)

    outputs(function, copies)

    assert all(torch.equal(copy, x) for copy, x in zip(copies, inputs, strict=True))
