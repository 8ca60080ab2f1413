"""A graph written by a child: `python -m optimizers.techniques.graphs.export CHECKPOINT GOAL PRECISION OPTION...`

The child runs onnxruntime-genai's model builder, lets the graph compute logits only where they are asked for, and keeps
PyTorch's own fp32 log-probabilities of two short texts beside it, for the gate. It ends when its standard input ends,
which a parent that is killed causes too. `write` is the parent's side: it starts the child and tells how far it is.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optimizers.errors import WorkerError
from optimizers.techniques.graphs.recipes import Recipe

POSITIONS = "logits_positions"
REFERENCE = "reference.safetensors"
_ROOT = Path(__file__).resolve().parents[3]
_TEXTS = (
    "The harbor was quiet that morning, and the fishermen who had gone out before dawn were slowly coming home with "
    "their nets full of silver fish, singing an old song about the sea.",
    "Water boils at a lower temperature on a mountain, because the air there is thinner.",
)
_TEXT_TOKENS = (24, 10)
# No address is asked, and layers with an attention window keep full buffers, which padded batches need.
_ALWAYS = ("hf_token=false", "windowed_kv_cache=false")
_SAVED_LINES = 40
_LONGEST_LINE = 300


def write(folder: str, goal: Path, recipe: Recipe, layers: int, stage: Callable[[str], None]) -> None:
    """Write the graph of the checkpoint in `folder` into `goal`. Raises WorkerError when the child fails."""
    stage("writing the ONNX graph")
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, folder, str(goal), recipe.precision, *recipe.options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        cwd=goal,
    )
    last: deque[str] = deque(maxlen=_SAVED_LINES)
    try:
        assert child.stdout is not None
        for raw in child.stdout:
            text = raw.decode("utf-8", "replace").rsplit("\r", 1)[-1].strip()[:_LONGEST_LINE]
            last.append(text)
            if (said := progress(text, layers)) is not None:
                stage(said)
        code = child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
    if code != 0 or not (goal / "model.onnx").is_file() or not (goal / REFERENCE).is_file():
        sys.stderr.write("\n".join(last) + "\n")
        raise WorkerError(
            f"The ONNX graph could not be written: {_reason(last, code)}",
            "Leave ONNX Runtime out for this model; the end of this variant's log says more.",
        )


def progress(text: str, layers: int) -> str | None:
    """What a line of the child means for a person, None for a line that means nothing."""
    if text.startswith("Reading layer "):
        number = text.removeprefix("Reading layer ").split()[0]
        return f"writing the ONNX graph: layer {int(number) + 1} of {layers}" if number.isdecimal() else None
    known = {"Saving ONNX model": "quantizing and saving the ONNX graph", "Reference": "asking PyTorch for reference"}
    return next((words for start, words in known.items() if text.startswith(start)), None)


def _reason(last: deque[str], code: int) -> str:
    if code < 0:
        return f"the process that writes it was killed (signal {-code}), perhaps because memory ran out."
    errors = [text for text in last if "Error" in text or "Exception" in text] or [text for text in last if text]
    return (errors[-1] if errors else "the process that writes it said nothing").rstrip(".") + "."


def _environment() -> dict[str, str]:
    paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONIOENCODING": "utf-8"}
    return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONUNBUFFERED": "1"}


def _main(folder: str, goal: Path, precision: str, options: list[str]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    make(folder, goal, precision, options)


def make(folder: str, goal: Path, precision: str, options: list[str]) -> None:
    """Write the graph and its reference into `goal`, in this process."""
    scratch = goal / "scratch"
    arguments = ["-i", folder, "-o", str(goal), "-p", precision, "-e", "cpu", "-c", str(scratch)]
    sys.argv = ["builder", *arguments, "--extra_options", *_ALWAYS, *options]
    runpy.run_module("onnxruntime_genai.models.builder", run_name="__main__")
    shutil.rmtree(scratch, ignore_errors=True)
    only_asked_positions(goal / "model.onnx")
    sys.stdout.write("Reference\n")
    _write_reference(folder, goal / REFERENCE)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


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


def _write_reference(folder: str, path: Path) -> None:
    """Token ids of two texts and their log-probabilities from PyTorch in fp32, each text alone."""
    import torch
    from safetensors.numpy import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(folder, **where)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, **where).eval()
    kept: dict[str, Any] = {}
    with torch.inference_mode():
        for index, (text, count) in enumerate(zip(_TEXTS, _TEXT_TOKENS, strict=True)):
            ids = torch.tensor([tokenizer(text)["input_ids"][:count]])
            kept[f"ids_{index}"] = ids[0].numpy()
            kept[f"logprobs_{index}"] = torch.log_softmax(model(ids).logits[0].float(), -1).numpy()
    save_file(kept, path)


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
