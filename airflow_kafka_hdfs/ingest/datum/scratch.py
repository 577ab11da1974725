"""Memory that batches of values are laid out in, one after another."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable

from airflow_kafka_hdfs.ingest.datum.packing import BATCH_BYTES

_MOST_KEPT = 2 * BATCH_BYTES


class Scratch(threading.local):
    """Memory for one batch after another: to get megabytes of it anew for each takes longer than to fill them.

    Each thread has its own, whatever number of topics it reads.
    """

    def __init__(self) -> None:
        self._memory = io.BytesIO()
        self._view = memoryview(b"")

    def lay(self, parts: Iterable[bytes], size: int) -> memoryview:
        """Parts end to end.

        Args:
            parts: of one batch.
            size: bytes that are expected in all; memory for unusually many is not kept.

        Returns:
            A view of them. It is released by the next call, unless something looks into it still: then that memory
            is left to it.
        """
        try:
            self._view.release()
            self._memory.write(b"")  # refused as long as there are slices of the view
        except BufferError:
            self._memory = io.BytesIO()
        memory = self._memory if size <= _MOST_KEPT else io.BytesIO()
        memory.seek(0)
        memory.writelines(parts)
        view = memory.getbuffer()[: memory.tell()]
        if memory is self._memory:
            self._view = view
        return view
