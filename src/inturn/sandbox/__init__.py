"""Confines a child process: resource limits, Landlock, seccomp, an unprivileged user."""
