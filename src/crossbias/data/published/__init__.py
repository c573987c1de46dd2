"""Published data sets, read in the layout in which they are distributed."""
