"""What the tests share: the repository, the command, and small traces."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(os.environ.get("PERYTON_REPOSITORY", Path(__file__).parents[3])).resolve()
TRACES = REPOSITORY / "examples" / "traces"
DESIGNS = REPOSITORY / "examples" / "papers"
PERYTON = Path(os.environ.get("PERYTON", REPOSITORY / "target" / "debug" / "peryton"))

CACHE = {
    "devices": {
        "ssd": {"profile": "intel-320-300gb", "size": "16MiB"},
        "hdd": {"profile": "seagate-st32000641as", "size": "256MiB"},
    },
    "placement": {
        "mode": "caching",
        # Whole extents, so that a victim is what the policy names first, dirty or not.
        "fast": "ssd",
        "slow": "hdd",
        "extent": "16KiB",
        "promotion": {"threshold": 0},
    },
}


# Few extents may be dirty, so that a search for a victim is short: a long one ends and goes on with the next call in Rust
# (`peryton_policy::Queues::oldest`), and does not in Python.
SHORT_SEARCHES = {**CACHE, "placement": {**CACHE["placement"], "writeback": {"dirty_target": 0.05}}}


@pytest.fixture(scope="session")
def command() -> Callable[..., Any]:
    """Runs the command and reads what it prints as JSON."""
    assert PERYTON.is_file(), f"{PERYTON} is missing: cargo build -p peryton, or set PERYTON"

    def run(*words: object) -> Any:
        ran = subprocess.run(
            [PERYTON, *map(str, words)], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


@pytest.fixture(scope="session")
def sqlite() -> Path:
    """15,066 requests of SQLite on ext4."""
    return TRACES / "sqlite-ext4.parquet"


@pytest.fixture(scope="session")
def pgbench() -> Path:
    """About half a million requests of PostgreSQL on ext4."""
    return TRACES / "pgbench-ext4.parquet"
