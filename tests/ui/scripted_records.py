"""Records for the scripted api: a machine, a checkpoint, techniques and figures, all of them invented."""

from __future__ import annotations

from dataclasses import astuple, replace

import planning_records as records

from optimizers.limits import DecodeLimit, MachineLimits, NearLimit, PromptLimit
from optimizers.profiles import TimeParts
from optimizers.quality import Divergence, Interval, NearMiss, Quality, Rate, Spread, TextQuality
from optimizers.results import (
    Hosted,
    Latency,
    Payback,
    PromiseResult,
    Ratio,
    Replay,
    Stat,
    TechniqueRow,
    VariantResult,
    VersusBaseline,
    WhereTimeGoes,
)
from optimizers.schema import (
    Census,
    Cost,
    Explanation,
    Memory,
    Output,
    SkippedModule,
)
from optimizers.scores import Candidate, Disagreement

HOSTILE = (
    "<img src=x onerror=\"window.__pwned='img'\"> ${window.__pwned='template'} {{constructor}} {{{value}}} "
    "</script><script>window.__pwned='script'</script> `${alert(1)}` [link](javascript:alert(2)) **bold** "
    '<svg onload="window.__pwned=\'svg\'"> " onmouseover="window.__pwned=\'attribute\'" x=" \x1b[31mred\x1b[0m'
)
RACED = 30  # tokens
ANSWER = (
    "The sky is blue because of Rayleigh scattering. Sunlight holds every color, and the air's molecules scatter short "
    "waves, such as blue, far more than long ones, so blue light reaches your eyes from every side."
)
OTHER = (
    "The sky is blue because of the way that air scatters sunlight. Short waves are sent in all directions, and so "
    "the whole sky seems to glow in blue, while red passes almost straight through."
)
GB = 10**9
PROMISES = (
    PromiseResult(
        "About half the memory", "0.5x the bytes", "0.50x the baseline's bytes of weights", True, None, "a guide"
    ),
    PromiseResult(
        "Faster", "1.5x to 3x", "0.93x the baseline's decode speed", False, "No native bfloat16 here.", "a guide"
    ),
    PromiseResult("A minor drop in accuracy", "minor", None, None, "This program does not measure it.", "a guide"),
)
PAYBACK = {
    "within noise": Payback(-0.41, -0.0026, "never", None),
    "baseline": None,
    "slower": Payback(-0.41, -0.0026, "never", None),
    "faster": Payback(9.6, 0.0083, "after tokens", 1157, "Compiled afresh; a later start finds the code in the cache."),
}
CENSUS = Census(
    {"float32": 114_009_088, "int8": 106_323_840},
    210,
    (SkippedModule("lm_head", "output head, tied to the input embedding", 1),),
    "sdpa",
    "flash_attention_for_cpu",
    True,
    {"Embedding": 1, "Linear": 211, "LlamaRMSNorm": 61},
    2,
)
MACHINE = records.machine(
    cpu="Example CPU with 2 cores",
    usable_cores=2,
    instruction_sets=("avx2",),
    memory_total_bytes=25 * GB,
    memory_available_bytes=23 * GB,
)
CHECKPOINT = records.checkpoint(
    id="smollm2-135m",
    source="packaged",
    parameters=134_515_008,
    linear_parameters=106_000_000,
    disk_bytes=269_060_552,
    context_length=8192,
    vocab_size=49152,
    hidden_size=576,
    layers=30,
    low_bit_grid="These weights were 4-bit before they were stored, so the quality of 4-bit techniques measured on "
    "them says little about other models.",
)
ABOUT = Explanation("Fewer bytes are read for each token.", "its documentation")
NF4 = TechniqueRow(
    "bnb_nf4",
    "weights",
    "4-bit weights (bitsandbytes NF4)",
    "Weights kept in 4 bits on a grid made for neural networks.",
    "About a quarter of the memory.",
    ABOUT,
    False,
    reason="The package bitsandbytes is not installed.",
    remedy="Install it: pip install bitsandbytes.",
)
ROWS = (
    TechniqueRow(
        "library_default", "precision", "Library default", "What from_pretrained does by itself.", "", ABOUT, True
    ),
    TechniqueRow(
        "fp32", "precision", "32-bit floats", "Every number in full precision.", "The reference.", ABOUT, True
    ),
    TechniqueRow(
        "bf16",
        "precision",
        "bfloat16",
        "Half the bits per number, the same range.",
        "Half the memory; faster where the processor has it.",
        ABOUT,
        True,
        warning="This processor has no native bfloat16, so it will likely be slower here.",
    ),
    TechniqueRow("fp16", "precision", "float16", "Half the bits per number.", "Half the memory.", ABOUT, True),
    TechniqueRow(
        "eager", "attention", "Eager attention", "Attention step by step.", "Exact; the slow reference.", ABOUT, True
    ),
    TechniqueRow("sdpa", "attention", "SDPA attention", "Attention in one fused step.", "Faster, exact.", ABOUT, True),
    TechniqueRow(
        "torchao_int8_weight_only",
        "weights",
        "8-bit weights (torchao)",
        "Weights kept in 8 bits, computed in the precision above.",
        "About half the memory of bfloat16.",
        ABOUT,
        True,
    ),
    NF4,
    TechniqueRow(
        "compile",
        "compile",
        "Compiled (torch.compile)",
        "Turned into machine code first.",
        "1.5x to 3x faster.",
        ABOUT,
        True,
    ),
)


def _stat(value: float) -> Stat:
    return Stat(value, value * 0.97, value * 1.03, 18)


def _spread(mean: float) -> Spread:
    return Spread(mean, mean / 10, mean * 9, mean * 6, mean * 3, mean * 2, mean / 2, 0.0)


LIMITS = MachineLimits("cpu", 2, 19.2e9, 1 << 28, 48.5e9, 16 << 20, 32 << 20, {"float32": 152e9, "bfloat16": 21e9})


def _near_limit(rate: float, weights: float) -> NearLimit:
    """From memory, and a prompt of 36 tokens at 700 tokens a second."""
    least = weights / 19.2e9
    decode = DecodeLimit(int(weights), "memory", 19.2e9, least, 1 / rate, least * rate)
    operations = 7_700_000_000
    return NearLimit(decode, PromptLimit(operations, "float32", 152e9, operations / 152e9, 36 / 700, 0.985))


def _time_parts(rate: float) -> WhereTimeGoes:
    """48 tokens, whatever a pass takes with 1.4 ms of generate() around each."""
    seconds = TimeParts(0.0009, 0.052, 47 / rate - 47 * 0.0014, 0.0141, 0.0517, 0.0004)
    total = 0.0009 + 0.052 + 47 / rate - 47 * 0.0014 + 0.0141 + 0.0517 + 0.0004
    shares = TimeParts(*(part / total for part in astuple(seconds)))
    return WhereTimeGoes(36, 48, 48, total, seconds, shares)


def _memory(weights: float) -> Memory:
    runtime = 380_000_000
    return Memory(
        int(weights),
        269_060_552,
        runtime,
        int(runtime + weights * 1.2),
        int(runtime + weights),
        0,
        int(runtime + weights * 1.1),
        0,
    )


def _nearly(text: str) -> tuple[tuple[Divergence, ...], tuple[NearMiss, ...]]:
    """Of an answer that leaves the usual one: a near tie, no tie, and a prompt of which nothing is known."""
    if text in (ANSWER, HOSTILE):
        return (), ()
    own = " the" if text == OTHER else text[20:]
    theirs = (" Rayleigh", 0.41), (own, 0.397), ("\n", 0.05), ("\ufffd", 0.02), ("\u202egnp", 0.0004)
    ours = (own, 0.44), (" Rayleigh", 0.37), ("\n", 0.06), ("", 0.03)
    sides = [tuple(Candidate(*candidate) for candidate in side) for side in (theirs, ours)]
    found = Disagreement(9, sides[0], sides[1])
    places = Divergence(0, 9, found), Divergence(1, 9, found), Divergence(2, 9)
    absent = "It was timed another way than it was scored."
    return places, (NearMiss(0, True), NearMiss(1, False), NearMiss(2, None, absent))


def measured(
    key: str,
    title: str,
    rate: float,
    ratio: tuple[float, str] | None,
    kl: float,
    top: float,
    weights: float,
    text: str,
    noisy: bool = False,
) -> VariantResult:
    energy = _stat(1.84 * 0.93) if noisy else None
    latency = Latency(_stat(0.12), _stat(1 / rate), _stat(rate), _stat(700), _stat(1.7), None, joules_per_token=energy)
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
    places, misses = _nearly(text)
    quality = Quality(
        "text_generation",
        144,
        _spread(kl),
        Interval(kl, kl / 2, kl * 2),
        Rate(top, 0.01, 144),
        human,
        places,
        top,
        1.0,
        None,
        noisy,
        misses,
    )
    return VariantResult(
        key,
        title,
        tuple(key.split("+")),
        "measured",
        census=CENSUS,
        cost=Cost(0.78, 1.5, 0.2),
        latency=latency,
        memory=_memory(weights),
        quality=quality,
        outputs=tuple(_output(i, text) for i in range(3)),
        replays=tuple(Replay(i, tuple(round(0.12 + i / 100 + k / rate, 4) for k in range(RACED))) for i in range(3)),
        versus_baseline=VersusBaseline(decode, decode, decode, weights / 538e6, weights / 538e6),
        promises=PROMISES if ratio else (),
        payback=PAYBACK[verdict],
        where_time_goes=_time_parts(rate),
        near_limit=_near_limit(rate, weights),
    )


def _output(prompt: int, text: str) -> Output:
    ends = tuple(len(text) * (token + 1) // RACED for token in range(RACED))
    return Output(prompt, text, tuple(range(RACED)), True, 48, ends)


def with_one_core_busy(variant: VariantResult) -> VariantResult:
    """The same, timed again: it costs the baseline a factor of 3.6 and a variant that takes 8-bit steps one of 1.2."""
    if variant.latency is None or variant.latency.decode_tokens_per_s is None:
        return variant
    cost = 1.2 if "int8" in variant.key else 3.6
    busy = _stat(variant.latency.decode_tokens_per_s.median / cost)
    ratio = Ratio(4.02, 3.7, 4.4, "faster") if cost == 1.2 else Ratio(1.0, None, None, "baseline")
    if variant.key == "bf16+sdpa":
        ratio = Ratio(0.93, 0.84, 1.02, "within noise")
    return replace(variant, as_hosted=Hosted(busy, _stat(0.12 * cost), cost, ratio))
