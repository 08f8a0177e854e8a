"""The pages in a real browser. Skipped by name where there is no Chromium: nothing is downloaded for it."""

import shutil
from importlib.resources import files

import pytest
from rest_parts import running
from web_parts import fill

from space_parts import decide, note, open_space

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
pytest.importorskip("axe_playwright_python", reason="needs the Python package axe-playwright-python")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path")

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, site):
    """Open pages of the site; at the end, nothing was complained of and nothing asked for elsewhere."""
    client, _ = site
    home = str(client.base_url).rstrip("/")
    contexts, said, asked = [], [], []

    def open_page(**settings):
        context = browser.new_context(base_url=home, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert {url for url in asked if not url.startswith(f"{home}/")} == set()


def every_page(ids):
    return [
        "/",
        "/?q=how+often+is+a+fetch+tried&scope=/",
        "/?q=retries&view=pack",
        f"/web/object/{ids['stale']}",
        f"/web/object/{ids['source']}?segment={ids['segment']}",
        "/web/health?check=1",
        f"/web/graph?id={ids['decision']}",
        "/web/graph?q=sessions",
        "/web/graph",
        "/web/timeline?as_of=15",
        "/web/work",
        "/web/discussions?q=tea",
        "/web/discussions/tea",
        "/web/projects",
        "/web/exams",
        "/web/live",
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page_and_nothing_is_wider_than_a_phone(opened, site, scheme, part):
    _, ids = site
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    # The wide layout in one theme, the narrow one in the other: a theme changes colours only.
    width = 1440 if scheme == "light" else 390
    page = opened(color_scheme=scheme, viewport={"width": width, "height": 900})
    for path in every_page(ids)[part::4]:
        page.goto(path)
        page.evaluate(axe)
        told = page.evaluate("rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES)
        found = [(one["id"], one["nodes"][0]["html"][:100]) for one in told["violations"]]
        assert (path, found) == (path, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


@pytest.fixture(scope="module")
def long_site(tmp_path_factory):
    """Serve a space whose texts are longer than their boxes; return a client and ids by what they are."""
    folder = tmp_path_factory.mktemp("long")
    file = folder / "sizes.py"
    lines = "".join(f"    first_of_many_sizes_{n} = size_of_everything_in_the_request // {n}\n" for n in range(1, 40))
    file.write_text(f"def bounded(size):\n{lines}    return first_of_many_sizes_1\n")
    said = "A failed fetch is tried three times, and the client waits between tries. " * 12
    with open_space(f"sqlite:{folder / 'space.db'}") as space:
        space.ingest("path", input={"path": str(file)}, scope="/")
        (hit,) = space.query("search", input={"text": "bounded"}, scope="/").hits
        ids = {"source": hit.source_id, "segment": hit.segment_id}
        told = note(space, said, origin="docs/retries.md", title="Retries")
        ids["decision"] = decide(space, "Sizes are bounded", ids_of(ids), told)
        file.write_text(file.read_text().replace("size_of_everything_in_the_request // 30", "size // 30"))
        space.ingest("path", input={"path": str(file)}, scope="/")
    with running(folder) as client:
        yield client, ids


def ids_of(ids):
    return {"source_id": ids["source"], "segment_id": ids["segment"]}


@pytest.mark.nightly
@pytest.mark.parametrize("width", [390, 1440])
def test_long_texts_scroll_by_the_keyboard_and_nothing_else_is_cut(browser, long_site, width):
    client, ids = long_site
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page = browser.new_context(
        base_url=str(client.base_url), viewport={"width": width, "height": 900}, color_scheme="dark"
    ).new_page()
    page.set_default_timeout(60_000)
    for path in (
        "/?q=bounded+sizes",
        "/?q=how+often+is+a+fetch+tried",
        f"/web/object/{ids['decision']}",
        f"/web/object/{ids['source']}",
        f"/web/graph?id={ids['decision']}",
        "/web/timeline",
        "/web/health?check=1",
    ):
        page.goto(path)
        page.evaluate(axe)
        told = page.evaluate("rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES)
        assert (path, [(one["id"], one["nodes"][0]["html"][:100]) for one in told["violations"]]) == (path, [])
        # Lines of code scroll where they are wider than the page, and a drawing where there is room for one.
        cut = page.evaluate(CUT)
        assert (path, cut) == (path, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.context.close()


CUT = """() => [...document.querySelectorAll("body *")]
    .filter(one => one.checkVisibility() && one.clientWidth && one.scrollWidth > one.clientWidth + 1)
    .filter(one => getComputedStyle(one).overflowX !== "visible" && !one.closest(".hidden, input, select"))
    .filter(one => !one.matches(".lines, .drawing"))
    .map(one => one.outerHTML.slice(0, 120))"""


def test_a_change_of_code_is_in_a_font_of_one_width_and_is_not_cut_on_a_phone(browser, long_site):
    client, ids = long_site
    page = browser.new_context(base_url=str(client.base_url), viewport={"width": 390, "height": 900}).new_page()
    page.set_default_timeout(60_000)
    page.goto(f"/web/object/{ids['decision']}")
    change = page.locator(".words.lines", has=page.locator("ins, del")).first
    told = change.evaluate("one => [getComputedStyle(one).fontFamily, getComputedStyle(one).whiteSpace]")
    assert "monospace" in told[0]
    assert told[1] == "pre-wrap"
    assert "    first_of_many_sizes_30" in change.inner_text()
    assert change.evaluate("one => one.scrollWidth <= one.clientWidth")
    cited = page.locator(".lines:not(.words)").first
    assert cited.evaluate("one => getComputedStyle(one).whiteSpace") == "pre"
    page.context.close()


def test_on_a_phone_the_menu_is_one_button_that_the_keyboard_opens_and_closes(opened):
    page = opened(viewport={"width": 390, "height": 900})
    page.goto("/web/health")
    assert page.locator("header.top").bounding_box()["height"] < 80
    assert not page.get_by_role("link", name="Timeline").is_visible()

    page.get_by_role("button", name="Menu").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Timeline").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Timeline").wait_for(state="hidden")

    page.keyboard.press("Enter")
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("heading", name="Timeline").wait_for()


def test_on_a_wide_page_all_pages_are_in_one_row_without_a_button(opened):
    page = opened(viewport={"width": 1440, "height": 900})
    page.goto("/")
    assert not page.get_by_role("button", name="Menu").is_visible()
    assert page.get_by_role("link", name="Live").is_visible()
    assert page.locator("header.top").bounding_box()["height"] < 80


def test_on_a_phone_a_graph_is_a_tree_in_place_of_a_drawing(opened, site):
    _, ids = site
    page = opened(viewport={"width": 390, "height": 900})
    page.goto(f"/web/graph?id={ids['decision']}")
    assert not page.locator(".drawing").is_visible()
    assert page.locator(".branches a").first.is_visible()
    assert page.get_by_role("button", name="Show").first.bounding_box()["height"] < 60  # its word is not broken
    page.set_viewport_size({"width": 1440, "height": 900})
    assert page.locator(".drawing").is_visible()


def test_asking_swaps_the_answers_in_without_loading_the_page_again(opened):
    page = opened()
    page.goto("/")
    page.evaluate("window.stayed = true")
    page.fill("#q", "how often is a fetch tried")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hits mark")
    assert page.evaluate("window.stayed") is True
    assert "q=how+often" in page.url

    page.get_by_role("button", name="Context pack").click()
    page.wait_for_selector("#pack")
    assert page.evaluate("window.stayed") is True
    assert "tokens" in page.inner_text("#answers .count")


def test_the_pack_is_copied_by_its_button(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.goto("/?q=retries&view=pack")
    page.locator(".pack").get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()

    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#pack")


def test_all_is_reached_by_the_keyboard(opened, site):
    _, ids = site
    page = opened()
    page.goto(f"/web/graph?id={ids['decision']}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('href') ?? document.activeElement.id"))
    assert f"/web/graph?id={ids['source']}" in reached  # in the drawing
    assert f"/web/object/{ids['source']}" in reached  # in the list


def test_the_slider_shows_an_earlier_moment(opened):
    page = opened()
    page.goto("/web/timeline")
    page.evaluate("window.stayed = true")
    page.locator("#as_of").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.get_by_role("link", name="Back to now").wait_for()
    assert page.evaluate("window.stayed") is True


def test_what_happens_appears_by_itself(opened, site):
    client, _ = site
    page = opened()
    page.goto("/web/live")
    page.get_by_text("Watching").wait_for()
    client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "who <b>asks</b> & why"}})
    page.locator("#recalled a", has_text="who <b>asks</b> & why").wait_for()


def test_without_javascript_a_search_and_a_decision_work(browser, tmp_path):
    ids = fill(f"sqlite:{tmp_path / 'space.db'}")
    with running(tmp_path, allow=frozenset({"review"})) as client:
        page = browser.new_context(java_script_enabled=False, base_url=str(client.base_url)).new_page()
        page.set_default_timeout(60_000)
        page.goto("/")
        page.fill("#q", "sessions")
        page.keyboard.press("Enter")
        page.wait_for_selector(".hits mark")

        page.get_by_role("link", name="Health").click()
        page.locator(".patch", has_text="One pool per tenant").get_by_role("button", name="Approve").click()
        page.get_by_text("The patch was approved.").wait_for()
        left = client.post("/v1/review/list", json={}).json()
        page.context.close()
    assert [one["id"] for one in left] == [ids["region"]]


def test_markup_in_stored_text_runs_nowhere(browser, hostile_site):
    client, ids = hostile_site
    page = browser.new_context(base_url=str(client.base_url)).new_page()
    page.set_default_timeout(60_000)
    ran = []
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda message: ran.append(message.text))
    for path in every_page(ids):
        page.goto(path)
    page.context.close()
    assert ran == []
