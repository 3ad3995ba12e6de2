"""One customer publishes two hundred documents, then another one three."""

import time

from fleet import counters, read_invoice

for number in range(200):
    read_invoice.delay("bulk", f"page-{number}.pdf", time.time())
for number in range(3):
    read_invoice.delay("small", f"invoice-{number}.pdf", time.time())
print("bulk:", counters.counter("bulk"), "small:", counters.counter("small"))
