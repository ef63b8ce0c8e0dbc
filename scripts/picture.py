#!/usr/bin/env python3
"""Takes the picture of a report for the README, docs/report.png, with headless Chromium (Debian: chromium).

usage: scripts/picture.py [REPORT.html]     (`make demo` makes report/plan/plan.html, which is the default)
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "report.png"
WIDTH, HEIGHT = 1100, 760
MOST_BYTES = 200_000


def main():
    report = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "report" / "plan" / "plan.html").resolve()
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        sys.exit("picture: chromium is missing")
    if not report.is_file():
        sys.exit(f"picture: {report} is missing: make demo")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "report.png"
        words = [browser, "--headless", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={shot}"]
        words += [f"--user-data-dir={folder}/profile", *(["--no-sandbox"] if os.geteuid() == 0 else []), report.as_uri()]
        subprocess.run(words, check=True, timeout=120, stderr=subprocess.DEVNULL)
        if shot.stat().st_size > MOST_BYTES:
            sys.exit(f"picture: it has {shot.stat().st_size:,} bytes, more than {MOST_BYTES:,}: make it smaller")
        shutil.copy(shot, PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
