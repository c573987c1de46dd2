"""Looking at a data set before training on it."""
