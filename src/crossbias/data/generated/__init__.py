"""Data sets that are drawn or made of digits."""
