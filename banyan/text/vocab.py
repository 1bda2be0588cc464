"""Vocab: a tokenizer out of the metadata of a GGUF file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from banyan.config.errors import ConfigError
from banyan.config.metadata import Metadata
from banyan.sources.gguf import read_gguf
from banyan.text.pieces import merges_of_pieces
from banyan.text.splits import SPLITS
from banyan.wire.base import I32

_PREFIX: Final = "tokenizer.ggml."
_UNKNOWN: Final = 2
_CONTROL: Final = 3
_USER_DEFINED: Final = 4
_SPACE: Final = "▁"
# Vocabularies whose whole words go before their merges, and that begin a text with a token even if nothing says so.
_WHOLE_WORDS: Final = frozenset(("llama3", "llama-v3", "llama-bpe", "tekken"))
_BEGINS: Final = frozenset(("llama3", "llama-v3", "llama-bpe"))
# Those that put letters and their accents together first. A file does not say so.
_COMPOSED: Final = frozenset(("qwen2", "command-r", "olmo", "stablelm2"))


@dataclass(frozen=True, slots=True)
class Vocab:
    """What a file says about text."""

    inner: tokenizers.Tokenizer
    add_bos: bool  # a text begins with a token of its own; the tokenizer puts it there
    chat_template: str  # empty if there is none


def read_vocab(path: Path) -> Vocab:
    """Build the tokenizer of a GGUF file."""
    return build_vocab(read_gguf(path).metadata)


def build_vocab(metadata: Metadata) -> Vocab:
    """Build the tokenizer that metadata describe."""
    model = metadata.word(f"{_PREFIX}model")
    build = {"gpt2": _byte_level, "llama": _sentencepiece}.get(model)
    if build is None:
        raise ConfigError(f"a tokenizer of type {model!r:.40} is not known; known are gpt2 and llama")
    tokens = metadata.words(f"{_PREFIX}tokens")
    ids = {token: number for number, token in enumerate(tokens)}
    if not tokens or len(ids) != len(tokens):
        raise ConfigError(f"the file lists {len(tokens)} tokens, of which {len(ids)} differ")
    try:
        inner = build(metadata, ids)
    except ConfigError:
        raise
    except Exception as error:  # the library raises plain Exception
        raise ConfigError(f"the file's tokenizer cannot be built: {error}") from error
    kinds = _kinds(metadata, len(tokens))
    for special, kind in ((False, _USER_DEFINED), (True, _CONTROL)):
        names = [tokens[number] for number in np.flatnonzero(kinds == kind)]
        inner.add_tokens([AddedToken(name, special=special, normalized=False) for name in names if name])
    add_bos = _frame(inner, metadata, tokens, default=model == "llama" or _pre(metadata) in _BEGINS)
    return Vocab(inner, add_bos, metadata.word("tokenizer.chat_template", ""))


def _byte_level(metadata: Metadata, ids: dict[str, int]) -> tokenizers.Tokenizer:
    """Build a tokenizer whose tokens are strings of bytes, after text was cut by patterns."""
    pre = _pre(metadata)
    patterns = SPLITS.get(pre)
    if patterns is None:
        raise ConfigError(f"the file cuts text as {pre!r:.40}, which is not known; known are {', '.join(SPLITS)}")
    # The two halves of a merge are kept in one string; the first may begin with a space, but has no other.
    merges = [(merge[:cut], merge[cut + 1 :]) for merge, cut in _cuts(metadata.words(f"{_PREFIX}merges"))]
    inner = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=pre in _WHOLE_WORDS))
    if pre in _COMPOSED:
        inner.normalizer = normalizers.NFC()
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([*cuts, whole])
    inner.decoder = decoders.ByteLevel()
    return inner


def _sentencepiece(metadata: Metadata, ids: dict[str, int]) -> tokenizers.Tokenizer:
    """Build a tokenizer whose tokens are pieces with a score; the best piece is put together first."""
    scores = metadata.numbers(f"{_PREFIX}scores")
    if len(scores) != len(ids):
        raise ConfigError(f"the file has {len(ids)} tokens but {len(scores)} scores")
    # Nothing is ever put together to a token that steers the model.
    plain = _kinds(metadata, len(ids)) != _CONTROL
    merges = merges_of_pieces(ids, scores.astype(np.float32), plain)
    unknown = metadata.whole(f"{_PREFIX}unknown_token_id", 0)
    name = next((token for token, number in ids.items() if number == unknown), None)
    inner = tokenizers.Tokenizer(
        models.BPE(vocab=ids, merges=merges, unk_token=name, fuse_unk=True, byte_fallback=True)
    )
    steps: list[decoders.Decoder] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    spaces: normalizers.Normalizer = normalizers.Replace(" ", _SPACE)
    if metadata.flag(f"{_PREFIX}add_space_prefix", True):
        spaces = normalizers.Sequence([normalizers.Prepend(_SPACE), spaces])
        steps.append(decoders.Strip(" ", 1, 0))
    inner.normalizer = spaces
    inner.decoder = decoders.Sequence(steps)
    return inner


def _frame(inner: tokenizers.Tokenizer, metadata: Metadata, tokens: list[str], *, default: bool) -> bool:
    """Have texts begin and end with the tokens that the file wants; tell whether they begin with one."""
    add_bos = metadata.flag(f"{_PREFIX}add_bos_token", default)
    begin = _named(metadata, tokens, "bos_token_id") if add_bos else None
    end = _named(metadata, tokens, "eos_token_id") if metadata.flag(f"{_PREFIX}add_eos_token", False) else None
    around = [token for token in (begin, end) if token is not None]
    if around:
        template = [*([begin] if begin else []), "$A", *([end] if end else [])]
        special = [(token, inner.token_to_id(token)) for token in around]
        inner.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    return begin is not None


def _named(metadata: Metadata, tokens: list[str], key: str) -> str | None:
    if f"{_PREFIX}{key}" not in metadata:
        return None
    number = metadata.whole(f"{_PREFIX}{key}")
    if number >= len(tokens):
        raise ConfigError(f"{key} is {number}, but the file has only {len(tokens)} tokens")
    return tokens[number]


def _pre(metadata: Metadata) -> str:
    return metadata.word(f"{_PREFIX}pre", "default")


def _kinds(metadata: Metadata, count: int) -> I32:
    kinds = metadata.numbers(f"{_PREFIX}token_type")
    if len(kinds) not in (0, count):
        raise ConfigError(f"the file has {count} tokens but {len(kinds)} types of tokens")
    return kinds.astype(np.int32) if len(kinds) else np.ones(count, np.int32)


def _cuts(merges: list[str]) -> list[tuple[str, int]]:
    cuts = [(merge, merge.find(" ", 1)) for merge in merges]
    wrong = next((merge for merge, cut in cuts if cut < 0), None)
    if wrong is not None:
        raise ConfigError(f"the file has a merge that is not two tokens: {wrong!r:.40}")
    return cuts
