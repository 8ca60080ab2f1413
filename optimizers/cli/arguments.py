"""What may be written after `python -m optimizers`, and the prompts that a file holds.

Covers words and numbers; whether they make sense together is for `api.choose`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from optimizers import api
from optimizers.errors import ChoiceError
from optimizers.scores import KlTerms

LARGEST_PROMPT_FILE = 8_000_000

_EPILOG = """exit codes: 0 every variant measured or deliberately skipped, 1 nothing could be measured, 2 bad usage,
3 some variant failed or was not applied, 130 stopped"""


def parser() -> argparse.ArgumentParser:
    """The parser; a mistake ends the program with a message and exit code 2."""
    top = argparse.ArgumentParser(
        prog="python -m optimizers",
        description="What every inference optimization gives and what it costs, measured on this machine.",
        epilog=_EPILOG,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _compare(commands.add_parser("compare", help="measure variants of a model against a baseline", epilog=_EPILOG))
    listing = commands.add_parser("techniques", help="every technique: available here, or why not")
    listing.add_argument("model", nargs="?", metavar="MODEL", help="also judge them for this model")
    models = commands.add_parser("models", help="packaged and cached checkpoints")
    runs = commands.add_parser("runs", help="the history, newest first; open, remove, compare runs")
    kept = runs.add_mutually_exclusive_group()
    kept.add_argument("--open", type=Path, metavar="FILE", help="keep this run.json from elsewhere among the runs")
    kept.add_argument("--remove", metavar="ID", help="remove this run and all its files")
    beside = "the variants that both runs measured, side by side, and what else differs between the runs"
    kept.add_argument("--compare", nargs=2, metavar=("ID", "OTHER"), help=beside)
    engines = commands.add_parser("engines", help="engines in environments of their own: list, install, remove")
    change = engines.add_mutually_exclusive_group()
    change.add_argument("--install", metavar="ID", help="install its environment now, not on its first use")
    change.add_argument("--remove", metavar="ID", help="remove its environment; the next use installs it again")
    recipe = commands.add_parser("takeaway", help="a measured variant as a script that runs without this program")
    recipe.add_argument("run", metavar="RUN", help="the run's id, as `runs` lists it")
    recipe.add_argument("variant", metavar="VARIANT", help="the variant's key, such as bf16+sdpa")
    recipe.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="write recipe.py there: new or empty")
    for command in (listing, models, runs, engines):
        command.add_argument("--json", action="store_true", help="write JSON, and nothing else, to stdout")
    return top


def _compare(compare: argparse.ArgumentParser) -> None:
    add = compare.add_argument
    add("model", nargs="?", metavar="MODEL", help="packaged name, folder or hub id (default: SmolLM2-135M-Instruct)")
    stacks = (
        "such as bf16+eager, kept as written, checkpoint=NAME for another model, threads=N; repeatable "
        f"(default: {', '.join(api.usual())})"
    )
    add("-t", "--technique", action="append", default=[], metavar="STACK", help=stacks)
    add("--ladder", action="store_true", help="put each -t on top of the one before it, in the taught order")
    add("--prompt", action="append", default=None, metavar="TEXT", help="a prompt; repeatable")
    add("--prompts", type=Path, metavar="FILE", help="prompts, one a line, UTF-8")
    add("--max-new-tokens", type=int, default=api.DEFAULT_TOKENS, metavar="N", help="tokens an answer (%(default)s)")
    length = compare.add_mutually_exclusive_group()
    length.add_argument("--rounds", type=int, default=api.DEFAULT_ROUNDS, metavar="N", help="rounds (%(default)s)")
    budget = "a budget for it all, in place of rounds: these go on until every verdict on decoding speed is settled"
    length.add_argument("--seconds", type=float, metavar="S", help=budget)
    text = "measure quality on this text (UTF-8), in place of the packaged one"
    add("--text", type=Path, metavar="FILE", help=text)
    terms = "llama_cpp: leave out of each KL divergence the tokens that llama.cpp's tool leaves out (%(default)s)"
    add("--kl-terms", choices=get_args(KlTerms), default="all", help=terms)
    add("--baseline", metavar="STACK", help="what the others are compared with (fp32+sdpa)")
    add("--seed", type=int, default=0, metavar="N", help="of the order of turns (%(default)s)")
    sweep = (
        "processor threads of a variant (all usable cores); of several (2,1) each after the first is one more variant"
    )
    add("--threads", type=_counts, metavar="N[,N]", help=sweep)
    hosted = "time the leading variants again with one processor core busy, as on a shared machine"
    add("--as-hosted", action="store_true", help=hosted)
    add("--out", type=Path, metavar="FOLDER", help="also write run.json, samples.jsonl and logs there")
    add("--json", action="store_true", help="write the run as JSON, and nothing else, to stdout")


def _counts(text: str) -> tuple[int, ...]:
    """Whole numbers divided by commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number, nor several such as 2,1") from None


def prompts(options: argparse.Namespace) -> list[str] | None:
    """The prompts given one by one and in a file, None when there are none of either. Raises ChoiceError."""
    if options.prompt is None and options.prompts is None:
        return None
    return [*(options.prompt or []), *(_in_file(options.prompts) if options.prompts else [])]


def _in_file(path: Path) -> list[str]:
    remedy = "Name a text file in UTF-8 with one prompt a line."
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_PROMPT_FILE + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ChoiceError(f"The prompt file {path} is not UTF-8 text (byte {error.start}).", remedy) from None
    except OSError as error:
        raise ChoiceError(f"The prompt file {path} cannot be read: {error.strerror}.", remedy) from None
    if len(data) > LARGEST_PROMPT_FILE:
        raise ChoiceError(f"The prompt file {path} is larger than {LARGEST_PROMPT_FILE // 1_000_000} MB.", remedy)
    found = [line for line in text.splitlines() if line.strip()]
    if not found:
        raise ChoiceError(f"The prompt file {path} holds no prompt.", remedy)
    return found
