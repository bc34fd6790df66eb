"""Runs a command as a user does: in a process of its own, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(command: str, *arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    code = f"from gradient_rl.cli.{command} import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
