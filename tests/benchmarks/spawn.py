"""Run a command and print its seconds, peak memory and status as JSON: `python spawn.py COMMAND...`.

A script of the standard library alone, because Linux counts the memory of the process that starts another as the new one's
own peak: started from here, a command's peak is its own unless it is below the few MB of this interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

MB = 2**20 if sys.platform == "darwin" else 2**10
"""Units of `ru_maxrss` in a MB: macOS counts bytes, Linux KiB."""


def main() -> None:
    """Run the command that the arguments are."""
    started = time.perf_counter()
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    print(json.dumps({"seconds": time.perf_counter() - started, "peak_mb": usage.ru_maxrss / MB, "status": status}))


if __name__ == "__main__":
    main()
