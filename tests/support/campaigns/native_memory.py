"""The parts of a JVM's resident memory: the memory that the JVM reports as committed, and the kernel's counts.

The JVM must run with ``-XX:NativeMemoryTracking=summary``, which costs a few per cent of its time::

    resident = touched heap + touched memory of the JVM outside the heap + memory that libraries get from malloc
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
    """The MB of each part: the JVM's committed memory, the resident part of its heap, and the other resident memory."""
    report = subprocess.run(
        [jcmd, str(pid), "VM.native_memory", "summary", "scale=KB"], check=True, capture_output=True, text=True
    ).stdout
    committed = {name: int(kilobytes) / 1024 for name, kilobytes in _PART.findall(report)}
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
    """The resident MB of the heap, of the process, and of files. A heap of less than 4 GB is below that address."""
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
