"""Things by name."""

import pytest

import crossbias
from crossbias.data import DATASETS, Glyphs
from crossbias.errors import CrossbiasError
from crossbias.methods import METHODS, EnD, Method
from crossbias.networks import NETWORKS, Network, create_network
from crossbias.registry import create, create_method
from crossbias.train.method import name_of


class MyMethod(Method):
    def __init__(self, *, strength: float = 1.0) -> None:
        self.strength = strength


def test_create_makes_methods_sources_and_networks():
    assert create("end", alpha="2") == EnD(alpha=2.0)
    assert isinstance(create("glyphs", size=10), Glyphs)
    assert isinstance(create("convnet", num_classes=3), Network)
    assert create("resnet18", num_classes=3, in_channels=1).num_classes == 3
    assert crossbias.create is create


def test_no_name_means_two_things():
    names = [*METHODS, *DATASETS, *NETWORKS]
    assert len(names) == len(set(names))


def test_a_dotted_path_makes_the_readers_own():
    assert isinstance(create("crossbias.methods.end:EnD", beta=0.0), EnD)
    method = create_method("crossbias.methods.end:EnD", beta="0.5")
    assert method == EnD(beta=0.5)
    with pytest.raises(CrossbiasError, match="is not a subclass"):
        create_method("collections:OrderedDict")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_can_be_made_again_from_its_name_and_hyperparameters(name):
    method = create_method(name)
    again = create_method(name_of(method), **method.hyperparameters())
    assert again == method
    assert repr(again) == repr(method)


def test_methods_differ_by_class_and_by_value():
    assert EnD(alpha=1.0) != EnD(alpha=2.0)
    assert MyMethod() != EnD()
    assert name_of(MyMethod()).endswith(":MyMethod")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: create_method("rebais"), r"no method 'rebais' \(did you mean 'rebias'"),
        (
            lambda: create_method("zzz"),
            "there are: erm, aflite, blindeye, blindeye\\+grl, class-balanced",
        ),
        (lambda: create_method("end", gamma=1), "method 'end' has no parameter 'gamma'"),
        (lambda: create_method("end", alpha="high"), "alpha of method 'end' must be a number"),
        (lambda: create_method("end", alpha=-1), "alpha of method 'end' must be at least 0"),
        (lambda: create("glyhps"), r"did you mean 'glyphs'\?"),
        (lambda: create("glyphs", rho=1.5), r"rho of data set 'glyphs' must be in \[0, 1\]"),
        (lambda: create_network("resnet1"), r"no network 'resnet1' \(did you mean 'resnet18'|did"),
        (lambda: create_network("convnet"), "network 'convnet' needs num_classes"),
        (lambda: create_network("convnet", num_classes=0), "num_classes .* must be at least 1"),
    ],
)
def test_mistakes_are_answered_with_the_remedy(call, message):
    with pytest.raises(CrossbiasError, match=message):
        call()
