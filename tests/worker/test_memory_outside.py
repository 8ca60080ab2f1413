"""A worker's memory as it tells it against the kernel's account of the same process, read from outside at the same
moment; and bytes that tensors share, counted once. Weights by technique are in tests/contract."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import tiny
import torch
from driver import WorkerProcess

from optimizers.protocol import CensusTaken, MemoryTaken, RunRequest, TakeCensus, TakeMemory, WarmedUp, WarmUp
from optimizers.techniques.graphs import facts
from optimizers.worker import census

# What a worker allocates between reading its account and our reading it, and pages that the kernel's counters, which
# are kept for each processor apart, have not summed up yet.
SLACK = 4 << 20
WIDE = 1024
PARAMETERS = 384 * WIDE + 2 * (2 * WIDE * WIDE + 2 * (WIDE // 2) * WIDE + 3 * WIDE * 2 * WIDE) + 5 * WIDE
ROTARY = 2 * (WIDE // 4 // 2) * 4  # the frequencies and their original, always in fp32

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's account is Linux's")


@pytest.fixture(scope="module")
def wide_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_llama(tmp_path_factory.mktemp("checkpoints") / "wide-llama", hidden=WIDE)


def account(pid: int, name: str) -> dict[str, int]:
    """Bytes by entry of a file in /proc/<pid>."""
    lines = (line.split() for line in Path(f"/proc/{pid}/{name}").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}


@pytest.mark.parametrize("techniques", [("fp32", "sdpa"), ("bf16", "sdpa"), ("fp32", "torchao_int8_weight_only")])
def test_memory_is_what_the_kernel_counts(techniques: tuple[str, ...], wide_llama: Path, tmp_path: Path) -> None:
    with WorkerProcess(tmp_path / "log") as worker:
        worker.load(wide_llama, *techniques)
        worker.do(WarmUp("The old captain", 4), WarmedUp)
        pages, counted = account(worker.pid, "smaps_rollup"), account(worker.pid, "status")
        told = worker.do(TakeMemory(), MemoryTaken).memory
        worker.ask(RunRequest(1, "The old captain went down to the sea", 8))
        peak = account(worker.pid, "status")["VmHWM"]
        after = worker.do(TakeMemory(), MemoryTaken).memory
        by_dtype = worker.do(TakeCensus(), CensusTaken).census.bytes_by_dtype
    assert told.steady_bytes == pytest.approx(pages["Rss"], abs=SLACK)
    assert told.steady_bytes == pytest.approx(counted["RssAnon"] + counted["RssFile"] + counted["RssShmem"], abs=SLACK)
    assert told.steady_file_bytes == pytest.approx(pages["Rss"] - pages["Anonymous"], abs=SLACK)
    assert told.run_peak_bytes == pytest.approx(counted["VmHWM"], abs=SLACK)
    assert after.steady_bytes == told.steady_bytes
    assert after.run_peak_bytes == pytest.approx(max(counted["VmHWM"], peak), abs=SLACK)
    assert told.weights_bytes == sum(by_dtype.values())
    assert told.steady_bytes is not None
    assert told.steady_bytes - told.runtime_bytes > told.weights_bytes  # a request has touched every weight
    if techniques[0] == "bf16":
        assert by_dtype == {"bfloat16": 2 * PARAMETERS, "float32": ROTARY}
    elif techniques[1] == "sdpa":
        assert by_dtype == {"float32": 4 * PARAMETERS + ROTARY}
        mapped = told.steady_file_bytes or 0
        assert mapped > 4 * PARAMETERS  # weights in the file's own format are mapped, not copied


class Sharing(torch.nn.Module):
    """Tied weights, a slice of a block, a view that repeats one row, and a tensor of its own."""

    def __init__(self) -> None:
        super().__init__()
        block = torch.zeros(100, 10)
        self.table = torch.nn.Parameter(block)
        self.head = self.table
        self.register_buffer("tied", block)
        self.register_buffer("slice", block[20:60])
        self.register_buffer("overlap", torch.zeros(50, dtype=torch.bfloat16))
        self.register_buffer("repeated", torch.zeros(1, 8).expand(1000, 8))
        self.register_buffer("nothing", torch.zeros(0, 8))


def test_memory_that_tensors_share_counts_once() -> None:
    assert census.bytes_by_dtype(Sharing()) == {"float32": 4 * (1000 + 8), "bfloat16": 2 * 50}


def test_blocks_that_overlap_in_part_count_each_byte_once() -> None:
    module = torch.nn.Module()
    block = torch.arange(100, dtype=torch.float32)
    module.register_buffer("first", block[:60])
    module.register_buffer("second", block[40:])
    assert census.bytes_by_dtype(module) == {"float32": 4 * 100}


def test_weights_mapped_from_one_file_count_what_they_are(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    save_file({"a": torch.ones(100, 10), "b": torch.ones(7, dtype=torch.float16)}, tmp_path / "two.safetensors")
    module = torch.nn.Module()
    with safe_open(tmp_path / "two.safetensors", "pt") as file:
        for name in ("a", "b"):
            module.register_buffer(name, file.get_tensor(name))
        module.register_buffer("again", module.a.view(10, 100))
    assert census.bytes_by_dtype(module) == {"float32": 4 * 1000, "float16": 2 * 7}


@pytest.mark.parametrize(("nested", "kept"), [(False, 4 * (512 + 16)), (True, 512 + 4 * (2 + 256 + 1 + 16))])
def test_bitsandbytes_scales_count_as_they_are_kept(nested: bool, kept: int) -> None:
    # 128 rows of 256: a scale for each block of 64 weights, of 16 values, in fp32; nested, a byte for each scale, an
    # fp32 scale for each 256 of them, their table of 256 values and an offset.
    bitsandbytes = pytest.importorskip("bitsandbytes")
    layer = bitsandbytes.nn.Linear4bit(256, 128, bias=False, compress_statistics=nested, quant_type="nf4").to("cpu")
    assert sum(census.bytes_by_dtype(layer).values()) == 256 * 128 // 2 + kept


def graph_with(folder: Path, *tensors: Any) -> Path:
    helper = onnx.helper
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "head"], ["x"]),
    ]
    whole = helper.make_graph(
        nodes,
        "shared",
        [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8])],
        list(tensors),
    )
    folder.mkdir()
    onnx.save(helper.make_model(whole), folder / "model.onnx")
    return folder


def stored(name: str, offset: int) -> Any:
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[8, 8], data_location=1)
    for key, value in {"location": "model.data", "offset": str(offset), "length": "256"}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.mark.parametrize("operator", ["GroupQueryAttention", "RotaryEmbedding"])
def test_of_a_graphs_table_of_angles_one_row_is_read(operator: str, tmp_path: Path) -> None:
    folder = graph_with(tmp_path / "graph", stored("table", 0), stored("head", 256), stored("angles", 512))
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    model.graph.node.append(onnx.helper.make_node(operator, ["x", "angles"], ["y"], domain="com.microsoft"))
    onnx.save(model, folder / "model.onnx")
    assert facts.read(folder).read_bytes == 256 + 32 + 32


def test_a_graphs_weights_that_share_their_bytes_count_once(tmp_path: Path) -> None:
    apart = facts.read(graph_with(tmp_path / "apart", stored("table", 0), stored("head", 256)))
    assert apart.bytes_by_dtype == {"float32": 512}
    assert apart.read_bytes == 256 + 32  # one row of the table, and the head
    tied = facts.read(graph_with(tmp_path / "tied", stored("table", 0), stored("head", 0)))
    assert tied.bytes_by_dtype == {"float32": 256}
    assert tied.read_bytes == 256
