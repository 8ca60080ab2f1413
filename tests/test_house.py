"""The house rules, read from the syntax trees: who may import whom, how long a module and a function may be, no torch
outside the worker. Does not judge anything a person must judge."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULE_LINES = 400
FUNCTION_LINES = 60

# A room may import from rooms of a lower rank, and from its own.
RANKS = {
    "errors": 0,
    "schema": 0,
    "scores": 0,
    "profiles": 0,
    "limits": 0,
    "busy": 0,
    "votes": 0,
    "facts": 0,
    "results": 0,
    "quality": 0,
    "protocol": 0,
    "settings": 0,
    "jsonform": 0,
    "keeping": 0,
    "leash": 0,
    "engines": 0,
    "techniques": 1,
    "tasks": 1,
    "checkpoints": 1,
    "machine": 1,
    "planning": 2,
    "worker": 3,
    "runners": 4,
    "manager": 5,
    "store": 5,
    "charts": 6,
    "report": 6,
    "takeaway": 6,
    "api": 7,
    "ui": 8,
    "cli": 8,
    "__main__": 9,
}
SAME_RANK_ALLOWED = {0, 5, 9}
ANALYSIS_MAY_IMPORT = {
    "analysis",
    "schema",
    "scores",
    "profiles",
    "limits",
    "busy",
    "votes",
    "facts",
    "quality",
    "results",
    "protocol",
}
HEAVY = {"torch", "transformers", "torchao", "bitsandbytes", "onnxruntime", "accelerate", "optimum"}


def sources(*folders: str) -> list[Path]:
    found = [ROOT / "app.py"]
    for folder in folders:
        found += sorted((ROOT / folder).rglob("*.py"))
    return found


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "optimizers").parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "optimizers":
                for name in node.names:
                    yield node.lineno, f"optimizers.{name.name}"
            else:
                yield node.lineno, node.module


def module_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run at import: those of the module, and inside its ifs, tries and classes."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def allowed(room: str, other: str) -> bool:
    if room == "analysis":
        return other in ANALYSIS_MAY_IMPORT
    if other == "analysis":
        return RANKS[room] >= RANKS["manager"]
    if room == other or room == "__init__":
        return True
    if RANKS[other] == RANKS[room]:
        return RANKS[room] in SAME_RANK_ALLOWED
    return RANKS[other] < RANKS[room]


@pytest.mark.parametrize("path", sources("optimizers")[1:], ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downward(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    wrong = []
    for line, module in imports(ast.parse(path.read_text())):
        parts = module.split(".")
        if parts[0] == "optimizers" and len(parts) > 1 and not allowed(room, parts[1]):
            wrong.append(f"line {line}: {room} imports {parts[1]}")
    assert not wrong


@pytest.mark.parametrize("path", sources("optimizers", "tests"), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", sources("optimizers"), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_are_imported_inside_functions(path: Path) -> None:
    if "worker" in path.parts:
        return
    tree = ast.parse(path.read_text())
    at_import = ast.Module(body=list(module_level(tree)), type_ignores=[])
    top = [node for node in at_import.body if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {module.split(".")[0] for node in top for _, module in imports(node)}
    assert not named & HEAVY


@pytest.mark.parametrize("path", sources("optimizers"), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_covers_and_leaves_nothing_open(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert not [word for word in ("TO" + "DO", "FIX" + "ME", "HA" + "CK") if word in text]


@pytest.mark.parametrize("path", sources("optimizers")[1:], ids=lambda path: str(path.relative_to(ROOT)))
def test_library_code_never_prints_or_exits(path: Path) -> None:
    if room_of(path) in {"cli", "__main__"} or path.name == "__main__.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in {"print", "sys.exit", "exit", "quit"}, f"line {node.lineno}"


def test_the_page_and_the_public_names_import_no_torch() -> None:
    code = "import app, optimizers, optimizers.api, optimizers.techniques as t, sys; t.all_techniques(); "
    code += "heavy = {'torch', 'transformers', 'torchao', 'bitsandbytes'} & set(sys.modules); "
    code += "sys.exit(' '.join(heavy) or None)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_changes_no_environment() -> None:
    code = "import os; before = dict(os.environ); import optimizers, optimizers.api; assert dict(os.environ) == before"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
