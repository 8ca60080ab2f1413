"""A scripted stand-in for `optimizers.api`, for the page's states alone: every figure here is invented and never shown
outside tests. A run passes through its stages by the clock, so that a browser sees text stream in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from optimizers.errors import CheckpointNotFound, ChoiceError, LeversError, RunNotFound
from optimizers.results import (
    Caveat,
    Interval,
    Lane,
    Latency,
    LiveRun,
    ModelEntry,
    ModelFacts,
    NoiseFloor,
    Quality,
    Rate,
    Ratio,
    Recommendation,
    Run,
    RunSummary,
    Spread,
    Stat,
    TechniqueList,
    TechniqueRow,
    TextQuality,
    VariantResult,
    VersusBaseline,
)
from optimizers.schema import (
    Checkpoint,
    Choice,
    Machine,
    Memory,
    Obstacle,
    Output,
    Plan,
    Skipped,
    Variant,
    Workload,
)

HOSTILE = (
    "<img src=x onerror=\"window.__pwned='img'\"> ${window.__pwned='template'} {{constructor}} {{{value}}} "
    "</script><script>window.__pwned='script'</script> `${alert(1)}` [link](javascript:alert(2)) **bold** "
    '<svg onload="window.__pwned=\'svg\'"> " onmouseover="window.__pwned=\'attribute\'" x=" \x1b[31mred\x1b[0m'
)
ANSWER = (
    "The sky is blue because of Rayleigh scattering. Sunlight holds every color, and the air's molecules scatter short "
    "waves, such as blue, far more than long ones, so blue light reaches your eyes from every side."
)
OTHER = (
    "The sky is blue because of the way that air scatters sunlight. Short waves are sent in all directions, and so "
    "the whole sky seems to glow in blue, while red passes almost straight through."
)
GB = 10**9
MACHINE = Machine(
    system="Linux",
    cpu="Example CPU with 2 cores",
    usable_cores=2,
    instruction_sets=("avx2",),
    memory_total_bytes=25 * GB,
    memory_available_bytes=23 * GB,
)
CHECKPOINT = Checkpoint(
    id="smollm2-135m",
    source="packaged",
    folder="unused",
    revision="0",
    architecture="LlamaForCausalLM",
    model_type="llama",
    task="text_generation",
    parameters=134_515_008,
    linear_parameters=106_000_000,
    disk_bytes=269_060_552,
    stored_dtype="bfloat16",
    context_length=8192,
    vocab_size=49152,
    hidden_size=576,
    layers=30,
    tied_embeddings=True,
    has_chat_template=True,
    has_pad_token=True,
    low_bit_grid="These weights were 4-bit before they were stored, so the quality of 4-bit techniques measured on "
    "them says little about other models.",
)
ROWS = (
    TechniqueRow("library_default", "precision", "Library default", "What from_pretrained does by itself.", "", True),
    TechniqueRow("fp32", "precision", "32-bit floats", "Every number in full precision.", "The reference.", True),
    TechniqueRow(
        "bf16",
        "precision",
        "bfloat16",
        "Half the bits per number, the same range.",
        "Half the memory; faster where the processor has it.",
        True,
        warning="This processor has no native bfloat16, so it will likely be slower here.",
    ),
    TechniqueRow("fp16", "precision", "float16", "Half the bits per number.", "Half the memory.", True),
    TechniqueRow(
        "eager", "attention", "Eager attention", "Attention step by step.", "Exact; the slow reference.", True
    ),
    TechniqueRow("sdpa", "attention", "SDPA attention", "Attention in one fused step.", "Faster, exact.", True),
    TechniqueRow(
        "torchao_int8_weight_only",
        "weights",
        "8-bit weights (torchao)",
        "Weights kept in 8 bits, computed in the precision above.",
        "About half the memory of bfloat16.",
        True,
    ),
    TechniqueRow(
        "bnb_nf4",
        "weights",
        "4-bit weights (bitsandbytes NF4)",
        "Weights kept in 4 bits on a grid made for neural networks.",
        "About a quarter of the memory.",
        False,
        reason="The package bitsandbytes is not installed.",
        remedy="Install it: pip install bitsandbytes.",
    ),
)


class Script:
    """The stand-in's state. `hostile` puts HOSTILE wherever outside text is shown; `length_s` is a run's length."""

    def __init__(self, hostile: bool = False, length_s: float = 4.0) -> None:
        self.hostile = hostile
        self.length_s = length_s
        self.started_at: dict[str, float] = {}
        self.stopped_at: dict[str, float] = {}

    def said(self, text: str) -> str:
        return HOSTILE if self.hostile else text

    def techniques(self, model: str | None = None) -> TechniqueList:
        return TechniqueList(MACHINE, ROWS)

    def models(self) -> tuple[ModelEntry, ...]:
        packaged = ModelEntry(
            "smollm2-135m", "SmolLM2 135M Instruct, packaged", "packaged", True, 269 * 10**6, 135 * 10**6
        )
        evil = ModelEntry("evil/model", self.said("SmolLM2 1.7B Instruct"), "hub", True, 3_400_000_000, 1_700_000_000)
        return packaged, evil

    def default_model(self) -> tuple[str, str]:
        return "smollm2-135m", "The hub does not answer, so the packaged copy is picked."

    def prepare(
        self, model: str, progress: Callable[[str, float | None], None] | None = None, folders: bool = True
    ) -> Checkpoint:
        if model.startswith("slow"):
            for step in range(20):
                if progress:
                    progress(f"Fetching {model}: {step * 5} of 100 MB", step / 20)
                time.sleep(0.3)
        if model.startswith("/"):
            raise CheckpointNotFound(f"There is no folder {model}.", "Check the path, or pick a packaged model.")
        return replace(CHECKPOINT, id=model, architecture=self.said("LlamaForCausalLM"))

    def choose(
        self,
        model: str | None = None,
        techniques: tuple[str, ...] = (),
        *,
        prompts: tuple[str, ...] | None = None,
        max_new_tokens: int = 48,
        rounds: int = 6,
        seconds: float | None = None,
        baseline: str | None = None,
        seed: int = 0,
        threads: int | None = None,
    ) -> Choice:
        if prompts is None:
            prompts = ("Explain DNS briefly.", "What is a mutex?", "Why is the sky blue?")
        known = {row.id for row in ROWS}
        for stack in techniques:
            for name in stack.split("+"):
                if name not in known:
                    raise ChoiceError(f"There is no technique {name}.", "Use one of the names in the list above.")
        if not prompts:
            raise ChoiceError("There is no prompt.", "Write at least one.")
        work = Workload(tuple(prompts), max_new_tokens, rounds, seconds)
        return Choice(model or "smollm2-135m", tuple(techniques), work, baseline)

    def plan(self, choice: Choice, folders: bool = True) -> Plan:
        titles = {row.id: row.title for row in ROWS}
        names = ["fp32", *(stack for stack in choice.stacks if stack not in ("fp32", "bnb_nf4"))]
        variants = tuple(
            Variant(f"{name}+sdpa", titles.get(name, name), tuple(name.split("+")), GB // 2) for name in names
        )
        skipped = tuple(
            Skipped(
                "fp32+sdpa+bnb_nf4", titles["bnb_nf4"], ("bnb_nf4",), Obstacle(ROWS[-1].reason or "", "Install it.")
            )
            for stack in choice.stacks
            if stack == "bnb_nf4"
        )
        return Plan(
            choice=choice,
            machine=MACHINE,
            checkpoint=CHECKPOINT,
            baseline="fp32+sdpa",
            variants=variants,
            skipped=skipped,
            resident=True,
            predicted_bytes=2_100_000_000,
            estimate_s=15.0 * len(variants) + 12,
            threads=2,
            notes=("The baseline is 32-bit floats with SDPA attention.",),
        )

    def start(self, plan: Plan) -> str:
        if self.running():
            raise LeversError("Another comparison is going on.", "Wait for it, or stop it first.")
        run_id = f"run-{len(self.started_at) + 1}"
        self.started_at[run_id] = time.monotonic()
        return run_id

    def running(self) -> str | None:
        return next((i for i in self.started_at if self.watch(i).status == "running"), None)

    def stop(self, run_id: str) -> None:
        self.stopped_at.setdefault(run_id, time.monotonic())

    def runs(self) -> tuple[RunSummary, ...]:
        made = [
            RunSummary(run_id, "2026-11-30T10:00:00Z", "done", self.said("smollm2-135m"), ("fp32+sdpa", "bf16+sdpa"))
            for run_id in self.started_at
        ]
        return tuple(made)

    def watch(self, run_id: str) -> LiveRun:
        if run_id not in self.started_at:
            raise RunNotFound(f"There is no run {run_id}.", "It may have been deleted.")
        passed = self.stopped_at.get(run_id, time.monotonic()) - self.started_at[run_id]
        share = min(1.0, passed / self.length_s)
        status = "done" if share == 1 else "cancelled" if run_id in self.stopped_at else "running"
        left = None if share < 0.15 else self.length_s * (1 - share)
        shown = self.run(run_id, status) if share > 0.4 or status != "running" else None
        stage = "Round 3 of 6" if share > 0.15 else "Reading weights"
        return LiveRun(run_id, round(passed * 10), status, stage, share, left, self._lanes(share, status), shown)

    def load(self, run_id: str) -> Run:
        return self.run(run_id, self.watch(run_id).status)

    def _lanes(self, share: float, status: str) -> tuple[Lane, ...]:
        def lane(key: str, title: str, rate: float, text: str, turn: int) -> Lane:
            active = status == "running" and int(share * 40) % 3 == turn
            shown = text[: int(len(text) * ((share * 6) % 1.0 if active else 1))] if share > 0.1 else ""
            state = "measured" if status == "done" else "loading" if share < 0.1 else "ready"
            done = int(share * 6)
            stage = "Answering" if active else ""
            return Lane(key, title, state, stage, shown, 1, rate if share > 0.15 else None, done, 6, active)

        return (
            lane("fp32+sdpa", "Baseline", 30.7, self.said(ANSWER), 0),
            lane("bf16+sdpa", self.said("bfloat16"), 28.4, self.said(ANSWER), 1),
            lane("fp32+sdpa+torchao_int8_weight_only", "8-bit weights (torchao)", 19.2, self.said(OTHER), 2),
            Lane(
                "fp32+sdpa+bnb_nf4",
                "4-bit weights (bitsandbytes NF4)",
                "skipped",
                "",
                "",
                0,
                None,
                0,
                0,
                False,
                self.said(ROWS[-1].reason or ""),
                self.said(ROWS[-1].remedy or ""),
            ),
            Lane(
                "fp32+eager",
                "Eager attention",
                "failed",
                "",
                "",
                0,
                None,
                2,
                6,
                False,
                self.said("The worker was killed, most likely for want of memory."),
                "Free some memory or leave this variant out.",
            ),
        )

    def run(self, run_id: str, status: str) -> Run:
        return Run(
            id=run_id,
            created_at="2026-11-30T10:00:00Z",
            status=status,
            machine=MACHINE,
            model=ModelFacts(
                id=self.said("smollm2-135m"),
                source="packaged",
                revision="0",
                task="text_generation",
                parameters=134_515_008,
                architecture="LlamaForCausalLM",
                stored_dtype="bfloat16",
                disk_bytes=269_060_552,
                context_length=8192,
                quantization=None,
                low_bit_grid=CHECKPOINT.low_bit_grid,
            ),
            workload=Workload(("Explain DNS briefly.", self.said("Why is the sky blue?"), "What is a mutex?"), 48, 6),
            baseline="fp32+sdpa",
            noise_floor=NoiseFloor(0.021, 0.04, 0.0),
            variants=self._variants(),
            recommendation=Recommendation(
                "bf16+sdpa",
                self.said("Use bfloat16: it takes half the memory at nearly the same speed."),
                "Its answers cannot be told from the baseline's.",
                "On this machine, for one user at a time.",
            ),
            caveats=(
                Caveat("low_bit_grid", self.said(CHECKPOINT.low_bit_grid or ""), "Measure 4-bit on the original."),
                Caveat(
                    "disturbed", "2 of 18 turns were disturbed by other work.", "Close other programs.", "bf16+sdpa"
                ),
            ),
        )

    def _variants(self) -> tuple[VariantResult, ...]:
        skipped, failed = self._lanes(1.0, "done")[3:]
        return (
            _measured("fp32+sdpa", "Baseline", 30.7, None, 0.0, 1.0, 538e6, self.said(ANSWER)),
            _measured(
                "bf16+sdpa", self.said("bfloat16"), 28.4, (0.93, "slower"), 0.00105, 0.989, 269e6, self.said(ANSWER)
            ),
            _measured(
                "fp32+sdpa+torchao_int8_weight_only",
                "8-bit weights (torchao)",
                41.2,
                (1.34, "faster"),
                0.0034,
                0.972,
                165e6,
                self.said(OTHER) if not self.hostile else ANSWER[:20] + HOSTILE,
            ),
            VariantResult(skipped.key, skipped.title, ("bnb_nf4",), "skipped", skipped.reason, skipped.remedy),
            VariantResult(failed.key, failed.title, ("eager",), "failed", failed.reason, failed.remedy),
        )


def _stat(value: float) -> Stat:
    return Stat(value, value * 0.97, value * 1.03, 18)


def _spread(mean: float) -> Spread:
    return Spread(mean, mean / 10, mean * 9, mean * 6, mean * 3, mean * 2, mean / 2, 0.0)


def _measured(
    key: str, title: str, rate: float, ratio: tuple[float, str] | None, kl: float, top: float, weights: float, text: str
) -> VariantResult:
    latency = Latency(_stat(0.12), _stat(1 / rate), _stat(rate), _stat(700), _stat(1.7), None)
    runtime = 380_000_000
    memory = Memory(
        int(weights),
        269_060_552,
        runtime,
        int(runtime + weights * 1.2),
        int(runtime + weights),
        0,
        int(runtime + weights * 1.1),
        0,
    )
    value, verdict = ratio or (1.0, "baseline")
    decode = Ratio(value, value * 0.98 if ratio else None, value * 1.02 if ratio else None, verdict)
    human = TextQuality(
        768,
        True,
        _spread(kl),
        Rate(top, 0.004, 768),
        13.2 * (1 + kl),
        13.2,
        Interval(1 + kl, 1.0, 1 + 2 * kl),
        _spread(0),
        0.1,
    )
    quality = Quality(
        "text_generation", 144, _spread(kl), Interval(kl, kl / 2, kl * 2), Rate(top, 0.01, 144), human, (), top, 1.0
    )
    return VariantResult(
        key,
        title,
        tuple(key.split("+")),
        "measured",
        latency=latency,
        memory=memory,
        quality=quality,
        outputs=tuple(Output(i, text, (1, 2, 3), True, 48) for i in range(3)),
        versus_baseline=VersusBaseline(decode, decode, decode, weights / 538e6, weights / 538e6),
    )
