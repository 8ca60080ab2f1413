"""The page in a real browser over a scripted api: its states, its messages, and text from outside shown as text."""

from __future__ import annotations

import json
import re

import pytest
from browsing import READY, WHOLE_RUN_MS, compare
from playwright.sync_api import BrowserContext, Page, expect
from scripted_records import HOSTILE

SHIFT = """() => { window.__shift = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries())
  if (!entry.hadRecentInput) window.__shift += entry.value; }).observe({type: 'layout-shift', buffered: true}); }"""


def test_nothing_is_asked_of_another_machine(context: BrowserContext, scripted_page: str) -> None:
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    own = (scripted_page, "data:", "blob:")
    assert asked
    assert [url for url in asked if not url.startswith(own)] == []


def test_hostile_text_is_shown_as_text(context: BrowserContext, hostile_page: str) -> None:
    dialogs: list[str] = []
    context.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page = context.new_page()
    page.goto(hostile_page)
    page.wait_for_selector(READY)
    page.click("#lv-model input")
    expect(page.get_by_role("option").last).to_contain_text("<img src=x onerror=")
    page.keyboard.press("Escape")
    page.fill("#lv-prompts textarea", HOSTILE)
    page.fill("#lv-stacks textarea", "<img src=x onerror=window.__pwned=1>${window.__pwned=2}")
    expect(page.locator("#lv-stacks-note")).to_contain_text("<img src=x onerror=window.__pwned=1>${window.__pwned=2}")
    page.fill("#lv-stacks textarea", "")
    page.wait_for_selector(READY)
    page.click("#lv-compare")
    expect(page.locator(".lv-lane .lv-text").first).to_contain_text("</script><script>", timeout=WHOLE_RUN_MS)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    for part in ("#lv-run-lanes", "#lv-run-table", "#lv-run-caveats", "#lv-answers"):
        shown = page.locator(part).inner_text()
        for piece in ("<img src=x onerror=", "${window.__pwned='template'}", "{{constructor}}", "</script><script>"):
            assert piece in shown, f"{piece} is not shown as text in {part}"
    page.reload()
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    page.locator("#lv-answers").hover()
    assert page.evaluate("window.__pwned") is None
    assert dialogs == []
    assert page.locator("#lv-run img[src='x'], #lv-run svg[onload], #lv-run [onmouseover]").count() == 0


@pytest.mark.parametrize("run", ["nothing-here", "../../etc/passwd<img src=x>" + "a" * 500])
def test_an_address_without_a_run_says_so(page: Page, scripted_page: str, run: str) -> None:
    page.goto(f"{scripted_page}/?run={run}")
    expect(page.locator("#lv-notice .lv-error")).to_be_visible()
    expect(page.locator("#lv-compare")).to_be_visible()


def test_nothing_moves_while_the_page_comes_up(page: Page, scripted_page: str) -> None:
    page.add_init_script(f"({SHIFT})()")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(scripted_page)
        page.wait_for_selector(READY)
        expect(page.locator("#lv-model-facts")).to_contain_text("LlamaForCausalLM")
        assert page.evaluate("window.__shift") < 0.05


def test_a_wrong_model_is_told_beside_its_field(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    page.fill("#lv-model input", "/no/such/folder")
    page.keyboard.press("Enter")
    expect(page.locator("#lv-model-facts .lv-error")).to_contain_text("/no/such/folder")
    expect(page.locator("#lv-compare")).to_be_disabled()
    expect(page.locator(".toast-wrap .error")).to_have_count(0)


WRONG = (
    ("#lv-prompts textarea", "", "no prompt"),
    ("#lv-tokens input", "0", "New tokens per answer"),
    ("#lv-tokens input", "100000", "New tokens per answer"),
    ("#lv-rounds input", "1000", "Rounds"),
    ("#lv-seconds input", "soon", "Time budget"),
)


def test_a_wrong_entry_is_told_beside_compare(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    for field, value, said in WRONG:
        right = page.input_value(field)
        page.fill(field, value)
        expect(page.locator("#lv-estimate")).to_contain_text(said)
        expect(page.locator("#lv-compare")).to_be_disabled()
        page.fill(field, right)
        page.wait_for_selector(READY)


def test_a_wrong_combination_is_told_beside_its_field_and_nothing_is_lost(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    page.check("#lv-technique-eager input")
    page.fill("#lv-stacks textarea", "bf16+eager\nbf16+nonsense")
    expect(page.locator("#lv-stacks-note .lv-error")).to_contain_text("There is no technique nonsense")
    expect(page.locator("#lv-compare")).to_be_disabled()
    page.fill("#lv-stacks textarea", "bf16+eager\nfp16+eager")
    page.wait_for_selector(READY)
    expect(page.locator("#lv-stacks-note .lv-error")).to_have_count(0)
    planned = ["fp32+sdpa", "bf16+sdpa", "eager+sdpa", "torchao_int8_weight_only+sdpa", "bf16+eager+sdpa"]
    expect(page.locator("#lv-planned code")).to_have_text([*planned, "fp16+eager+sdpa"])


def test_the_ladder_in_one_press(page: Page, scripted_page: str) -> None:
    steps = ["fp32+sdpa", "bf16+sdpa", "bf16+compile+sdpa", "bf16+torchao_int8_weight_only+compile+sdpa"]
    planned = page.locator("#lv-planned code")
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    expect(planned).to_have_text(["fp32+sdpa", "bf16+sdpa", "torchao_int8_weight_only+sdpa"])
    page.check("#lv-ways input[value=ladder]")
    expect(planned).to_have_text(steps)
    expect(page.locator("#lv-technique-compile input")).to_be_checked()
    for name in ("bf16", "compile", "torchao_int8_weight_only"):
        page.uncheck(f"#lv-technique-{name} input")
    expect(planned).to_have_text(steps)  # with nothing ticked it is the usual ladder
    page.check("#lv-technique-eager input")
    expect(planned).to_have_text(["fp32+sdpa", "eager+sdpa"])
    page.check("#lv-ways input[value=alone]")
    expect(page.locator("#lv-technique-eager input")).to_be_checked()
    page.check("#lv-ways input[value=ladder]")
    page.wait_for_selector(READY)
    page.click("#lv-compare")
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    expect(page.locator("#lv-run-table thead")).to_contain_text("This step")
    added = page.locator("#lv-run-table td[data-label='This step']")
    expect(added).to_have_text(["–", re.compile(r"0\.93×.*slower"), re.compile(r"1\.44×.*1\.41 to 1\.47.*faster")])


def test_nothing_ticked_cannot_be_compared(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    for name in ("bf16", "torchao_int8_weight_only"):
        page.uncheck(f"#lv-technique-{name} input")
    expect(page.locator("#lv-estimate")).to_contain_text("Tick at least one technique")
    expect(page.locator("#lv-compare")).to_be_disabled()
    page.check("#lv-technique-fp32 input")
    expect(page.locator("#lv-estimate")).to_contain_text("Nothing would be compared with the baseline")
    expect(page.locator("#lv-compare")).to_be_disabled()


def test_a_model_from_the_hub_is_fetched_only_when_asked(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    page.fill("#lv-model input", "slow/model")
    page.keyboard.press("Enter")
    expect(page.locator("#lv-model-facts")).to_contain_text("slow/model is not on this machine yet")
    page.click("#lv-fetch")
    expect(page.locator("#lv-model-facts [role=status]")).to_contain_text("of 100 MB")
    expect(page.locator("#lv-model-facts .lv-facts")).to_be_visible()
    page.wait_for_selector(READY)


def test_another_checkpoint_stands_beside_the_model(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    expect(page.locator("#lv-another-ready")).to_be_hidden()
    planned, facts = page.locator("#lv-planned code"), page.locator("#lv-another-facts")
    usual = ["fp32+sdpa", "bf16+sdpa", "torchao_int8_weight_only+sdpa"]
    expect(planned).to_have_text(usual)
    page.fill("#lv-another input", "/no/such")
    page.keyboard.press("Enter")
    expect(facts.locator(".lv-error")).to_contain_text("There is no folder /no/such")
    expect(page.locator("#lv-before-notes")).to_contain_text("/no/such in place of smollm2-135m will be left out.")
    expect(planned).to_have_text(usual)
    page.wait_for_selector(READY)
    page.fill("#lv-another input", "a+b")
    page.keyboard.press("Enter")
    expect(facts.locator(".lv-error")).to_contain_text("cannot hold a plus sign")
    expect(page.locator("#lv-compare")).to_be_disabled()
    page.fill("#lv-another input", "slow/small")
    page.keyboard.press("Enter")
    expect(facts).to_contain_text("slow/small is not on this machine yet")
    expect(page.locator("#lv-compare")).to_be_disabled()
    page.click("#lv-another-fetch")
    expect(facts.locator("[role=status]")).to_contain_text("of 100 MB")
    expect(facts.locator(".lv-facts")).to_be_visible()
    expect(planned).to_have_text([*usual, "checkpoint=slow/small+sdpa"])
    page.wait_for_selector(READY)
    page.mouse.move(0, 0)  # Enter takes the entry of the list that the pointer happens to rest on
    page.fill("#lv-another input", "")
    page.keyboard.press("Enter")
    expect(planned).to_have_text(usual)
    expect(facts).to_be_empty()


def test_a_text_of_ones_own_is_put_in_refused_beside_its_field_and_named_in_the_results(
    page: Page, scripted_page: str
) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    field = page.locator("#lv-text textarea")
    expect(field).to_be_hidden()
    page.click("#lv-measured-on button >> nth=0")
    field.fill("Once")
    expect(page.locator("#lv-text-note .lv-error")).to_contain_text("makes 1 token of your text, and scoring takes 2")
    expect(page.locator("#lv-estimate")).to_contain_text("Beside its field it says why")
    expect(page.locator("#lv-compare")).to_be_disabled()
    field.fill("Once upon a time <img src=x onerror=window.__pwned=1>")
    page.wait_for_selector(READY)
    expect(page.locator("#lv-text-note")).to_be_empty()
    page.check("#lv-kl-terms input")
    page.click("#lv-threads-step button >> nth=0")
    page.check("#lv-as-hosted input")
    page.wait_for_selector(READY)
    page.click("#lv-compare")
    chart = page.locator("#lv-chart-as_hosted")
    chart.locator(".js-plotly-plot .legend").wait_for(timeout=WHOLE_RUN_MS)
    expect(chart.locator(".legendtext")).to_have_text(["nothing else running", "one core busy"])
    chart.locator("summary").click()
    expect(chart.locator("tbody tr").first).to_have_text(re.compile("fp32.sdpa.*30.7.*8.5.*3.60x"))
    fine = page.locator("#lv-run-table p.lv-fine")
    expect(fine).to_contain_text("Perplexity is on your text. KL divergence is by")
    expect(page.locator("#lv-details")).to_contain_text("on the baseline's answers and on your text")
    assert page.evaluate("window.__pwned") is None
    with page.expect_download() as saved:
        page.click("#lv-download")
    workload = json.loads(saved.value.path().read_text(encoding="utf-8"))["workload"]
    assert (workload["text"]["bytes"], workload["text"]["name"]) == (53, "")
    assert workload["kl_terms"] == "llama_cpp"
    assert workload["as_hosted"] is True


def test_threads_are_swept_and_what_cannot_be_is_refused_beside_its_field(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    page.click("#lv-threads-step button >> nth=0")
    field, wrong, planned = (
        page.locator("#lv-threads input"),
        page.locator("#lv-threads-note .lv-error"),
        "#lv-planned code",
    )
    for said, sentence in (("two", "enter whole numbers divided by commas"), ("2, 3", "3 threads were asked for")):
        field.fill(said)
        expect(wrong).to_contain_text(sentence)
        expect(page.locator("#lv-estimate")).to_contain_text("Beside their field it says why.")
        expect(page.locator("#lv-compare")).to_be_disabled()
    field.fill("2, 1")
    usual = ["fp32", "bf16", "torchao_int8_weight_only"]
    swept = [f"{name}+sdpa" for name in (*usual, "threads=1", *(f"{name}+threads=1" for name in usual[1:]))]
    expect(page.locator(planned)).to_have_text(swept)
    expect(page.locator("#lv-threads-note")).to_be_empty()
    field.fill("")
    page.fill("#lv-stacks textarea", "eager+threads=1")
    expect(page.locator(planned)).to_have_text([*swept[:3], "eager+threads=1+sdpa"])
    page.wait_for_selector(READY)


def test_what_cannot_be_used_here_says_why(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    expect(page.locator("#lv-technique-bnb_nf4 input")).to_be_disabled()
    expect(page.locator("#lv-technique-note-bnb_nf4")).to_contain_text("pip install bitsandbytes")


def test_stop_and_then_a_new_comparison(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    assert "run=" in page.url
    page.click("#lv-stop")
    expect(page.locator(".lv-state-cancelled")).to_be_visible()
    expect(page.locator("#lv-stop")).to_be_hidden()
    page.click("#lv-new")
    expect(page.locator("#lv-compare")).to_be_visible()
    page.wait_for_url(lambda url: "run=" not in url)


def test_losing_the_network_loses_nothing(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    page.context.set_offline(True)
    expect(page.locator("#lv-connection")).to_be_visible()
    page.wait_for_timeout(3_000)
    page.context.set_offline(False)
    expect(page.locator("#lv-connection")).to_be_hidden()
    page.wait_for_selector(".lv-state-done", timeout=WHOLE_RUN_MS)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)


def test_run_json_can_be_saved(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    with page.expect_download() as saved:
        page.click("#lv-download")
    kept = json.loads(saved.value.path().read_text(encoding="utf-8"))
    assert kept["schema"] == "levers.run/1"
    assert saved.value.suggested_filename == f"run-{kept['id']}.json"


def test_the_other_prompts_have_their_answers(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    page.click("#lv-prompt input")
    page.get_by_role("option").nth(2).click()
    expect(page.locator("#lv-answers mark.lv-split")).to_have_count(1)
    expect(page.locator("#lv-answers .lv-answer").nth(1)).to_contain_text("Same as the baseline, word for word.")


def test_where_the_time_goes_is_drawn_explained_and_told_in_a_table(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    chart = page.locator("#lv-chart-where_time_goes")
    chart.locator(".js-plotly-plot .legend").wait_for(timeout=WHOLE_RUN_MS)
    expect(chart.locator(".legendtext")).to_have_text(
        ["tokenization", "prompt pass", "decode passes", "sampling", "Python", "detokenization"]
    )
    expect(chart).to_contain_text("Python overhead is the time in which the model computes nothing")
    chart.locator("summary").click()
    expect(chart.locator("tbody tr")).to_have_count(3)
    expect(chart.locator("tbody tr").first).to_contain_text("fp32+sdpa")
    expect(page.locator("#lv-chart-as_hosted")).to_be_hidden()  # nobody asked for it


def test_how_close_to_the_limit_each_comes_is_told_with_its_formula(page: Page, scripted_page: str) -> None:
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    section = page.locator("#lv-details details", has_text="How close to the limit")
    section.locator("summary").click()
    first = section.locator("tbody tr").first
    expect(first).to_contain_text("86 % of the limit")  # 538 MB at 19.2 GB/s are 28 ms of the 32.6 that a token took
    expect(first).to_contain_text("538 MB at 19.2 GB/s from memory: at least 28 ms, took 32.6 ms")
    expect(section).to_contain_text("Share of the limit: the least time over the measured time.")
    expect(section).to_contain_text("48.5 GB/s from the last-level cache (34 MB)")


def test_the_first_comparison_by_keyboard_alone(page: Page, scripted_page: str) -> None:
    page.goto(scripted_page)
    page.wait_for_selector(READY)
    page.locator("#lv-technique-eager input").focus()
    page.keyboard.press("Space")
    expect(page.locator("#lv-estimate")).to_contain_text("4 variants")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "lv-compare":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".lv-lane")


def test_the_page_fits_a_phone(page: Page, scripted_page: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    compare(page, scripted_page)
    page.wait_for_selector(".js-plotly-plot", timeout=WHOLE_RUN_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
