"""What the figures and the words of the page mean: a paragraph for each, and where it comes from. Covers English.

Techniques explain themselves, in their own files.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from optimizers.schema import Explanation
from optimizers.ui import words

EMPTY = Markup("")

_OURS = "Levers: README, How the numbers are made"
_LLAMA_CPP = "llama.cpp, tools/perplexity: github.com/ggml-org/llama.cpp"

# In the order of the results' columns, of which each names one or several.
FIGURES: tuple[tuple[str, Explanation], ...] = (
    (
        "Verdict",
        Explanation(
            "Whether the variant writes faster or slower than the baseline, in a word. The baseline runs twice, in two "
            "processes; what lies between these two is the noise floor, 2 % at the least. Faster or slower is said "
            "only if the whole 95 % interval of the ratio lies outside that floor, else within noise. Under five "
            "rounds no word is given.",
            _OURS,
        ),
    ),
    (
        "Speed",
        Explanation(
            "The variant's tokens per second divided by the baseline's: 2.00x writes twice as fast. In each round both "
            "answer the same prompt, so the ratio is taken round by round and averaged as a logarithm. The interval in "
            "brackets holds the true ratio in 95 of 100 such comparisons (Student's t).",
            _OURS,
        ),
    ),
    (
        "Tokens/s",
        Explanation(
            "How fast the text is written once it has begun: the tokens after the first, divided by the time from the "
            "first to the last (decode speed). Its inverse is the time per output token. People read about 5 tokens a "
            "second. The median of all timed requests is shown.",
            "NVIDIA NIM documentation, LLM benchmarking, Metrics: docs.nvidia.com/nim/benchmarking/llm",
        ),
    ),
    (
        "First token",
        Explanation(
            "How long a reader waits before anything appears (time to first token): from handing over the prompt to "
            "the first new token, cutting the text into tokens included. It grows with the length of the prompt, which "
            "the model must read first (prefill).",
            "NVIDIA NIM documentation, LLM benchmarking, Metrics: docs.nvidia.com/nim/benchmarking/llm",
        ),
    ),
    (
        "Weights and peak memory",
        Explanation(
            "Weights: the bytes of the model's numbers as they lie in memory, packed ones as packed, shared ones once. "
            "Peak memory: the most that the variant's process held while it answered, by the operating system's own "
            "account, libraries and working space included. The peak decides whether it fits.",
            "Linux manual, proc_pid_status(5), VmHWM: man7.org",
        ),
    ),
    (
        "KL",
        Explanation(
            "How far the variant's choice of the next token is from the baseline's. Both give every token of the "
            "vocabulary a probability; the Kullback-Leibler divergence is the mean of log(baseline's probability / "
            "variant's) over the baseline's probabilities. 0 is identical; it is the mean over all tokens of the "
            "baseline's answers, in nats. It sees changes that leave the text as it is.",
            _LLAMA_CPP,
        ),
    ),
    (
        "Same top",
        Explanation(
            "How often variant and baseline hold the same token for the most likely, after the same text. Where they "
            "differ, a greedy answer leaves the baseline's; what it says from there on may be as good.",
            _LLAMA_CPP,
        ),
    ),
    (
        "Perplexity",
        Explanation(
            "How surprised a model is by a text that people wrote: e to the power of the mean of -log(probability of "
            "the token that really came). 1 knows it by heart; here the variant's is divided by the baseline's, so "
            "1.05x is 5 % more surprised. Between models that cut text into other tokens only the figure per byte "
            "compares.",
            "transformers documentation, Perplexity: huggingface.co/docs/transformers/perplexity",
        ),
    ),
)

TERMS: tuple[tuple[str, Explanation], ...] = (
    (
        "Token",
        Explanation(
            "The piece of text that a model reads and writes: a short word, a part of a long one, a sign. English has "
            "about three tokens for two words.",
            "transformers documentation, Tokenizers: huggingface.co/docs/transformers/tokenizer_summary",
        ),
    ),
    (
        "Variant and baseline",
        Explanation(
            "A variant is the model with a stack of techniques, such as bf16+sdpa. The baseline is the one that all "
            "others are held against: full precision with fused attention, unless you pick another.",
            _OURS,
        ),
    ),
    (
        "Prefill and decode",
        Explanation(
            "A model first reads the whole prompt at once (prefill: much arithmetic, done in parallel), then writes "
            "one token after another (decode: for each, all weights are read from memory). A technique may help one "
            "and not the other.",
            "transformers documentation, Optimizing LLMs: huggingface.co/docs/transformers/llm_tutorial_optimization",
        ),
    ),
    (
        "Quantization",
        Explanation(
            "Storing weights as small whole numbers with a scale, 8 or 4 bits in place of 16 or 32. Fewer bytes are "
            "read for each token and the model fits into less memory; what the rounding does to the answers is "
            "measured as KL.",
            "transformers documentation, Quantization: huggingface.co/docs/transformers/quantization/overview",
        ),
    ),
    (
        "Key-value cache",
        Explanation(
            "What attention needs to know of the tokens so far, kept so that it is computed once. It grows with the "
            "text and with the number of texts written at once.",
            "transformers documentation, Cache strategies: huggingface.co/docs/transformers/kv_cache",
        ),
    ),
    (
        "Greedy",
        Explanation(
            "Always taking the most likely next token. The same model then gives the same answer each time, which is "
            "what lets answers be compared.",
            "transformers documentation, Generation strategies: huggingface.co/docs/transformers/generation_strategies",
        ),
    ),
    (
        "Noise floor",
        Explanation(
            "The difference that this machine shows between two processes of the very same variant, now. A smaller "
            "difference between variants says nothing. Quality has one too: what the baseline's own probabilities move "
            "when it computes the same in another shape.",
            _OURS,
        ),
    ),
    (
        "Share of the limit",
        Explanation(
            "A token cannot come faster than its weights can be read: bytes to read divided by the memory's bandwidth "
            "is the least time, and the share is that over the measured time. At a high share only fewer bytes help; "
            "at a low one, better programs do.",
            "Williams, Waterman, Patterson: Roofline, 2009: doi.org/10.1145/1498765.1498785",
        ),
    ),
    (
        "Census",
        Explanation(
            "What is read from the model after loading: types and bytes of its weights, which layers were converted "
            "and why others were not, the attention that ran, what was compiled. It is the proof that a technique was "
            "applied; without it the row says Not applied.",
            _OURS,
        ),
    ),
)

_LIST = Markup('<details class="lv-explain lv-glossary"><summary>{title}</summary><dl>{entries}</dl></details>')
_ENTRY = Markup('<div><dt>{name}</dt><dd>{text} <span class="lv-fine">{source}</span></dd></div>')
_ONE = Markup(
    '<details class="lv-explain"><summary>{how}<span class="lv-hidden"> {title}</span></summary>'
    '<p>{text} <span class="lv-fine">{source}</span></p></details>'
)


def glossary() -> str:
    """All terms of the page, closed until a reader opens them."""
    return _listed(words.GLOSSARY, (*TERMS, *FIGURES))


def figures_meant() -> Markup:
    """Beneath the results: what each column means."""
    return _listed(words.FIGURES_MEANT, FIGURES)


def how(title: str, about: Explanation) -> Markup:
    """A technique's paragraph, closed until a reader opens it."""
    return _ONE.format(how=words.HOW, title=title, text=about.text, source=_source(about))


def _listed(title: str, entries: Sequence[tuple[str, Explanation]]) -> Markup:
    shown = (_ENTRY.format(name=name, text=about.text, source=_source(about)) for name, about in entries)
    return _LIST.format(title=title, entries=EMPTY.join(shown))


def _source(about: Explanation) -> str:
    return words.SOURCE.format(source=about.source)
