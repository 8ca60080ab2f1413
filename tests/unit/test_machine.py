"""The machine as read from recorded texts of /proc and control group files laid out in a folder of the test's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from optimizers import machine

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz
flags\t\t: fpu fma avx f16c avx2 avx512f avx_vnni amx_bf16 avx512_bf16 avx512_vnni avx512_fp16 amx_tile amx_int8
bugs\t\t: spectre_v1

processor\t: 1
model name\t: Another
flags\t\t: fpu
"""
RYZEN_ZEN2 = "model name\t: AMD EPYC 7702\nflags\t\t: fpu sse2 fma avx avx2 f16c avx512fake\n"
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd evtstrm asimdhp asimddp sve i8mm bf16\nCPU part\t: 0xd40\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "name", "sets"),
    [
        (
            XEON,
            "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
            "avx avx2 fma f16c avx512f avx512_vnni avx_vnni avx512_bf16 avx512_fp16 amx_bf16 amx_int8 amx_tile",
        ),
        (RYZEN_ZEN2, "AMD EPYC 7702", "avx avx2 fma f16c"),
        (GRAVITON, None, "asimd asimddp asimdhp bf16 i8mm sve"),
    ],
)
def test_cpuinfo_gives_name_and_instruction_sets(text: str, name: str | None, sets: str) -> None:
    assert machine.instruction_sets(text) == tuple(sets.split())
    if name is None:
        assert machine.cpu_name(text) not in ("", "0xd40")
    else:
        assert machine.cpu_name(text) == name


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8),
        # The limit of an ancestor holds for its children.
        (
            {
                "proc/self/cgroup": "0::/pod/box\n",
                "sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
                "sys/fs/cgroup/pod/cpu.max": "300000 100000\n",
            },
            3,
        ),
        # The path that the kernel names need not exist under a container's mount.
        ({"proc/self/cgroup": "0::/docker/abc\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        # Version 1.
        (
            {
                "proc/self/cgroup": "4:memory:/box\n1:cpu,cpuacct:/box\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        ({"proc/self/cgroup": "garbage\n\n::\n", "sys/fs/cgroup/cpu.max": "what 0\n"}, 8),
    ],
)
def test_usable_cores_follow_the_quota(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    assert machine.usable_cores(put(tmp_path, files)) == cores


GIB = 1 << 30


@pytest.fixture
def plain_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 16 GiB, 12 of them available."""

    class Memory:
        total = 16 * GIB
        available = 12 * GIB

    monkeypatch.setattr(psutil, "virtual_memory", Memory)


@pytest.mark.usefixtures("plain_memory")
@pytest.mark.parametrize(
    ("files", "total", "available"),
    [
        ({}, 16 * GIB, 12 * GIB),
        ({"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "5\n"}, 16 * GIB, 12 * GIB),
        # 4 GiB allowed, 3 used, 1 of these is file cache that can be given back.
        (
            {
                "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
                "sys/fs/cgroup/memory.stat": f"anon {2 * GIB}\ninactive_file {GIB}\nodd\n",
            },
            4 * GIB,
            2 * GIB,
        ),
        ({"sys/fs/cgroup/memory.max": f"{GIB}\n", "sys/fs/cgroup/memory.current": f"{2 * GIB}\n"}, GIB, 0),
        # A limit above the machine's memory is none (version 1 writes one near 2**63).
        (
            {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
            },
            16 * GIB,
            12 * GIB,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/box\n0::/\n",
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/box/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 2}\n",
            },
            2 * GIB,
            GIB + GIB // 2,
        ),
    ],
)
def test_memory_follows_the_limit(tmp_path: Path, files: dict[str, str], total: int, available: int) -> None:
    put(tmp_path, {"proc/self/cgroup": "0::/\n", **files})
    assert machine.memory(tmp_path) == (total, available)


def test_the_compiler_is_what_cxx_names(tmp_path: Path) -> None:
    for name in ("g++", "clang++", "my-c++"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    here = {"PATH": str(tmp_path)}
    assert machine.cpp_compiler(here) == str(tmp_path / "g++")
    assert machine.cpp_compiler({**here, "CXX": "my-c++ -O2"}) == str(tmp_path / "my-c++")
    assert machine.cpp_compiler({**here, "CXX": "absent-c++"}) is None
    (tmp_path / "g++").unlink()
    assert machine.cpp_compiler(here) == str(tmp_path / "clang++")
    assert machine.cpp_compiler({"PATH": str(tmp_path / "nothing")}) is None


def test_a_cxx_with_an_open_quote_is_no_error(tmp_path: Path) -> None:
    assert machine.cpp_compiler({"PATH": str(tmp_path), "CXX": 'g++ "'}) is None


def test_the_hosting_is_read_from_the_environment() -> None:
    assert machine.hosted({}) is None
    assert machine.hosted({"SPACE_ID": "me/app"}) == "Hugging Face Spaces"
    assert machine.hosted({"SPACE_ID": "me/app", "SPACES_ZERO_GPU": "1"}) == "ZeroGPU"


def test_without_a_driver_no_child_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_child(*_: object, **__: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr(machine.subprocess, "run", no_child)
    monkeypatch.setattr(machine.shutil, "which", lambda *_, **__: None)
    put(tmp_path, {"proc/cpuinfo": XEON})
    found = machine.describe(tmp_path, {})
    assert found.gpus == ()
    assert found.cpu == "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"
    assert found.cpp_compiler is None


@pytest.fixture
def fresh_gpus() -> object:
    machine._gpus.cache_clear()
    yield
    machine._gpus.cache_clear()


@pytest.mark.usefixtures("fresh_gpus")
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            "print('a warning'); print('[[\"NVIDIA H200\", 150000000000, [9, 0]]]')",
            (machine.Gpu("NVIDIA H200", 150_000_000_000, (9, 0)),),
        ),
        ("print('[]')", ()),
        ("raise SystemExit(3)", ()),
        ("print('not JSON')", ()),
        ("pass", ()),
        ("print('[[1]]')", ()),
        ("import time; time.sleep(60)", ()),
    ],
)
def test_gpus_are_asked_in_a_child_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, expected: tuple[machine.Gpu, ...]
) -> None:
    put(tmp_path, {"proc/driver/nvidia/version": "NVRM\n"})
    mark = tmp_path / "asked"
    monkeypatch.setattr(machine, "_PROBE", f"open({str(mark)!r}, 'a').write('x')\n{program}")
    monkeypatch.setattr(machine, "_PROBE_TIMEOUT_S", 1.0 if "sleep" in program else 60.0)
    assert machine.describe(tmp_path, {}).gpus == expected
    assert machine.describe(tmp_path, {}).gpus == expected
    assert mark.read_text() == "x"


def test_this_machine() -> None:
    found = machine.describe()
    assert 1 <= found.usable_cores <= (os.cpu_count() or 1)
    assert 0 < found.memory_available_bytes <= found.memory_total_bytes
    assert found.cpu
    assert set(found.packages) == set(machine.PACKAGES)
    assert found.packages["torch"] is not None
    assert found.python.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
