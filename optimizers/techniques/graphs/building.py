"""A graph from onnxruntime-genai's model builder, written in the child process of export.py.

The builder writes fused operators directly instead of tracing the model. The graph is then let compute logits only
where they are asked for. Which architectures it is trusted with: recipes.py.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

from optimizers.techniques.graphs.names import GRAPH, POSITIONS

# No address is asked, and layers with an attention window keep full buffers, which padded batches need.
ALWAYS = ("hf_token=false", "windowed_kv_cache=false")


def make(folder: str, goal: Path, precision: str, options: list[str]) -> None:
    """Write the graph of the checkpoint in `folder` into `goal`. The builder takes this process for its own."""
    scratch = goal / "scratch"
    arguments = ["-i", folder, "-o", str(goal), "-p", precision, "-e", "cpu", "-c", str(scratch)]
    sys.argv = ["builder", *arguments, "--extra_options", *ALWAYS, *options]
    runpy.run_module("onnxruntime_genai.models.builder", run_name="__main__")
    shutil.rmtree(scratch, ignore_errors=True)
    only_asked_positions(goal / GRAPH)


def only_asked_positions(path: Path) -> None:
    """Give the graph an input of positions and let the output head see only those: the head of a long prompt is a fifth
    of its work, and all but the last position's logits would be thrown away. A graph of another form stays as it is."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(path, load_external_data=False)
    head = next((node for node in model.graph.node if node.name.startswith("/lm_head/MatMul")), None)
    if head is None:
        return
    asked = "/levers/asked_hidden_states"
    gather = helper.make_node("Gather", [head.input[0], POSITIONS], [asked], name="/levers/Gather", axis=1)
    head.input[0] = asked
    model.graph.node.insert(list(model.graph.node).index(head), gather)
    model.graph.input.append(helper.make_tensor_value_info(POSITIONS, TensorProto.INT64, ["asked"]))
    # The shapes noted after this point counted every position.
    del model.graph.value_info[:]
    for output in model.graph.output:
        if output.name == "logits":
            output.type.tensor_type.shape.dim[1].dim_param = "asked"
    onnx.save(model, path)
