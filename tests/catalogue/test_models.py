"""The models fit their networks, and go on with a text as they should."""

import pytest
import torch

from banyan.config.env import cache_dir
from banyan.models.heads import LMHead
from banyan.models.load import load_state
from banyan.models.model import Model
from banyan.models.registry import build_model
from banyan.sources.card import model_card
from banyan.sources.local import LocalModel
from banyan.sources.resolve import resolve_source
from banyan.text.tokenizer import Tokenizer
from banyan.text.vocab import read_vocab
from banyan.weights.open import open_weights
from tests.equal.networks import Feeder, Row

PROMPT = "Once upon a time, there was a little girl who"
# What transformers makes of the same files, word by word.
GOES_ON = {
    "stories:15m": " loved to play outside. She liked",
    "smollm2:135m": " loved to play with her toys.",
    "gemma3:270m": " loved to play with her dolls.",
    "qwen2.5-coder:0.5b": " loved to play with her toys.",
}
NUM_TOKENS = 7


def built(model: LocalModel) -> Model:
    card = model_card(model)
    assert card.architecture is not None
    network = build_model(card.architecture, context_length=256, device=torch.device("cpu"), dtype=torch.float32)
    load_state(network, open_weights(model), "gguf" if model.kind == "gguf" else "hf")
    return network


@pytest.mark.parametrize("name", GOES_ON)
def test_a_story_goes_on(name: str) -> None:
    model = resolve_source(name, cache_dir())
    tokenizer = Tokenizer(read_vocab(model.path).inner)
    feeder = Feeder(built(model))
    head = feeder.model.head
    assert isinstance(head, LMHead)
    tokens = tokenizer.encode(PROMPT)
    start = 0
    for _ in range(NUM_TOKENS):
        batch = feeder.batch(Row(1, start, tokens[start:]))
        start = len(tokens)
        with torch.inference_mode():
            tokens.append(int(head.forward(feeder.hidden(batch), batch)[0].argmax()))
    assert tokenizer.decode(tokens) == PROMPT + GOES_ON[name]


def test_minilm_fits_its_network() -> None:
    built(resolve_source("minilm", cache_dir()))
