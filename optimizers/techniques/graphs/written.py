"""The code by which a graph is had without this program: lines of Python, for recipes. Pure.

Covers onnxruntime-genai's own loop, for architectures that its builder knows, and Optimum's route. Levers' own way to
drive a graph is too long for a recipe: where a script is not the path that was measured, its notes say so.
"""

from __future__ import annotations

from collections.abc import Callable

from optimizers.techniques.base import GenerationOptions, LoadContext, Recipe
from optimizers.techniques.graphs import building, quantizing, recipes

OPTIMUM = "optimum_onnx"

_BUILD = """\
# Once: onnxruntime-genai's model builder writes the graph, with fused operators.
GRAPH = "onnx-{precision}"
if not Path(GRAPH, "genai_config.json").exists():
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", MODEL, "-o", GRAPH, "-p", "{precision}"]
    builder += ["-e", "cpu", "-c", "onnx-scratch", "--extra_options", {options}]
    subprocess.run(builder, check=True, stdout=sys.stderr)
settings = json.loads(Path(GRAPH, "genai_config.json").read_text())
settings["model"]["decoder"]["session_options"]["intra_op_num_threads"] = THREADS
Path(GRAPH, "genai_config.json").write_text(json.dumps(settings, indent=1))
torch.set_num_threads(1)  # PyTorch holds the prompt's ids and computes nothing
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = og.Model(GRAPH)
"""
_BUILD_IMPORTS = (
    *("import json", "import subprocess", "import sys", "import onnxruntime_genai as og", "import torch"),
    *("from pathlib import Path", "from transformers import AutoTokenizer"),
)
_LOOP = """\
ends = settings["model"]["eos_token_id"]
stops = {{*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id}}
params = og.GeneratorParams(model)
params.set_search_options(
    max_length=ids.shape[1] + NEW_TOKENS,
    repetition_penalty=1.0,
    no_repeat_ngram_size=0,
    {choosing},
)
generator = og.Generator(model, params)
generator.append_tokens(ids[0].numpy().astype("int32"))
new = []
while not generator.is_done() and len(new) < NEW_TOKENS:
    generator.generate_next_token()
    new.append(int(generator.get_next_tokens()[0]))
"""
_OTHER_LOOP = (
    "Measured was this graph driven by transformers' generate(), with an output head that computes the last position "
    "only. This script drives it by onnxruntime-genai's own loop, the short public way: the same weights, not the same "
    "speed."
)
_OTHER_CHANCE = "That loop draws random numbers of its own, so a sampled answer is another than the measured one."

_EXPORT = """\
# The older transformers that Optimum needs looks for rotary embeddings elsewhere than transformers 5 writes them.
SOURCE = Path("optimum-checkpoint")
SOURCE.mkdir(exist_ok=True)
for path in Path(MODEL).iterdir():
    if path.is_file() and not Path(SOURCE, path.name).exists():
        Path(SOURCE, path.name).symlink_to(path.resolve())
config = json.loads(Path(MODEL, "config.json").read_text())
rope = config.pop("rope_parameters", None) or {}
config |= {name: rope.pop(name) for name in ("rope_theta", "partial_rotary_factor") if name in rope}
if rope.get("rope_type", "default") != "default":
    config["rope_scaling"] = rope
Path(SOURCE, "config.json").unlink()
Path(SOURCE, "config.json").write_text(json.dumps(config))

# Once: Optimum traces the model into an ONNX graph.
GRAPH = "onnx-optimum"
if not Path(GRAPH, "config.json").exists():
    where = {"do_validation": False, "local_files_only": True}
    main_export(str(SOURCE), GRAPH, task="text-generation-with-past", dtype="fp32", **where)
"""
_QUANTIZE = """\
quantized = Path(GRAPH, "model_{precision}.onnx")
if not quantized.exists():
    how = DefaultWeightOnlyQuantConfig(block_size={block}, is_symmetric=True, accuracy_level={level}, bits={bits})
    quantizer = MatMulNBitsQuantizer(onnx.load(Path(GRAPH, "model.onnx")), algo_config=how)
    quantizer.process()
    onnx.save(quantizer.model.model, quantized, save_as_external_data=True, location=f"{{quantized.name}}.data")
"""
_OPEN = """\
torch.set_num_threads(1)  # PyTorch does nothing but pick tokens here
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = THREADS
options.inter_op_num_threads = 1
model = ORTModelForCausalLM.from_pretrained(
    GRAPH, file_name="{file}", provider="CPUExecutionProvider", session_options=options
)
tokenizer = PreTrainedTokenizerFast.from_pretrained(MODEL, extra_special_tokens={{}})
"""
_EXPORT_IMPORTS = (
    *("import json", "import onnxruntime", "import torch", "from pathlib import Path"),
    *("from optimum.exporters.onnx import main_export", "from optimum.onnxruntime import ORTModelForCausalLM"),
    "from transformers import PreTrainedTokenizerFast",
)
_QUANTIZE_IMPORTS = (
    "import onnx",
    "from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig",
    "from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer",
)
_OTHER_GRAPH = (
    "Measured was a graph traced by transformers' exporter and driven by transformers' generate(). This script takes "
    "Optimum's route, the short public way for this kind of model, so it is not the path that was measured."
)
_OTHER_LAYERS = (
    "The quantizer converts products with a constant matrix. Levers first brings the other layers into that form, so "
    "the measured graph may hold more low-bit layers than this one."
)


def writer(recipe: recipes.Recipe) -> Callable[[LoadContext, GenerationOptions], Recipe]:
    """The `recipe` of the technique whose graph is written like this."""

    def write(context: LoadContext, generation: GenerationOptions) -> Recipe:
        if recipe.for_checkpoint(context.checkpoint).road == "builder":
            return _built(recipe, generation)
        return optimum(recipe.precision, measured=False)

    return write


def optimum(precision: str = "fp32", *, measured: bool = True) -> Recipe:
    """Optimum's route. `measured`: it is the path that the figures are of."""
    bits = quantizing.BITS.get(precision)
    how = {"block": quantizing.BLOCK, "level": quantizing.INTEGER_ARITHMETIC, "bits": bits}
    export = _EXPORT + (_QUANTIZE.format(precision=precision, **how) if bits else "")
    opened = _OPEN.format(file=f"model_{precision}.onnx" if bits else "model.onnx")
    notes: tuple[str, ...] = () if measured else (_OTHER_GRAPH, _OTHER_LAYERS) if bits else (_OTHER_GRAPH,)
    return Recipe(
        imports=(*_EXPORT_IMPORTS, *(_QUANTIZE_IMPORTS if bits else ())),
        load=(*export.splitlines(), "", *opened.splitlines()),
        packages=("onnx", "onnxruntime", *(("onnx-ir",) if bits else ())),
        engine=OPTIMUM,
        notes=notes,
    )


def _built(recipe: recipes.Recipe, generation: GenerationOptions) -> Recipe:
    options = ", ".join(f'"{option}"' for option in (*building.ALWAYS, *recipe.options))
    choosing = "do_sample=False"
    chance: tuple[str, ...] = ()
    if generation.sampling is not None:
        said = generation.sampling
        choosing = f"do_sample=True, temperature={said.temperature}, top_p={said.top_p}, top_k=0, random_seed=SEED"
        chance = (_OTHER_CHANCE,)
    return Recipe(
        imports=_BUILD_IMPORTS,
        load=tuple(_BUILD.format(precision=recipe.precision, options=options).splitlines()),
        answer=tuple(_LOOP.format(choosing=choosing).splitlines()),
        packages=("onnxruntime", "onnxruntime-genai", "onnx", "onnx-ir"),
        notes=(_OTHER_LOOP, *chance),
    )
