"""A process of a sweep ends with the one that started it: nobody tells it when that one is killed."""

from __future__ import annotations

import os
import threading
import time

#: Seconds between two looks. Cost: none that is seen; what is left of a killed sweep is gone so much later.
_LOOK = 0.1


def end_with(parent: int) -> None:
    """End this process once `parent` is not its parent any more, whatever it does then, or waits for."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)
