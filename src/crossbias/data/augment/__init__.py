"""Augmentations of training batches, computed on whole batches on the device."""
