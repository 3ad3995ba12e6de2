"""What support people do on the page, as steps that count their clicks. Each begins on the overview.

`tests/page/test_support.py` holds each task to MAX_CLICKS, `scripts/screenshots.py support` takes a picture where the
answer is on the screen, and docs/support.md describes them. The queue is that of `support_queue`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from playwright.sync_api import Locator, Page, expect

import support_queue as queue

MAX_CLICKS: Final = 3


class User:
    """Somebody at a page. A click, a choice in a list and a key are counted; typing is not."""

    def __init__(self, page: Page, on_look: Callable[[], object] = lambda: None) -> None:
        self.page = page
        self.look = on_look
        """Called where the answer is on the screen, before something changes it."""
        self.clicks = 0

    def click(self, target: Locator) -> None:
        self.clicks += 1
        target.click()

    def choose(self, field: Locator, value: str) -> None:
        self.clicks += 1
        field.select_option(value)

    def open(self, name: str) -> None:
        """Open a page by the navigation."""
        self.click(
            self.page.get_by_role("navigation", name="Main navigation").get_by_role("link", name=name, exact=True)
        )

    def row(self, text: str) -> Locator:
        """The link of the first row that begins with a text."""
        return self.page.locator("tbody th a", has_text=text).first

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def confirm(self, name: str) -> None:
        self.click(self.page.get_by_role("dialog").get_by_role("button", name=name))


class Task(NamedTuple):
    """A task by its name, and its steps."""

    name: str
    run: Callable[[User], None]


def find_by_name(user: User) -> None:
    user.open("Documents")
    user.page.get_by_role("searchbox").first.fill(queue.INVOICE)
    user.click(user.row(queue.INVOICE))
    expect(user.page.get_by_role("heading", level=1)).to_have_text(f"invoice {queue.INVOICE}.pdf")
    expect(user.page.locator("pre.document-error")).to_contain_text("the OCR service did not answer")
    user.look()


def find_by_metadata(user: User) -> None:
    field = user.page.get_by_role("combobox", name="Search")
    expect(field).to_be_visible()
    user.page.keyboard.press("/")
    expect(field).to_be_focused()
    user.page.keyboard.type(f"invoice:{queue.INVOICE}")
    option = user.page.get_by_role("option", name=queue.INVOICE)
    expect(option).to_be_visible()
    user.look()
    user.click(option)
    expect(user.page.get_by_role("heading", level=1)).to_have_text(f"invoice {queue.INVOICE}.pdf")


def why_and_until_when(user: User) -> None:
    user.click(user.row(queue.BULK))
    user.click(user.row("Level 9"))
    user.click(user.row("box "))
    expect(user.page.locator(".status-answer")).to_contain_text("ahead of it")
    expect(user.page.locator(".status-cause")).to_contain_text(queue.BULK)
    user.look()


def which_worker(user: User) -> None:
    user.open("Workers")
    card = user.page.locator(".worker-card", has_text=queue.WORKERS[0])
    expect(card.locator(".worker-card-documents li")).to_have_count(4)
    user.look()
    user.click(card.locator(".worker-card-documents a").first)
    expect(user.page.locator(".page-document .details").first).to_contain_text(queue.WORKERS[0])


def retry_a_kind_of_failure(user: User) -> None:
    user.open("Failures")
    group = user.page.locator(".failure-group", has_text="is broken")
    expect(group.locator(".failure-count")).to_have_text("9")
    user.look()
    user.click(group.get_by_role("button", name="Retry 9 documents"))
    user.confirm("Retry 9 documents")
    expect(user.page.get_by_text("9 documents are waiting again")).to_be_visible()


def retry_a_customer_since_yesterday(user: User) -> None:
    user.open("Documents")
    user.click(user.button("Retry failed…"))
    dialog = user.page.get_by_role("dialog")
    with user.page.expect_response("**/v1/documents/retry*"):  # the number of all customers may be the same
        dialog.get_by_role("combobox", name="Customer").fill(queue.OUTAGE)
    expect(dialog.locator("select")).to_have_value("yesterday")
    expect(dialog.get_by_text("24 failed documents")).to_be_visible()
    user.look()
    user.click(dialog.get_by_role("button", name="Retry 24 documents"))
    expect(user.page.locator(".toast")).to_contain_text("24 documents queued for retry.")


def pause_a_worker(user: User) -> None:
    user.open("Workers")
    card = user.page.locator(".worker-card", has_text=queue.WORKERS[1])
    user.click(card.get_by_role("button", name="Pause worker"))
    user.confirm("Pause worker")
    expect(card).to_contain_text("It finishes its documents and takes no more.")
    user.look()


def what_happened_in_the_night(user: User) -> None:
    user.click(user.page.get_by_role("tab", name="24 h"))
    user.click(user.page.get_by_role("tab", name="Throughput by customer"))
    expect(user.page.locator(".history-panel .legend")).to_contain_text(queue.OUTAGE)
    user.look()


def resume_a_customer(user: User) -> None:
    user.click(user.row(queue.PAUSED))
    status = user.page.locator(".customer-status")
    expect(status.locator(".status-reason")).to_contain_text(f"{queue.MARIA.name}: {queue.MARIA.why}")
    user.look()
    user.click(status.get_by_role("button", name="Resume"))
    user.confirm("Resume")
    expect(status.locator(".status-answer")).not_to_contain_text("paused")


TASKS: Final = (
    Task("find-a-document", find_by_name),
    Task("find-by-metadata", find_by_metadata),
    Task("why-it-waits", why_and_until_when),
    Task("which-worker", which_worker),
    Task("pause-a-worker", pause_a_worker),
    Task("retry-a-failure", retry_a_kind_of_failure),
    Task("retry-since-yesterday", retry_a_customer_since_yesterday),
    Task("resume-a-customer", resume_a_customer),
    Task("what-happened", what_happened_in_the_night),
)
