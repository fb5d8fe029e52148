"""Drops what the model's own code collects for every unit and nobody reads."""

from __future__ import annotations

from pipeline.engine.minicpm.native import Duplex

REPETITION_WINDOW_TOKENS = 512
"""What the repetition penalty looks back on; older tokens cannot change a draw."""


def trim(duplex: Duplex) -> None:
    """Called after every unit: memory stays flat, and no later draw changes.

    Hidden states of spoken tokens hold GPU memory and serve speech synthesis only; the rest serves
    reports that are never asked for.
    """
    for history in (
        duplex.total_hidden,
        duplex.total_ids,
        duplex.res_ids,
        duplex.prefill_schema_tokens,
    ):
        history.clear()
    decoder = duplex.decoder
    del decoder.generated_tokens[:-REPETITION_WINDOW_TOKENS]
    del decoder.generated_special_tokens[:-REPETITION_WINDOW_TOKENS]
