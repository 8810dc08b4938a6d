"""Reports in a real browser: Debian's chromium, without a screen. `make test-browser` fails where there is none."""

import base64
import os
import shutil

import pytest
from recorded import LAYERS, write_run
from test_render import NASTY, everything

from mupc import report
from mupc.cli import main

pytestmark = pytest.mark.slow
WIDTHS = (1400, 400)
CONTRAST = """
const [element] = arguments, canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data]; };
let behind = element;
while (rgb(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
const light = (c) => c.slice(0, 3).map((v) => v / 255)
  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const style = getComputedStyle(element), ink = element instanceof SVGElement ? style.fill : style.color;
const pair = [light(rgb(ink)), light(rgb(getComputedStyle(behind).backgroundColor))];
return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
"""


def need(found, what):
    if not found and "MUPC_TEST_BROWSER" in os.environ:
        pytest.fail(f"{what} is not installed", pytrace=False)
    if not found:
        pytest.skip(f"{what} is not installed")
    return found


@pytest.fixture(scope="module")
def browser():
    """A browser without a screen."""
    program = need(shutil.which("chromium"), "chromium (Debian: chromium)")
    driver = need(shutil.which("chromedriver"), "chromedriver (Debian: chromium-driver)")
    try:
        from selenium import webdriver
    except ImportError:
        need(None, "selenium (of the extra dev)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page on one run, one on two, one with every block and texts that try to become markup, and one with large
    numbers."""
    folder = tmp_path_factory.mktemp("pages")
    runs = [write_run(folder / name, weight_lr=rate) for name, rate in (("one", 0.1), ("two", 0.2))]
    for name, some in (("single", runs[:1]), ("several", runs)):
        flags = ["--no-measure", "--quiet", "--out", str(folder / f"{name}.html")]
        assert main(["report", *map(str, some), *flags]) == 0
    (folder / "nasty.html").write_text(everything(NASTY), encoding="utf-8")
    chart = report.Chart("Large", "year", "price", (report.Series("house", [1, 2], [-1250000.0, 1250000.0]),))
    large = report.Page("Large", sections=(report.PageSection("Large", (report.ChartGrid((chart,)),)),))
    (folder / "large.html").write_text(report.render(large), encoding="utf-8")
    return {path.stem: path.as_uri() for path in folder.glob("*.html")}


@pytest.fixture
def visit(browser, pages):
    """Opens a page, light unless told, in a window of this width, and returns the browser. Its console stays empty."""

    def go(name, width=1400, scheme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(pages[name])
        browser.execute_script("localStorage.clear()")
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(pages[name])
        browser.set_script_timeout(10)
        browser.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
        )
        return browser

    yield go
    assert browser.get_log("browser") == []


def every(browser, selector):
    from selenium.webdriver.common.by import By

    return browser.find_elements(By.CSS_SELECTOR, selector)


def act(browser):
    from selenium.webdriver import ActionChains

    return ActionChains(browser, duration=20)


def background(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["single", "several", "nasty"])
def test_pages_render_without_errors_or_overflow(visit, name, width):
    browser = visit(name, width)
    charts = every(browser, "figure.chart")
    assert charts and len(every(browser, "figure.chart .plot svg")) == len(charts)
    wide = "return [document.documentElement.scrollWidth, innerWidth]"
    assert browser.execute_script(wide) == [width, width]
    if name == "nasty":
        assert browser.title == NASTY.strip() and not every(browser, "img[src='x']")
    else:
        assert every(browser, "figure.chart path.curve")


def test_links_lead_to_their_sections(visit):
    browser = visit("single")
    links = every(browser, "nav a")
    assert [link.text for link in links][:3] == ["Results", "Learning curves", "Credit reach"]
    for link in links:
        link.click()
        anchor = link.get_attribute("href").partition("#")[2]
        top = browser.execute_script(f"return document.getElementById('{anchor}').getBoundingClientRect().top")
        assert -2 <= top < 900


def test_the_pointer_and_the_keys_read_values(visit):
    from selenium.webdriver import Keys

    browser = visit("single")
    (plot, tip), *_ = zip(every(browser, ".plot"), every(browser, ".tip"), strict=True)
    assert not tip.is_displayed()
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    act(browser).move_to_element_with_offset(plot, plot.size["width"] // 2 - 20, 0).perform()
    assert tip.is_displayed() and "epoch 2" in tip.text and "82" in tip.text  # 100 · (1 − 0.9 / 5)
    act(browser).move_to_element(every(browser, "h1")[0]).perform()
    assert not tip.is_displayed()
    browser.execute_script("arguments[0].focus()", plot)
    plot.send_keys(Keys.ARROW_RIGHT)
    assert "epoch 0" in tip.text and "10" in tip.text
    plot.send_keys(Keys.ARROW_RIGHT)
    assert "epoch 0.5" in tip.text and "55" in tip.text


def test_dragging_zooms_and_the_button_zooms_out(visit):
    browser = visit("single")
    plot, reset = every(browser, ".plot")[0], every(browser, ".reset")[0]

    def dots():
        edge = every(browser, ".plot")[0].rect
        boxes = [dot.rect for dot in every(browser, "figure.chart:first-child circle.dot")]
        return [box for box in boxes if edge["x"] + 60 < box["x"] < edge["x"] + edge["width"] - 10]

    before = dots()
    assert not reset.is_displayed()
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    half = plot.size["width"] // 4
    act(browser).move_to_element_with_offset(plot, -half, -20).click_and_hold().move_by_offset(
        half, 5
    ).release().perform()
    assert reset.is_displayed() and len(dots()) < len(before)
    reset.click()
    assert not reset.is_displayed() and len(dots()) == len(before)


def test_the_legend_hides_a_series_and_numbers_are_listed(visit):
    from selenium.webdriver.support.wait import WebDriverWait

    browser = visit("single")
    chart = every(browser, "figure.chart")[1]
    key = every(chart, ".legend button")[0]
    shown = len(every(chart, "path.curve"))
    key.click()
    assert key.get_attribute("aria-pressed") == "false" and len(every(chart, "path.curve")) == shown - 1
    every(chart, "summary")[0].click()
    WebDriverWait(browser, 60).until(lambda _: every(chart, ".numbers tbody tr"))
    rows = [row.text for row in every(chart, ".numbers tbody tr")]
    assert "test 0 0.5" in rows and "training 2 0.1125" in rows


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_that_of_the_system_until_it_is_chosen(visit, scheme):
    browser = visit("single", scheme=scheme)
    first = background(browser)
    every(browser, "#theme")[0].click()
    second = background(browser)
    assert {first, second} == {"rgb(246, 247, 249)", "rgb(18, 21, 26)"}
    assert (first == "rgb(246, 247, 249)") == (scheme == "light")
    browser.refresh()
    assert background(browser) == second


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(visit, scheme):
    browser = visit("several", scheme=scheme)
    selectors = "h1, h2, p, nav a, caption, th, td, figcaption, .legend button, .plot text, summary, footer, .marked td"
    found = every(browser, selectors)
    for element in [*found[::7], *every(browser, ".marked td")[:2]]:
        assert browser.execute_script(CONTRAST, element) >= 4.5, element.get_attribute("outerHTML")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["right", "wrong"])
def test_counts_can_be_read_in_every_shade(visit, scheme, kind):
    browser = visit("nasty", scheme=scheme)
    (cell,) = every(browser, f".matrix td.{kind}[title]")
    for share in (0.05, 0.3, 0.6, 1):
        browser.execute_script("arguments[0].style.setProperty('--share', arguments[1])", cell, share)
        assert browser.execute_script(CONTRAST, cell) >= 4.5, share


def test_numbers_of_the_axis_leave_room_for_its_label(visit):
    browser = visit("large")
    chart = every(browser, "figure.chart")[0]
    label = next(text for text in every(chart, ".frame text.label") if text.text == "price").rect
    ticks = [text.rect["x"] for text in every(chart, ".frame line.grid + text")]
    assert ticks and label["x"] + label["width"] < min(ticks)


def test_settings_that_are_the_same_are_folded_away(visit):
    browser = visit("several")
    fold = every(browser, ".fold")[0]
    rows = every(browser, "table.foldable tbody tr")
    assert [row.is_displayed() for row in rows].count(True) == 1
    fold.click()
    assert all(row.is_displayed() for row in rows)


def test_pages_print(visit):
    from selenium.webdriver.common.print_page_options import PrintOptions

    browser = visit("several", scheme="dark")
    pdf = base64.b64decode(browser.print_page(PrintOptions()))
    assert pdf.startswith(b"%PDF-") and len(pdf) > 20_000
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert background(browser) == "rgb(255, 255, 255)" and not every(browser, "nav")[0].is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_layers_are_whole_numbers_on_their_axis(visit):
    browser = visit("single")
    charts = [chart for chart in every(browser, "figure.chart") if "Gradient by layer" in chart.text]
    ticks = [text.text for text in every(charts[0], ".frame line:not(.grid) + text")]
    assert [tick for tick in ticks if tick in ("1", "2", "3", "4")] == [str(layer + 1) for layer in range(LAYERS)]
