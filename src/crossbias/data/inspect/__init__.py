"""Inspecting a data set before training: check all samples, draw a contact sheet."""
