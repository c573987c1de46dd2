"""``python -m crossbias``, the command line where a launcher such as torchrun starts modules."""

import sys

from crossbias.cli import main

if __name__ == "__main__":
    sys.argv[0] = "crossbias"  # the command that a run folder records
    main()
