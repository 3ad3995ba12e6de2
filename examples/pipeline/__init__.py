"""An example of steps and parts: PDFs are split into pages, read, classified, merged and exported."""
