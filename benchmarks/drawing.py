"""How long 60,000 glyphs of 28 x 28 take.

python -m benchmarks.drawing
"""

from benchmarks.measure import keep, seconds
from crossbias import load


def main() -> None:
    times = [seconds(lambda: load("glyphs", "train", size=60_000)) for _ in range(3)]
    keep("drawing", {"seconds": [round(value, 2) for value in times]}, "cpu")


if __name__ == "__main__":
    main()
