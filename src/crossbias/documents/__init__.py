"""Documents about a finished run that people hand in: its model card and its evidence."""

from crossbias.documents.evidence_pack import write_evidence
from crossbias.documents.model_card import card_of

__all__ = ["card_of", "write_evidence"]
