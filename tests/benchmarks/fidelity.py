"""How close Levers' figures are to a bare script's: both loaded, asked in turn, compared pair by pair.

    python tests/benchmarks/fidelity.py [TECHNIQUE ...] [--model smollm2-135m] [--pairs 9]

For each technique three processes are loaded: Levers' worker and two bare scripts (bare.py). Each pair asks all three
the same prompt, in an order that rotates. Prints the median ratio Levers / bare and, as the yardstick, bare / bare.
Run it with nothing else on the machine. It is no test: nothing fails when the machine is noisy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from optimizers import api, machine, protocol
from optimizers.planning import plan as make_plan
from optimizers.runners import forking
from optimizers.runners.subprocess import Worker

TECHNIQUES = ("fp32", "bf16", "torchao_int8_weight_only", "bnb_nf4", "onnxruntime", "onnxruntime_int4")
METRICS = ("decode_tokens_per_s", "ttft_s")


class Script:
    """A script in a process of its own: a prompt, as JSON on one line, is answered by its figures, on one line."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, prompt: str) -> dict[str, float]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(prompt) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Ours:
    """Levers' own worker, as the manager drives it."""

    def __init__(self, plan, techniques: tuple[str, ...], tokens: int) -> None:
        self._worker = Worker(
            Path(tempfile.mkdtemp()) / "log", plan.threads, server=forking.ready(plan.threads, lambda: False)
        )
        self._tokens = tokens
        self._until(protocol.Ready)
        self._worker.send(
            protocol.Load(plan.checkpoint, techniques, plan.threads, 0, 512, plan.machine.instruction_sets)
        )
        self._until(protocol.Loaded)

    def ask(self, prompt: str) -> dict[str, float]:
        self._worker.send(protocol.RunRequest(1, prompt, self._tokens))
        timing = self._until(protocol.Answered).timing
        times = timing.token_times_s
        return {"ttft_s": timing.ttft_s, "decode_tokens_per_s": (len(times) - 1) / (times[-1] - times[0])}

    def close(self) -> None:
        self._worker.close()

    def _until(self, kind):
        while True:
            event = self._worker.events.get(timeout=900)
            if isinstance(event, kind):
                return event
            if not isinstance(event, protocol.Stage | protocol.Tokens):
                raise SystemExit(f"the worker said {event}")


def measure(technique: str, model: str, pairs: int, tokens: int) -> None:
    choice = api.choose(model, [technique])
    plan = make_plan(choice, machine.describe(), api.prepare(model), 1 << 40)
    techniques = next(v.techniques for v in plan.variants if technique in v.techniques)
    folder = plan.checkpoint.folder
    ours = Ours(plan, techniques, tokens)
    script = str(Path(__file__).with_name("bare.py"))
    asked_for = (script, folder, technique, "--tokens", str(tokens), "--threads", str(plan.threads))
    bare, other = Script(*asked_for), Script(*asked_for)
    prompts = choice.workload.prompts
    everyone = [ours, bare, other]
    figures: list[list[dict[str, float]]] = []
    for number in range(pairs + 1):
        order = everyone[number % 3 :] + everyone[: number % 3]
        asked = {id(process): process.ask(prompts[number % len(prompts)]) for process in order}
        if number:
            figures.append([asked[id(process)] for process in everyone])
    for process in everyone:
        process.close()
    for metric in METRICS:
        ratios = [row[0][metric] / row[1][metric] for row in figures]
        yardstick = [row[2][metric] / row[1][metric] for row in figures]
        print(
            f"{technique:26} {metric:20} levers {statistics.median(row[0][metric] for row in figures):8.3f}  "
            f"bare {statistics.median(row[1][metric] for row in figures):8.3f}  "
            f"levers/bare {statistics.median(ratios):.3f}  bare/bare {statistics.median(yardstick):.3f} "
            f"[{min(yardstick):.3f}, {max(yardstick):.3f}]",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("techniques", nargs="*", default=list(TECHNIQUES))
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    for technique in options.techniques:
        measure(technique, options.model, options.pairs, options.tokens)


if __name__ == "__main__":
    main()
