"""Encoders of our own in the shape that the native ones were measured to have, tiny."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from transformers import DynamicCache
from transformers.feature_extraction_utils import BatchFeature

WIDTH, HEADS, PLACES = 16, 2, 60
PATCH = 14


class Layers(nn.Module):
    """A stack called with a mask by name."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs_embeds: Any, attention_mask: Any, **ignored: Any) -> tuple[Any]:
        states = self.mix(inputs_embeds).tanh()
        return (states if attention_mask is None else states + attention_mask[:, 0, :1].sum(),)


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Module()
        self.embeddings.patch_embedding = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.embeddings.position_embedding = nn.Embedding(70 * 70, WIDTH)
        self.encoder = Layers()
        self.post_layernorm = nn.LayerNorm(WIDTH)


class Resampler(nn.Module):
    def forward(self, states: Any, sizes: Any) -> Any:
        return states.mean(dim=1, keepdim=True) * sizes.float().sum(dim=1)[:, None, None]


class Hearing(nn.Module):
    """One attention over everything heard; frames come in pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(encoder_attention_heads=HEADS, d_model=WIDTH)
        self.layers = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH)])
        self.conv1 = nn.Conv1d(8, WIDTH, 1)
        self.embed_positions = nn.Embedding(PLACES, WIDTH)

    def forward(self, features: Any, past: DynamicCache) -> Any:
        states = self.conv1(features).permute(0, 2, 1)
        begin = past.get_seq_length()
        states = states + self.embed_positions.weight[begin : begin + states.shape[1]]
        parts = self.layers[0](states).view(1, -1, 3 * HEADS, WIDTH // HEADS).transpose(1, 2)
        queries, keys, values = parts.chunk(3, dim=1)
        keys, values = past.update(keys, values, 0)
        return nn.functional.scaled_dot_product_attention(queries, keys, values)


class Encoders(nn.Module):
    """What the fast form stands in for."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.llm = nn.Module()
        self.llm.model = nn.Module()
        self.llm.model.embed_tokens = nn.Embedding(4, WIDTH)
        self.vpm, self.resampler, self.apm = Vision(), Resampler(), Hearing()
        self.audio_past_key_values: Any = None
        self.calls = 0
        self.eval()

    @torch.no_grad()
    def get_vision_embedding(self, data: Any) -> list[Any]:
        self.calls += 1
        sizes = torch.vstack(list(data["tgt_sizes"])).type(torch.int32)
        rows = [each.flatten(end_dim=1).permute(1, 0) for each in data["pixel_values"][0]]
        patches = [int(height * width) for height, width in sizes]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        image = padded.permute(0, 2, 1).reshape(len(rows), 3, -1, padded.shape[1])
        places = torch.arange(max(patches)).repeat(len(rows), 1)
        states = self.vpm.embeddings.patch_embedding(image).flatten(2).transpose(1, 2)
        states = states + self.vpm.embeddings.position_embedding(places)
        mask = None
        if len(set(patches)) > 1:
            mask = torch.tensor(patches).float().view(-1, 1, 1, 1).expand(-1, 1, 1, max(patches))
        states = self.vpm.encoder(inputs_embeds=states, attention_mask=mask)[0]
        return [self.resampler(self.vpm.post_layernorm(states), sizes)]

    @torch.no_grad()
    def get_audio_embedding_streaming(self, data: Any, scale: int = 1) -> list[list[Any]]:
        self.calls += 1
        features = data["audio_features"]
        past = self.audio_past_key_values
        if past is None or past[0][0].shape[2] + features.shape[2] > PLACES:
            past = DynamicCache()
        elif not isinstance(past, DynamicCache):
            raise TypeError("a cache of another kind")
        held = DynamicCache()
        held.key_cache, held.value_cache = list(past.key_cache), list(past.value_cache)
        states = self.apm(features, held)
        self.audio_past_key_values = held
        last = int(torch.hstack(data["audio_feature_lens"])[0])
        return [[states[0].mean(dim=0)[:last] * scale]]


class Images:
    mean, std = np.array([0.5, 0.4, 0.3]), np.array([0.5, 0.6, 0.7])

    def get_sliced_images(self, image: Image.Image, most: int) -> list[Image.Image]:
        whole = image.resize((4 * PATCH, 2 * PATCH), Image.Resampling.BICUBIC)
        return [whole, whole.crop((0, 0, 2 * PATCH, 2 * PATCH))][:most]


class Processor:
    """Pictures by numpy, a step at a time."""

    def __init__(self) -> None:
        self.image_processor = Images()
        self.calls = 0

    def process_image(self, images: Any = None, *, max_slice_nums: int = 1) -> BatchFeature:
        self.calls += 1
        pixels, sizes = [], []
        for image in images:
            for piece in self.image_processor.get_sliced_images(
                image.convert("RGB"), max_slice_nums
            ):
                values = np.asarray(piece).astype(np.float32) / 255
                values = (values - Images.mean.astype(np.float32)) / Images.std.astype(np.float32)
                taken = torch.from_numpy(values.transpose(2, 0, 1).copy())
                patches = nn.functional.unfold(taken, PATCH, stride=PATCH)
                patches = patches.reshape(3, PATCH, PATCH, -1).permute(0, 1, 3, 2)
                pixels.append(patches.reshape(3, PATCH, -1))
                sizes.append((taken.shape[1] // PATCH, taken.shape[2] // PATCH))
        return BatchFeature(
            data={
                "pixel_values": [pixels],
                "image_sizes": [[torch.tensor(image.size) for image in images]],
                "tgt_sizes": [torch.tensor(sizes)],
            }
        )
