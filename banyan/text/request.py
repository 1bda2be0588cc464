"""GenerateReqInput, EmbeddingReqInput: what a caller asked; normalise() makes single, valid requests of it.

This is the only way in: every bound is checked here, once, and whatever is refused is refused with a RequestError that
names the field and says what is allowed.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from banyan.text.regex import RegexError, compile_regex
from banyan.wire.request import SamplingParams, SessionRef, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput

Request = TokenizedGenerateReqInput | TokenizedEmbeddingReqInput
Prompts = Sequence[int | Sequence[int]]
Params = SamplingParams | Mapping[str, Any]
R = TypeVar("R", TokenizedGenerateReqInput, TokenizedEmbeddingReqInput)

# Fields of the wire whose askers know them by another name.
_ASKED_AS: Final = {
    "sampling": "sampling_params",
    "logprobs.top": "top_logprobs_num",
    "logprobs.start": "logprob_start_len",
    "logprobs.token_ids": "token_ids_logprob",
    "logprobs": "return_logprob",
    "salt": "cache_salt",
    "lora": "lora_path",
    "session": "session_params",
}
_GRAMMARS: Final = ("json_schema", "regex", "ebnf", "structural_tag")


class RequestError(ValueError):
    """A request that is refused: HTTP status, the field that is wrong ("" if none is), and a sentence."""

    def __init__(self, status: int, field: str, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.status = status
        self.field = field
        self.message = message
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What requests must keep to."""

    vocab_size: int
    context_length: int  # longest sequence, prompt and output together, that is allowed and fits in memory
    max_req_input_len: int  # longest prompt in tokens
    max_requests: int = 4096  # live at once; so also in one call
    max_text_chars: int = 8 << 20
    is_generation: bool = True
    is_embedding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateReqInput:
    """Ask for text. One prompt, or a list of prompts as a batch; what is not a list holds for all of them."""

    text: str | Sequence[str] | None = None
    input_ids: Prompts | None = None
    sampling_params: Params | Sequence[Params] | None = None
    rid: str | Sequence[str] | None = None
    stream: bool = False
    return_logprob: bool | Sequence[bool] = False
    logprob_start_len: int | Sequence[int] = -1
    top_logprobs_num: int | Sequence[int] = 0
    token_ids_logprob: Prompts | None = None
    return_hidden_states: bool = False
    lora_path: str | Sequence[str | None] | None = None
    priority: int | None = None
    session_params: SessionRef | Mapping[str, Any] | None = None
    cache_salt: str | None = None
    queue_timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingReqInput:
    """Ask for vectors. One text, or a list of texts as a batch."""

    text: str | Sequence[str] | None = None
    input_ids: Prompts | None = None
    rid: str | Sequence[str] | None = None
    lora_path: str | Sequence[str | None] | None = None
    priority: int | None = None
    cache_salt: str | None = None
    queue_timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Single:
    """One valid request. `draft` lacks its number, its tokens, its seed, and its name if none was given."""

    prompt: str | bytes  # text, or int32 tokens
    prompt_index: int  # its prompt's place in the batch
    copy: int  # which of n
    draft: Request
    name: str = ""  # the rid that its call was given, if any


def normalise(asked: GenerateReqInput | EmbeddingReqInput, limits: Limits) -> list[Single]:
    """Make single requests of what was asked, in order, n copies of each prompt side by side."""
    _check_type(asked, limits)
    prompts = _prompts(asked, limits)
    singles: list[Single] = []
    for index, prompt in enumerate(prompts):
        draft, n = _draft(asked, index, len(prompts), limits)
        if len(singles) + n > limits.max_requests:
            raise RequestError(
                400, "", f"asks for more than {limits.max_requests} outputs at once; send less in one call"
            )
        for copy in range(n):
            rid = f"{draft.rid}-{copy}" if draft.rid and n > 1 else draft.rid
            name = asked.rid if isinstance(asked.rid, str) else draft.rid
            singles.append(Single(prompt, index, copy, msgspec.structs.replace(draft, rid=rid), name))
    rids = [single.draft.rid for single in singles if single.draft.rid]
    if len(set(rids)) < len(rids):
        raise RequestError(400, "rid", "is the same for several requests")
    return singles


def complete(single: Single, tokens: bytes, uid: int, rid: str, seed: int, limits: Limits) -> Request:
    """Make the message of a request now that its tokens are known. Output is clipped to the context length."""
    num_tokens = len(tokens) // 4
    field = "text" if isinstance(single.prompt, str) else "input_ids"
    if not num_tokens:
        raise RequestError(400, field, "has no tokens")
    check_length(field, num_tokens, limits)
    request: Request
    if isinstance(single.draft, TokenizedGenerateReqInput):
        sampling = single.draft.sampling
        room = limits.context_length - num_tokens
        if room < min(1, sampling.max_new_tokens):
            raise RequestError(
                400,
                field,
                f"has {num_tokens} tokens, which fill the context of {limits.context_length} and leave no output",
            )
        if sampling.max_new_tokens > room:
            least = min(sampling.min_new_tokens, room)
            sampling = msgspec.structs.replace(sampling, max_new_tokens=room, min_new_tokens=least)
        start = single.draft.logprobs.start if single.draft.logprobs is not None else -1
        if start >= num_tokens:
            raise RequestError(400, "logprob_start_len", f"is {start}, but the prompt has {num_tokens} tokens")
        given = sampling.sampling_seed
        settled = mix_seed(seed, uid) if given is None else mix_seed(given, single.copy) if single.copy else given
        request = msgspec.structs.replace(
            single.draft, uid=uid, rid=rid, tokens=tokens, sampling=sampling, seed=settled
        )
    else:
        request = msgspec.structs.replace(single.draft, uid=uid, rid=rid, tokens=tokens)
    _check_encodable(request)
    return request


def check_length(field: str, num_tokens: int, limits: Limits) -> None:
    """Refuse a prompt that has at least so many tokens, if that is too many."""
    if num_tokens > limits.max_req_input_len:
        raise RequestError(400, field, f"has {num_tokens} tokens; a prompt may have {limits.max_req_input_len}")


def mix_seed(seed: int, number: int) -> int:
    """Derive another seed: different numbers give seeds that have nothing to do with each other (splitmix64)."""
    mask = 2**64 - 1
    mixed = (seed + (number + 1) * 0x9E3779B97F4A7C15) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return (mixed ^ (mixed >> 31)) >> 1


def _check_type(asked: GenerateReqInput | EmbeddingReqInput, limits: Limits) -> None:
    if isinstance(asked, GenerateReqInput) and not limits.is_generation:
        raise RequestError(400, "", "this model makes embeddings; it does not generate text")
    if isinstance(asked, EmbeddingReqInput) and not limits.is_embedding:
        raise RequestError(400, "", "this model generates text; it does not make embeddings")


# -- prompts


def _prompts(asked: GenerateReqInput | EmbeddingReqInput, limits: Limits) -> list[str | bytes]:
    if (asked.text is None) == (asked.input_ids is None):
        raise RequestError(400, "text", "give either text or input_ids")
    if asked.text is not None:
        texts = [asked.text] if isinstance(asked.text, str) else _as_list(asked.text, "text")
        return [_checked_text(text, limits) for text in texts]
    ids = _as_list(asked.input_ids, "input_ids")
    batches = ids if isinstance(ids[0], Sequence) else [ids]
    return [_checked_ids(_as_list(batch, "input_ids"), "input_ids", limits) for batch in batches]


def _as_list(value: object, field: str) -> list[Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not value:
        raise RequestError(400, field, "must be a list that is not empty")
    return list(value)


def _checked_text(text: object, limits: Limits) -> str:
    if not isinstance(text, str) or not text:
        raise RequestError(400, "text", "must be a text that is not empty")
    if len(text) > limits.max_text_chars:
        raise RequestError(400, "text", f"has {len(text)} characters; {limits.max_text_chars} are allowed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestError(400, "text", "has half of a surrogate pair, which is no character") from None
    return text


def _checked_ids(ids: list[Any], field: str, limits: Limits) -> bytes:
    if set(map(type, ids)) != {int}:
        raise RequestError(400, field, "must be whole numbers")
    if min(ids) < 0 or max(ids) >= limits.vocab_size:
        raise RequestError(400, field, f"must be token ids from 0 to {limits.vocab_size - 1}")
    return np.array(ids, np.int32).tobytes()


# -- everything else


def _draft(asked: GenerateReqInput | EmbeddingReqInput, index: int, count: int, limits: Limits) -> tuple[Request, int]:
    """Make the draft of one prompt, and say how many outputs it wants."""

    def own(value: Any, field: str) -> Any:
        return _own_part(value, field, index, count)

    common = {
        "uid": 0,
        "rid": _rid(asked.rid, index, count),
        "tokens": b"",
        "salt": asked.cache_salt or "",
        "lora": own(asked.lora_path, "lora_path") or "",
        "priority": asked.priority or 0,
        "queue_timeout_s": asked.queue_timeout_s,
    }
    if isinstance(asked, EmbeddingReqInput):
        embedding = _convert(common, TokenizedEmbeddingReqInput)
        _check_timeout(embedding)
        return embedding, 1
    logprobs = None
    wanted = own(asked.return_logprob, "return_logprob")
    if not isinstance(wanted, bool):
        raise RequestError(400, "return_logprob", "must be true or false")
    if wanted:
        logprobs = {
            "start": own(asked.logprob_start_len, "logprob_start_len"),
            "top": own(asked.top_logprobs_num, "top_logprobs_num"),
            "token_ids": _own_ids(asked.token_ids_logprob, index, count),
        }
    draft = _convert(
        {
            **common,
            "seed": 0,
            "stream": asked.stream,
            "sampling": _plain_sampling(own(asked.sampling_params, "sampling_params")),
            "logprobs": logprobs,
            "return_hidden_states": asked.return_hidden_states,
            "session": _plain(asked.session_params),
        },
        TokenizedGenerateReqInput,
    )
    _check_sampling(draft, limits)
    _check_timeout(draft)
    n = draft.sampling.n
    if draft.session is not None and n * count > 1:
        raise RequestError(400, "session_params", "a session has one prompt and one output at a time")
    return msgspec.structs.replace(draft, sampling=msgspec.structs.replace(draft.sampling, n=1)), n


def _own_part(value: Any, field: str, index: int, count: int) -> Any:
    """Pick a prompt's own value from a list, or the one value for all."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return value
    if len(value) != count:
        raise RequestError(400, field, f"has {len(value)} entries for {count} prompts")
    return value[index]


def _own_ids(ids: Any, index: int, count: int) -> Any:
    """Pick from a list of lists; a list of ids is for all."""
    nested = isinstance(ids, Sequence) and len(ids) > 0 and isinstance(ids[0], Sequence)
    return _own_part(ids, "token_ids_logprob", index, count) if nested else ids or ()


def _rid(rid: object, index: int, count: int) -> object:
    if rid is None:
        return ""
    if isinstance(rid, str) and count > 1:
        return f"{rid}-{index}" if rid else ""
    return _own_part(rid, "rid", index, count)


def _plain(value: object) -> object:
    """Turn a struct into a dictionary, so that converting it checks its bounds."""
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def _plain_sampling(params: object) -> object:
    """Allow what people write: null for the default, one stop string, a bias by token, a grammar by its language."""
    plain = _plain({} if params is None else params)
    if not isinstance(plain, Mapping):
        return plain
    fields = {name: value for name, value in plain.items() if value is not None}
    for name in ("stop", "stop_regex"):
        if isinstance(fields.get(name), str):
            fields[name] = [fields[name]]
    if isinstance(bias := fields.get("logit_bias"), Mapping):
        fields["logit_bias"] = [(_token_key(token), value) for token, value in bias.items()]
    grammars = [name for name in _GRAMMARS if name in fields]
    if len(grammars) + ("grammar" in fields) > 1:
        raise RequestError(400, f"sampling_params.{grammars[-1]}", "only one grammar is possible")
    for name in grammars:
        fields["grammar"] = {"kind": name, "source": fields.pop(name)}
    return fields


def _token_key(key: object) -> object:
    """Read the token id of a bias: a JSON object has text for keys."""
    return int(key) if isinstance(key, str) and key.isdecimal() and len(key) <= 10 else key


def _convert(fields: dict[str, Any], kind: type[R]) -> R:
    """Check every bound that the wire states, and say what is wrong in the asker's words."""
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        path = ".".join(re.findall(r"\w+(?:\[[^]]*\])*", place.partition("$")[2]))
        for wire, asked in _ASKED_AS.items():
            if re.match(rf"{re.escape(wire)}\b", path):
                path = asked + path[len(wire) :]
                break
        raise RequestError(400, path, what[:1].lower() + what[1:200]) from None


def _check_sampling(draft: TokenizedGenerateReqInput, limits: Limits) -> None:
    """Check what bounds of single fields cannot say."""
    sampling = draft.sampling
    top = f"must be token ids from 0 to {limits.vocab_size - 1}"
    chosen = draft.logprobs.token_ids if draft.logprobs is not None else ()
    for field, ids in (
        ("sampling_params.stop_token_ids", sampling.stop_token_ids),
        ("sampling_params.logit_bias", [token for token, _ in sampling.logit_bias]),
        ("token_ids_logprob", chosen),
    ):
        if any(token >= limits.vocab_size for token in ids):
            raise RequestError(400, field, top)
    if draft.logprobs is not None and draft.logprobs.top > limits.vocab_size:
        raise RequestError(400, "top_logprobs_num", f"the vocabulary has {limits.vocab_size} tokens")
    if not all(math.isfinite(bias) for _, bias in sampling.logit_bias):
        raise RequestError(400, "sampling_params.logit_bias", "must be finite")
    if sampling.min_new_tokens > sampling.max_new_tokens:
        raise RequestError(
            400,
            "sampling_params.min_new_tokens",
            f"is {sampling.min_new_tokens}, more than max_new_tokens, which is {sampling.max_new_tokens}",
        )
    for i, source in enumerate(sampling.stop_regex):
        try:
            compile_regex(source)
        except RegexError as error:
            raise RequestError(400, f"sampling_params.stop_regex[{i}]", str(error)) from error


def _check_timeout(draft: Request) -> None:
    if draft.queue_timeout_s is not None and not math.isfinite(draft.queue_timeout_s):
        raise RequestError(400, "queue_timeout_s", "must be finite")


def _check_encodable(request: Request) -> None:
    try:
        msgspec.msgpack.encode(request)
    except UnicodeEncodeError:
        raise RequestError(400, "", "some text in it has half of a surrogate pair, which is no character") from None
