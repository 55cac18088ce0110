"""The comparing page in a real browser: wide and narrow, light and dark, with and without scripts,
by keyboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from converter.report.changes import changes
from converter.report.compared import Compared
from converter.report.compared_page import as_html
from converter.report.html import as_html as report_html
from converter.report.wants import decide
from tests.browser import Page as Tab
from tests.browser import browser, needs_browser
from tests.report import build
from tests.report.test_compared import ROWS, row
from tests.report.test_report import EVIL, Page

pytestmark = [pytest.mark.slow, needs_browser]

LONG = "model/decoder/transformer/h_11/attention/output/LayerNorm/batchnorm/add_1:0"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as made:
        yield made.page("about:blank")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    rows = [*ROWS, row("litert", 0.997, 5.5, 2000, target="tflite", precision="int8", drop=0.4,
                       metric="top1", unit="%", value=79.6),
            row(EVIL, verdict="error", why=EVIL, target="coreml", options={LONG: LONG}),
            row(LONG, 0.9, 900, 10**9, "not judged")]  # fmt: skip
    compared = Compared(title="net", rows=rows, against="earlier")
    compared.changes = changes(rows, [ROWS[2].model_copy(update={"bytes": 1000})])
    decide(compared, "p95<20ms drop<0.5 size<10MB")
    many = build.report(*(build.artifact(name, scale=1 + n / 4) for n, name in
                          enumerate(("fp32", "fp16", "bf16", "int8"))))  # fmt: skip
    folder = tmp_path_factory.mktemp("pages")
    made = {"comparison": as_html(compared), "report": report_html(many)}
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in made}


@pytest.mark.parametrize("name", ["comparison", "report"])
def test_it_fits_wide_and_narrow_light_and_dark(
    tab: Tab, pages: dict[str, Path], name: str
) -> None:
    Page(pages[name].read_text().replace("<script>", "<style>").replace("</script>", "</style>"))
    for width in (400, 1400):
        for dark in (False, True):
            tab.open(pages[name], width, dark=dark)
            assert tab.overflow() <= 0, (name, width)
            tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert tab.overflow() <= 0, (name, width)
    assert tab.browser.troubles == [] and tab.browser.asked == []
    assert not tab.evaluate("'alert' in window && document.querySelector('img, main script')")


def test_the_table_sorts_and_filters(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["comparison"])
    names = (
        "[...document.querySelectorAll('#rows tbody tr:not([hidden]) a')].map(a => a.textContent)"
    )
    shown = tab.evaluate(names)
    assert shown[0] == "litert" and len(shown) == 7
    tab.evaluate(
        "[...document.querySelectorAll('th button')].find(b => b.textContent == 'Size').click()"
    )
    sizes = tab.evaluate(
        "[...document.querySelectorAll('#rows tbody tr')].map(r => parseFloat("
        "[...r.cells].find(c => c.dataset.label == 'Size').dataset.value))"
    )
    assert sizes == sorted(sizes)
    assert tab.evaluate("document.querySelector('[aria-sort]').textContent") == "Size"
    tab.evaluate(
        "const form = document.getElementById('filter'); form.elements.target.value = 'tflite';"
        "form.dispatchEvent(new Event('input'))"
    )
    assert tab.evaluate(names) == ["litert"]
    assert tab.evaluate("document.querySelector('output').value") == "1 of 7 shown"


def test_without_scripts_the_table_is_whole(tab: Tab, pages: dict[str, Path]) -> None:
    text = Page(pages["comparison"].read_text().replace("<script>", "<style>")
                .replace("</script>", "</style>")).text  # fmt: skip
    assert "litert" in text and "Ship litert" in text
    tab.open(pages["comparison"], scripts=False)
    assert [tab.shows(item) for item in ("#row-7", "svg", "#filter", "th button")] == [
        True, True, False, False,
    ]  # fmt: skip
    tab.open(pages["comparison"])
    assert tab.shows("#filter") and tab.shows("th button")


def test_it_prints_its_details(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["comparison"])
    every = "[...document.querySelectorAll('details')].map(d => d.open)"
    assert not any(tab.evaluate(every))
    tab.call("Page.printToPDF")
    assert all(tab.evaluate(every))


def test_it_works_by_keyboard_and_has_names_for_everything(
    tab: Tab, pages: dict[str, Path]
) -> None:
    tab.open(pages["comparison"])
    seen = []
    for _ in range(40):
        tab.press("Tab")
        seen.append(tab.evaluate("(e => e.tagName + ' ' + (e.name || e.textContent || "
                            "e.getAttribute('aria-label')))(document.activeElement)"))  # fmt: skip
    assert any("Size" in item and item.startswith("BUTTON") for item in seen), seen
    assert any(item.lower().startswith("a ") and "litert" in item for item in seen)
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    for node in nodes:
        role = node.get("role", {}).get("value")
        if role in ("link", "button", "combobox", "searchbox", "checkbox") and not node["ignored"]:
            assert node.get("name", {}).get("value"), node
