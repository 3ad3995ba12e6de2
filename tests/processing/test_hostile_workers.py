"""G7: hostile files through the real worker and the default processor, each followed by another customer's document."""

import re

import pytest
from hostile import HOSTILE, Hostile
from works import Shop

from inturn.demo import make
from inturn.model import DocumentState, NewDocument
from inturn.processing.sandbox import Limits

BOX = Limits(cpu=10, wall=60.0, documents=5)
GROUPS = 4
DIED = r"did not finish: (it used more CPU time|its process (was killed|crashed|ended))|ran out of memory|longer than"


def submitted(shop: Shop, customer: str, name: str, data: bytes) -> str:
    with shop.blobs.begin() as writing:
        writing.write(data)
        blob = writing.commit()
    given = NewDocument(name, blob=blob.key, sha256=blob.sha256, size=blob.size)
    return shop.queue.submit(customer, [given])[0].id


@pytest.mark.parametrize("group", [HOSTILE[at::GROUPS] for at in range(GROUPS)], ids=range(GROUPS))
def test_g7_a_hostile_file_fails_alone_and_the_next_customers_document_completes(
    shop: Shop, group: tuple[Hostile, ...]
) -> None:
    good = make("docx", 7)
    pairs = []
    for n, hostile in enumerate(group):
        bad = submitted(shop, f"hostile {n}", hostile.name, hostile.make())
        pairs.append((hostile, bad, submitted(shop, f"honest {n}", "next.docx", good.data)))
    tally = shop.work_by_default(slots=2, box=BOX)
    assert tally.stale == 0
    assert shop.store.paused() is None
    for hostile, bad, following in pairs:
        document = shop.queue.document(bad)
        if hostile.may_pass and document.state is DocumentState.DONE:
            assert document.attempt == 1
        elif hostile.may_die and re.search(DIED, document.error or ""):
            assert (document.state, document.attempt) == (DocumentState.FAILED, 3)
        else:
            assert document.state is DocumentState.FAILED, hostile.name
            assert re.search(hostile.expect, document.error or ""), (hostile.name, document.error)
            assert document.attempt == 1, "it was rejected, and not tried again"
        honest = shop.queue.document(following)
        assert (honest.state, honest.attempt) == (DocumentState.DONE, 1), honest.error
        assert good.content.title in shop.queue.result(following)["text"]


def test_g7_a_file_that_kills_its_reader_fails_after_three_crashes(shop: Shop) -> None:
    (killer,) = (each for each in HOSTILE if each.name == "hidden-bomb.pdf")
    good = make("docx", 7)
    bad = submitted(shop, "hostile", killer.name, killer.make())
    following = [submitted(shop, f"honest {n}", "next.docx", good.data) for n in range(3)]
    shop.work_by_default(slots=1, box=Limits(memory=600 << 20, cpu=2, wall=60.0))
    document = shop.queue.document(bad)
    assert document.state is DocumentState.FAILED
    assert document.attempt in {1, 3}
    assert re.search(f"memory|{DIED}", document.error or "")
    for id_ in following:
        honest = shop.queue.document(id_)
        assert (honest.state, honest.attempt) == (DocumentState.DONE, 1)
