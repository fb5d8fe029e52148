"""What is computed again and again in the same places, as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Repeated:
    """A function of no arguments whose inputs change where they are.

    On a GPU it is called once for its kernels to be chosen, once more to be captured, and from then
    on repeated; the generator of random numbers is left as it was. Elsewhere it is called.
    """

    def __init__(self, function: Callable[[], Any], *, pool: Pool) -> None:
        self._function = function
        self._graph: Any = None
        self._made: Any = None
        if pool.handle is not None:
            self._capture(pool)

    def __call__(self) -> Any:
        """What the function gives; on a GPU the same memory every time."""
        if self._graph is None:
            with torch.no_grad():
                return self._function()
        self._graph.replay()
        return self._made

    def _capture(self, pool: Pool) -> None:
        """Raises RuntimeError; the generator can be used all the same."""
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        unspoilt, random = generator.clone_state(), generator.get_state()
        here, aside = torch.cuda.current_stream(), pool.stream
        aside.wait_stream(here)
        with torch.cuda.stream(aside), torch.no_grad():
            self._function()
        here.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Other threads of the worker may use the device meanwhile.
        local = {
            "pool": pool.handle,
            "stream": aside,
            "capture_error_mode": "thread_local",
        }
        try:
            with torch.cuda.graph(graph, **local), torch.no_grad():
                self._made = self._function()
        except BaseException:
            # A capture that broke off leaves it waiting for the end of the capture.
            generator.graphsafe_set_state(unspoilt)
            raise
        generator.set_state(random)
        self._graph = graph


class Pool:
    """Memory that graphs share which never run at once. Graphs of two pools may: each is captured
    on a stream of its own, and what a matrix product works in belongs to a stream.

    It outlives each of its graphs: torch takes a pool without a graph for gone, so one graph of
    nothing is kept.
    """

    def __init__(self, *, is_graphed: bool) -> None:
        self.handle: Any = None
        self.stream: Any = None
        if is_graphed:
            self.handle = torch.cuda.graph_pool_handle()
            self.stream = torch.cuda.Stream()
            self._kept = Repeated(_nothing, pool=self)


def _nothing() -> Any:
    return torch.zeros(1, device="cuda")


def mark() -> Any:
    """What the current stream was given so far, for another one to wait for."""
    if not torch.cuda.is_initialized():
        return None
    event = torch.cuda.Event()
    event.record()
    return event


def wait_for(event: Any, *made: Any) -> None:
    """The current stream goes on after `event`; what was `made` on another one is used on it."""
    if event is None:
        return
    here = torch.cuda.current_stream()
    here.wait_event(event)
    for each in made:
        if each.is_cuda:
            each.record_stream(here)
