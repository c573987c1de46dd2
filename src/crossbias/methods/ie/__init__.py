"""IE: guide a network to what samples with and without the bias have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from crossbias.errors import CrossbiasError
from crossbias.methods.bias_ensemble import (
    LEAST_STEPS,
    ensemble_division,
    in_steps,
    in_words,
)
from crossbias.methods.ie.bias_negatives import SCORE_CURVES, Partners
from crossbias.methods.ie.guidance_maps import GUIDANCE_STAGES, save_guidance_maps
from crossbias.methods.ie.guided_training import GuidedTraining
from crossbias.networks.network import Network
from crossbias.parameters import Count, Fraction, NonNegative, Positive, PositiveFraction
from crossbias.train.method import Method

if TYPE_CHECKING:
    from crossbias.train.run import Run

_STEPS_FOR_TWO = 200  # of a member, at least: the larger of two classes is learned first


@dataclass(kw_only=True)
class IE(Method):
    """Intrinsic feature enhancement (Park et al., CVPR 2024), Algorithm 1.

    Briefly trained biased networks divide the training set (BiasEnsemble). Samples they are
    certain of are aligned; samples they get wrong are candidates for bias-negative samples. A
    biased network f_b learns the aligned samples; candidates on which its loss rises are
    bias-negative. The network f_d is trained on samples weighted by how much harder they are for
    f_b. After a while each sample gets a bias-negative partner of its class. Where the two share
    features that the partner relies on and the sample does not, the sample's features are
    enhanced, and f_d is trained towards the enhanced features.

    Lengths below 1 are fractions of the configured training; other lengths are numbers of steps.
    The paper does not state ``alpha_score``, ``tau`` and ``empty``, nor where gradient flows in
    eq. 9 (``detach`` and ``exploitation_gradient``).

    Args:
        members: Networks in the ensemble; 5 in BiasEnsemble.
        ensemble_length: Length of each member's training; 1000 of 50000 steps in BiasEnsemble. A
            fraction means at least 50 steps, with two classes 200, but not more than the training
            has.
        q: Exponent of the ensemble's generalized cross-entropy; .7 in BiasEnsemble.
        confidence: Probability above which a member is certain; .99 in BiasEnsemble. If it is not
            given, .99 too; but with two classes, where the ensemble is certain of less than a tenth
            of a class, the samples it answers rightly count, and an ensemble that has learned
            nothing is ignored.
        class_balanced: Show the members of the ensemble every class equally often. BiasEnsemble
            does not; the members then take a small class for a hard one. If it is not given, true
            with two classes only.
        reference_start: T1, after which a sample's loss becomes its reference; 1000 of 50000.
        guidance_start: T2, when guidance starts; 10000 of 50000. Without guidance the method is
            LfF with BiasEnsemble.
        alpha_loss: alpha_l of eq. 1, weight of a new loss in the averages of both networks'
            losses; .3 in LfF, whose sample weight is made of the same averages.
        alpha_score: alpha_s of eq. 2, weight of a new value in the bias-negative score.
        tau: Amplification in eq. 5; the weight of a feature lies between 1 and 2 to the tau.
        lambda_sim: Weight of eq. 9 in eq. 11; .1 in the paper.
        partners: Where partners come from: ``negative`` is D^BN, ``candidates`` and ``all`` are
            the comparisons of Table 3.
        empty: What to do with a class none of whose candidates is bias-negative: ``skip`` trains
            its samples as before T2, ``candidates`` draws from all of its candidates.
        score_weights: Weight eqs. 9 and 12 by the partner's score; false is a row of Table 3.
        guidance_loss: Use eq. 11; false is a row of Table 3.
        negative_loss: Use eq. 12; false is a row of Table 3. If it is not given, true as in the
            paper with more than two classes. Of two classes, bias-negative samples are those that
            look like the other one, and eq. 12 has no limit on their weight.
        detach: Let no gradient flow into the features of eq. 9's guidance. The guidance is then a
            target that moves away as the features grow towards it, and they may grow without
            end. Otherwise the gradient shrinks the features that the guidance enhances.
        exploitation_gradient: Let the gradient of eq. 9 flow through r of eq. 5 into the
            explanation map E(z), which then rises where features are enhanced.
        explained: The class that explanation maps explain: the ``target`` as in the paper, or
            the ``prediction``.
        uniform: Part of the sample weights in eqs. 8 and 10 that all samples of a batch share
            evenly. If it is not given, .8 with two classes, and 0 with more, as in the paper.
            With two classes, samples on which f_b fails else teach f_d the opposite of what a class
            looks like.
    """

    name: ClassVar[str] = "ie"
    paper: ClassVar[str] = "IE (CVPR 2024)"
    figures: ClassVar[Mapping[str, tuple[str, ...]]] = {"guidance": GUIDANCE_STAGES}
    curves: ClassVar[Mapping[str, tuple[str, str]]] = SCORE_CURVES

    members: Count = 5
    ensemble_length: Positive = 0.02
    q: PositiveFraction = 0.7
    confidence: Fraction | None = None
    class_balanced: bool | None = None
    reference_start: NonNegative = 0.02
    guidance_start: NonNegative = 0.2
    alpha_loss: PositiveFraction = 0.3
    alpha_score: PositiveFraction = 0.3
    tau: NonNegative = 1.0
    lambda_sim: NonNegative = 0.1
    partners: Partners = "negative"
    empty: Literal["skip", "candidates"] = "skip"
    score_weights: bool = True
    guidance_loss: bool = True
    negative_loss: bool | None = None
    detach: bool = False
    exploitation_gradient: bool = False
    explained: Literal["target", "prediction"] = "target"
    uniform: Fraction | None = None

    def fit(self, run: "Run") -> Network:
        """Ensemble, division of the data, training with guidance, maps of some pairs."""
        self._check(run)
        two = run.data.num_classes == 2
        division = ensemble_division(
            run,
            members=self.members,
            length=self.ensemble_length,
            q=self.q,
            confidence=self.confidence,
            class_balanced=two if self.class_balanced is None else self.class_balanced,
            least_steps=_STEPS_FOR_TWO if two else LEAST_STEPS,
            by_answers=two,
        )
        run.progress.note(in_words(division, run.data))
        training = GuidedTraining(options=self, division=division)
        network = run.train(training)
        save_guidance_maps(run, network, training.telling_pairs(), tau=self.tau)
        return network

    def _check(self, run: "Run") -> None:
        """Refuse what cannot work before anything is trained."""
        if in_steps(self.reference_start, run.steps) > in_steps(self.guidance_start, run.steps):
            raise CrossbiasError(
                f"IE: reference_start {self.reference_start:g} is after guidance_start "
                f"{self.guidance_start:g}; partners are chosen by a score that starts with the "
                f"reference, so let the reference start first"
            )
        output = run.preview(shake=True)
        maps, features = output.maps, output.features.float()
        if maps is None or maps.ndim != 4:
            found = "has no maps"
        elif maps.shape[1] != features.shape[1]:
            found = f"computes {features.shape[1]} features from {maps.shape[1]} maps"
        elif not torch.allclose(maps.float().mean((2, 3)), features, rtol=0.02, atol=0.02):
            found = "computes something else from its maps"
        else:
            return
        raise CrossbiasError(
            f"IE needs a network whose features are the average of its last maps, but this one "
            f"{found}; use one whose head reads that average, such as convnet, resnet18 or "
            f"densenet121"
        )
