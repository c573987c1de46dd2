"""Published data sets, read as they are distributed."""
