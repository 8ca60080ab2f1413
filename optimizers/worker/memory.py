"""Memory of this process by phase: before the model, while loading, after the first request, while running.

Resident memory, whose peaks are the kernel's own high-water mark, set back between phases by writing 5 to
/proc/self/clear_refs (proc(5)); where that is not possible they are None. Where the weights are on a GPU the phases are
the same and the figures come from `device_memory.py`. Weight bytes come from the census.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psutil

from optimizers.schema import Device, Memory

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Resident:
    """Bytes now: all that is resident, its file-backed part, and the high-water mark (None where not told)."""

    total: int
    file: int | None
    peak: int | None


def resident() -> Resident:
    """The figures as they stand."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return Resident(int(psutil.Process().memory_info().rss), None, None)
    entries = dict(entry.split(":", 1) for entry in lines if ":" in entry)
    sizes = {name: int(text.split()[0]) * 1024 for name, text in entries.items() if text.strip().endswith("kB")}
    return Resident(
        total=sum(sizes.get(name, 0) for name in ("RssAnon", "RssFile", "RssShmem")),
        file=sizes.get("RssFile"),
        peak=sizes.get("VmHWM"),
    )


def reset_peak() -> bool:
    """Set the high-water mark back to what is resident now; False where the system does not let us."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


@dataclass
class MemoryRecord:
    """What one worker's memory has been so far, phase by phase."""

    runtime_bytes: int = 0
    load_peak_bytes: int | None = None
    steady: Resident | None = None
    run_peak: Resident | None = None
    device: Device = "cpu"
    reserved_peak_bytes: int | None = None
    _peaks: bool = field(default=False, repr=False)

    def start_loading(self, device: Device = "cpu") -> None:
        """The libraries are imported and there is no model yet; its weights will be on `device`."""
        self.device = device
        self._peaks = self._reset_peak()
        self.runtime_bytes = self._resident().total

    def loaded(self) -> None:
        """The model is there and has not run."""
        self.load_peak_bytes = self._resident().peak if self._peaks else None

    def start_request(self) -> None:
        self._peaks = self._reset_peak()

    def end_request(self) -> None:
        """A request has ended: the first one gives the steady state, the largest peak is kept."""
        now = self._resident()
        if self.steady is None:
            self.steady = now
        if self._peaks and now.peak and (self.run_peak is None or now.peak > (self.run_peak.peak or 0)):
            self.run_peak = now
        if self.device == "cuda":
            from optimizers.worker import device_memory

            self.reserved_peak_bytes = max(self.reserved_peak_bytes or 0, device_memory.reserved_peak())

    def memory(self, weights_bytes: int, disk_bytes: int) -> Memory:
        """The record that travels."""
        steady, peak = self.steady, self.run_peak
        process, others = self._by_the_driver()
        return Memory(
            weights_bytes=weights_bytes,
            disk_bytes=disk_bytes,
            runtime_bytes=self.runtime_bytes,
            load_peak_bytes=self.load_peak_bytes,
            steady_bytes=steady.total if steady else None,
            steady_file_bytes=steady.file if steady else None,
            run_peak_bytes=peak.peak if peak else None,
            run_peak_file_bytes=peak.file if peak else None,
            device=self.device,
            reserved_peak_bytes=self.reserved_peak_bytes,
            process_bytes=process,
            others_bytes=others,
        )

    def _resident(self) -> Resident:
        if self.device == "cpu":
            return resident()
        from optimizers.worker import device_memory

        return device_memory.resident()

    def _reset_peak(self) -> bool:
        if self.device == "cpu":
            return reset_peak()
        from optimizers.worker import device_memory

        return device_memory.reset_peak()

    def _by_the_driver(self) -> tuple[int | None, int | None]:
        if self.device == "cpu":
            return None, None
        from optimizers.worker import device_memory

        return device_memory.by_the_driver()
