"""Data sets that are generated: drawn digits, colored MNIST, and points in the plane."""
