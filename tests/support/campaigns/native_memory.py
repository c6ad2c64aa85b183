"""Where a JVM's resident memory is: what its parts have committed by its own account, and what the kernel counts.

The JVM must run with ``-XX:NativeMemoryTracking=summary``, which costs it some per cent of its time::

    resident = touched of the heap + touched of what the JVM has beside it + what libraries have asked malloc for
               (smaps)               (NativeMemoryTracking)                 (the rest: RocksDB, Netty, codecs)
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FLAG = "-XX:NativeMemoryTracking=summary"

_PART = re.compile(r"^-\s+([A-Z][\w ]+?) \(reserved=\d+KB, committed=(\d+)KB", re.MULTILINE)
_HEAP = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ")


def parts(pid: int, jcmd: str = "jcmd") -> dict[str, float]:
    """Each part's MB: what the JVM has committed, of its heap what is resident; and the rest of what is resident."""
    said = subprocess.run(
        [jcmd, str(pid), "VM.native_memory", "summary", "scale=KB"], check=True, capture_output=True, text=True
    ).stdout
    committed = {name: int(kilobytes) / 1024 for name, kilobytes in _PART.findall(said)}
    heap, total, files = resident(pid)
    beside = {name: mb for name, mb in committed.items() if name != "Java Heap"}
    rest = total - heap - files - sum(beside.values())
    return {
        "resident": total,
        "heap, resident": heap,
        "heap, committed": committed["Java Heap"],
        "files mapped, resident": files,
        **beside,
        "the rest": rest,
    }


def resident(pid: int) -> tuple[float, float, float]:
    """What is resident of the heap, of all, and of files, in MB. A heap of less than 4 GB is below that address."""
    heap = total = files = 0
    where, of_file = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if start := _HEAP.match(line):
            where, of_file = int(start[1], 16), "/" in line
        elif line.startswith("Rss:"):
            kilobytes = int(line.split()[1])
            total += kilobytes
            if of_file:
                files += kilobytes
            elif where < 1 << 32:
                heap += kilobytes
    return heap / 1024, total / 1024, files / 1024
