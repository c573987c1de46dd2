"""Image files as arrays: decoded once, kept in a cache."""
