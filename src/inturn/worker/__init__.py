"""Workers that turn documents into results: the worker, its children, the sandbox, the default processor, upkeep."""
