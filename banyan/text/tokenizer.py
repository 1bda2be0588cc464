"""Tokenizer: text to token ids and back, over the `tokenizers` library; the byte tokenizer of the oracle model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from banyan.config.errors import UserError
from banyan.text.vocab import read_vocab
from banyan.wire.base import I32, Bool

BYTE_SPECIALS: Final = ("<eos>", "<bos>", "<pad>")  # ids 256, 257, 258
# A tokenizer.json does not say which token ends a text; these are the names in use.
EOS_NAMES: Final = frozenset(
    ("<eos>", "</s>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>")
)

BOS_NAMES: Final = ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>")


class TokenizerError(UserError):
    """A tokenizer that cannot be loaded, with the reason and what to do."""


class Tokenizer:
    """Encodes and decodes. Text never becomes a special token: `<eos>` in a prompt is five characters."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True
        inner.no_truncation()  # a file may ask for both; a server cuts and pads nothing
        inner.no_padding()
        self._inner = inner
        names = {id_: token.content for id_, token in inner.get_added_tokens_decoder().items() if token.special}
        self.special_ids: Final = frozenset(names)
        self.special_names: Final = {name: id_ for id_, name in names.items()}
        self.eos_ids: Final = tuple(sorted(id_ for id_, name in names.items() if name in EOS_NAMES))
        self.eos_name: Final = names[self.eos_ids[0]] if self.eos_ids else ""
        self.bos_name: Final = next((name for name in BOS_NAMES if name in self.special_names), "")
        vocab = inner.get_vocab(with_added_tokens=True)
        known = list(vocab.values())
        self.vocab_size: Final = max(known, default=-1) + 1
        # By id, with a last False that stands for all ids beyond.
        self._plain: Bool = np.zeros(self.vocab_size + 1, np.bool_)
        self._plain[known] = True
        self._shown: Bool = self._plain.copy()
        self._plain[list(names)] = False
        # With byte-level decoding a token is a string of bytes, whatever stands beside it.
        self.is_byte_level: Final = isinstance(inner.decoder, decoders.ByteLevel)
        # Characters that one token may stand for; 0: any number, for text is changed before it is cut.
        is_exact = self.is_byte_level and inner.normalizer is None
        longest = max((len(name) for name, id_ in vocab.items() if id_ not in names), default=0)
        self._longest = longest if is_exact else 0

    def prints(self, tokens: I32, *, skip_special_tokens: bool = True) -> Bool:
        """Mark the tokens that have a text: not special ones, unless they are shown, and no ids without a token."""
        table = self._plain if skip_special_tokens else self._shown
        # Negative ids become huge, so one comparison finds everything outside of the vocabulary.
        marks: Bool = table[np.minimum(tokens.view(np.uint32), self.vocab_size)]
        return marks

    def fewest_tokens(self, text: str) -> int:
        """Say, without encoding it, how many tokens a text has at least."""
        return -(-len(text) // self._longest) if self._longest else 0

    def encode(self, text: str) -> list[int]:
        """Turn text into token ids, with what the tokenizer itself puts around a text (usually one token)."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts at once. Other threads run meanwhile."""
        # The plain encode() of the library keeps the interpreter's lock; this one does not, and counts no offsets.
        return [encoding.ids for encoding in self._inner.encode_batch_fast(list(texts))]

    def encode_plain(self, text: str) -> list[int]:
        """Encode a piece of a text, with nothing around it."""
        return self._inner.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Turn token ids into text. Ids outside the vocabulary are left out."""
        return self._inner.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def decode_batch(self, batch: list[list[int]], *, skip_special_tokens: bool = True) -> list[str]:
        """Decode several sequences at once."""
        return self._inner.decode_batch(batch, skip_special_tokens=skip_special_tokens)


def byte_tokenizer() -> Tokenizer:
    """Build the tokenizer in which id 0..255 is the byte of that value, then <eos>, <bos> and <pad>."""
    inner = tokenizers.Tokenizer(models.BPE(vocab={char: byte for byte, char in _byte_chars().items()}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(BYTE_SPECIALS))
    return Tokenizer(inner)


def load_tokenizer(spec: str) -> Tokenizer:
    """Load `byte`, the tokenizer.json at a path (or in a folder), or the tokenizer in a GGUF file."""
    if spec == "byte":
        return byte_tokenizer()
    path = Path(spec)
    if path.suffix == ".gguf":
        return Tokenizer(read_vocab(path).inner)
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise TokenizerError(f"there is no tokenizer at {path}; name a tokenizer.json file or `byte`")
    try:
        inner = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise TokenizerError(f"{path} is not a tokenizer.json that can be read: {error}") from error
    return Tokenizer(inner)


def _byte_chars() -> dict[int, str]:
    """Map each byte to the character that stands for it in byte-level vocabularies.

    Printable Latin-1 bytes stand for themselves; the others get characters from U+0100 on, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    chars = {byte: chr(byte) for byte in printable}
    chars |= {byte: chr(0x100 + i) for i, byte in enumerate(others)}
    return chars
