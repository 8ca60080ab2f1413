"""Runs on disk: a folder per run, whose append-only event log IS the run; everything else there is derived from it.

    <runs>/<id>/events.jsonl    one protocol.LogLine a line, flushed as it comes; locked while its program lives;
                                after the end of the run votes alone are added
                samples.jsonl   raw samples, one a line
                run.json        the finished comparison, replaced as a whole; of one from elsewhere the only file
                logs/<key>.log  what each worker's libraries printed

Covers writing a run and reading one back, whole, cut short or damaged. Every file read here is untrusted; an id is
checked against a strict pattern and never used as a path before that.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from optimizers import protocol
from optimizers.analysis import Folding, compare
from optimizers.analysis.votes import pairs
from optimizers.errors import LeversError, RunNotFound, RunUnreadable, UsageError
from optimizers.results import RUN_SCHEMA, Run, RunSummary
from optimizers.schema import Plan, Record, RunStatus, from_json, to_json
from optimizers.settings import MAX_RUN_BYTES
from optimizers.votes import MOST_VOTES, VOTER, Preference, Vote, Voted

if sys.platform != "win32":
    import fcntl

ID_PATTERN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
EVENTS, SAMPLES, RUN, LOGS, REFERENCE = "events.jsonl", "samples.jsonl", "run.json", "logs", "reference.f32"
LONGEST_LINE = 64 << 20
LAST_BYTES = 64 << 10
LONGEST_LOG_NAME = 120
_SAVED = 'Give a file saved by "Download run.json", by compare --json or --out.'
_FROM_FILE = "Opened from a file: measured at another time, perhaps on another machine."


class RunFolder:
    """One run being written. Safe to use from several threads; `close` once, at the end."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.id = path.name
        self.path = path
        self.created_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.reference = path / REFERENCE
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._events = (path / EVENTS).open("ab")
        self._samples = (path / SAMPLES).open("ab")
        _hold(self._events.fileno())
        (path / LOGS).mkdir()
        self.planned = self.append(None, protocol.Planned(self.id, self.created_at, plan))

    def append(self, variant: str | None, event: protocol.LogEvent, replica: bool = False) -> protocol.LogLine:
        """Write one event, flushed, and return its line."""
        entry = protocol.LogLine(round(time.monotonic() - self._began, 6), variant, event, replica)
        with self._lock:
            if not self._events.closed:
                self._events.write(protocol.line(entry))
                self._events.flush()
                if isinstance(event, protocol.SampleTaken):
                    self._samples.write(protocol.line(event.sample))
                    self._samples.flush()
        return entry

    def log_path(self, key: str, replica: bool = False) -> Path:
        """Where the log of this variant's worker goes; A' has one of its own. A key that cannot be a file's name as it
        is (another checkpoint's may hold slashes, or be long) is told from like ones by a digest."""
        name = re.sub(r"[^A-Za-z0-9_+.=-]", "_", key)[:LONGEST_LOG_NAME]
        if name != key:
            name += f"-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        return self.path / LOGS / f"{name}{'.second' if replica else ''}.log"

    def write_run(self, run: Run) -> None:
        """Replace run.json as a whole: a reader sees the old one or the new one."""
        _write_run(self.path, run)

    def close(self) -> None:
        """Let go of the log and remove the reference, which only running workers need."""
        with self._lock:
            self._events.close()
            self._samples.close()
        self.reference.unlink(missing_ok=True)


class Store:
    """The runs under one folder, which is made when the first run is."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, plan: Plan) -> RunFolder:
        """A new run's folder, its log begun with the plan. Raises LeversError when it cannot be written."""
        try:
            return RunFolder(self._new(), plan)
        except OSError as error:
            raise self.full(error) from error

    def keep(self, raw: bytes) -> str:
        """Put a run.json that was written elsewhere among the runs; its id here. It has no log, so run.json is all
        there is of it. Raises RunUnreadable, and LeversError when it cannot be written."""
        try:
            if len(raw) > MAX_RUN_BYTES:
                raise RunUnreadable(f"The file has more than {MAX_RUN_BYTES >> 20} MiB, which no run.json has.", _SAVED)
            run: Run = from_json(Run, raw)
        except ValidationError as error:
            raise RunUnreadable("The file is not the run.json of a comparison.", _SAVED) from error
        try:
            path = self._new()
            status: RunStatus = "interrupted" if run.status == "running" else run.status
            kept = replace(run, id=path.name, status=status, notes=tuple(dict.fromkeys((*run.notes, _FROM_FILE))))
            (path / RUN).write_text(to_json(kept, indent=2), encoding="utf-8")
        except OSError as error:
            raise self.full(error) from error
        return path.name

    def delete(self, run_id: str) -> None:
        """Remove a run and all its files. Raises RunNotFound, and LeversError while it goes on or where it cannot be
        removed."""
        path = self.folder(run_id)
        if (path / EVENTS).is_file() and _held(path / EVENTS):
            raise goes_on(run_id)
        gone = self.root / f".{run_id}.{secrets.token_hex(4)}"
        try:
            path.rename(gone)  # at once for whoever looks; then file by file
            shutil.rmtree(gone)
        except OSError as error:
            raise LeversError(
                f"The run {run_id} cannot be removed: {error.strerror}.", f"Remove it from {self.root} by hand."
            ) from error

    def _new(self) -> Path:
        """An empty folder for a run."""
        path = self.root / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        path.mkdir(parents=True)
        return path

    def full(self, error: OSError) -> LeversError:
        """What is said when nothing more can be written here."""
        return LeversError(
            f"No run can be kept in {self.root}: {error.strerror}.",
            "Free some space, or name another in LEVERS_RUNS.",
        )

    def runs(self) -> tuple[RunSummary, ...]:
        """Every readable run, the newest first; what cannot be read as a run is left out."""
        if not self.root.is_dir():
            return ()
        names = sorted((path.name for path in self.root.iterdir() if ID_PATTERN.fullmatch(path.name)), reverse=True)
        found = (self._summary(name) for name in names)
        return tuple(summary for summary in found if summary is not None)

    def folder(self, run_id: str) -> Path:
        """The folder of this run. Raises RunNotFound, also for anything that is not an id."""
        path = self.root / run_id
        if ID_PATTERN.fullmatch(run_id) and any((path / name).is_file() for name in (EVENTS, RUN)):
            return path
        raise RunNotFound(f"There is no run {run_id[:60]!r} here.", "List the runs with: python -m optimizers runs")

    def load(self, run_id: str) -> Run:
        """The finished comparison, from run.json or, where that is missing, stale or damaged, from the log again.
        Raises RunNotFound when there is no such run or its log holds no plan."""
        path = self.folder(run_id)
        try:
            kept = (path / RUN).read_bytes() if (path / RUN).is_file() else b""
            run: Run = from_json(Run, kept)
            if run.status != "running" and run.id == run_id and run.schema == RUN_SCHEMA:
                return run
        except (OSError, ValidationError):
            pass
        result: Run = compare(self.record(run_id))
        return result

    def record(self, run_id: str) -> Record:
        """The run as its log tells it. Raises RunNotFound as `load` does; one from elsewhere has no log."""
        path = self.folder(run_id)
        if not (path / EVENTS).is_file():
            raise RunNotFound(f"The run {run_id} cannot be read: its file is damaged.", "Open it again.")
        try:
            return _folded(path / EVENTS).record("running" if _held(path / EVENTS) else "interrupted")
        except ValueError as error:
            raise self._damaged(run_id) from error

    def _damaged(self, run_id: str) -> RunNotFound:
        return RunNotFound(f"The run {run_id} cannot be read: its log is damaged.", "Start it again.")

    def votable(self, run_id: str) -> None:
        """Raises RunNotFound, and UsageError for a run with which no vote can be kept: one from elsewhere."""
        if not (self.folder(run_id) / EVENTS).is_file():
            raise UsageError(
                "This comparison was opened from a file: it has no log here that could keep a vote.",
                "Vote where it was measured, or measure it here.",
            )

    def vote(self, run_id: str, vote: Vote) -> tuple[Vote, ...]:
        """Put a vote into the log of a run that is over and bring run.json up to date; the votes that count now. Raises
        RunNotFound, UsageError for a vote that cannot count, LeversError when it cannot be kept."""
        self.votable(run_id)
        log = self.folder(run_id) / EVENTS
        if _held(log):
            raise LeversError(f"Another program measures the run {run_id} right now.", "Vote when it is over.")
        run, folding = self.load(run_id), _folded(log)
        check_vote(run, vote, folding.votes.cast)
        entry = protocol.LogLine(_seconds_since(run.created_at), vote.variant, Voted(vote))
        folding.add(entry)
        if vote not in folding.votes.counted:
            raise self._damaged(run_id)
        try:
            _add(log, protocol.line(entry))
            _write_run(log.parent, replace(run, votes=folding.votes.counted))
        except OSError as error:
            raise self.full(error) from error
        return folding.votes.counted

    def _summary(self, run_id: str) -> RunSummary | None:
        path = self.root / run_id / EVENTS
        if not path.is_file():  # a pipe or a device would be read for ever
            return self._opened(run_id)
        try:
            first = next(_lines(path), None)
            if first is None or not isinstance(first.event, protocol.Planned):
                return None
            plan = first.event.plan
            keys = tuple(variant.key for variant in plan.variants)
            return RunSummary(run_id, first.event.created_at, _status(path), plan.checkpoint.id, keys)
        except OSError:
            return None

    def _opened(self, run_id: str) -> RunSummary | None:
        """The line of a run that was written elsewhere."""
        try:
            run = self.load(run_id)
        except RunNotFound:
            return None
        return RunSummary(run_id, run.created_at, run.status, run.model.id, tuple(item.key for item in run.variants))


def goes_on(run_id: str) -> LeversError:
    """What keeps a run from being removed while it is measured."""
    return LeversError(f"The run {run_id} still goes on.", "Stop it first.")


def check_vote(run: Run | None, vote: Vote, cast: int) -> None:
    """Raises UsageError for a vote that cannot count in this run, so far as it has come; its log holds `cast` votes."""
    if cast >= MOST_VOTES:
        raise UsageError(f"This comparison holds {MOST_VOTES:,} votes and takes no more.", "Measure it anew to go on.")
    if re.fullmatch(VOTER, vote.voter) is None or vote.preference not in get_args(Preference):
        raise UsageError("The vote cannot be read.", "Reload the page and vote again.")
    if run is None or (vote.variant, vote.prompt) not in pairs(run).different:
        raise UsageError(
            f"The baseline and {vote.variant[:60]!r} have no two different answers to prompt {vote.prompt + 1}.",
            "Ask for another pair.",
        )


def _lines(path: Path) -> Iterator[protocol.LogLine]:
    """The readable lines of a log; a torn, damaged or overlong one is passed over."""
    with path.open("rb") as file:
        while text := file.readline(LONGEST_LINE):
            try:
                yield from_json(protocol.LogLine, text)
            except ValidationError:
                continue


def _folded(log: Path) -> Folding:
    """Everything that the lines of a log tell."""
    folding = Folding()
    for entry in _lines(log):
        folding.add(entry)
    return folding


def _add(log: Path, text: bytes) -> None:
    """Put a line at the end of a log, also of one whose last line was cut short."""
    with log.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
        torn = file.read(1) not in (b"", b"\n")
        file.write(b"\n" + text if torn else text)


def _write_run(path: Path, run: Run) -> None:
    draft = path / f".{RUN}.{secrets.token_hex(4)}"
    draft.write_text(to_json(run, indent=2), encoding="utf-8")
    draft.replace(path / RUN)


def _seconds_since(created_at: str) -> float:
    """0 where the log does not say when its run began."""
    try:
        return round(max(0.0, (datetime.now(UTC) - datetime.fromisoformat(created_at)).total_seconds()), 6)
    except (ValueError, TypeError):
        return 0.0


def _last_event(log: Path) -> protocol.LogEvent | None:
    """What the last line says that holds no vote; None where it is torn or damaged, or there is none."""
    with log.open("rb") as file:
        size, back = file.seek(0, os.SEEK_END), LAST_BYTES
        while True:
            file.seek(max(0, size - back))
            whole = file.read(back).splitlines()[1 if back < size else 0 :]
            for text in reversed(whole):
                try:
                    event: protocol.LogEvent = from_json(protocol.LogLine, text).event
                except ValidationError:
                    return None
                if not isinstance(event, Voted):
                    return event
            if back >= size:
                return None
            back *= 4


def _status(path: Path) -> RunStatus:
    """How the run of this log ended, read from its last line but for votes."""
    event = _last_event(path)
    if isinstance(event, protocol.Ended):
        return event.status
    return "running" if _held(path) else "interrupted"


def _hold(descriptor: int) -> None:
    """Lock a log for as long as its writer lives: the kernel lets go of it however the program ends."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _held(path: Path) -> bool:
    """Does a living program write this log? Not known on Windows, where it then reads as interrupted."""
    if sys.platform == "win32":
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
