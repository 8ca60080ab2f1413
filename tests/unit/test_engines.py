"""Engines' files and environments: whole or not there, found again, removed, forbidden. A stand-in plays pip; the real
one is in tests/worker/test_engine_workers.py."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import planning_records
import pytest

from optimizers import api, engines, keeping
from optimizers.engines import environments, files
from optimizers.errors import Cancelled, EngineError, UsageError
from optimizers.settings import settings
from optimizers.techniques import all_techniques

HEAD = "# title: A test engine\n# megabytes: 3\n# shared: pydantic no-such-distribution\n"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> files.Engine:
    """An engine of its own, and the only one that there is."""
    path = tmp_path / "stand_in.txt"
    path.write_text(f"{HEAD}\nOne_Thing==1.5\nanother==2.0.1\n")
    found = files.read(path)
    monkeypatch.setattr(environments, "all_engines", lambda: {"stand_in": found})
    monkeypatch.setenv("LEVERS_CACHE", str(tmp_path / "cache"))
    return found


class Pip:
    """Puts into an environment what it is told, and remembers what it was asked."""

    def __init__(self, code: int = 0, said: str = "", **versions: str) -> None:
        self.answer = code, said
        self.versions = versions or {"one-thing": "1.5", "another": "2.0.1"}
        self.fixed: list[str] = []

    def __call__(
        self, words: list[str], *, python: str, while_waiting: Callable[[], None], environment: dict[str, str]
    ) -> tuple[int, str]:
        packages = next(Path(python).parents[1].glob("lib/python*/site-packages"))
        self.fixed.append(Path(words[words.index("-c") + 1]).read_text())
        while_waiting()
        for name, version in self.versions.items():
            folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return self.answer


def silent(text: str, share: float | None) -> None:
    """News that nobody reads."""


def root() -> Path:
    return settings().cache / environments.FOLDER


def test_every_engine_of_the_program_names_exact_versions_and_serves_a_technique() -> None:
    served = {technique.engine for technique in all_techniques().values()} - {None}
    assert set(files.all_engines()) == served
    for engine in files.all_engines().values():
        assert engine.title and engine.size_bytes > 1_000_000
        assert "torch" in engine.shared  # variants compute with the same build


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}name>=1.0\n",
        f"{HEAD}--index-url http://elsewhere\n",
        HEAD,
        "# title: T\nname==1\n",
        "# megabytes: 3\nname==1\n",
    ],
)
def test_a_file_that_leaves_something_open_is_a_mistake(text: str, tmp_path: Path) -> None:
    path = tmp_path / "engine.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"engine\.txt"):
        files.read(path)


def test_an_environment_is_made_once_and_sees_its_own_packages_before_the_programs(engine: files.Engine) -> None:
    heard: list[tuple[str, float | None]] = []
    pip = Pip()
    folder = environments.install(engine, root(), lambda *news: heard.append(news), pip)
    assert environments.install(engine, root(), silent, pip) == folder
    (fixed,) = pip.fixed
    assert fixed.startswith("pydantic==") and "no-such" not in fixed
    assert heard[0] == ("installing A test engine (once, about 3 MB)", 0.0)
    code = "import sys, pydantic, importlib.metadata as m; print(m.version('one-thing'), sys.prefix)"
    python = environments.interpreter(folder)
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == ["1.5", str(folder)]
    assert engines.ready("stand_in", silent) == python  # found, not made
    assert {path.name for path in root().iterdir()} == {folder.name, f"{folder.name}.lock"}


@pytest.mark.parametrize("harm", ["no marker", "nonsense in the marker", "the interpreter is gone"])
def test_an_environment_that_is_not_whole_is_made_again(harm: str, engine: files.Engine) -> None:
    folder = environments.install(engine, root(), silent, Pip())
    if harm == "no marker":
        (folder / environments.MARKER).unlink()
    elif harm == "nonsense in the marker":
        (folder / environments.MARKER).write_text("[1")
    else:
        environments.interpreter(folder).unlink()
    assert not environments.installed(engine, root())
    assert environments.install(engine, root(), silent, Pip()) == folder
    assert environments.installed(engine, root())


def test_another_version_is_another_environment(engine: files.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {environments.place(engine, root()), environments.place(replace(engine, text="other"), root())}
    monkeypatch.setattr(environments.platform, "python_version", lambda: "3.99.0")
    places.add(environments.place(engine, root()))
    assert len(places) == 3


@pytest.mark.parametrize(
    ("pip", "reason"),
    [
        (Pip(1, "Collecting one-thing\nERROR: No matching distribution found\n"), "No matching distribution found"),
        (Pip(**{"one-thing": "1.5"}), r"another 2\.0\.1 is not in its environment \(found: none\)"),
        (Pip(**{"one-thing": "1.4", "another": "2.0.1"}), r"One_Thing 1\.5 .* \(found: 1\.4\)"),
    ],
)
def test_a_failed_installation_says_why_and_leaves_nothing(pip: Pip, reason: str, engine: files.Engine) -> None:
    with pytest.raises(EngineError, match=reason) as caught:
        environments.install(engine, root(), silent, pip)
    assert caught.value.remedy.endswith(".")
    assert [path.suffix for path in root().iterdir()] == [".lock"]


def test_a_stopped_one_leaves_nothing_and_a_dead_ones_remains_are_cleared(engine: files.Engine) -> None:
    goal = environments.place(engine, root())
    dead = root() / f".{goal.name}.making-dead"
    dead.mkdir(parents=True)
    calls = 0

    def stop(text: str, share: float | None) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # pip is running
            raise Cancelled("It was stopped.")

    with pytest.raises(Cancelled):
        environments.install(engine, root(), stop, Pip())
    assert [path.suffix for path in root().iterdir()] == [".lock"]


def test_who_waits_for_another_installation_can_be_stopped(engine: files.Engine) -> None:
    goal = environments.place(engine, root())
    root().mkdir(parents=True)
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with keeping.locked(goal, lambda: None):
            held.set()
            over.wait(60)

    def stop(text: str, share: float | None) -> None:
        assert text == "another Levers is installing A test engine: waiting for it"
        raise Cancelled("It was stopped.")

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(60)
        with pytest.raises(Cancelled):
            environments.install(engine, root(), stop, Pip())
        goal.mkdir()
        with pytest.raises(EngineError, match="is being installed"):
            engines.remove("stand_in")
    finally:
        over.set()
        holder.join()


def test_one_that_takes_too_long_is_ended(engine: files.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "INSTALL_TIMEOUT_S", -60.0)
    with pytest.raises(EngineError, match="took longer than -1 minutes and was ended"):
        environments.install(engine, root(), silent, Pip())
    assert [path.suffix for path in root().iterdir()] == [".lock"]


def test_too_little_room_is_said_before_anything_is_fetched(
    engine: files.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = keeping.shutil.disk_usage(root().parents[1])._replace(free=5_000_000)
    monkeypatch.setattr(keeping.shutil, "disk_usage", lambda path: full)
    pip = Pip()
    with pytest.raises(EngineError, match=r"needs about 6 MB in .*, and 5 MB are free"):
        environments.install(engine, root(), silent, pip)
    assert not pip.fixed


def test_removing_takes_outdated_ones_too_and_nothing_else(engine: files.Engine) -> None:
    now = environments.install(engine, root(), silent, Pip())
    old, other = root() / f"stand_in-{'0' * 16}", root() / f"stand_in-{'1' * 16}-more"
    for folder in (old, other):
        folder.mkdir()
        (folder / "file").write_bytes(b"12345")
    assert api.remove_engine("stand_in") > 5
    assert not now.exists() and not old.exists() and (other / "file").exists()
    assert api.remove_engine("stand_in") == 0
    for change in (api.remove_engine, api.install_engine):
        with pytest.raises(UsageError, match="no engine called"):
            change("../stand_in")


def test_one_that_is_at_work_is_not_removed(engine: files.Engine) -> None:
    now = environments.install(engine, root(), silent, Pip())
    with subprocess.Popen([environments.interpreter(now), "-c", "input()"], stdin=subprocess.PIPE) as worker:
        with pytest.raises(EngineError, match="A test engine is at work") as caught:
            api.remove_engine("stand_in")
        assert "stop it" in caught.value.remedy
        worker.communicate()
    assert now.exists()
    assert api.remove_engine("stand_in") > 0


def test_an_operator_who_forbids_it_is_obeyed(engine: files.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [settings(said).allow_engines for said in ({}, {"SPACE_ID": "me/app"})] == [True, False]
    assert settings({"SPACE_ID": "me/app", "LEVERS_ALLOW_ENGINES": "1"}).allow_engines
    monkeypatch.setenv("LEVERS_ALLOW_ENGINES", "0")
    with pytest.raises(EngineError, match="not allowed here") as caught:
        api.install_engine("stand_in")
    assert "LEVERS_ALLOW_ENGINES=1" in caught.value.remedy
    environments.install(engine, root(), silent, Pip())
    api.install_engine("stand_in")  # it is here already
    (state,) = api.engines()
    assert (state.installed, state.allowed) == (True, False)


@pytest.mark.parametrize(("installed", "allowed"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_technique_knows_before_a_run_whether_its_engine_is_there(installed: bool, allowed: bool) -> None:
    technique = all_techniques()["optimum_onnxruntime"]
    (state,) = (state for state in engines.states(settings()) if state.id == technique.engine)
    machine = replace(
        planning_records.machine(),
        packages={"onnxruntime": "1.32.0"},
        engines=(replace(state, installed=installed, allowed=allowed),),
    )
    obstacle, warning = technique.why_not(machine, None), technique.warn(machine, None)
    unknown = replace(planning_records.checkpoint(), architecture="Gemma2ForCausalLM")
    assert ("Gemma2" in str(technique.why_not(machine, unknown))) is (installed or allowed)
    assert (obstacle is None) is (installed or allowed)
    assert (warning is None) is installed
    if obstacle is not None:
        assert "not allowed here" in obstacle.reason and "LEVERS_ALLOW_ENGINES=1" in obstacle.remedy
    if warning is not None:
        assert f"(about {state.size_bytes // 1_000_000} MB, once)." in warning
