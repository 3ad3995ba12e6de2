"""Extracts text from documents: the default processor, its checks and its readers."""
