"""How biased is this data? Would a shortcut alone solve the task? Does a model follow one?"""

from crossbias.audit.association import cramers_v, mutual_information
from crossbias.audit.examination import audit
from crossbias.audit.findings import Audit
from crossbias.audit.probe import Probe, probe

__all__ = ["Audit", "Probe", "audit", "cramers_v", "mutual_information", "probe"]
