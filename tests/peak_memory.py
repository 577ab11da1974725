"""The most memory that this process had at once."""

from __future__ import annotations

from pathlib import Path


def peak_memory() -> float:
    """The greatest resident size of this process so far, in MiB.

    The kernel's `ru_maxrss` would not do: over `exec` it keeps the greatest value of the process that started this one,
    so that beneath a large parent nothing ever seems to grow.
    """
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
