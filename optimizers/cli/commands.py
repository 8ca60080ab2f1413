"""The commands: each asks `api` and shows the answer; what goes wrong becomes a sentence and an exit code.

Covers the flow, progress while it runs, and what is written where. Layout is in `tables.py`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from optimizers import api
from optimizers.analysis.between_runs import between
from optimizers.cli import arguments, figures, tables
from optimizers.errors import ChoiceError, LeversError, RunNotFound, RunUnreadable, TakeawayError, UsageError
from optimizers.results import LiveRun, Run
from optimizers.schema import FINAL_STATUSES, Plan, to_json

DONE, NOTHING_MEASURED, BAD_USAGE, SOME_FAILED, STOPPED, PIPE_CLOSED = 0, 1, 2, 3, 130, 141
PIPED_WIDTH = 160
KEPT_FILES = ("run.json", "samples.jsonl", "events.jsonl", "logs")
RECIPE = "recipe.py"


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    _open_closed_streams()
    options = arguments.parser().parse_args(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?" in its place
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "compare": _compare,
        "techniques": _techniques,
        "models": _models,
        "runs": _runs,
        "engines": _engines,
        "takeaway": _takeaway,
    }
    try:
        code = commands[options.command](options)
        sys.stdout.flush()
        return code
    except (UsageError, RunNotFound) as error:
        return _complain(error, BAD_USAGE)
    except LeversError as error:
        return _complain(error, NOTHING_MEASURED)
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:
        _say_no_more()  # the reader of our output is gone
        return PIPE_CLOSED
    except OSError as error:
        _say_no_more()
        reason = f"Something could not be read or written: {error.strerror}."
        return _complain(LeversError(reason, "Free some space; finished runs are kept."), NOTHING_MEASURED)
    finally:
        api.shutdown()


def _open_closed_streams() -> None:
    """A program may be started with its streams closed: files opened later would then take their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115, it lives as long as the program
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def _say_no_more() -> None:
    """Let what is still to be written to stdout go nowhere, also at the end of the interpreter."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _compare(options: argparse.Namespace) -> int:
    out = _empty_folder(options.out) if options.out else None
    say = _Progress(_console(stderr=options.json))
    choice = api.choose(
        options.model,
        options.technique,
        prompts=arguments.prompts(options),
        max_new_tokens=options.max_new_tokens,
        rounds=options.rounds,
        seconds=options.seconds,
        baseline=options.baseline,
        seed=options.seed,
        threads=options.threads,
        ways="ladder" if options.ladder else "alone",
        text=options.text,
        kl_terms=options.kl_terms,
        as_hosted=options.as_hosted,
    )
    plan = api.plan(choice, progress=say.fetching)
    say.plan(plan)
    run_id = api.start(plan)
    stopped = False
    with say.live():
        try:
            run = api.follow(run_id, say.change)
        except KeyboardInterrupt:
            stopped, run = True, api.load(run_id)
    if out is not None:
        _keep(run_id, out)
    _write(to_json(run, indent=2)) if options.json else _show(*tables.finished(run, _console().width))
    return STOPPED if stopped else _code(run)


def _techniques(options: argparse.Namespace) -> int:
    listing = api.techniques(options.model)
    _write(to_json(listing, indent=2)) if options.json else _show(*tables.techniques(listing))
    return DONE


def _models(options: argparse.Namespace) -> int:
    entries = api.models()
    _write(_listed("models", entries)) if options.json else _show(tables.models(entries))
    return DONE


def _runs(options: argparse.Namespace) -> int:
    if options.compare:
        found = between(*map(api.load, options.compare))
        _write(to_json(found, indent=2)) if options.json else _show(*tables.between(found))
        return DONE
    if options.open:
        try:
            raw = options.open.read_bytes()
        except OSError as error:
            raise RunUnreadable(f"{options.open} cannot be read: {error.strerror}.", "Check the path.") from error
        _console(stderr=True).print(Text(f"Kept as {api.keep(raw)}."))
    if options.remove:
        api.delete(options.remove)
    entries = api.runs()
    if options.json:
        _write(_listed("runs", entries))
    else:
        _show(tables.runs(entries) if entries else Text("No runs are kept yet."))
    return DONE


def _engines(options: argparse.Namespace) -> int:
    if options.install:
        api.install_engine(options.install, _Progress(_console(stderr=options.json)).fetching)
    if options.remove:
        freed = api.remove_engine(options.remove)
        _console(stderr=True).print(Text(f"{figures.size(freed)} were freed."))
    entries = api.engines()
    _write(_listed("engines", entries)) if options.json else _show(tables.engines(entries))
    return DONE


def _takeaway(options: argparse.Namespace) -> int:
    script = api.recipe(options.run, options.variant)
    path = options.to / RECIPE
    other = "Name another with --to."
    try:
        options.to.mkdir(parents=True, exist_ok=True)
        if any(options.to.iterdir()):
            raise TakeawayError(f"The folder {options.to} is not empty.", other)
        path.write_text(script, encoding="utf-8")
    except OSError as error:
        raise TakeawayError(f"{path} cannot be written: {error.strerror}.", other) from None
    _console().print(Text(f"Written: {path}"), soft_wrap=True)
    return DONE


class _Progress:
    """News while a comparison goes on: a table that redraws itself on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._table: Live | None = None
        self._said: dict[str, str] = {}

    def live(self) -> AbstractContextManager[object]:
        """Where `change` draws. It redraws when told, from no thread of its own, so as not to disturb what is timed."""
        if not self._console.is_terminal:
            return nullcontext()
        self._table = Live(console=self._console, auto_refresh=False, transient=True)
        return self._table

    def fetching(self, text: str, share: float | None) -> None:
        """A checkpoint is on its way; a line for each new sentence or tenth part."""
        tenths = "" if share is None else f" {int(share * 10) * 10} %"
        self._line("fetching", f"{figures.one_line(text)}{tenths}")

    def plan(self, plan: Plan) -> None:
        """What will be done."""
        keys = ", ".join(variant.key for variant in plan.variants)
        about = "about" if plan.choice.workload.seconds is None else "at most about"
        self._line("plan", f"{plan.checkpoint.id}: {keys}; {about} {figures.duration(plan.estimate_s)}")
        for skipped in plan.skipped:
            self._line(skipped.key, f"{skipped.key} is skipped: {skipped.obstacle.reason} {skipped.obstacle.remedy}")
        for number, note in enumerate(plan.notes):
            self._line(f"note {number}", note)
        for warning, title in plan.warnings.items():
            self._line(warning, f"{title}: {warning}")

    def change(self, live: LiveRun) -> None:
        """The run has moved on."""
        if self._table is not None:
            self._table.update(tables.going_on(live), refresh=True)
            return
        self._line("stage", live.stage)
        for lane in live.lanes:
            if lane.status in FINAL_STATUSES and lane.status not in ("measured", "skipped"):
                self._line(lane.key, f"{lane.key}: {lane.stage}. {figures.one_line(lane.reason or '')}")

    def _line(self, about: str, text: str) -> None:
        if self._said.get(about) != text:
            self._said[about] = text
            elapsed = f"[{time.monotonic() - self._began:4.0f} s] "
            self._console.print(Text(elapsed + figures.one_line(text, 1000)), soft_wrap=True)


def _code(run: Run) -> int:
    statuses = [variant.status for variant in run.variants]
    if "measured" not in statuses:
        return NOTHING_MEASURED
    return DONE if set(statuses) <= {"measured", "skipped"} and run.status == "done" else SOME_FAILED


def _empty_folder(path: Path) -> Path:
    """The folder to write to, made now so that a mistake shows before the work. Raises ChoiceError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        taken = [name for name in KEPT_FILES if (path / name).exists()]
    except OSError as error:
        raise ChoiceError(f"The folder {path} cannot be made: {error.strerror}.", "Name another with --out.") from None
    if taken:
        raise ChoiceError(f"The folder {path} holds a run already ({taken[0]}).", "Name another with --out.")
    return path


def _keep(run_id: str, out: Path) -> None:
    """Copy what the run left into the folder. Raises LeversError when it cannot be written."""
    source = api.folder(run_id)
    try:
        for name in KEPT_FILES:
            if (source / name).is_dir():
                shutil.copytree(source / name, out / name, dirs_exist_ok=True)
            elif (source / name).is_file():
                shutil.copyfile(source / name, out / name)
    except OSError as error:
        raise LeversError(f"The run could not be written to {out}: {error.strerror}.", f"It is in {source}.") from error


def _listed(name: str, entries: Sequence[object]) -> str:
    return json.dumps({name: [json.loads(to_json(entry)) for entry in entries]}, indent=2, ensure_ascii=False)


def _console(stderr: bool = False) -> Console:
    """A console that colors and folds for a terminal only."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPED_WIDTH
    return _Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


class _Console(Console):
    """A console that leaves a reader who is gone to `main`; rich would end the program by itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _show(*parts: Any) -> None:
    console = _console()
    for part in parts:
        console.print(part)


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")


def _complain(error: LeversError, code: int) -> int:
    with suppress(OSError):  # the code says it too
        _console(stderr=True).print(Text(f"error: {figures.one_line(str(error), 4000)}"), soft_wrap=True)
    return code
