"""Chromium for the live tests of the console."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from playwright.sync_api import expect, sync_playwright

from tests.live.helpers.console_bed import CHROMIUM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import ConsoleMessage, Page, Request

__all__ = ["Browser", "browser", "expect", "settle"]

# no GPU and no namespace of its own: tests may run as root in a container
OPTIONS = ["--no-sandbox", "--disable-gpu"]
EAUTH = "sharedsecret"
# counts the requests of a page that are under way, without the stream of events, which has no end
COUNT_REQUESTS = """
window.underWay = 0;
{
  const real = window.fetch;
  window.fetch = async (...given) => {
    if (String(given[0]).includes("/events")) return real(...given);
    window.underWay += 1;
    try { return await real(...given); } finally { window.underWay -= 1; }
  };
}
"""
SETTLE = """async () => {
  for (let quiet = 0; quiet < 10; quiet = window.underWay ? 0 : quiet + 1)
    await new Promise((resolve) => setTimeout(resolve, 100));
}"""


class Served(Protocol):
    """Where the page is, and the password of its users."""

    @property
    def url(self) -> str:
        """Return the address."""

    @property
    def password(self) -> str:
        """Return the password."""


@dataclass(frozen=True)
class Browser:
    """A Chromium."""

    chromium: Chromium

    @contextmanager
    def page(
        self, console: Served, user: str, password: str = "", *, inside: bool = True, width: int = 1300
    ) -> Iterator[Page]:
        """Yield a page on which a user has signed in; fail for a violation of its policy or an error in its script."""
        context = self.chromium.new_context(viewport={"width": width, "height": 900})
        faults: list[str] = []

        def heard(message: ConsoleMessage) -> None:
            if "Content Security Policy" in message.text or "TrustedScript" in message.text:
                faults.append(message.text)

        def asked(request: Request) -> None:
            if not request.url.startswith((console.url.rpartition("/")[0], "data:", "blob:")):
                faults.append(f"a request to {request.url}")

        try:
            page = context.new_page()
            page.add_init_script(COUNT_REQUESTS)
            page.on("console", heard)
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("request", asked)
            page.goto(console.url)
            sign_in(page, user, password or console.password)
            if inside:
                expect(page.get_by_role("navigation")).to_be_visible(timeout=30_000)
            yield page
            # requests may be under way
            page.unroute_all(behavior="ignoreErrors")
            assert not faults, faults
        finally:
            context.close()


def settle(page: Page) -> None:
    """Wait until the page has asked nothing for a second."""
    page.evaluate(SETTLE)


def sign_in(page: Page, user: str, password: str) -> None:
    """Fill the form and send it."""
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_label("Kind of account").fill(EAUTH)
    page.get_by_role("button", name="Sign in", exact=True).click()


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield a Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield Browser(chromium)
        finally:
            chromium.close()
