"""Sweeps: many runs from one plan, on this machine, on Slurm or on Ray."""

from crossbias.sweep.job import Job, Outcome
from crossbias.sweep.plan import Plan
from crossbias.sweep.running import BACKENDS, Backend, run_sweep, runs_to_train

__all__ = ["BACKENDS", "Backend", "Job", "Outcome", "Plan", "run_sweep", "runs_to_train"]
