"""A graph written by a child: `python -m optimizers.techniques.graphs.export ROAD FOLDER GOAL PRECISION OPTION...`

The child runs onnxruntime-genai's model builder (building.py), transformers' exporter (tracing.py) or onnxruntime's
quantizer (quantizing.py), and keeps PyTorch's own fp32 log-probabilities of two short texts beside the graph, for the
gate. It ends when its standard input ends, which a parent that is killed causes too. `write` is the parent's side: it
starts the child, tells how far it is, and ends it when it takes too long.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from optimizers.errors import LeversError, WorkerError
from optimizers.settings import EXPORT_TIMEOUT_S
from optimizers.techniques.graphs import building, quantizing, tracing
from optimizers.techniques.graphs.names import GRAPH, REFERENCE
from optimizers.techniques.graphs.recipes import Recipe

_ROOT = Path(__file__).resolve().parents[3]
_TEXTS = (
    "The harbor was quiet that morning, and the fishermen who had gone out before dawn were slowly coming home with "
    "their nets full of silver fish, singing an old song about the sea.",
    "Water boils at a lower temperature on a mountain, because the air there is thinner.",
)
_TEXT_TOKENS = (24, 10)
_FAILED = "Not written: "
_STAGES = {
    "Saving ONNX model": "quantizing and saving the ONNX graph",
    "Reference": "asking PyTorch for reference",
    "Tracing": "writing the ONNX graph: tracing the model, step 1 of 4 (this takes minutes)",
    "[torch.onnx] Run decompositions": "writing the ONNX graph: simplifying its operators, step 2 of 4",
    "[torch.onnx] Translate the graph": "writing the ONNX graph: translating it, step 3 of 4",
    "[torch.onnx] Optimize the ONNX": "writing the ONNX graph: optimizing it, step 4 of 4 (the longest)",
    "Saving": "saving the ONNX graph",
    "Quantizing": "quantizing the ONNX graph",
}
_SAVED_LINES = 40
_LONGEST_LINE = 300


def write(folder: str, goal: Path, recipe: Recipe, layers: int, stage: Callable[[str], None]) -> None:
    """Write the graph of the checkpoint in `folder` into `goal`; a quantized graph on the exporter's road is made from
    the fp32 graph, which `folder` then holds. Raises WorkerError when the child fails or takes too long."""
    stage("writing the ONNX graph")
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, recipe.road, folder, str(goal), recipe.precision, *recipe.options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        cwd=goal,
    )
    begun = time.monotonic()
    timer = threading.Timer(EXPORT_TIMEOUT_S, child.kill)
    timer.start()
    last: deque[str] = deque(maxlen=_SAVED_LINES)
    try:
        for text in _lines(child):
            last.append(text)
            if (said := progress(text, layers)) is not None:
                stage(said)
        code = child.wait()
    finally:
        timer.cancel()
        _end(child)
    if code != 0 or not (goal / GRAPH).is_file() or not (goal / REFERENCE).is_file():
        sys.stderr.write("\n".join(last) + "\n")
        late = time.monotonic() - begun >= EXPORT_TIMEOUT_S
        why = f"it was not done after {EXPORT_TIMEOUT_S:.0f} seconds." if late else _reason(last, code)
        raise WorkerError(
            f"The ONNX graph could not be written: {why}",
            "Leave ONNX Runtime out for this model; the end of this variant's log says more.",
        )


def _lines(child: subprocess.Popen[bytes]) -> Iterator[str]:
    """What the child writes, a line at a time; of a line that it writes over, the last version."""
    assert child.stdout is not None
    for raw in child.stdout:
        yield raw.decode("utf-8", "replace").rsplit("\r", 1)[-1].strip()[:_LONGEST_LINE]


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def progress(text: str, layers: int) -> str | None:
    """What a line of the child means for a person, None for a line that means nothing."""
    if text.startswith("Reading layer "):
        number = text.removeprefix("Reading layer ").split()[0]
        return f"writing the ONNX graph: layer {int(number) + 1} of {layers}" if number.isdecimal() else None
    return next((words for start, words in _STAGES.items() if text.startswith(start)), None)


def _reason(last: deque[str], code: int) -> str:
    if code < 0:
        return f"the process that writes it was killed (signal {-code}), perhaps because memory ran out."
    said = [text.removeprefix(_FAILED) for text in last if text.startswith(_FAILED)]
    said = said or [text for text in last if "Error" in text or "Exception" in text] or [text for text in last if text]
    return (said[-1] if said else "the process that writes it said nothing").rstrip(".") + "."


def _environment() -> dict[str, str]:
    paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONIOENCODING": "utf-8"}
    return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONUNBUFFERED": "1"}


def _main(road: str, folder: str, goal: Path, precision: str, options: list[str]) -> int:
    """The child: 0 when all is written, else 1, and the last line says why."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        make(road, folder, goal, precision, options)
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = error.reason if isinstance(error, LeversError) else f"{type(error).__name__}: {lines[0]}"
        sys.stdout.write(f"{_FAILED}{said}\n")
        return 1
    return 0


def make(road: str, folder: str, goal: Path, precision: str, options: list[str]) -> None:
    """Write the graph and its reference into `goal`, in this process; for `folder` see `write`."""
    if road == "builder":
        building.make(folder, goal, precision, options)
    elif precision == "fp32":
        tracing.make(folder, goal)
    else:
        sys.stdout.write("Quantizing\n")
        quantizing.make(Path(folder), goal, precision)
        return
    sys.stdout.write("Reference\n")
    _write_reference(folder, goal / REFERENCE)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


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
    raise SystemExit(_main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5:]))
