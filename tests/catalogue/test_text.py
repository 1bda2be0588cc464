"""Their tokenizers give back what they are given, and known tokens for known texts."""

from banyan.config.env import cache_dir
from banyan.sources.card import model_card
from banyan.sources.local import LocalModel
from banyan.sources.resolve import resolve_source
from banyan.text.tokenizer import Tokenizer, load_tokenizer
from banyan.text.vocab import read_vocab

TEXTS = (
    "Hello, world!",
    "  two  spaces and\n\nlines\ttabs ",
    "def f(x):\n    return x**2  # 12345",
    "Größe, naïve, 日本語, 한국어, 🙂‍↔️, \u0391\u03b8\u03ae\u03bd\u03b1",
    "<|im_end|></s><eos><end_of_turn>",
)
# What Hugging Face's own tokenizers say.
KNOWN = {
    "smollm2:135m": [19556, 28, 905, 17],
    "qwen2.5-coder:0.5b": [9707, 11, 1879, 0],
    "qwen2.5-coder:1.5b": [9707, 11, 1879, 0],
    "gemma3:270m": [2, 9259, 236764, 1902, 236888],
    "stories:15m": [1, 15043, 29892, 3186, 29991],
}


def test_tokens_text_and_card_agree(gguf: LocalModel) -> None:
    vocab, card = read_vocab(gguf.path), model_card(gguf)
    tokenizer = Tokenizer(vocab.inner)
    assert tokenizer.encode("Hello, world!") == KNOWN[gguf.name]
    assert tokenizer.vocab_size <= card.vocab_size
    assert set(card.eos_ids) <= tokenizer.special_ids
    for text in TEXTS:
        tokens = tokenizer.encode(text)
        assert tokenizer.decode(tokens) == text
        # A text must not become a token that steers the model.
        assert len([token for token in tokens if token in tokenizer.special_ids]) == vocab.add_bos


def test_minilm_has_a_tokenizer_file() -> None:
    model = resolve_source("minilm", cache_dir())
    assert load_tokenizer(str(model.path)).encode("hello world") == [101, 7592, 2088, 102]
