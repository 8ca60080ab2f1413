"""torch.compile for the decoding step: how it is asked for, and what it did, read from its own counters.

Covers the config that generate() gets, the compiler's counters and where its code came from. The prompt is never
compiled (generate() reads it by the plain forward), so that a prompt of another length compiles nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import CompileConfig

from optimizers.schema import CompileCensus
from optimizers.techniques.shared_decoding import step_mode


def compile_config(mode: str, device: str) -> Any:
    """What generate() is to compile its decoding step with. `mode` is torch.compile's; on `device` cpu it compiles only
    when told that any device will do (transformers' GenerationMixin._valid_auto_compile_criteria)."""
    config = CompileConfig(mode=step_mode(mode, device))
    config._compile_all_devices = True
    return config


def compile_for(threads: int, packed: bool) -> None:
    """Have the compiler write code for so many threads. The number is written into the code, and until 2.13 PyTorch
    tells code of another number in its cache apart only where the number is said like this.

    `packed`: weights are constants of the code (Inductor's "freezing"), laid out as oneDNN's products want them; the
    model keeps its own, which the prompt's pass reads."""
    from torch._inductor import config

    config.cpp.threads = threads
    config.freezing = packed


@dataclass(frozen=True)
class Compiled:
    """The compiler's counters at some moment."""

    graphs: int
    graph_breaks: int
    recompiles: int
    cache_hits: int
    cache_misses: int

    @property
    def from_cache(self) -> bool | None:
        """Whether all compiled code was found in the cache of an earlier run; None when nothing was looked up."""
        if not self.cache_hits and not self.cache_misses:
            return None
        return self.cache_misses == 0


def counted() -> Compiled:
    """What has been compiled in this process so far (torch._dynamo's counters and its record of each compilation)."""
    from torch._dynamo.utils import counters, get_compilation_metrics

    inner = counters["aot_autograd"]
    outer = counters["inductor"]
    again = [metric for metric in get_compilation_metrics() if metric.recompile_reason]
    return Compiled(
        graphs=counters["stats"]["unique_graphs"],
        graph_breaks=sum(counters["graph_break"].values()),
        recompiles=len(again),
        cache_hits=inner["autograd_cache_hit"] + outer["fxgraph_cache_hit"],
        cache_misses=outer["fxgraph_cache_miss"] + outer["fxgraph_cache_bypass"],
    )


def census(ready: Compiled | None) -> CompileCensus | None:
    """The compiled part of the census; None when nothing was compiled. `ready` is the count after preparing."""
    now = counted()
    if not now.graphs:
        return None
    first = ready or now
    return CompileCensus(
        graphs=now.graphs,
        graph_breaks=now.graph_breaks,
        recompiles=now.recompiles - (ready.recompiles if ready else 0),
        late_graphs=now.graphs - first.graphs,
        from_cache=first.from_cache,
    )


def let_workers_go() -> None:
    """End the processes that compiled: they hold memory and are not needed again."""
    from torch._inductor.async_compile import shutdown_compile_workers

    shutdown_compile_workers()
