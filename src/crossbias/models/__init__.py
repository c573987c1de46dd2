"""Models that somebody else trained: loaded, judged and audited like those of a run."""

from crossbias.models.loading import load_model

__all__ = ["load_model"]
