"""Fill a store with an older checkout's code, for `python -m bench steps --part upgrade`.

Of every ten documents two belong to a second queue; some are done with a file in their result, and as many had an
attempt that failed.
"""

import sys

import inturn
from bench.peers import fleet_inturn
from inturn import NewDocument
from inturn.model import ResultFile
from inturn.store_types import ClaimRequest, Outcome, OutcomeKind

CUSTOMERS = 1_000
SECOND_QUEUE = "ocr"
BATCH = 500


def main() -> None:
    target, documents = sys.argv[1], int(sys.argv[2])
    fleet_inturn.setup(target)
    fleet_inturn.fill(target, documents * 8 // 10, CUSTOMERS)
    with inturn.open(target) as queue:
        share = documents * 2 // 10 // CUSTOMERS
        for number in range(CUSTOMERS):
            queue.submit(f"customer {number:05}", [NewDocument("document.pdf", queue=SECOND_QUEUE)] * share)
        request = ClaimRequest("older", BATCH, inturn.seconds(60), (SECOND_QUEUE,))
        file = ResultFile("text.txt", "blobs/text", 4, "ab" * 32)
        for number in range(documents // 10 // BATCH):
            claimed = queue.store.claim(request)
            outcomes = [
                Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result='{"pages": 3}', files=(file,))
                if number % 2
                else Outcome(claim.document.id, claim.fence, OutcomeKind.FAILED, error="torn", retry_in=10**12)
                for claim in claimed
            ]
            queue.store.ack_and_claim(outcomes, None)


main()
