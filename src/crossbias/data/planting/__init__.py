"""Planting: putting a controlled shortcut into any images."""
