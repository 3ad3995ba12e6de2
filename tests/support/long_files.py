"""The order in which files are tested."""

LONG_FILES = (
    "contract/test_postgres.py",
    "page/test_matrix.py",
    "worker/test_worker_traps.py",
    "page/test_customers.py",
    "worker/test_worker.py",
    "page/test_documents.py",
    "page/test_policy.py",
    "contract/test_sqlite.py",
    "http/test_description.py",
    "worker/test_worker_kills.py",
    "worker/test_wrong_clocks.py",
    "sandbox/test_probes.py",
    "extract/test_hostile.py",
    "worker/test_hostile_files.py",
    "postgres/test_move.py",
    "page/test_truth.py",
    "page/test_operating.py",
    "page/test_simulator.py",
    "page/test_reach.py",
    "page/test_priority.py",
)
"""Files that take more than ten seconds of CPU with what they start, longest first."""
