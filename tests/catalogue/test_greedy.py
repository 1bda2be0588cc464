"""Greedy output of whole models through Engine is token for token that of transformers, alone and in company."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers

from banyan import Engine, SamplingParams
from banyan.config.env import cache_dir
from banyan.sources.resolve import resolve_source
from banyan.text.tokenizer import load_tokenizer

MODELS = ("smollm2:135m", "gemma3:270m", "qwen2.5-coder:0.5b")
NUM_TOKENS = 64
PROMPTS = (
    "The capital of France is",
    "Water boils at",
    "def fibonacci(n):\n",
    "Once upon a time there was a",
    "The largest planet in the solar system",
    "To make a good cup of tea, first",
    "In 1969, the first humans",
    "import numpy as np\n\n",
    "The opposite of hot is",
    "Roses are red, violets are",
    "A prime number is a number that",
    "The three primary colours are",
    "SELECT name FROM users WHERE",
    "My favourite book is about",
    "The speed of light is",
    "Dear Sir or Madam,\n\n",
    "1, 1, 2, 3, 5, 8,",
    "Photosynthesis is the process by which",
    "<html>\n<head>\n",
    "If all cats are animals and some animals",
)


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param
    gc.collect()


def reference(name: str, prompts: list[list[int]]) -> tuple[list[list[int]], list[float]]:
    """Generate with transformers, one prompt at a time; and how far apart the two best logits ever were at least."""
    path = resolve_source(name, cache_dir()).path
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, local_files_only=True
    )
    answers, gaps = [], []
    for prompt in prompts:
        done = model.generate(
            torch.tensor([prompt]),
            max_new_tokens=NUM_TOKENS,
            min_new_tokens=NUM_TOKENS,
            eos_token_id=None,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        answers.append(done.sequences[0, len(prompt) :].tolist())
        best = torch.stack([logits[0].topk(2).values for logits in done.logits])
        gaps.append(float((best[:, 0] - best[:, 1]).min()))
    return answers, gaps


def test_greedy_output_is_that_of_transformers(name: str) -> None:
    tokenizer = load_tokenizer(str(resolve_source(name, cache_dir()).path))
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    sampling = SamplingParams(max_new_tokens=NUM_TOKENS, temperature=0, ignore_eos=True)
    with Engine(name, log_level="warning", recovery="stop") as engine:
        answers = engine.generate(input_ids=prompts, sampling_params=sampling)
    assert isinstance(answers, list)
    together = [answer["output_ids"] for answer in answers]
    expected, gaps = reference(name, prompts)
    differing = [(i, gaps[i]) for i, (got, wanted) in enumerate(zip(together, expected, strict=True)) if got != wanted]
    assert differing == [], f"prompts that differ, with the least gap between their two best logits: {differing}"
