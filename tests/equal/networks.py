"""Tiny random checkpoints of every family, as transformers runs them and as banyan does."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from banyan.attention.select import make_backend
from banyan.config.card import ModelCard, card_from_hf
from banyan.forward import ForwardBatch, build_batch
from banyan.memory.store.device import make_pool
from banyan.memory.store.layout import KVLayout
from banyan.memory.store.tables import ReqToTokenPool
from banyan.models.heads import LMHead
from banyan.models.load import load_state
from banyan.models.model import Model
from banyan.models.registry import build_model
from banyan.weights.source import MemorySource

CPU = torch.device("cpu")
PAGE = 4
VOCAB = 128
BASE = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": VOCAB,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
MLA = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "moe_intermediate_size": 32,
    "num_experts_per_tok": 3,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 10_000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_theta": 10_000.0,
}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [1.5 + 0.5 * i for i in range(8)],
    "rope_theta": 10_000.0,
}

# name of a case -> class of its config, what differs from BASE
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True, "num_key_value_heads": 1, "head_dim": 24}),
    "llama-linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}}),
    "llama-yarn": ("Llama", {"rope_parameters": YARN}),
    "llama-llama3": ("Llama", {"rope_parameters": LLAMA3}),
    "mistral": ("Mistral", {"sliding_window": 9}),
    "mistral-full": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3_moe": (
        "Qwen3Moe",
        {
            "head_dim": 16,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "mlp_only_layers": [1],
            "norm_topk_prob": True,
        },
    ),
    "gemma2": ("Gemma2", {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 20, "num_hidden_layers": 4}),
    "gemma3": (
        "Gemma3Text",
        {
            "head_dim": 16,
            "sliding_window": 8,
            "query_pre_attn_scalar": 20,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
    "phi3": ("Phi3", {"sliding_window": 11, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 1e4}}),
    "phi3-short": ("Phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 128}),
    "phi3-long": ("Phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 8}),
    "gpt_oss": (
        "GptOss",
        {
            "head_dim": 16,
            "sliding_window": 8,
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "rope_parameters": {**YARN, "truncate": False},
        },
    ),
    "mixtral": ("Mixtral", {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 10}),
    "deepseek_v2": ("DeepseekV2", {**MLA, "q_lora_rank": None}),
    "deepseek_v2-grouped": (
        "DeepseekV2",
        {
            **MLA,
            "q_lora_rank": 20,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 3.0,
            "attention_bias": True,
            "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.9},
        },
    ),
    "deepseek_v3": ("DeepseekV3", {**MLA, "q_lora_rank": 20, "n_group": 4, "topk_group": 2}),
    "deepseek_v3-halves": (
        "DeepseekV3",
        {**MLA, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "rope_interleave": False, "norm_topk_prob": False},
    ),
}


@dataclass(frozen=True)
class Row:
    """Tokens to feed: those of a sequence from a position on."""

    slot: int
    start: int
    tokens: list[int]


class Feeder:
    """A model with a KV cache. Slot s has the pages of its own that `own` gives it, or another's by `share`."""

    def __init__(self, model: Model, backend: str = "cpu", num_slots: int = 6) -> None:
        self.model = model
        spec = model.spec
        layout = KVLayout(
            num_layers=len(model.body.layer_range),
            num_kv_heads=spec.kv_heads,
            key_dim=spec.key_dim,
            value_dim=spec.value_dim,
            page_size=PAGE,
            dtype=torch.float32,
            latent=spec.latent,
        )
        num_pages = num_slots * 16
        self.pool = make_pool(layout, num_pages, CPU)
        self.attention = make_backend(backend, self.pool, CPU)
        self.tables = ReqToTokenPool(num_slots, 16, CPU)
        pages = np.random.default_rng(7).permutation(num_pages).astype(np.int32) + 1
        for slot in range(1, num_slots + 1):
            self.set_pages(slot, pages[(slot - 1) * 16 : slot * 16])

    def set_pages(self, slot: int, pages: np.ndarray[Any, np.dtype[np.int32]]) -> None:
        """Write the head of a slot's row of the page table."""
        slots = np.full(len(pages), slot, np.int32)
        self.tables.set_pages(slots, np.arange(len(pages), dtype=np.int32), pages)

    def share(self, slot: int, other: int, num_tokens: int) -> None:
        """Give a slot the pages that hold another's first tokens."""
        assert num_tokens % PAGE == 0
        self.set_pages(slot, self.tables.page_table[other, : num_tokens // PAGE].numpy())

    def batch(self, *rows: Row) -> ForwardBatch:
        """Lay out a step."""
        return build_batch(
            slots=np.array([row.slot for row in rows], np.int32),
            starts=np.array([row.start for row in rows], np.int32),
            lengths=np.array([len(row.tokens) for row in rows], np.int32),
            samples=np.ones(len(rows), np.bool_),
            input_ids=torch.tensor([token for row in rows for token in row.tokens]),
            page_table=self.tables.page_table,
            page_size=PAGE,
        )

    def hidden(self, batch: ForwardBatch, hidden: Tensor | None = None) -> Tensor:
        """Run a step; return the hidden states."""
        with torch.inference_mode():
            self.attention.plan(batch)
            return self.model.forward(batch, self.attention, hidden)

    def feed(self, *rows: Row) -> list[Tensor]:
        """Run a step; return the log-probabilities after each token of each row."""
        return self.logprobs(self.batch(*rows))

    def logprobs(self, batch: ForwardBatch, hidden: Tensor | None = None) -> list[Tensor]:
        """Run a step; return the log-probabilities after each token of each row."""
        head = self.model.head
        assert isinstance(head, LMHead)
        states = self.hidden(batch, hidden)
        with torch.inference_mode():
            logits = head.logits(states)
            torch.testing.assert_close(head.forward(states, batch), logits[batch.sample_index], rtol=1e-5, atol=1e-5)
        ends = batch.row_starts_np.tolist()
        return [torch.log_softmax(logits[a:b], -1) for a, b in pairwise(ends)]


@dataclass(frozen=True)
class Case:
    """A tiny random checkpoint, as transformers runs it and as banyan does."""

    reference: Callable[[list[int]], Tensor]  # tokens -> log-probabilities after each
    card: ModelCard
    tensors: dict[str, Tensor]

    @cached_property
    def model(self) -> Model:
        """The whole model, built once."""
        return self.build()

    def build(self, layers: range | None = None) -> Model:
        """Build the model, or a stage of it."""
        return build(self.card, self.tensors, layers)


def build(card: ModelCard, tensors: dict[str, Tensor], layers: range | None = None) -> Model:
    """Build a model, or a stage of it, and fill it."""
    assert card.architecture is not None
    model = build_model(
        card.architecture, context_length=card.context_length, device=CPU, dtype=torch.float32, layers=layers
    )
    load_state(model, MemorySource(tensors))
    return model


def randomize(network: torch.nn.Module) -> None:
    """Give every parameter a value of its own: fresh norms are all one, fresh biases all zero."""
    torch.manual_seed(0)
    for parameter in [*network.parameters(), *network.buffers()]:
        if parameter.dim() > 1 and parameter.is_floating_point():
            parameter.data.normal_(0, 0.15)
    for name, value in network.state_dict().items():
        if value.dim() == 1:
            value.add_(torch.randn_like(value) * (0.5 if "sinks" in name else 0.2))


def make_network(config: str, auto: str, differences: dict[str, Any]) -> Any:
    """Make a random network of transformers; `auto` is the class that makes it from its config."""
    settings = getattr(transformers, config)(**{**BASE, **differences})
    network = getattr(transformers, auto).from_config(settings, attn_implementation="eager").eval()
    randomize(network)
    return network


def checkpoint(network: Any, folder: Path) -> tuple[ModelCard, dict[str, Tensor]]:
    """Save as transformers does; read as banyan does."""
    network.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    return card_from_hf(json.loads((folder / "config.json").read_text())), tensors


def make_case(name: str, folder: Path) -> Case:
    """Make the checkpoint of a case."""
    kind, differences = CASES[name]
    network = make_network(f"{kind}Config", "AutoModelForCausalLM", differences)
    card, tensors = checkpoint(network, folder)

    def reference(tokens: list[int]) -> Tensor:
        with torch.inference_mode():
            return torch.log_softmax(network(torch.tensor([tokens])).logits[0].float(), -1)

    return Case(reference, card, tensors)


def prompt(seed: int, length: int) -> list[int]:
    """Draw tokens."""
    return [int(token) for token in np.random.default_rng(seed).integers(3, VOCAB, length)]
