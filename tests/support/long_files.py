"""The order in which files are tested."""

LONG_FILES = (
    "contract/test_postgres.py",
    "page/test_matrix.py",
    "worker/test_worker_traps.py",
    "contract/test_sqlite.py",
    "worker/test_worker.py",
    "page/test_policy.py",
    "page/test_documents.py",
    "worker/test_worker_kills.py",
    "worker/test_wrong_clocks.py",
    "page/test_customers.py",
    "sandbox/test_probes.py",
    "extract/test_hostile.py",
    "postgres/test_move.py",
    "simulate/test_engine.py",
    "page/test_simulator.py",
    "worker/test_hostile_files.py",
)
"""Files that take half a minute or more, longest first."""
