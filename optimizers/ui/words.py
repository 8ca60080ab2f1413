"""Every word of the page that is not a technique's, a model's or a result's own. Covers English."""

from __future__ import annotations

from optimizers.analysis.quality_words import QualityWord
from optimizers.schema import PresetId, RunStatus, Slot, VariantStatus, Way
from optimizers.scores import KlTerms

NAME = "Levers"
LEAD = (
    "See what each inference optimization gives and what it costs: the same prompts, side by side, on this machine, "
    "measured against a baseline."
)
SAMPLE = "A comparison that was recorded"
SAMPLE_ABOUT = (
    "“{prompt}” asked of {model} on {cores} cores of {cpu}, {date}. Yours will differ: that is what this is for."
)
PAGE_TITLE = "Levers: inference optimizations, measured"

STEP_MODEL = "Model"
STEP_TECHNIQUES = "Techniques"
STEP_PROMPTS = "Prompts"
STEP_MODEL_HINT = "Whose answers, speed and memory are compared."
STEP_TECHNIQUES_HINT = "Each one ticked becomes a variant, compared with the baseline."
STEP_PROMPTS_HINT = "Every variant answers all of them."

MODEL_LABEL = "Model"
MODEL_INFO = "Pick one, or type a Hugging Face id (owner/name) or a folder on this machine, then press Enter."
MODEL_INFO_HOSTED = "Pick one, or type a Hugging Face id (owner/name), then press Enter."
FETCH = "Fetch this model"
FETCH_NEEDED = "{model} is not on this machine yet."
FETCH_REMEDY = "Fetching it may take a while and some gigabytes; nothing is fetched until you press the button."
READING = "Reading the model's facts"
NO_MODEL = "No model is picked."
NO_MODEL_REMEDY = "Pick one from the list or type its name."
FACTS = ("Parameters", "On disk", "Stored as", "Context", "Chat template", "Architecture")
CHAT_TEMPLATE = {True: "yes", False: "no, prompts go in as they are"}
IN_CACHE = "on this machine"
TO_FETCH = "fetched on first use"

SLOTS: dict[Slot, tuple[str, str]] = {
    "precision": ("Precision", "How many bits each number has while the model computes."),
    "attention": ("Attention", "Which program does the step where tokens look at each other."),
    "weights": ("Weights", "How the model's numbers are stored: fewer bits, less memory."),
    "compile": ("Compilation", "Whether the model is turned into faster machine code first."),
    "cache": ("Cache", "How earlier tokens are remembered."),
    "decoding": ("Decoding", "How the next token is chosen."),
    "runtime": ("Runtime", "Which engine runs the model."),
    "checkpoint": ("Checkpoint", "Another model in place of this one, such as a smaller one."),
}
PROMISE = "Promised"
WARNING = "On this machine"
UNAVAILABLE = "Not available here"
HOW = "How it works"
SOURCE = "Source: {source}"
PRESETS_LABEL = "Start from"
PRESETS: dict[PresetId, str] = {
    "cheap": "Cheap wins",
    "small": "Smallest memory",
    "fast": "Fastest on this machine",
    "ladder": "The full ladder",
}
WAYS_LABEL = "How they are put together"
WAYS_INFO = "Alone: what each gives by itself. The ladder: what each adds to those below it, in the order guides teach."
WAYS: tuple[tuple[str, Way], ...] = (
    ("Each technique alone", "alone"),
    ("The ladder: each step on top of the last", "ladder"),
)
ANOTHER_LABEL = "Another checkpoint"
ANOTHER_INFO = (
    "Optional. It answers the same prompts; pick one, or type a Hugging Face id or a folder, then press Enter."
)
ANOTHER_INFO_HOSTED = "Optional. It answers the same prompts; pick one, or type a Hugging Face id, then press Enter."
ANOTHER_NONE = "No other checkpoint"
ANOTHER_PLUS = "The name of another checkpoint cannot hold a plus sign."
ANOTHER_PLUS_REMEDY = "Rename its folder."
ANOTHER_FETCH = "Put it into the field Another checkpoint to fetch it, or leave it out."
STACKS_LABEL = "Your own combinations"
STACKS_INFO = (
    "Join techniques with plus signs, one combination a line. They are compared as written; threads=1 may be one of "
    "their parts."
)
STACKS_PLACEHOLDER = "bf16+torchao_int8_weight_only+compile+static_cache"
STACKS_WRONG = "One of your own combinations cannot be read."
STACKS_WRONG_REMEDY = "Beside its field it says why."
PLANNED = "What will be compared"
PLANNED_WAITS = "The list comes once the model is read."
PLANNED_NOTHING = "Nothing yet; the line beside Compare says why."
PLANNED_WRONG = "Nothing until the combination above can be read."

PROMPTS_LABEL = "Prompts"
PROMPTS_INFO = "An empty line separates two prompts."
TOKENS_LABEL = "New tokens per answer"
TOKENS_INFO = "Every timed answer has exactly this many."
ROUNDS_LABEL = "Rounds"
ROUNDS_INFO = "Under 5, no verdict can be given."
SECONDS_LABEL = "Time budget in seconds"
SECONDS_INFO = "In place of rounds: they go on until every verdict on decoding speed is settled, at most so long."
SECONDS_PLACEHOLDER = "no limit"
BASELINE_LABEL = "Baseline"
BASELINE_INFO = "What the others are compared with. Pick one, or type a combination."
BASELINE_AUTO = "Usual baseline: fp32+sdpa"

TEXT = "What quality is measured on"
TEXT_LABEL = "A text of your own"
TEXT_INFO = (
    "Optional. Quality is measured on the answers and on a packaged text. What you put in here takes that text's "
    "place, in windows as long as the model's context allows."
)
TERMS_LABEL = "KL divergence by llama.cpp's rule"
TERMS_INFO = "Leaves out what that tool leaves out: tokens with a log-probability of -16 or less under the baseline."
TEXT_WRONG = "Your own text cannot be used."
TEXT_WRONG_REMEDY = "Beside its field it says why."

THREADS = "Threads and a busy core"
THREADS_LABEL = "Threads"
THREADS_INFO = (
    "Optional. Of several, such as 2, 1, the first is the baseline's, and every variant is measured again with each of "
    "the others: on a shared machine one thread can beat two."
)
THREADS_PLACEHOLDER = "all cores"
THREADS_WRONG = "The threads cannot be used."
THREADS_WRONG_REMEDY = "Beside their field it says why."
AS_HOSTED_LABEL = "Time the leaders again with one core busy"
AS_HOSTED_INFO = (
    "As on a shared machine: the baseline and the three fastest answer five more rounds while another program keeps a "
    "core busy. Those that need every core lose most, so the order may change."
)
BAD_THREADS = "Threads: enter whole numbers divided by commas, such as 2, 1, or leave it empty."

COMPARE = "Compare"
STOP = "Stop"
STOPPING = "Stopping"
NEW = "New comparison"
ESTIMATE_WAITS = "The estimate comes once the model is read."
ESTIMATE = "{variants}, {about} {time}, needs {need} of {have} free"
ABOUT = "about"
AT_MOST = "at most about"
ESTIMATE_BASELINE = "Baseline: {baseline}. {prompts}, {residents}."
RESIDENT = "all variants stay loaded and take turns"
IN_TURN = "one variant is loaded at a time"
SKIPPED_BEFORE = "{title} will be left out."
NOTHING_TICKED = "Tick at least one technique."
NOTHING_TICKED_REMEDY = "Each one ticked is compared with the baseline."
RUNNING_ELSEWHERE = "A comparison is going on."
WATCH_IT = "Watch it"

BAD_TYPE = "{field} cannot be read."
BAD_TYPE_REMEDY = "Enter it again."
BAD_WHOLE = "{field}: enter a whole number from 1 to {high}."
BAD_SECONDS = "Time budget in seconds: enter a number above 0, or leave it empty."
TOO_LONG = "{field} is too long."
TOO_LONG_REMEDY = "Shorten it to {high} characters."
BAD_RUN = "There is no comparison at this address."
BAD_RUN_REMEDY = "It may have been deleted, or the address was cut short. Start a new one below."
TOO_BUSY = "Too many models are being read at once."
TOO_BUSY_REMEDY = "Wait a moment, then pick it again."
UNEXPECTED = "Something went wrong that Levers did not foresee."
UNEXPECTED_REMEDY = "Reload the page; the details are in the program's log."

RUN_STATUS: dict[RunStatus, tuple[str, str]] = {
    "running": ("●", "Running"),
    "done": ("✓", "Done"),
    "cancelled": ("■", "Stopped"),
    "interrupted": ("!", "Interrupted"),
    "failed": ("✕", "Failed"),
}
TIME_LEFT = "about {time} left"
TIME_UNKNOWN = "time left not known yet"
OVER = {
    "done": "Every figure is in; the results are below.",
    "cancelled": "It was stopped; what was measured until then is below.",
    "interrupted": "The program ended in the middle; what was measured until then is below.",
    "failed": "It could not be finished; what was measured until then is below.",
}
STATUS: dict[VariantStatus, tuple[str, str]] = {
    "waiting": ("○", "Waiting"),
    "loading": ("◔", "Loading"),
    "ready": ("●", "Ready"),
    "measured": ("✓", "Measured"),
    "skipped": ("–", "Skipped"),
    "not_applied": ("≠", "Not applied"),
    "failed": ("✕", "Failed"),
    "cancelled": ("■", "Stopped"),
}
ACTIVE = ("▶", "Its turn")
TOKENS_PER_S = "tokens/s"
TURNS = "{done} of {planned} turns"
PROMPT_NUMBER = "Prompt {number}"
NO_TEXT = "Its answer appears here."
NO_TEXT_CAME = "It did not come to an answer."
LANES_HEADING = "Variants"

RESULTS = "Results"
SO_FAR = "Results so far"
RECOMMENDED = "What to use"
WISH_MEMORY = "Memory at most:"
WISH_ANY = "any"
WISH_QUALITY = "Quality at least:"
WISH_QUALITIES: dict[QualityWord, str] = {
    "broken": "any",
    "noticeable": "noticeable difference",
    "slight": "slight difference",
    "indistinguishable": "indistinguishable",
}
WISH_NOTHING = "Nothing measured here keeps to that."
WISH_MORE = "Allow more memory or a greater difference, or compare other variants."
QUALITY_RULE = (
    "Memory is the peak while answering. Of the answers, against the baseline's: {rules}; beyond that broken."
)
QUALITY_RULE_ROW = "{word} is a mean KL up to {most} nats and the same top token at {least} or more"
STEP_COLUMN = "This step"
COLUMNS: tuple[tuple[str, str], ...] = (
    ("Variant", ""),
    ("Verdict", "Speed of writing against the baseline"),
    ("Speed", "Times the tokens per second of the baseline's two processes, with the 95 % interval"),
    (STEP_COLUMN, "Times the tokens per second of the step below it, with the 95 % interval and its word"),
    ("Tokens/s", "New tokens per second, median"),
    ("First token", "Time to the first token, median"),
    ("Weights", "Memory that the weights take"),
    ("Peak memory", "Highest memory of the process while it answered"),
    (
        "KL",
        "Mean KL divergence from the baseline on its answers{rule}; 0 is identical; within noise: no more than the "
        "baseline differs from itself when it computes the same in another shape",
    ),
    ("Same top", "How often both would choose the same next token"),
    ("Perplexity", "Times the baseline's perplexity on {text}; 1.00 is equal"),
)
KL_RULE: dict[KlTerms, str] = {"all": "", "llama_cpp": ", by llama.cpp's rule"}
KL_RULE_NOTE = "KL divergence is by llama.cpp's rule, not the whole sum."
PACKAGED_TEXT = "the packaged text"
TEXT_NOTE = "Perplexity is on {text}."
STEP_NOTE = "This step: against the step below it; all else against the baseline."
ANOTHER_MODEL = "another model"
OTHER_TOKENS = "other tokens"
PER_BYTE = "{times} per byte"
NOISE = "Taken for noise in this run: {floors}."
NOISE_DECODE = "speed ratios between {low} and {high}"
NOISE_TTFT = "first-token ratios between {low} and {high}"
NOISE_KL = "a mean KL of up to {nats}"
WITHIN_NOISE = "within noise"
FIGURES_MEANT = "What each figure means"
GLOSSARY = "What the words mean"
CAVEATS = "Read before you quote these figures"
SORT = "Sort by"
SORT_PLANNED = "the order of the plan"
SORTED = {1: "{name}, lowest first", -1: "{name}, highest first"}
CHARTS = {
    "speed": "Speed",
    "first_token": "Time to the first token",
    "memory": "Memory by phase",
    "quality": "Quality against speed",
    "as_hosted": "As hosted: with one core busy",
    "latency": "First token against each token",
    "along_answer": "Time per token along the answer",
    "where_time_goes": "Where the time goes",
}
CHART_NOTES = {
    "quality": "The dashed steps join the variants that no other beats in both speed and quality, by their measured "
    "values alone: what lies behind them is beaten, or within the noise of one that is not.",
    "latency": "What a reader waits for: down, the answer begins sooner; to the left, it is written faster.",
    "along_answer": "Each token's time in the answers that the race replays, the median of the prompts. A line that "
    "climbs pays for the length of what was written before, as without a key-value cache.",
    "where_time_goes": "Python overhead is the time in which the model computes nothing: above all sampling (from a "
    "pass's scores to the token) and Python (generate()'s own loop around the passes), hatched here; the faster the "
    "passes, the larger its share. From one request of each variant, clocked apart: no timed figure comes from it.",
    "as_hosted": "The baseline and the leaders, timed again while another program keeps a core busy, as neighbors do "
    "on a shared machine. What needs every core loses most.",
}
AS_TABLE = "The same figures as a table"
ANSWERS = "Answers side by side"
ANSWERS_HINT = "What is word for word the baseline's is quiet; the mark shows where an answer first leaves it."
PROMPT_PICK = "Prompt"
RACE = "Race them"
RACE_PAUSE = "Pause"
RACE_AGAIN = "Race again"
RACE_SPEED = "Speed of the race"
RACE_ONCE = "True speed"
RACE_TWICE = "Twice as fast"
RACE_HINT = (
    "All answers are written again together, each token when its clock said that it came. Each had the machine alone."
)
RACE_NOW = "The answers so far: “{prompt}”"
RACE_NOW_HINT = (
    "Every variant has answered this once. The race takes a little of the machine if it is drawn on it; a turn that it "
    "disturbs is repeated."
)
RACE_CLOCK = "{tokens}, first after {first}"
IDENTICAL = "Same as the baseline, word for word."
LEAVES = "Leaves the baseline after {characters}."
NO_ANSWER = "No answer to this prompt."
EMPTY_ANSWER = "The answer is empty."
DIVERGES = "first difference"
QUALITY = "Quality in figures"
QUALITY_HINT = "on the baseline's answers and on {text}, with how sure each is"
QUALITY_COLUMNS = (
    "Variant",
    "KL on the answers",
    "KL on the text",
    "Same top on the text",
    "Perplexity",
    "Perplexity ratio",
    "Change of probability",
)
QUALITY_FINE = (
    "Text: {text}. KL: mean KL divergence in nats{rule}, with the 95 % interval of a bootstrap over prompts or over "
    "windows of the text. Perplexity: the variant's against the baseline's. Change of probability: of the text's own "
    "tokens, the mean and its standard error, then the root mean square."
)
QUALITY_FLOOR = (
    "Within noise: a KL on the answers of up to {nats} nats, which is how far the baseline's own probabilities move "
    "when the first positions of the text are computed token by token instead of in one pass. It is the noise of the "
    "numerics, measured on the text; the answers are computed token by token on both sides."
)
BETWEEN = "{low} to {high}"
AGAINST = "{ours} against {theirs}"
GIVE_OR_TAKE = "{value} ± {se}"
ROOT_MEAN_SQUARE = "root mean square {value}"
PROMISES = "Promise against measurement"
PROMISES_HINT = "{kept} kept, {broken} not kept, {open} not judged"
PROMISE_COLUMNS = ("Variant", "Its documentation claims", "Promised", "Measured here", "Kept")
KEPT: dict[bool | None, tuple[str, str]] = {True: ("✓", "kept"), False: ("✕", "not kept"), None: ("–", "not judged")}
CENSUS = "What really happened"
CENSUS_HINT = "read from the loaded models"
CENSUS_COLUMNS = ("Variant", "Weights in memory", "Converted", "Attention that ran")
NONE_CONVERTED = "no layer"
COMPUTES_WITH = "Computes with {threads}"
LEFT_AS_IT_WAS = "{amount} left out ({name}): {why}"
STORED_QUANTIZED = "The checkpoint itself is quantized: {method}"
KINDS = "In the model: {kinds}"
RUNS_ON = "Runs on: {providers}"
LIMITS = "How close to the limit"
LIMITS_HINT = "what this machine can do at most, and how much of it each variant reaches"
LIMIT_COLUMNS = ("Variant", "A token's pass", "The prompt's pass")
LIMIT_SOURCES = {"memory": "memory", "cache": "the last-level cache"}
LIMIT_SHARE = "{share} of the limit"
LIMIT_DECODE = "{bytes} at {bandwidth} from {source}: at least {least}, took {measured}"
LIMIT_PROMPT = "{operations} at {rate} in {computes_in}: at least {least}, took {measured}"
OPERATIONS = "{billions:.3g} billion operations"
OPERATIONS_PER_S = "{billions:,.0f} billion a second"
LIMIT_MACHINE = "Measured with {threads}: {memory} from memory, {cache} from the last-level cache{size}, {products}."
LIMIT_CACHE = " ({size})"
LIMIT_PRODUCTS = "{rate} operations in {format}"
LIMIT_DISTURBED = "Other work was in the way when it was measured: the machine may do more."
LIMIT_FORMULA = (
    "Share of the limit: the least time over the measured time. A token's pass must read the weights as stored (of an "
    "embedding in which a row is only looked up, that row) and the keys and values of the tokens before it; least "
    "time: these bytes divided by the bandwidth, the cache's where they fit it, else the memory's. The prompt's pass "
    "needs 2 × (weights in products × prompt tokens + weights of the output head) operations; least time: these "
    "divided by the operations a second in a product of two matrices."
)
AS_HOSTED = CHARTS["as_hosted"]
AS_HOSTED_HINT = "the baseline and the leaders, timed again while another program keeps a processor core busy"
AS_HOSTED_COLUMNS = ("Variant", "Verdict", "Speed", "Tokens/s", "First token", "Slower than without")
AS_HOSTED_FINE = (
    "Speed: times the baseline's tokens per second, both with one core busy, with the 95 % interval. Slower than "
    "without: its median tokens per second of the ordinary rounds over those here. No other figure holds any of these."
)
COST = "What the speed costs"
COST_HINT = "spent once at the start, and how many tokens later it is paid back"
COST_COLUMNS = ("Variant", "Loading", "Preparing", "First answer", "More than the baseline", "Pays for itself")
COST_FORMULA = (
    "Tokens until it pays for itself: the seconds it spends once (loading, preparing, first answer) over the "
    "baseline's, divided by the seconds it saves on each token. A token's seconds are those of an answer of {tokens} "
    "shared by its tokens, the wait for the first one included. Never: not faster than the baseline, or within noise."
)
PAYS_AFTER = "after {tokens}"
PAYS_AFTER_ANSWERS = "{answers} of {tokens}"
ENERGY = "Energy"
ENERGY_HINT = "what the graphics card used for each new token"
ENERGY_COLUMNS = ("Variant", "Joules per new token")
ENERGY_FINE = (
    "The driver's counter at the end of a timed request less that at its start, over its new tokens: the median of all "
    "requests with its 95 % interval. It is the whole card's, idle power and other programs included, and moves every "
    "few tens of milliseconds."
)
DOWNLOAD = "Download run.json"
ONLY_BASELINE = "Nothing would be compared with the baseline."
ONLY_BASELINE_REMEDY = "Tick a technique that the baseline, {baseline}, does not hold already."
CONNECTION_LOST = (
    "The connection to Levers is lost. What runs goes on; this page follows it again as soon as Levers answers."
)
BASELINE_TAG = "baseline"
