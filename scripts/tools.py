"""Programs that Cargo installs for the scripts, below target/tools, at versions that the scripts name."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
TOOLS = TARGET / "tools"
CARGO = os.environ.get("CARGO", "cargo")


def tool(crate, version, *features):
    """The program of a crate at this version; it is installed if it is missing."""
    known = TOOLS / ".crates.toml"
    if not known.is_file() or not re.search(rf'"{re.escape(crate)} {re.escape(version)} ', known.read_text()):
        print(f"{crate} {version} is being installed in {TOOLS}", flush=True)
        words = [CARGO, "install", crate, "--version", version, "--locked", "--quiet", "--root", str(TOOLS), *features]
        subprocess.run(words, check=True, cwd=ROOT)
    return TOOLS / "bin" / crate
