"""The language model's layers over a static cache, with its own weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from pipeline.engine.minicpm.fast.attention import Attention
from pipeline.engine.minicpm.fast.cache import Cache
from pipeline.engine.minicpm.fast.refusal import NotFast

MODEL = "Qwen3ForCausalLM"


@dataclass(frozen=True, kw_only=True)
class _Layer:
    before: Any
    queries_keys_values: Any
    query_scale: Any
    key_scale: Any
    scales: Any
    """Of every query and key head, in this order."""
    out: Any
    between: Any
    gate_up: Any
    down: Any


class Network:
    """Shares every weight with the model: joined matrices take the place of the single ones."""

    def __init__(self, llm: Any, *, is_fused: bool | None = None) -> None:
        """`is_fused` takes fewer kernels that round elsewhere; None takes them on a GPU.

        Raises NotFast.
        """
        config = llm.config
        _check(llm)
        self.heads: int = config.num_attention_heads
        self.key_heads: int = config.num_key_value_heads
        self.size: int = getattr(config, "head_dim", config.hidden_size // self.heads)
        self.hidden: int = config.hidden_size
        self.theta = float(getattr(config, "rope_theta", 10_000.0))
        self._epsilon = float(config.rms_norm_eps)
        self._head = llm.lm_head.weight
        self.vocabulary: int = len(self._head)
        self._after = llm.model.norm.weight
        self._layers = [_layer(each, self.heads, self.key_heads) for each in llm.model.layers]
        self._speeds = llm.model.rotary_emb.inv_freq
        self.embeddings = llm.model.embed_tokens.weight.detach()
        self._is_fused = self.embeddings.is_cuda if is_fused is None else is_fused

    @property
    def groups(self) -> int:
        """Queries that share a key head."""
        return self.heads // self.key_heads

    @property
    def weight_bytes(self) -> int:
        """What one forward pass reads of the weights."""
        read = [self._head, self._after]
        for layer in self._layers:
            read += vars(layer).values()
        return sum(weight.numel() * weight.element_size() for weight in read)

    def new_cache(self, capacity: int) -> Cache:
        return Cache(
            layers=len(self._layers),
            heads=self.key_heads,
            size=self.size,
            capacity=capacity,
            theta=self.theta,
            like=self.embeddings,
        )

    def states(self, embeds: Any, positions: Any, cache: Cache, attention: Attention) -> Any:
        """[tokens, hidden] into the cache at `positions`; what the head takes, for every token."""
        angle = positions[:, None].float() * self._speeds
        turns = self._turns(torch.cat((angle, angle), dim=-1)[:, None], embeds.dtype)
        x = embeds.clone()
        for layer, pairs in zip(self._layers, cache.pairs, strict=True):
            joined = functional.linear(self._normed(x, layer.before), layer.queries_keys_values)
            heads = joined.view(len(x), self.heads + 2 * self.key_heads, self.size)
            queries, keys_values = self._placed(heads, layer, *turns)
            pairs.index_copy_(0, positions, keys_values)
            self._add(x, attention(queries, pairs), layer.out)
            gate, up = functional.linear(self._normed(x, layer.between), layer.gate_up).chunk(
                2, dim=-1
            )
            self._add(x, functional.silu(gate) * up, layer.down)
        return self._normed(x, self._after)

    def scores(self, states: Any) -> Any:
        """[tokens, vocabulary]"""
        return functional.linear(states, self._head)

    def _normed(self, x: Any, scale: Any) -> Any:
        if self._is_fused:
            return functional.rms_norm(x, (x.shape[-1],), scale, self._epsilon)
        exact = x.float()
        exact = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + self._epsilon)
        return scale * exact.to(x.dtype)

    def _turns(self, angle: Any, dtype: Any) -> tuple[Any, ...]:
        """What turns a head to its position: cosines and sines, or a matrix of both."""
        cosines, sines = angle.cos().to(dtype), angle.sin().to(dtype)
        if not self._is_fused:
            return cosines, sines
        one = torch.eye(self.size, dtype=dtype, device=angle.device)
        half = self.size // 2
        other = torch.cat((one[half:], -one[:half]))
        return (one * cosines + other * sines,)

    def _placed(self, heads: Any, layer: _Layer, *turns: Any) -> tuple[Any, Any]:
        """Queries [tokens, heads, size], and [tokens, keys and values, key heads, size]: the
        first two thirds scaled to their norms and turned to their positions."""
        both = self.heads + self.key_heads
        if self._is_fused:
            # A product with a matrix is one kernel, sums in float32 and rounds once.
            scaled = functional.rms_norm(heads[:, :both], (self.size,), None, self._epsilon)
            turned = (scaled * layer.scales) @ turns[0]
            queries, keys = turned[:, : self.heads], turned[:, self.heads :]
        else:
            queries = self._normed(heads[:, : self.heads], layer.query_scale)
            keys = self._normed(heads[:, self.heads : both], layer.key_scale)
            queries, keys = self._turned(queries, *turns), self._turned(keys, *turns)
        return queries, torch.stack((keys, heads[:, both:]), dim=1)

    def _turned(self, x: Any, cosines: Any, sines: Any) -> Any:
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cosines + turned * sines

    def _add(self, x: Any, y: Any, weight: Any) -> None:
        """Where it is."""
        if self._is_fused:
            x.addmm_(y, weight.t())
        else:
            x.add_(functional.linear(y, weight))


def _check(llm: Any) -> None:
    config = llm.config
    if type(llm).__name__ != MODEL:
        raise NotFast(f"the language model is {type(llm).__name__}, not {MODEL}")
    if getattr(config, "rope_scaling", None) is not None:
        raise NotFast("its positions are scaled")
    if getattr(config, "use_sliding_window", False) and getattr(config, "sliding_window", None):
        raise NotFast("its layers have windows of their own")
    if config.hidden_act != "silu":
        raise NotFast(f"its layers use {config.hidden_act}, not silu")
    first = llm.model.layers[0]
    linear = (first.self_attn.q_proj, first.self_attn.o_proj, first.mlp.down_proj, llm.lm_head)
    if any(getattr(each, "bias", None) is not None for each in linear):
        raise NotFast("its matrices have biases")


def _layer(layer: Any, heads: int, key_heads: int) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    query_scale, key_scale = attention.q_norm.weight.detach(), attention.k_norm.weight.detach()
    return _Layer(
        before=layer.input_layernorm.weight.detach(),
        queries_keys_values=_joined(attention.q_proj, attention.k_proj, attention.v_proj),
        query_scale=query_scale,
        key_scale=key_scale,
        scales=torch.cat((query_scale.expand(heads, -1), key_scale.expand(key_heads, -1))),
        out=attention.o_proj.weight.detach(),
        between=layer.post_attention_layernorm.weight.detach(),
        gate_up=_joined(mlp.gate_proj, mlp.up_proj),
        down=mlp.down_proj.weight.detach(),
    )


def _joined(*parts: Any) -> Any:
    """One matrix below another; the parts become views of it, so that nothing is held twice."""
    whole = torch.cat([part.weight.detach() for part in parts])
    begin = 0
    for part in parts:
        rows = len(part.weight)
        part.weight.data = whole[begin : begin + rows]
        begin += rows
    return whole
