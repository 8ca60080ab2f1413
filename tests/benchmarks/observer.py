"""What watching costs: the same comparison from the command line, and from the page with tabs open on it, in turn.

    python tests/benchmarks/observer.py [--pairs 4] [--tabs 2]

Each pair is a comparison of bf16 with the defaults by the command line, and one by Compare on the page, which a
headless Chromium watches in so many tabs on the same machine; who goes first alternates. Prints the ratio page /
command line of each variant's median decode speed and time to first token, pair by pair and as the median, and the
processor time that browser and page took while turns were timed. Run it with nothing else on the machine; it needs a
Chromium on the path.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ui"))

from serving import ROOT, free_port, serving

from optimizers import api

MODEL, TECHNIQUE = "smollm2-135m", "bf16"
METRICS = ("decode_tokens_per_s", "ttft_s")
WHOLE_RUN_MS = 900_000
ROUNDS = "document.querySelector('.lv-stage')?.textContent.startsWith('Round')"

Figures = dict[tuple[str, str], float]


def figures(run: dict) -> Figures:
    """The median of each metric by (variant, metric)."""
    return {(item["key"], name): item["latency"][name]["median"] for item in run["variants"] for name in METRICS}


def by_command_line() -> Figures:
    asked = [sys.executable, "-m", "optimizers", "compare", MODEL, "-t", TECHNIQUE, "--json"]
    return figures(json.loads(subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout))


def on_the_page(browser: Browser, address: str, server: psutil.Process, tabs: int) -> tuple[Figures, float, float]:
    """The figures, and the share of a core that browser and page took during the rounds."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#lv-compare:not([disabled])", timeout=WHOLE_RUN_MS)
    for name in api.usual():
        page.uncheck(f"#lv-technique-{name} input")
    page.check(f"#lv-technique-{TECHNIQUE} input")
    page.wait_for_selector("#lv-estimate :text('2 variants')")
    page.click("#lv-compare:not([disabled])")
    page.wait_for_function(
        "document.querySelector('.lv-stage')?.textContent.startsWith('Round 1')", timeout=WHOLE_RUN_MS
    )
    for _ in range(tabs - 1):
        context.new_page().goto(page.url)
    began, spent = time.perf_counter(), watching_s(server)
    page.wait_for_function(
        "!document.querySelector('.lv-stage')?.textContent.startsWith('Round')", timeout=WHOLE_RUN_MS
    )
    took = time.perf_counter() - began
    shares = [(after - before) / took for after, before in zip(watching_s(server), spent, strict=True)]
    page.wait_for_selector(".lv-state-done", timeout=WHOLE_RUN_MS)
    run_id = page.url.partition("run=")[2]
    context.close()
    return figures(json.loads((api.folder(run_id) / "run.json").read_text())), shares[0], shares[1]


def watching_s(server: psutil.Process) -> tuple[float, float]:
    """Processor seconds so far of the browser's processes and of the page's server, its workers left out."""
    browser = sum(_spent(process) for process in psutil.process_iter() if "chrom" in process.name())
    return browser, _spent(server)


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
        return times.user + times.system
    except psutil.Error:
        return 0.0


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--pairs", type=int, default=4)
    words.add_argument("--tabs", type=int, default=2)
    options = words.parse_args()
    pairs: list[tuple[Figures, Figures]] = []
    path = shutil.which("chromium") or shutil.which("google-chrome")
    port = free_port()
    with (
        serving(["app.py"], port, Path(tempfile.mkdtemp()), own_cache=False) as served,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for number in range(options.pairs):
            line = by_command_line() if number % 2 else None
            page, browsing, asked = on_the_page(browser, served.address, psutil.Process(served.pid), options.tabs)
            line = line or by_command_line()
            pairs.append((page, line))
            found = "  ".join(f"{key} {name} {page[key, name] / line[key, name]:.3f}" for key, name in line)
            print(f"{found}  (cores: browser {browsing:.3f}, page {asked:.3f})", flush=True)
        browser.close()
    for key, name in pairs[0][0]:
        ratio = statistics.median(page[key, name] / line[key, name] for page, line in pairs)
        print(f"{key:12} {name:20} page / command line {ratio:.3f} (median of {len(pairs)} pairs)")


if __name__ == "__main__":
    main()
