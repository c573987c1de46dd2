"""Shortcuts planted into any images."""
