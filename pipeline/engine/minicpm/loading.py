"""Loads the locked model once, as its own duplex form without speech."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pipeline.engine.minicpm.context import BATCH_TOKENS, TOKENS_MAX
from pipeline.engine.minicpm.lock import DecodeSettings, ModelLock, SnapshotReport, verify_snapshot
from pipeline.engine.minicpm.native import Duplex, Model, Tokenizer
from pipeline.engine.minicpm.text_only import text_only_duplex
from pipeline.engine.minicpm.tokens import TokenizerRefused, resolve
from pipeline.errors import OmnaiError

if TYPE_CHECKING:
    from pipeline.engine.minicpm.fast.ahead import Ahead

Setting = str | int | float | bool | None

CPU = "cpu"

COMPONENTS = ("llm", "vpm", "resampler", "apm", "audio_projection_layer")


class ModelNotLoaded(OmnaiError):
    """The model could not be loaded."""

    code = "model_not_loaded"


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """One model in this process. All but the settings belongs to the engine's thread."""

    model: Model
    duplex: Duplex
    decode: DecodeSettings
    revision: str
    device: str
    control_tokens: tuple[str, ...]
    """Spellings that are never public text."""
    settings: Mapping[str, Setting]
    """What it runs with, as it was found after loading; stored with every epoch."""
    seed: Callable[[int], None]
    """Seeds what the sampler draws from."""
    check_device: Callable[[], None]
    """Raises where the device no longer computes."""
    ahead: Ahead | None = None
    """Prepares the next unit while this one is computed, where the fast decoder runs."""


def load(snapshot: Path, lock: ModelLock, *, device: str, allow_unverified: bool = False) -> Loaded:
    """Verify the folder, then run its code and load its weights, without network.

    `device` is `cuda:0` after the GPU was pinned; on `cpu` the weights are float32, for tests.
    Raises SnapshotRefused before any of the model's code is imported, TokenizerRefused before any
    weight is read, ModelNotLoaded.
    """
    report = verify_snapshot(snapshot, lock, allow_unverified=allow_unverified)
    snapshot = _importable(snapshot)
    try:
        # Late: nothing else of this program loads them, and most installations have neither.
        import torch
        import transformers

        _check_cuda(torch, device)
        local = {"trust_remote_code": True, "local_files_only": True}
        check_tokens(transformers.AutoTokenizer.from_pretrained(str(snapshot), **local), lock)
        model = transformers.AutoModel.from_pretrained(
            str(snapshot),
            **local,
            attn_implementation=lock.decode.attn_implementation,
            torch_dtype=torch.float32 if device == CPU else getattr(torch, lock.decode.torch_dtype),
            init_vision=True,
            init_audio=True,
            init_tts=False,
        )
        model = model.eval().to(device)
        duplex = text_only_duplex(model, **duplex_settings(lock.decode))
    except (ImportError, OSError, ValueError, RuntimeError, AttributeError) as error:
        message = f"the model could not be loaded: {type(error).__name__}: {error}"
        raise ModelNotLoaded(message) from error
    check_tokens(duplex.tokenizer, lock)
    return Loaded(
        model=model,
        duplex=duplex,
        decode=lock.decode,
        revision=report.revision,
        device=device,
        control_tokens=control_tokens(duplex.tokenizer, lock),
        settings={
            **asdict(lock.decode),
            **_platform(torch, transformers, device),
            **_limits(lock.decode),
            **_verified(report),
            **dict(_components(model)),
        },
        seed=torch.manual_seed,
        check_device=lambda: _compute(torch, device),
    )


def _importable(snapshot: Path) -> Path:
    """The folder under a name that Transformers can import its code by: one without a dot.

    The model's code reads its files again when a session begins, so the other name stays for as
    long as this process.
    """
    if "." not in snapshot.name:
        return snapshot
    aside = TemporaryDirectory(prefix="omnai-model-")
    atexit.register(aside.cleanup)
    link = Path(aside.name) / snapshot.name.replace(".", "_")
    link.symlink_to(snapshot.absolute(), target_is_directory=True)
    return link


def duplex_settings(decode: DecodeSettings) -> dict[str, Any]:
    """Everything that could be a default is said: upstream's two forms have different ones."""
    sampling = decode.generate_arguments()
    del sampling["decode_mode"], sampling["listen_top_k"]  # of a call only, not of an instance
    return {**decode.duplex_arguments(), **sampling}


def check_tokens(tokenizer: Tokenizer, lock: ModelLock) -> None:
    """Raises TokenizerRefused naming each required token that is not one token of its own."""
    numbers = resolve(
        lock.required_tokens, tokenizer.convert_tokens_to_ids, unknown_id=tokenizer.unk_token_id
    )
    split = [
        token
        for token, number in numbers.items()
        if list(tokenizer.encode(token, add_special_tokens=False)) != [number]
    ]
    if split:
        raise TokenizerRefused(
            f"the tokenizer does not read {', '.join(split)} as one token;"
            " the locked revision's tokenizer is accepted"
        )


def control_tokens(tokenizer: Tokenizer, lock: ModelLock) -> tuple[str, ...]:
    """Added tokens written as markup; a tokenizer may also add plain words, which are text."""
    added = {*tokenizer.get_added_vocab(), *lock.required_tokens}
    return tuple(sorted(token for token in added if token[:1] == "<" and token[-1:] == ">"))


def _check_cuda(torch: Any, device: str) -> None:
    if device != CPU and not torch.cuda.is_available():
        raise ModelNotLoaded("torch finds no CUDA device; a GPU and its driver would be accepted")


def _compute(torch: Any, device: str) -> None:
    """A fault inside a kernel shows at the next call that waits for the device."""
    if (torch.ones(2, device=device).sum() == 2).item() is not True:
        raise RuntimeError("the device computes wrongly")


# --- what was found


def _platform(torch: Any, transformers: Any, device: str) -> dict[str, Setting]:
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cuda": None if device == CPU else torch.version.cuda,
        "device_name": None if device == CPU else torch.cuda.get_device_name(device),
    }


def _limits(decode: DecodeSettings) -> dict[str, Setting]:
    first = decode.first_chunk_ms * decode.sample_rate // 1000
    return {
        "context_tokens_max": TOKENS_MAX,
        "context_batch_tokens": BATCH_TOKENS,
        "first_unit_padding_samples": first - decode.sample_rate,
    }


def _verified(report: SnapshotReport) -> dict[str, Setting]:
    return {
        "verified_files": len(report.verified),
        "unverified_files": ", ".join(report.unverified) or None,
    }


def _components(model: Any) -> Iterator[tuple[str, Setting]]:
    for name in COMPONENTS:
        component = getattr(model, name)
        first = next(component.parameters())
        yield f"{name}_device", str(first.device)
        dtypes = {str(parameter.dtype) for parameter in component.parameters()}
        yield f"{name}_dtype", ", ".join(sorted(dtypes))
        classes = {type(module).__name__ for module in component.modules()}
        attention = sorted(kind for kind in classes if "Attention" in kind)
        if attention:
            yield f"{name}_attention", ", ".join(attention)
            config = getattr(component, "config", None)
            yield f"{name}_attention_form", getattr(config, "_attn_implementation", None)
