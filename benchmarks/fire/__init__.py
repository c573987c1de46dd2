"""A campaign against run folders: kills, power cuts, full disks, damages and races, counted.

python -m benchmarks.fire [--share S] [--only KIND] [--seed N] [--jobs N]

Every try ends in one of two ways. It *held* if the result has the same bits as that of an
undisturbed run, or if crossbias refused in one line. It *failed* if a result is wrong, a file is
lost, a traceback is printed, a command hangs, or code that a file names is run.
"""
