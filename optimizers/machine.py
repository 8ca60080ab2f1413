"""What this computer has: cores, instruction sets, memory, GPUs, a compiler, packages, environments of engines.

Linux is read in full, limits of the container (cgroup v1 and v2) included; macOS and Windows tell less. Nothing here
imports torch: CUDA is asked in a child process, once, and only where a driver shows. How fast it is is not measured.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from optimizers import engines
from optimizers.schema import Gpu, Machine
from optimizers.settings import settings

PACKAGES = (
    "torch",
    "transformers",
    "torchao",
    "bitsandbytes",
    "onnxruntime",
    "onnxruntime-genai",
    "onnxscript",
    "optimum",
    "flash-attn",
    "kernels",
    "accelerate",
    "gguf",
    "mslk",
)
_X86 = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_ne_convert",
)
_AMX = ("amx_bf16", "amx_fp16", "amx_int8", "amx_tile")
_ARM = ("asimd", "asimddp", "asimdhp", "bf16", "fphp", "i8mm", "sve", "svebf16")
_DRIVER_SIGNS = ("proc/driver/nvidia", "dev/nvidia0", "dev/dxg")
_PROBE_TIMEOUT_S = 60.0
_PROBE = """
import json, torch
found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())] if torch.version.cuda else []
print(json.dumps([[gpu.name, gpu.total_memory, [gpu.major, gpu.minor]] for gpu in found]))
"""


def describe(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Machine:
    """This machine as it is now. `root` is where /proc, /sys and /dev are read; `environment` replaces os.environ.

    Takes milliseconds, the first call on a machine with a CUDA driver excepted: a child process then asks torch."""
    env = os.environ if environment is None else environment
    text = _read(root / "proc/cpuinfo") or ""
    total, available = memory(root)
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        cpu=cpu_name(text),
        usable_cores=usable_cores(root),
        instruction_sets=instruction_sets(text),
        memory_total_bytes=total,
        memory_available_bytes=available,
        gpus=_gpus() if _has_driver(root) else (),
        cpp_compiler=cpp_compiler(env),
        packages=dict(_packages()),
        python=platform.python_version(),
        hosted=hosted(env),
        engines=engines.states(settings(env)),
    )


def cpu_name(cpuinfo: str) -> str:
    """The processor's name in the text of /proc/cpuinfo, else what the platform says."""
    return _field(cpuinfo, "model name") or _macos_cpu() or platform.processor() or platform.machine()


def instruction_sets(cpuinfo: str) -> tuple[str, ...]:
    """The instruction sets that matter to inference, as the kernel names them in /proc/cpuinfo (x86 and Arm)."""
    listed = set((_field(cpuinfo, "flags") or _field(cpuinfo, "Features") or "").split())
    if not cpuinfo and platform.machine().lower() in ("arm64", "aarch64"):
        listed = {"asimd"}
    return tuple(name for name in _X86 + _AMX + _ARM if name in listed)


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: its affinity, cut to the whole cores of the container's quota (at least 1)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in _cgroups(root, "cpu") if (quota := _quota(folder)) is not None]
    return max(1, min([cores, *(int(quota) for quota in quotas)]))


def memory(root: Path = Path("/")) -> tuple[int, int]:
    """Bytes of memory in all and available, both cut to the container's limit where it has one."""
    system = psutil.virtual_memory()
    total, available = system.total, system.available
    for folder in _cgroups(root, "memory"):
        limit = _number(folder, "memory.max", "memory.limit_in_bytes")
        if limit is not None and limit < system.total:
            used = _number(folder, "memory.current", "memory.usage_in_bytes") or 0
            total = min(total, limit)
            available = min(available, max(0, limit - used + _reclaimable(folder)))
    return total, available


def last_level_cache(threads: int, root: Path = Path("/")) -> int | None:
    """Bytes of the last-level caches that so many threads reach: of the cores that this process may run on, each cache
    once, at most one for each thread, the largest first. None where the system does not tell (/sys, Linux alone)."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    found: dict[tuple[str, str], int] = {}
    for core in cores:
        caches = [
            (level, _read(folder / "shared_cpu_list") or str(core), size)
            for folder in (root / f"sys/devices/system/cpu/cpu{core}/cache").glob("index*")
            if (level := (_read(folder / "level") or "").strip())
            and (size := _size(_read(folder / "size") or ""))
            and (_read(folder / "type") or "").strip() != "Instruction"
        ]
        if caches:
            level, shared, size = max(caches)
            found[level, shared] = size
    return sum(sorted(found.values(), reverse=True)[:threads]) or None


def cpp_compiler(environment: Mapping[str, str]) -> str | None:
    """The path of the C++ compiler that torch.compile would find: what CXX names, else g++, clang++ or cl."""
    try:
        named = shlex.split(environment.get("CXX", ""), posix=os.name != "nt")
    except ValueError:  # a quote that is not closed: no command
        return None
    candidates = named[:1] or ["g++", "clang++", "cl"]
    found = (shutil.which(name, path=environment.get("PATH")) for name in candidates)
    return next(filter(None, found), None)


def hosted(environment: Mapping[str, str]) -> str | None:
    """The hosting that the environment tells of: "ZeroGPU", "Hugging Face Spaces" or None."""
    if "SPACE_ID" not in environment:
        return None
    return "ZeroGPU" if environment.get("SPACES_ZERO_GPU") else "Hugging Face Spaces"


@functools.cache
def _packages() -> tuple[tuple[str, str | None], ...]:
    return tuple((name, _version(name)) for name in PACKAGES)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _has_driver(root: Path) -> bool:
    return any((root / sign).exists() for sign in _DRIVER_SIGNS) or shutil.which("nvidia-smi") is not None


@functools.cache
def _gpus() -> tuple[Gpu, ...]:
    """The CUDA devices that torch sees, asked in a child: this process holds no CUDA context. () on any trouble."""
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
        )
        rows = json.loads(answer.stdout.splitlines()[-1])
        return tuple(Gpu(str(name), int(size), (int(major), int(minor))) for name, size, (major, minor) in rows)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, TypeError):
        return ()


@functools.cache
def _macos_cpu() -> str:
    if platform.system() != "Darwin":
        return ""
    try:
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _field(cpuinfo: str, name: str) -> str | None:
    """The first value of a field of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """This process's control group folders for `controller`, from its own up to the top, in whichever version rules.

    Inside a container the path in /proc/self/cgroup may not exist under the mount: then only what exists is given."""
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        if names and controller not in names.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if names else "")
        own = top / path.lstrip("/")
        yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(top) and folder.is_dir())


def _quota(folder: Path) -> float | None:
    """The cores that a group may use on average, None without a limit (cpu.max, or cpu.cfs_* in version 1)."""
    quota, _, period = (_read(folder / "cpu.max") or "").strip().partition(" ")
    if not quota:
        quota = (_read(folder / "cpu.cfs_quota_us") or "").strip()
        period = (_read(folder / "cpu.cfs_period_us") or "").strip()
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _number(folder: Path, *names: str) -> int | None:
    """The number in the first of these files that holds one ("max" is none)."""
    texts = ((_read(folder / name) or "").strip() for name in names)
    return next((int(text) for text in texts if text.isdecimal()), None)


def _size(text: str) -> int:
    """Bytes of a cache as /sys writes them ("32768K"), 0 for anything else."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(unit, 0)
    return int(number) * scale if number.isdecimal() else 0


def _reclaimable(folder: Path) -> int:
    """Bytes of file cache that the kernel gives back first: they count as used, and are available."""
    said = dict(line.split(" ", 1) for line in (_read(folder / "memory.stat") or "").splitlines() if " " in line)
    text = said.get("total_inactive_file", said.get("inactive_file", "0")).strip()
    return int(text) if text.isdecimal() else 0


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None
