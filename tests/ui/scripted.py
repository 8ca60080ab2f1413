"""A scripted stand-in for `optimizers.api`, for the page's states alone: every figure here is invented and never shown
outside tests. A run passes through its stages by the clock, so that a browser sees text stream in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from scripted_records import (
    ANSWER,
    CHECKPOINT,
    GB,
    HOSTILE,
    LIMITS,
    MACHINE,
    NF4,
    OTHER,
    ROWS,
    measured,
    with_one_core_busy,
)

from optimizers import planning
from optimizers.errors import CheckpointNotFound, ChoiceError, LeversError, RunNotFound, RunUnreadable
from optimizers.planning.checks import check_text
from optimizers.results import (
    Caveat,
    Lane,
    LiveRun,
    ModelEntry,
    ModelFacts,
    NoiseFloor,
    Ratio,
    Recommendation,
    Run,
    RunSummary,
    Step,
    TechniqueList,
    VariantResult,
)
from optimizers.schema import (
    Checkpoint,
    Choice,
    Obstacle,
    Plan,
    PresetId,
    RunStatus,
    Skipped,
    Variant,
    Way,
    Workload,
)
from optimizers.scores import KlTerms, OwnText

# Runs that stand still, for pictures: (share done, status).
STILLS: dict[str, tuple[float, RunStatus]] = {
    "loading": (0.08, "running"),
    "streaming": (0.56, "running"),
    "between": (0.48, "running"),
    "done": (1.0, "done"),
    "stopped": (0.7, "cancelled"),
    "failed": (0.3, "failed"),
    "ladder": (1.0, "done"),
    "noisy": (1.0, "done"),
}


class Script:
    """The stand-in's state. `hostile` puts HOSTILE wherever outside text is shown; `length_s` is a run's length;
    `stills` offers the runs of STILLS."""

    def __init__(self, hostile: bool = False, length_s: float = 4.0, stills: bool = False) -> None:
        self.stills = STILLS if stills else {}
        self.hostile = hostile
        self.length_s = length_s
        self.ladders = {"ladder"}
        self.asked: dict[str, Workload] = {}
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
        threads: tuple[int, ...] = (),
        ways: Way = "alone",
        text: OwnText | None = None,
        kl_terms: KlTerms = "all",
        as_hosted: bool = False,
    ) -> Choice:
        if prompts is None:
            prompts = ("Explain DNS briefly.", "What is a mutex?", "Why is the sky blue?")
        for stack in techniques:
            self.named_in(stack)
        if not prompts:
            raise ChoiceError("There is no prompt.", "Write at least one.")
        work = Workload(
            tuple(prompts), max_new_tokens, rounds, seconds, text=text, kl_terms=kl_terms, as_hosted=as_hosted
        )
        counts, stacks = planning.thread_counts(threads), tuple(techniques)
        if ways == "ladder":
            stacks = planning.ladder(stacks, lambda technique: technique.id != NF4.id)
        stacks = planning.swept(stacks, counts, MACHINE)
        return Choice(model or "smollm2-135m", stacks, work, baseline, ways=ways)

    def named_checkpoints(self, stacks: Iterable[str]) -> tuple[str, ...]:
        return tuple(stack.removeprefix("checkpoint=") for stack in stacks if stack.startswith("checkpoint="))

    def named_in(self, stack: str) -> tuple[str, ...]:
        known = {row.id for row in ROWS}
        if stack.startswith("checkpoint="):
            return ()
        for name in stack.split("+"):
            if name not in known and not name.startswith("threads="):
                raise ChoiceError(f"There is no technique {name}.", "Use one of the names in the list above.")
        return tuple(stack.split("+"))

    def preset(self, name: PresetId, model: str | None = None) -> planning.Preset:
        return planning.preset(name)

    def plan(
        self,
        choice: Choice,
        folders: bool = True,
        progress: None = None,
        unusable: Mapping[str, LeversError] = MappingProxyType({}),
    ) -> Plan:
        if text := choice.workload.text:
            check_text(choice.workload, len(text.head.split()))
        titles = {row.id: row.title for row in ROWS}
        others = self.named_checkpoints(choice.stacks)
        titles |= {f"checkpoint={name}": f"{name} in place of smollm2-135m" for name in others}
        gone = [f"checkpoint={name}" for name in unusable]
        names = ["fp32", *(stack for stack in choice.stacks if stack not in ("fp32", "bnb_nf4", *gone))]
        variants = tuple(
            Variant(
                f"{name}+sdpa",
                " + ".join(titles.get(part, part) for part in name.split("+")),
                tuple(name.split("+")),
                GB // 2,
            )
            for name in names
        )
        skipped = tuple(
            Skipped("fp32+sdpa+bnb_nf4", titles["bnb_nf4"], ("bnb_nf4",), Obstacle(NF4.reason or "", "Install it."))
            for stack in choice.stacks
            if stack == "bnb_nf4"
        )
        skipped += tuple(
            Skipped(f"fp32+sdpa+checkpoint={name}", titles[f"checkpoint={name}"], (), Obstacle(why.reason, why.remedy))
            for name, why in unusable.items()
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
        run_id = f"run-{len(self.started_at) + 1}"
        self.started_at[run_id] = time.monotonic()
        self.asked[run_id] = plan.choice.workload
        if plan.choice.ways == "ladder":
            self.ladders.add(run_id)
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
        still = [
            RunSummary(name, "2026-11-29T16:40:00Z", status, "smollm2-135m", ("fp32+sdpa", "bf16+sdpa", "fp32+eager"))
            for name, (_, status) in self.stills.items()
        ]
        return (*made, *still)

    def keep(self, raw: bytes) -> str:
        if not raw.startswith(b"{"):
            raise RunUnreadable("The file is not the run.json of a comparison.", "Give another.")
        run_id = self.start(self.plan(self.choose()))
        self.started_at[run_id] -= self.length_s
        return run_id

    def delete(self, run_id: str) -> None:
        self.watch(run_id)
        del self.started_at[run_id]

    def watch(self, run_id: str) -> LiveRun:
        if run_id in self.stills:
            return self._live(run_id, *self.stills[run_id], 1)
        if run_id not in self.started_at:
            raise RunNotFound(f"There is no run {run_id}.", "It may have been deleted.")
        passed = self.stopped_at.get(run_id, time.monotonic()) - self.started_at[run_id]
        share = min(1.0, passed / self.length_s)
        status: RunStatus = "done" if share == 1 else "cancelled" if run_id in self.stopped_at else "running"
        return self._live(run_id, share, status, round(passed * 10))

    def _live(self, run_id: str, share: float, status: RunStatus, version: int) -> LiveRun:
        left = None if share < 0.15 else 90 * (1 - share)
        shown = self.run(run_id, status) if share > 0.4 or status != "running" else None
        stage = "Round 3 of 6" if share > 0.15 else "Reading weights"
        reason = "The folder for runs is full." if status == "failed" else None
        return LiveRun(run_id, version, status, stage, share, left, self._lanes(share, status), shown, reason)

    def load(self, run_id: str) -> Run:
        return self.run(run_id, self.watch(run_id).status)

    def _lanes(self, share: float, status: RunStatus) -> tuple[Lane, ...]:
        def lane(key: str, title: str, rate: float, text: str, turn: int) -> Lane:
            active = status == "running" and int(share * 40) % 4 == turn
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
                self.said(NF4.reason or ""),
                self.said(NF4.remedy or ""),
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
            Lane(
                "fp32+sdpa+int8_dynamic",
                "8-bit dynamic (torch)",
                "not_applied",
                "",
                "",
                0,
                None,
                0,
                0,
                False,
                self.said("Nothing was converted: this model keeps its weights in Conv1D layers, not in nn.Linear."),
                "Use bitsandbytes, which converts Conv1D, or a model built with nn.Linear.",
            ),
        )

    def run(self, run_id: str, status: RunStatus) -> Run:
        work = Workload(("Explain DNS briefly.", self.said("Why is the sky blue?"), "What is a mutex?"), 48, 6)
        asked = self.asked.get(run_id, replace(work, as_hosted=run_id == "noisy"))
        variants = self._steps() if run_id in self.ladders else self._variants(run_id == "noisy")
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
            workload=replace(work, text=asked.text, kl_terms=asked.kl_terms, as_hosted=asked.as_hosted),
            baseline="fp32+sdpa",
            noise_floor=NoiseFloor(0.13, 0.24, 0.0021) if run_id == "noisy" else NoiseFloor(0.021, 0.04, 4e-7),
            limits=LIMITS,
            variants=tuple(map(with_one_core_busy, variants)) if asked.as_hosted else variants,
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

    def _steps(self) -> tuple[VariantResult, ...]:
        """The same, as steps of a ladder: its last stands on the one before it."""
        first, second, third, *rest = self._variants()
        assert second.versus_baseline is not None
        assert third.versus_baseline is not None
        added = replace(third.versus_baseline, decode=Ratio(1.44, 1.41, 1.47, "faster"))
        return (
            first,
            replace(second, step=Step(first.key, second.versus_baseline)),
            replace(third, step=Step(second.key, added)),
            *rest,
        )

    def _variants(self, noisy: bool = False) -> tuple[VariantResult, ...]:
        """Three that were measured; `noisy`: the second is within the noise, on a card that tells its energy."""
        skipped, failed, idle = self._lanes(1.0, "done")[3:]
        return (
            measured("fp32+sdpa", "Baseline", 30.7, None, 0.0, 1.0, 538e6, self.said(ANSWER)),
            measured(
                "bf16+sdpa",
                self.said("bfloat16"),
                28.4,
                (0.93, "within noise" if noisy else "slower"),
                0.00105,
                0.989,
                269e6,
                self.said(ANSWER),
                noisy,
            ),
            measured(
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
            VariantResult(idle.key, idle.title, ("int8_dynamic",), "not_applied", idle.reason, idle.remedy),
        )
