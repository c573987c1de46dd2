"""Tables of any model's answers: judged by group and intersection, compared, gated."""

from crossbias.answers.verification import Verification, verify_table

__all__ = ["Verification", "verify_table"]
