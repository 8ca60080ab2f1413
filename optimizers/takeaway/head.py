"""The comment above a script: what was measured, where and when, against what, and what to install.

Covers words only. What a run does not know is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from optimizers.engines import all_engines
from optimizers.results import ModelFacts, Ratio, Run, VariantResult
from optimizers.takeaway.text import comment, pinned, plain, requirement

# The first two lines hold no text from outside: see text.py.
_FIRST = (
    "# A recipe by Levers: one measured variant as a script that runs without Levers.",
    "# Put your own prompt into PROMPT. The figures below are of the machine that they were measured on.",
)
_NAME_WIDTH = 20


def head(
    run: Run,
    variant: VariantResult,
    model: ModelFacts,
    packages: Iterable[str],
    engine: str | None = None,
    first: str = "",
    notes: Iterable[str] = (),
) -> list[str]:
    """The whole comment. `packages` are to be installed, where an `engine` is named with its exact versions in an
    environment of their own; `first` is a further line for a shell; `notes` are sentences for the reader."""
    lines = [*_FIRST, "#", *_about(run, variant, model), "#", *_figures(run, variant), "#"]
    for note in notes:
        lines += [*comment(note), "#"]
    lines += comment("An answer ends at the first stop token; the timed requests went on to their full length.")
    return [*lines, "#", *_install(run, packages, engine, first)]


def _about(run: Run, variant: VariantResult, model: ModelFacts) -> list[str]:
    machine = run.machine
    where = [machine.cpu, *(gpu.name for gpu in machine.gpus), machine.system]
    threads = f" and {variant.threads} threads" if variant.threads else ""
    cores = f"{machine.usable_cores} cores{threads}"
    rows = (
        ("Model", f"{model.id} ({model.source}, revision {model.revision})"),
        ("Variant", f"{variant.key} ({variant.title})"),
        ("Measured", f"{run.created_at[:10]}, on {', '.join(where)}, with {cores}"),
        ("Baseline", run.baseline),
    )
    return [line for name, text in rows for line in comment(f"{name}: {plain(text)}", "    ")]


def _figures(run: Run, variant: VariantResult) -> list[str]:
    """The measured figures, each against the baseline's."""
    rows = [*_speeds(variant), *_sizes(run, variant), *_likeness(variant)]
    return [f"#   {name:<{_NAME_WIDTH}}{text}" for name, text in rows] or comment("No figures were kept.")


def _speeds(variant: VariantResult) -> Iterator[tuple[str, str]]:
    latency, versus = variant.latency, variant.versus_baseline
    if latency and latency.decode_tokens_per_s:
        rate = f"{latency.decode_tokens_per_s.median:.1f} tokens/s"
        yield "writing", rate + _against(versus.decode if versus else None)
    if latency and latency.ttft_s:
        yield "first token", f"after {latency.ttft_s.median:.3g} s" + _against(versus.ttft if versus else None)


def _sizes(run: Run, variant: VariantResult) -> Iterator[tuple[str, str]]:
    base = next((item for item in run.variants if item.key == run.baseline and item is not variant), None)
    own, other = variant.memory, base.memory if base else None
    if own:
        yield "weights", _size(own.weights_bytes, other.weights_bytes if other else None)
    if own and own.run_peak_bytes:
        yield "peak memory", _size(own.run_peak_bytes, other.run_peak_bytes if other else None)


def _likeness(variant: VariantResult) -> Iterator[tuple[str, str]]:
    quality = variant.quality
    if quality and quality.kl_divergence:
        yield "KL divergence", f"{quality.kl_divergence.mean:.2g} nats from the baseline, mean on its answers"
    if quality and quality.same_top:
        yield "same top token", f"{100 * quality.same_top.rate:.1f} % of the positions of its answers"


def _against(ratio: Ratio | None) -> str:
    if ratio is None or ratio.verdict == "baseline":
        return ""
    sure = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return f", {ratio.ratio:.2f} times the baseline's speed{sure}: {ratio.verdict}"


def _size(value: int, baseline: int | None) -> str:
    said = f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"
    return f"{said}, {value / baseline:.2f} times the baseline's" if baseline else said


def _install(run: Run, packages: Iterable[str], engine: str | None, first: str) -> list[str]:
    """What to install, with the versions that the run kept."""
    pins = _pins(run, engine) if engine else {}
    names = [*dict.fromkeys((*packages, *pins))]
    versions = {name: version for name, version in run.machine.packages.items() if version}
    wanted = " ".join(requirement(name, pins.get(name) or versions.get(name)) for name in names)
    lines = [f"# pip install {wanted}"]
    if engine:
        lines = [
            *comment("In an environment of its own, because its libraries are older than those of other recipes:"),
            f"# python -m venv {engine} && . {engine}/bin/activate",
            *lines,
        ]
    return [*lines, *([f"# {first}"] if first else [])]


def _pins(run: Run, engine: str) -> dict[str, str]:
    """The exact versions of an engine, as the run kept them, else as this program has them."""
    kept = next((state.requirements for state in run.machine.engines if state.id == engine), ())
    return pinned(kept) or pinned(all_engines()[engine].pins)
