"""The watch page in a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.jobs import QUICK, JobRun
from tests.serving.conftest import FAST, Serve, Served
from tests.support import FreshSettings, wait_until

pytestmark = pytest.mark.integration

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_WINDOW_MS = 60_000
_NOT_YET = "\N{EN DASH}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        assert "REQUIRE_BROWSER" not in os.environ, f"none of {', '.join(_BROWSERS)} is installed"
        pytest.skip(f"none of {', '.join(_BROWSERS)} is installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def counted(stack: Stack, serve: Serve, fresh_settings: FreshSettings) -> Iterator[Served]:
    # Without a key of its own the service takes the local stack's tokens, and the page may sign in.
    settings: Settings = fresh_settings(job=dict(QUICK), limit=dict(FAST))
    with JobRun(stack, settings) as job, serve(settings) as served:
        job.until(lambda: served.client.get("/v1/operations").json()["generation"], what="a generation")
        yield served


@pytest.fixture
def visit(browser: Browser, counted: Served) -> Iterator[Callable[[str, str], Page]]:
    contexts = []

    def open_page(user: str, video: str) -> Page:
        context = browser.new_context(viewport={"width": 390, "height": 844})
        contexts.append(context)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{counted.url}/?user={user}&video={video}")
        expect(page.locator("#user")).to_have_value(user)
        expect(page.locator("#video .likes")).not_to_have_text(_NOT_YET)
        assert not problems
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_a_like_shows_at_once_everywhere_within_the_window_and_stays(visit: Callable[[str, str], Page]) -> None:
    ada, bob = visit("ada", "page1"), visit("bob", "page1")
    like = ada.locator("#video .like")
    with ada.expect_response("**/v1/reactions/**"):
        like.click()
        expect(like).to_have_attribute("aria-pressed", "true", timeout=1_000)
        expect(ada.locator("#video .likes")).to_have_text("1", timeout=1_000)
    ada.wait_for_function("JSON.parse(localStorage.getItem('tokens')).tokens.length === 1")
    ada.reload()
    expect(ada.locator("#video .likes")).to_have_text("1", timeout=1_000)
    expect(like).to_have_attribute("aria-pressed", "true")
    expect(bob.locator("#video .likes")).to_have_text("1", timeout=_WINDOW_MS)
    expect(bob.locator("#video .like")).to_have_attribute("aria-pressed", "false")
    expect(ada.locator("#video .likes")).to_have_text("1")
    ada.reload()
    expect(ada.locator("#video .likes")).to_have_text("1")
    expect(ada.locator("#video .like")).to_have_attribute("aria-pressed", "true")
    bob.locator("#video .dislike").click()
    expect(bob.locator("#video .dislikes")).to_have_text("1", timeout=1_000)
    expect(ada.locator("#video .dislikes")).to_have_text("1", timeout=_WINDOW_MS)


def test_two_tabs_of_one_user_agree_in_the_end(visit: Callable[[str, str], Page]) -> None:
    first, second = visit("eve", "page2"), visit("eve", "page2")
    for page, button in ((first, "like"), (second, "dislike"), (first, "like"), (second, "dislike"), (first, "like")):
        page.locator(f"#video .{button}").click()
    wait_until(lambda: [_settled(page) for page in (first, second)].count(_settled(first)) == 2, 60)
    first.reload()
    expect(first.locator("#video .likes")).not_to_have_text(_NOT_YET)
    assert sum(_settled(first)) <= 1


def test_keyboard_and_operations(visit: Callable[[str, str], Page]) -> None:
    page = visit("kim", "page3")
    page.locator("#comments .like").first.focus()
    page.keyboard.press("Space")
    expect(page.locator("#comments .like").first).to_have_attribute("aria-pressed", "true")
    page.locator("#to-operations").click()
    expect(page.locator("#operations")).to_be_visible()
    expect(page.locator("#watch")).to_be_hidden()
    expect(page.locator("#services li")).to_have_count(3)
    expect(page.locator("#figures")).to_contain_text("events/s")
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width == 0, "a phone would have to scroll sideways"


def _settled(page: Page) -> tuple[int, int]:
    page.reload()
    expect(page.locator("#video .likes")).not_to_have_text(_NOT_YET)
    return tuple(int(page.locator(f"#video .{name}").inner_text()) for name in ("likes", "dislikes"))  # type: ignore[return-value]
