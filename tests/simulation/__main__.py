"""`python -m tests.simulation --seeds N --first S`: many seeds; a failing one is named, and gives the same again."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
import traceback

from tests.simulation.mix import simulate, small_world


def main() -> int:
    """Run the seeds one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default 0)")
    given = parser.parse_args()
    logging.disable(logging.ERROR)
    gc.freeze()  # what imports made stays to the end: no collection need look at it,
    gc.set_threshold(50_000)  # and a seed makes much that is gone with it
    start = time.process_time()
    crashes = 0
    with small_world():
        for seed in range(given.first, given.first + given.seeds):
            try:
                crashes += simulate(seed).scheduler.crashes
            except Exception:
                traceback.print_exc()
                print(f"simulate: seed {seed} fails; again: python -m tests.simulation --seeds 1 --first {seed}")
                return 1
    seconds = time.process_time() - start
    print(
        f"simulate: {given.seeds} seeds from {given.first}, {crashes} crashes, 0 lost, 0 doubled, "
        f"{seconds:.1f} s of CPU, {1000 * seconds / max(given.seeds, 1):.1f} ms a seed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
