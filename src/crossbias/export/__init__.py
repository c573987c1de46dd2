"""Trained models for other programs: as an ONNX file, or as a folder for a model hub."""

from crossbias.export.hub_folder import save_pretrained
from crossbias.export.onnx_export import export_onnx

__all__ = ["export_onnx", "save_pretrained"]
