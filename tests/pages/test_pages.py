"""The pages of lineage in Airflow, in a real browser: what they show, to whom, and that nothing of it can attack."""

from __future__ import annotations

from urllib.parse import quote

import pytest
import requests
from playwright.sync_api import expect

from tests.pages.prepare import DAILY_DAG, RUN_DAG
from tests.pages.story import DAY, EVIL_FILE, EVIL_NAME, EVIL_OWNER, HOUR, NOW, WIDE, job_key, key, run_id_of

ORDERS = "/lake/clean/orders"
PLACES = ["", "datasets", "jobs", "graph", "impact", "incident", "dataset?id=x", "job?id=x", "dag?dag_id=x"]


def graph(name, **more):
    return f"graph?node={key(name)}" + "".join(f"&{word}={value}" for word, value in more.items())


def names(page):
    """What the boxes of the graph are called in full."""
    labels = page.locator("g.node").evaluate_all("all => all.map(one => one.getAttribute('aria-label').split(', ')[0])")
    return {label.removeprefix("hdfs://nn:8020").removeprefix("kafka://b1:9092/") for label in labels}


class TestWhoIsNotLoggedIn:
    @pytest.mark.parametrize("path", [*PLACES, "static/x/main.js", "static/x/lineage.svg"])
    def test_gets_no_page_and_no_file(self, api_server, path):
        answer = requests.get(f"{api_server.url}/lineage/{path}", headers={"Accept": "text/html"}, timeout=30)
        assert (answer.status_code, "/auth/login" in answer.text) == (401, True)
        assert "main.js" not in answer.text

    def test_gets_no_drawing(self, api_server):
        answer = requests.post(f"{api_server.url}/lineage/layout", json={"nodes": 0, "links": []}, timeout=30)
        assert answer.status_code == 401

    def test_is_told_to_log_in_by_a_page_whose_login_ends(self, visit):
        person = visit(fresh=True)
        page = person.open("datasets")
        person.context.clear_cookies()
        page.get_by_label("Words in the name").fill("orders")
        expect(page.get_by_role("alert")).to_contain_text("You are logged out")


class TestFiles:
    def test_every_answer_has_the_strict_policy(self, api_server):
        cookies = {"_token": api_server.token("ann")}
        for path in ("", "static/x/main.js"):
            headers = requests.get(f"{api_server.url}/lineage/{path}", cookies=cookies, timeout=30).headers
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"

    @pytest.mark.parametrize("name", ["page.html", "..%2Flineage_pages.py", "%2e%2e%2f__init__.py"])
    def test_nothing_but_the_shipped_files_is_served(self, api_server, name):
        cookies = {"_token": api_server.token("ann")}
        answer = requests.get(f"{api_server.url}/lineage/static/x/{name}", cookies=cookies, timeout=30)
        assert answer.status_code == 404

    @pytest.mark.parametrize("body", [{"nodes": 2, "links": [[0, 2]]}, {"nodes": 9_999, "links": []}, {"nodes": 1}])
    def test_a_drawing_that_makes_no_sense_is_refused(self, api_server, body):
        cookies = {"_token": api_server.token("ann")}
        assert (
            requests.post(f"{api_server.url}/lineage/layout", json=body, cookies=cookies, timeout=30).status_code == 422
        )

    def test_a_page_asks_no_other_server_for_anything(self, visit, api_server):
        person = visit()
        asked = []
        person.page.on("request", lambda request: asked.append(request.url))
        person.open(graph(ORDERS))
        assert asked
        assert all(url.startswith(f"{api_server.url}/lineage/") for url in asked)


class TestInsideAirflow:
    def test_the_navigation_leads_to_the_pages_and_the_address_follows(self, visit, api_server):
        person = visit(dark=True)
        page = person.page
        page.goto(f"{api_server.url}/plugin/lineage", wait_until="domcontentloaded")
        frame = page.frame_locator("iframe[title=Lineage]")
        expect(frame.get_by_role("heading", name="What feeds what")).to_be_visible(timeout=60_000)
        person.picture("airflow-overview-dark")
        frame.get_by_role("link", name="Datasets", exact=True).click()
        expect(frame.get_by_role("heading", name="Datasets")).to_be_visible()
        page.wait_for_url("**/plugin/lineage/lineage/datasets*")
        page.reload(wait_until="domcontentloaded")
        expect(frame.get_by_role("heading", name="Datasets")).to_be_visible(timeout=60_000)

    def test_a_run_has_a_tab_with_its_pairs_in_the_theme_of_airflow(self, visit, api_server):
        person = visit(dark=True)
        page = person.page
        run = quote(run_id_of(NOW), safe="")
        page.goto(f"{api_server.url}/dags/{RUN_DAG}/runs/{run}/plugin/lineage-run", wait_until="domcontentloaded")
        frame = page.frame_locator("iframe[title=Lineage]")
        expect(frame.get_by_role("heading", name="Pairs of this run")).to_be_visible(timeout=60_000)
        expect(frame.get_by_role("table", name="Pairs", exact=True)).to_contain_text("churn")
        expect(frame.locator("html.dark")).to_have_count(1)
        person.picture("airflow-run-tab-dark")

    def test_a_dag_without_lineage_is_told_what_is_missing(self, visit):
        page = visit().open("dag?dag_id=never_ran")
        expect(page.get_by_role("status").first).to_contain_text("No lineage of this DAG yet")


class TestSearch:
    def test_suggests_while_typing_and_opens_by_keyboard(self, visit):
        page = visit().open("")
        page.keyboard.press("/")
        page.keyboard.type("lake clean ord")
        box = page.get_by_role("combobox", name="Search datasets and jobs")
        expect(page.get_by_role("option").first).to_contain_text(ORDERS)
        expect(box).to_have_attribute("aria-expanded", "true")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/lineage/dataset?id={key(ORDERS)}")

    def test_says_when_nothing_fits(self, visit):
        page = visit().open("")
        page.get_by_role("combobox", name="Search datasets and jobs").fill("no such thing")
        expect(page.get_by_role("listbox").first).to_contain_text("Nothing that you may see")


class TestDatasetPage:
    def test_shows_where_from_where_to_columns_owner_freshness_and_runs(self, visit):
        person = visit()
        page = person.open(f"dataset?id={key(ORDERS)}")
        assert page.get_by_role("table", name="Upstream datasets").locator("tbody tr").count() == 2
        expect(page.get_by_role("table", name="Downstream datasets")).to_contain_text("revenue")
        expect(page.get_by_role("table", name="Columns")).to_contain_text("key of the order")
        expect(page.locator(".facts")).to_contain_text("bob")
        expect(page.locator(".facts")).to_contain_text("ago")
        expect(page.get_by_role("table", name="Runs")).to_contain_text("clean_orders")
        assert person.errors == []

    def test_shows_that_every_writer_fails(self, visit):
        page = visit().open(f"dataset?id={key('/lake/clean/sessions')}")
        expect(page.get_by_role("heading", level=1)).to_contain_text("failing")

    def test_hides_what_the_reader_may_not_know(self, visit):
        page = visit("ann").open(f"dataset?id={key(ORDERS)}")
        expect(page.get_by_role("table", name="Downstream datasets")).to_contain_text("restricted")
        assert "bonus" not in page.content()

    def test_says_that_there_is_no_such_dataset(self, visit):
        page = visit().open("dataset?id=nothing")
        expect(page.get_by_role("alert")).to_contain_text("Nothing here that you may see")

    def test_offers_to_try_again_when_the_warehouse_is_away(self, visit):
        person = visit()
        broken = {"status": 503, "json": {"detail": "the warehouse is away"}}
        person.page.route("**/api/v1/datasets/*", lambda route: route.fulfill(**broken))
        page = person.open(f"dataset?id={key(ORDERS)}")
        expect(page.get_by_role("alert")).to_contain_text("the warehouse is away")
        page.unroute("**/api/v1/datasets/*")
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("table", name="Columns")).to_be_visible()


class TestJobPage:
    def test_shows_pairs_runs_and_what_changed_between_two_dates(self, visit):
        page = visit().open(f"job?id={job_key('marts')}")
        expect(page.get_by_role("table", name="Pairs")).to_contain_text("churn")
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("table", name="Changes")).to_contain_text("etl:1.5")


class TestNamesThatAttack:
    @pytest.mark.parametrize("place", ["dataset", "job", "graph", "impact", "datasets", "search"])
    def test_are_shown_as_the_text_that_they_are(self, visit, place):
        person = visit()
        address = {
            "dataset": f"dataset?id={key(EVIL_NAME)}",
            "job": f"job?id={job_key('evil')}",
            "graph": graph(EVIL_NAME, sel=key(EVIL_NAME)),
            "impact": f"impact?node={key('/lake/raw/orders')}",
            "datasets": "datasets?q=evil",
            "search": "",
        }[place]
        page = person.open(address)
        if place == "search":
            page.get_by_role("combobox", name="Search datasets and jobs").fill("img")
            expect(page.get_by_role("option").first).to_contain_text("onerror")
        assert "script>" in page.evaluate("document.body.textContent")
        assert page.locator("img, svg[onload], script:not([src])").count() == 0
        assert page.evaluate("window.hacked") is None
        if place == "job":
            expect(page.locator(".facts")).to_contain_text(EVIL_OWNER)
            expect(page.locator(".facts")).to_contain_text(EVIL_FILE)
            assert page.locator("a[href^='javascript' i]").count() == 0
        assert person.errors == []


class TestGraph:
    def test_starts_with_one_hop_and_opens_more_on_a_click(self, visit):
        person = visit()
        page = person.open(graph(ORDERS))
        first = {ORDERS, "/lake/raw/orders", "/lake/raw/customers", "/marts/revenue", "/marts/churn", "/hr/bonus"}
        assert names(page) == first
        person.picture("graph")
        page.locator(f'g.node[data-id="{key("/marts/revenue")}"] [data-more=down]').click()
        expect(page.locator("g.node")).to_have_count(7)
        assert names(page) == first | {"/reports/board"}
        assert person.errors == []

    def test_shows_only_the_pairs_that_are_asked_for(self, visit):
        page = visit().open(graph(ORDERS))
        expect(page.locator("g.node").first).to_be_visible()
        before = names(page)
        page.locator("select[name=show]").select_option("observed")
        page.wait_for_url("**show=observed**")
        expect(page.locator("g.node")).to_have_count(len(before))
        page.locator("select[name=show]").select_option("failing")
        page.wait_for_url("**show=failing**")
        expect(page.locator("g.node")).to_have_count(1)
        expect(page.locator("select[name=show]")).to_have_value("failing")

    def test_its_address_brings_back_what_was_open_chosen_and_filtered(self, visit):
        page = visit().open(graph(ORDERS))
        page.locator(f'g.node[data-id="{key("/marts/churn")}"] [data-more=up]').click()
        expect(page.locator("g.node")).to_have_count(7)
        page.locator(f'g.node[data-id="{key("/lake/clean/sessions")}"]').click()
        page.get_by_label("Only flag").select_option("failing")
        kept = page.url
        again = visit().open(kept.split("/lineage/", 1)[1])
        expect(again.locator("g.node")).to_have_count(7)
        expect(again.locator("g.node.chosen")).to_have_attribute("data-id", key("/lake/clean/sessions"))
        expect(again.locator("aside tbody tr")).to_have_count(1)

    def test_lights_up_the_way_through_a_chosen_dataset(self, visit):
        page = visit().open(graph(ORDERS, up=50, down=50))
        page.locator(f'g.node[data-id="{key("/reports/board")}"]').click()
        lit = page.locator("g.node.path").evaluate_all("all => all.map(one => one.dataset.id)")
        way = [
            "orders",
            "customers",
            "/lake/raw/orders",
            "/lake/raw/customers",
            ORDERS,
            "/marts/revenue",
            "/reports/board",
        ]
        assert set(lit) == set(map(key, way))
        page.get_by_role("button", name="Shortest path").click()
        lit = page.locator("g.node.path").evaluate_all("all => all.map(one => one.dataset.id)")
        assert set(lit) == set(map(key, way[4:]))

    def test_can_be_walked_by_keyboard_alone(self, visit):
        page = visit().open(graph(ORDERS))
        page.locator('g.node[tabindex="0"]').focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator("g.node.chosen")).to_have_count(1)
        assert page.locator("g.node.chosen").get_attribute("data-id") != key(ORDERS)
        page.keyboard.press("Escape")
        expect(page.locator("g.node.chosen")).to_have_count(0)

    def test_keeps_a_restricted_dataset_in_its_place_without_a_name(self, visit):
        page = visit("ann").open(graph(ORDERS))
        assert names(page) == {
            ORDERS, "/lake/raw/orders", "/lake/raw/customers", "/marts/revenue", "/marts/churn", "restricted",
        }  # fmt: skip
        assert "bonus" not in page.content()

    def test_of_a_thousand_datasets_is_drawn_whole_and_starts_where_names_can_be_read(self, visit):
        person = visit()
        page = person.open(graph("/wide/0", down=50, limit=2000))
        assert page.locator("g.node").count() == WIDE
        person.picture("graph-1000")
        expect(page.locator("g.node.root text.name")).to_be_in_viewport()
        assert page.locator("g.node text.name").first.is_visible()
        page.keyboard.press("0")
        expect(page.locator("svg.far")).to_have_count(1)
        assert person.errors == []


class TestImpact:
    def test_lists_what_a_change_reaches_with_whom_to_talk_to(self, visit):
        person = visit()
        page = person.open(f"impact?node={key('/lake/raw/orders')}")
        rows = page.get_by_role("table", name="Datasets by distance").locator("tbody tr")
        hops = [int(text) for text in rows.locator("td:first-child").all_text_contents()]
        assert hops == sorted(hops)
        assert hops[-1] == 3
        expect(page.get_by_role("table", name="Owners")).to_contain_text("dora")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download CSV").click()
        assert "/reports/board" in download.value.path().read_text()


class TestIncident:
    def test_freezes_only_what_is_confirmed_and_resumes_exactly_that(self, visit, api_server):
        person = visit()
        since = f"{NOW - DAY - HOUR:%Y-%m-%dT%H:%M}"
        page = person.open(f"incident?dataset={key(ORDERS)}&from={since}")
        expect(page.get_by_role("table", name="Suspects")).to_contain_text("image")
        steps = page.get_by_role("table", name="What to run again").locator("tbody tr")
        assert [text.split()[0] for text in steps.locator("td:nth-child(2)").all_text_contents()][-1] == "board"
        person.picture("incident")
        page.get_by_label("Freeze secret").uncheck()
        page.get_by_role("button", name="Freeze …").click()
        expect(page.get_by_role("dialog")).to_contain_text("marts")
        assert paused(api_server) == set()
        person.picture("incident-confirm")
        page.get_by_role("button", name="Cancel").click()
        assert paused(api_server) == set()
        page.get_by_role("button", name="Freeze …").click()
        page.get_by_role("button", name="Pause: 2").click()
        expect(page.get_by_role("table", name="What was done")).to_contain_text("paused")
        assert paused(api_server) == {"board", "marts"}
        page.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Resume …").click()
        page.get_by_role("button", name="Resume: 2").click()
        expect(page.get_by_role("table", name="What was done")).to_contain_text("resumed")
        assert paused(api_server) == set()
        assert person.errors == []

    def test_runs_a_job_again_by_a_backfill_of_airflow_and_resumes_it(self, visit, api_server):
        person = visit()
        page = person.open(f"incident?dataset={key(ORDERS)}&from={NOW - DAY - HOUR:%Y-%m-%dT%H:%M}")
        page.get_by_role("button", name="Freeze …").click()
        page.get_by_role("button", name="Pause: 3").click()
        page.get_by_role("button", name="Close").click()
        steps = page.get_by_role("table", name="What to run again")
        steps.get_by_role("row", name="board").get_by_role("button").click()
        expect(page.get_by_role("dialog")).to_contain_text("board: backfill, 2 runs")
        expect(page.get_by_role("dialog")).to_contain_text("board: resume")
        assert asked(api_server, "backfills", dag_id=DAILY_DAG)["backfills"] == []
        page.get_by_role("button", name="Run again: 2").click()
        expect(page.get_by_role("table", name="What was done")).to_contain_text("resumed")
        assert [one["reprocess_behavior"] for one in asked(api_server, "backfills", dag_id=DAILY_DAG)["backfills"]] == [
            "completed"
        ]
        assert paused(api_server) == {"marts", "secret"}
        page.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Resume …").click()
        page.get_by_role("button", name="Resume: 2").click()
        expect(page.get_by_role("table", name="What was done")).to_contain_text("resumed")
        assert paused(api_server) == set()
        assert person.errors == []

    def test_tells_who_may_not_change_a_dag_and_changes_nothing(self, visit, api_server):
        page = visit("ann").open(f"incident?dataset={key(ORDERS)}")
        page.get_by_role("button", name="Freeze …").click()
        expect(page.get_by_role("dialog")).to_contain_text("You may not change")
        page.get_by_role("button", name="Pause: 2").click()
        expect(page.get_by_role("dialog")).to_contain_text("Some parts failed")
        assert paused(api_server) == set()


def asked(api_server, path, **parameters):
    """What Airflow itself says."""
    headers = {"Authorization": f"Bearer {api_server.token('admin')}"}
    answer = requests.get(f"{api_server.url}/api/v2/{path}", params=parameters, headers=headers, timeout=30)
    answer.raise_for_status()
    return answer.json()


def paused(api_server):
    return {dag["dag_id"] for dag in asked(api_server, "dags", paused=True)["dags"]}


@pytest.mark.parametrize("width", [420, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_no_page_is_wider_than_its_window_and_every_text_can_be_read(visit, width, dark):
    person = visit(width=width, dark=dark)
    for name, path in {
        "overview": "",
        "dataset": f"dataset?id={key(ORDERS)}",
        "job": f"job?id={job_key('marts')}",
        "graph": graph(ORDERS),
        "impact": f"impact?node={key('/lake/raw/orders')}",
    }.items():
        page = person.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.evaluate(CONTRAST) == [], name
        assert page.evaluate(UNNAMED) == [], name
        person.picture(f"{name}-{width}{'-dark' if dark else ''}")
    assert person.errors == []


# Texts whose contrast with what is behind them is below WCAG's 4.5 to 1.
CONTRAST = """() => {
    const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
        .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
        .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = parse(getComputedStyle(at).backgroundColor);
            if (color.length === 3 || color[3] > 0.99) return color;
        }
        return [255, 255, 255];
    };
    const bad = [];
    for (const element of document.querySelectorAll("body *:not(svg *):not(script)")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || element.disabled || !element.checkVisibility() || element.closest(".unseen, #said")) continue;
        const [one, other] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
        const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (ratio < 4.5) bad.push(`${element.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
    }
    return bad;
}"""
# What can be used and has no name for those who can't see it.
UNNAMED = """() => [...document.querySelectorAll("button, a[href], input, select")]
    .filter((one) => one.checkVisibility())
    .filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length))
    .map((one) => one.outerHTML.slice(0, 80))"""
