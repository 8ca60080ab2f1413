"""Every architecture that a graph is offered for gives PyTorch's figures, alone and in a padded batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from optimizers.techniques.graphs.recipes import ARCHITECTURES


def test_graphs_of_every_known_architecture_agree_with_pytorch(tmp_path: Path) -> None:
    script = Path(__file__).with_name("onnx_architectures.py")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == ARCHITECTURES
    wrong = {name: figures for name, figures in found.items() if max(map(abs, figures.values())) > 1e-6}
    assert not wrong
