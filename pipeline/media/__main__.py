"""The media process: one request as its argument, messages on its standard output."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import sys
import time
import traceback
from collections.abc import Callable

from pipeline.errors import RecordingRefused
from pipeline.media.confine import apply_limits, confine, leave_with_parent, take_output
from pipeline.plain import from_plain
from pipeline.wire import Failure, MediaRequest, Message, Pulse, Refusal, encode

PULSE_S = 2.0
"""How often a sign of life is sent while there is nothing else to send."""


class _Pipe:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._sent = time.monotonic()

    def send(self, message: Message) -> None:
        data = memoryview(encode(message))
        while data:
            data = data[os.write(self._descriptor, data) :]
        self._sent = time.monotonic()

    def pulse(self) -> None:
        if time.monotonic() - self._sent > PULSE_S:
            self.send(Pulse())


def main(argument: str) -> None:
    """Serve one request; ends quietly when the other side has gone."""
    pipe = _Pipe(take_output())
    try:
        request = from_plain(MediaRequest, json.loads(argument))
        apply_limits(request.limits)
        serve = _load()
        confine(request.path)
        leave_with_parent()  # a thread, which inherits what its maker may no longer do
        serve(request, pipe)
    except RecordingRefused as refused:
        pipe.send(Refusal(code=refused.code, message=refused.message))
    except MemoryError:
        pipe.send(
            Refusal(code="memory_limit", message="decoding it needs more memory than allowed")
        )
    except BrokenPipeError:
        os._exit(0)
    except Exception:  # noqa: BLE001 - what is left is a fault of ours, and is told to the loop
        pipe.send(Failure(traceback=traceback.format_exc(limit=20)))


def _load() -> Callable[[MediaRequest, _Pipe], None]:
    """Only now, under the limits, is the library loaded that reads hostile bytes.

    Whole: no memory becomes code any more once the process is confined.
    """
    try:
        import av
        from PIL import Image

        from pipeline.media.source import open_source
        from pipeline.media.units import UnitMerger

        # What they would load with the first stream or picture that asks for it.
        Image.preinit()
        for module in pkgutil.walk_packages(av.__path__, "av."):
            if module.name not in ("av.__main__", "av.datasets"):
                importlib.import_module(module.name)
    except ImportError as error:
        if _is_out_of_memory(error):
            raise MemoryError from error
        raise

    def serve(request: MediaRequest, pipe: _Pipe) -> None:
        source = open_source(
            request.path,
            start_s=request.start_s,
            limits=request.limits,
            pulse=pipe.pulse,
            audio_index=request.audio_stream,
            video_index=request.video_stream,
        )
        pipe.send(source.probe)
        if request.is_probe_only:
            return
        merger = UnitMerger(
            source, start_s=request.start_s, longest_edge_px=request.longest_edge_px
        )
        # PyAV ties a frame and its side data in a cycle. Python waits for many objects, however
        # large, before it looks for those: with big pictures that is the whole address space.
        gc.freeze()
        for event in merger.events():
            pipe.send(event)
            gc.collect()

    return serve


def _is_out_of_memory(error: BaseException | None) -> bool:
    """By the loader's words, whoever passes them on: the limit does not even hold the library."""
    while error is not None:
        if "failed to map segment" in str(error) or "annot allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


if __name__ == "__main__":
    main(sys.argv[1])
    # Decoder threads of a damaged file can hang in their teardown; there is nothing left to save.
    sys.stdout.flush()
    os._exit(0)
