"""Uploads: parse multipart bodies, store the files, submit the documents in batches."""
