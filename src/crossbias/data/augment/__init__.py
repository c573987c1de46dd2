"""Augmentations of training batches."""
