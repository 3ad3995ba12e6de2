"""The worker: its loop, its child processes, their channel, and maintenance."""
