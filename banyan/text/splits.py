"""How byte-level vocabularies cut text before merging: the patterns behind the names in GGUF files, applied in turn."""

from typing import Final

_DIGIT: Final = r"\p{N}"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SHORT_FORMS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3: Final = (
    rf"{_SHORT_FORMS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_QWEN2: Final = rf"{_SHORT_FORMS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_QWEN35: Final = (
    rf"{_SHORT_FORMS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD: Final = r"[^\r\n\p{L}\p{N}]?"
_MARKS: Final = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_GPT4O: Final = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+{_SHORT_FORMS}?|{_LEAD}{_UPPER}+{_LOWER}*{_SHORT_FORMS}?|\p{{N}}{{1,3}}|{_MARKS}"
)
_TEKKEN: Final = rf"{_LEAD}{_UPPER}*{_LOWER}+|{_LEAD}{_UPPER}+{_LOWER}*|\p{{N}}|{_MARKS}"
_FALCON_MARKS: Final = r"[\p{P}\$\+<=>\^~\|`]+"
_CJK: Final = "[一-龥ࠀ-一가-퟿]+"
_DEEPSEEK_MARKS: Final = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
_DEEPSEEK_V3: Final = (
    rf"{_DEEPSEEK_MARKS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)

_BY_PATTERNS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    (_GPT2,): ("gpt-2", "mpt", "olmo", "phi-2"),
    (_DIGIT, _GPT2): ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"),
    (_LLAMA3,): ("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"),
    (_QWEN2,): ("qwen2", "deepseek-r1-qwen", "stablelm2"),
    (_QWEN35,): ("qwen35",),
    (_GPT4O,): ("gpt-4o", "llama4"),
    (_TEKKEN,): ("tekken",),
    (_FALCON_MARKS, _GPT2, "[0-9][0-9][0-9]"): ("falcon",),
    ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, _DIGIT): ("deepseek-coder",),
    (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK_V3): ("deepseek-v3",),
    (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"): ("default",),
}
SPLITS: Final = {name: patterns for patterns, names in _BY_PATTERNS.items() for name in names}
