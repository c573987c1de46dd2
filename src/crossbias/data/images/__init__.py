"""Image files as arrays: checked, decoded once, and kept in a cache."""
