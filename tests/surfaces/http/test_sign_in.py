import httpx
import pytest
from key_parts import guarded
from rest_parts import running

from treering.extensions.server.gate import cookie_name

CALL = {"mode": "work_item", "input": {"title": "From a page"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("guarded")) as server:
        server.verb(server.key("write"), "crystallize", **CALL)  # makes the space
        yield server


@pytest.fixture
def browser(server):
    """A browser: it keeps cookies, and says from which page it asks."""
    own = str(server.client.base_url).rstrip("/")
    with httpx.Client(base_url=own, headers={"Origin": own}, trust_env=False, timeout=60) as client:
        yield client


def test_who_signed_in_with_a_key_asks_with_its_rights(server, browser):
    entered = browser.post("/sign-in", data={"key": server.key("read")})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert browser.post("/v1/wiki/query", json={"input": "lamp"}).status_code == 200
    assert browser.post("/v1/wiki/crystallize", json=CALL).status_code == 403
    assert browser.post("/sign-out").status_code == 303
    assert browser.post("/v1/wiki/query", json={"input": "lamp"}).status_code == 401


def test_the_cookie_is_read_by_no_script_and_sent_with_no_request_of_another_site(server, browser):
    cookie = browser.post("/sign-in", data={"key": server.key("read")}).headers["set-cookie"].casefold()
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "domain" not in cookie


def test_a_cookie_without_a_page_of_this_server_changes_nothing(server, browser):
    browser.post("/sign-in", data={"key": server.key("write")})
    del browser.headers["Origin"]
    assert browser.post("/v1/wiki/crystallize", json=CALL).status_code == 403
    elsewhere = {"Origin": "https://evil.example"}
    assert browser.post("/v1/wiki/crystallize", json=CALL, headers=elsewhere).status_code == 403
    assert browser.post("/sign-in", data={"key": server.key("read")}, headers=elsewhere).status_code == 403
    assert browser.get("/openapi.json").status_code == 200


def test_key_without_rights_cannot_sign_in(server, browser):
    for key in server.dead_keys().values():
        refused = browser.post("/sign-in", data={"key": key})
        assert refused.status_code == 401
        assert "set-cookie" not in refused.headers


@pytest.mark.parametrize(
    ("sent", "status"),
    [({"json": {"key": "trk"}}, 415), ({"data": {"key": "x" * 5_000}}, 413), ({"data": {"name": "x"}}, 401)],
)
def test_only_a_small_form_with_a_key_is_taken(browser, sent, status):
    assert browser.post("/sign-in", **sent).status_code == status


def test_a_person_without_a_key_is_led_to_the_form_and_a_program_is_told(browser):
    page = browser.get("/openapi.json", headers={"Accept": "text/html,application/xhtml+xml"})
    assert (page.status_code, page.headers["location"]) == (303, "/sign-in")
    assert browser.get("/openapi.json").status_code == 401
    form = browser.get("/sign-in")
    assert form.status_code == 200
    assert "default-src 'none'" in form.headers["content-security-policy"]


def test_server_without_keys_has_no_sign_in(tmp_path):
    with running(tmp_path) as client:
        assert client.post("/sign-in", data={"key": "trk"}).status_code == 422


def test_over_tls_the_name_of_the_cookie_binds_it_to_this_host():
    assert cookie_name("https") == "__Host-treering-key"
    assert cookie_name("http") == "treering-key"
