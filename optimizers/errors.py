"""The exceptions that Levers raises on purpose, as one tree.

    LeversError
    ├── UsageError              what was asked cannot be done as asked (exit code 2)
    │   ├── ChoiceError         a stack, a prompt list or a workload setting is wrong
    │   │   ├── TextError             the text to measure quality on cannot be used
    │   │   └── ThreadsError          the thread counts cannot be used
    │   ├── CheckpointError     the model named cannot be used
    │   │   ├── CheckpointNotFound    no such packaged model, folder or hub id
    │   │   ├── CheckpointBroken      files missing, cut short or unreadable
    │   │   ├── CheckpointRefused     pickled weights, remote code, another kind of model
    │   │   └── HubUnreachable        a hub id, and no hub in reach
    │   ├── RunUnreadable       a file that is to be opened is no finished run
    │   └── TakeawayError       of this run or variant there is nothing to take away, or not into that folder
    ├── RunNotFound             no run of that id in this program's folder (exit code 2)
    ├── EngineError             an engine's own environment cannot be made, used or removed
    ├── WorkerError             a worker failed, died or did not answer in time
    └── Cancelled               the person stopped the work

Each carries three parts, so that every message says what happened, to which thing, and what to do next. It covers no
programming mistakes: those stay ordinary Python exceptions.
"""


class LeversError(Exception):
    """What happened (`reason`, one sentence that names the thing) and what to do next (`remedy`, one sentence)."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason} {remedy}".strip())
        self.reason = reason
        self.remedy = remedy


class UsageError(LeversError):
    """What was asked cannot be done as asked."""


class ChoiceError(UsageError):
    """A stack, a prompt list or a workload setting is wrong."""


class TextError(ChoiceError):
    """The text of the person's own, to measure quality on, cannot be used."""


class ThreadsError(ChoiceError):
    """The thread counts asked for cannot be used."""


class RunUnreadable(UsageError):
    """A file that is to be opened as a run is none."""


class TakeawayError(UsageError):
    """Of this run or variant there is nothing to take away, or not into that folder."""


class CheckpointError(UsageError):
    """The model named cannot be used."""


class CheckpointNotFound(CheckpointError):
    """There is no such packaged model, folder or hub id."""


class CheckpointBroken(CheckpointError):
    """The checkpoint's files are missing, cut short or unreadable."""


class CheckpointRefused(CheckpointError):
    """The checkpoint is of a kind that Levers does not load."""


class HubUnreachable(CheckpointError):
    """A hub id was named and the hub does not answer."""


class RunNotFound(LeversError):
    """No run of that id is kept here."""


class EngineError(LeversError):
    """An engine's own environment cannot be made, used or removed."""


class WorkerError(LeversError):
    """A worker failed, died or did not answer in time."""


class Cancelled(LeversError):
    """The person stopped the work."""
