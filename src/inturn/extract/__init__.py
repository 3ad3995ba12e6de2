"""Reads text out of documents: the default processor, its checks and its readers."""
