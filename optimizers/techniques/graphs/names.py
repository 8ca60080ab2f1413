"""What both roads to a graph call its parts, whoever wrote it: inputs, outputs and the file for the gate."""

from __future__ import annotations

POSITIONS = "logits_positions"  # an input: the positions whose logits are asked for
PAST = "past_key_values."
PRESENT = "present."
REFERENCE = "reference.safetensors"
GRAPH = "model.onnx"
DATA = "model.onnx.data"
