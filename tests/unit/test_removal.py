"""Taking a technique's file away takes it away everywhere and breaks nothing else: listing, planning, the ladder, the
command line, the page, and a kept run that was measured with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

# Each file in turn is put aside and the whole program is imported anew without it. The two that make up the plain
# baseline stay: a comparison needs one.
EACH = """
import importlib, json, sys
from pathlib import Path
import gradio  # once: what is imported anew is this program alone

folder = Path("optimizers/techniques").resolve()
KEPT = {"fp32", "sdpa"}
names = sorted(path.stem for path in folder.glob("*.py") if "\\nTECHNIQUE = " in path.read_text("utf-8"))
assert len(names) > 20
gone = []
for name in names:
    for module in [name for name in sys.modules if name.split(".")[0] == "optimizers"]:
        del sys.modules[module]
    here = folder / f"{name}.py"
    if name not in KEPT:
        here.rename(here.with_suffix(".aside"))
    importlib.invalidate_caches()
    from optimizers import api
    from optimizers.cli import arguments
    from optimizers.ui import wiring

    listed = {row.id for row in api.techniques(sys.argv[1]).techniques}
    assert listed == set(names) - ({name} - KEPT), name
    for ways in ("alone", "ladder"):
        plan = api.plan(api.choose(sys.argv[1], sorted(listed), ways=ways))
        assert not any(name in v.techniques for v in (*plan.variants, *plan.skipped)) or name in KEPT, name
        assert len(plan.variants) > 5, name
        assert api.plan(api.choose(sys.argv[1], ways=ways)).variants[0].key == "fp32+sdpa"
    arguments.parser().parse_args(["compare", "-t", "eager"])
    said = json.dumps(wiring.build().get_config_file(), default=str)
    assert (f"lv-technique-{name}\\"" in said) == (name in KEPT), name
    if name not in KEPT:
        here.with_suffix(".aside").rename(here)
    gone.append(name)
print(len(gone), "taken away")
"""


def test_a_file_taken_away_is_gone_everywhere_and_nothing_else_breaks(tmp_path: Path, tiny_llama: Path) -> None:
    copy = tmp_path / "program"
    shutil.copytree(ROOT / "optimizers", copy / "optimizers", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "assets", copy / "assets")
    done = subprocess.run(
        [sys.executable, "-B", "-c", EACH, str(tiny_llama)],
        cwd=copy,
        env={"PATH": "/usr/bin:/bin", "LEVERS_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "taken away" in done.stdout
