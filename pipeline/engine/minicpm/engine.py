"""The engine that OmnAI is for: one loaded model, one epoch at a time."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from pipeline.engine.minicpm.context import prepare_text_context
from pipeline.engine.minicpm.device import hold_gpu
from pipeline.engine.minicpm.fast.choice import with_decoder
from pipeline.engine.minicpm.loading import Loaded, Setting, load
from pipeline.engine.minicpm.lock import read_lock
from pipeline.engine.minicpm.session import MinicpmoSession
from pipeline.engine.session import Engine, Session, context_digest
from pipeline.errors import ContextTooLong, EngineError, EpochUncertain, SessionStopped
from pipeline.records import EngineInfo, SessionContext
from pipeline.settings import Settings

NAME = "minicpmo"

log = logging.getLogger(__name__)


class EngineLost(EngineError):
    """The model could not be brought back to a known state; this process must be replaced."""

    code = "engine_lost"


class MinicpmoEngine(Engine):
    """Keeps a model for as long as its process lives."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._session: MinicpmoSession | None = None
        self._stop_opening = threading.Event()
        self._is_lost = False

    def describe(self) -> EngineInfo:
        loaded = self._loaded
        return EngineInfo(
            name=NAME, revision=loaded.revision, device=loaded.device, settings=loaded.settings
        )

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    def stop_opening(self) -> None:
        self._stop_opening.set()

    def open(self, context: SessionContext) -> Session:
        if self._is_lost:
            raise EngineLost
        held = self._session
        if held is not None and not held.is_closed:
            is_same = context_digest(held.context) == context_digest(context)
            if is_same and held.is_untouched:
                return held
            raise EngineError(
                "a session is open; close it first: another context needs an epoch of its own"
            )
        self._stop_opening.clear()
        self._prepare(context)
        self._session = MinicpmoSession(context, self._loaded, reset=self._reset)
        return self._session

    def _prepare(self, context: SessionContext) -> None:
        """Raises SessionStopped, EngineError; the model is reset then, as after any fault."""
        loaded = self._loaded
        try:
            # The duplex class never forgets what the audio encoder heard in the last recording.
            loaded.model.reset_session()
            loaded.seed(context.options.seed)
            prepare_text_context(loaded.duplex, context.prompt, self._stop_opening)
        except SessionStopped:
            self._reset(False)
            raise
        except ContextTooLong as error:
            self._reset(False)
            raise EngineError(error.message) from error
        except Exception as error:
            self._reset(True)
            message = f"the model failed while it took in the context: {type(error).__name__}"
            raise EpochUncertain(message) from error

    def _reset(self, has_failed: bool) -> None:
        """Forget the epoch. Where that fails, or the device is gone, nothing is opened again."""
        loaded = self._loaded
        try:
            if has_failed:
                loaded.check_device()
            loaded.model.reset_session()
            loaded.duplex._reset_streaming_state()
            loaded.duplex.decoder.reset()
        except Exception:
            self._is_lost = True
            log.exception(
                "The model could not be reset; this process must be replaced.",
                extra={"action": "engine_lost"},
            )


def make_engine(settings: Settings) -> MinicpmoEngine:
    """Take the GPU for as long as this process lives, and load the model onto it.

    Raises DeviceRefused, SnapshotRefused, TokenizerRefused, ModelNotLoaded; minutes, else.
    """
    return MinicpmoEngine(load_on_gpu(settings))


def load_on_gpu(settings: Settings) -> Loaded:
    """The model of `make_engine`, with the decoder that the settings name."""
    held = hold_gpu(settings.gpu, settings.data_dir / "locks")
    try:
        loaded = load(
            settings.model_folder,
            read_lock(),
            device="cuda:0",
            allow_unverified=settings.model_allow_unverified,
        )
        loaded = with_decoder(loaded, settings.decoder)
    except BaseException:
        held.give_back()
        raise
    found: dict[str, Setting] = {"gpu": held.uuid, "are_gpu_holders_known": held.are_others_known}
    return replace(loaded, settings={**loaded.settings, **found})
