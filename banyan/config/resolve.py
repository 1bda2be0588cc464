"""resolve: (config, host, card) -> Settled. No "auto" is left, decisions have reasons, contradictions stop here.

Pure. The order of the steps is the order of the lines in `resolve`.
"""

from typing import TypeVar

import msgspec

from banyan.config.card import ModelCard
from banyan.config.conflicts import conflicts
from banyan.config.errors import ConfigError
from banyan.config.fields import Value, changed
from banyan.config.host import Host
from banyan.config.spec import Auto, EngineConfig

Plain = TypeVar("Plain", int, str)

_PAGE_SIZE = 16
_MAX_TOTAL_TOKENS = 1 << 20
_MIN_TOTAL_TOKENS = 16  # the spec allows no less
_MAX_RUNNING_REQUESTS = 1024
_TOKENS_PER_STEP = 2048
_CPU_RUNNING_REQUESTS = 256
_CPU_TOTAL_TOKENS = 1 << 16
_CPU_TOKENS_PER_STEP = 512  # about a second's work: who decodes beside a long prompt waits no longer
_MAX_PAGES = 2**31 - 1  # page numbers are 32-bit
_TABLE_ENTRY_BYTES = 8  # four on the host and four on the device


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine runs with. Beside `config` stands, with a plain type, all that may have been "auto" in it."""

    config: EngineConfig
    reasons: tuple[str, ...]
    served_name: str
    tokenizer: str
    context_length: int
    page_size: int
    max_total_tokens: int
    max_running_requests: int
    chunked_prefill_size: int
    depth: int
    dtype: str
    load_format: str
    attention: str
    vocab_size: int
    eos_ids: tuple[int, ...]
    card: ModelCard


class _Decisions:
    """What was decided, by path, and why."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.reasons: list[str] = []

    def fill(self, path: str, asked: Plain | Auto, value: Plain, why: str) -> Plain:
        """Keep what was asked for; take the value, with its reason, where that was left open."""
        if asked != "auto":
            return asked
        return self.decide(path, value, why)

    def decide(self, path: str, value: Plain, why: str) -> Plain:
        """Take a value, with its reason."""
        self.values[path] = value
        self.reasons.append(f"{path} = {value}: {why}")
        return value


def resolve(config: EngineConfig, host: Host, card: ModelCard) -> Settled:
    """Settle every setting, or raise ConfigError with what cannot work and what to do about it."""
    if found := list(conflicts(config)):
        raise ConfigError("; also ".join(found))
    model, schedule = config.model, config.schedule
    decisions = _Decisions()
    served_name = decisions.fill("model.served_name", model.served_name, card.name, "the model's own name")
    tokenizer = decisions.fill("model.tokenizer", model.tokenizer, card.tokenizer, "the model was made with it")
    dtype = _dtype(config, card, decisions)
    load_format = _load_format(config, card, decisions)
    attention = decisions.fill("kernels.attention", config.kernels.attention, "cpu", "the only device here")
    _needs_of_whole_prompts(config, card, decisions)
    page_size = _page_size(config, card, decisions)
    max_total_tokens = _max_total_tokens(config, host, card, dtype, page_size, decisions)
    context_length = _context_length(config, card, page_size, max_total_tokens, decisions)
    row_bytes = config.parallel.dp_size * -(-context_length // page_size) * _TABLE_ENTRY_BYTES
    max_running_requests = _max_running_requests(
        config, host, card, max_total_tokens // page_size, row_bytes, decisions
    )
    per_step = _TOKENS_PER_STEP if card.architecture is None else _CPU_TOKENS_PER_STEP
    chunked_prefill_size = decisions.fill(
        "schedule.chunked_prefill_size",
        schedule.chunked_prefill_size,
        max(per_step, 2 * max_running_requests),
        f"prompts find room beside {max_running_requests} running requests",
    )
    depth = _depth(config, card, decisions)
    settled = Settled(
        config=changed(config, decisions.values),
        reasons=tuple(decisions.reasons),
        served_name=served_name,
        tokenizer=tokenizer,
        context_length=context_length,
        page_size=page_size,
        max_total_tokens=max_total_tokens,
        max_running_requests=max_running_requests,
        chunked_prefill_size=chunked_prefill_size,
        depth=depth,
        dtype=dtype,
        load_format=load_format,
        attention=attention,
        vocab_size=card.vocab_size,
        eos_ids=card.eos_ids,
        card=card,
    )
    _refuse_what_does_not_fit(settled, host, card, max_running_requests * row_bytes)
    return settled


def _dtype(config: EngineConfig, card: ModelCard, decisions: _Decisions) -> str:
    why = "what CPUs compute fastest in" if card.architecture is not None else "the oracle computes with whole numbers"
    return decisions.fill("model.dtype", config.model.dtype, "float32", why)


def _load_format(config: EngineConfig, card: ModelCard, decisions: _Decisions) -> str:
    if card.architecture is None:
        value, why = "dummy", "the oracle has no weights"
    elif card.source.lower().endswith(".gguf"):
        value, why = "gguf", f"{card.name} is a .gguf file"
    else:
        value, why = "safetensors", f"{card.name} is a folder"
    return decisions.fill("model.load_format", config.model.load_format, value, why)


def _needs_of_whole_prompts(config: EngineConfig, card: ModelCard, decisions: _Decisions) -> None:
    """A model whose prompts cannot be cut has no prefixes to share."""
    if card.needs_whole_prompts and config.memory.cache == "radix":
        decisions.decide(
            "memory.cache", "chunk", f"every token of {card.name} sees its whole prompt: no prefix is shared"
        )


def _page_size(config: EngineConfig, card: ModelCard, decisions: _Decisions) -> int:
    """Take the usual page, or the largest smaller one that the limits asked for leave room for."""
    context, total = config.model.context_length, config.memory.max_total_tokens
    running = config.schedule.max_running_requests
    room = card.context_length if context == "auto" else context
    if total != "auto":
        room = min(room, total if running == "auto" else total // running)
    value = min(_PAGE_SIZE, 1 << (max(room, 1).bit_length() - 1))
    why = "prefixes are shared finely, page tables stay short" if value == _PAGE_SIZE else f"room for {room} tokens"
    return decisions.fill("memory.page_size", config.memory.page_size, value, why)


def _max_total_tokens(
    config: EngineConfig, host: Host, card: ModelCard, dtype: str, page_size: int, decisions: _Decisions
) -> int:
    """Take as many whole pages as are useful, within half of the available memory."""
    path, asked = "memory.max_total_tokens", config.memory.max_total_tokens
    if asked != "auto":
        whole = asked // page_size * page_size
        if whole < _MIN_TOTAL_TOKENS:
            raise ConfigError(
                f"--page-size {page_size} leaves {whole} of --max-total-tokens {asked} in whole pages, and "
                f"{_MIN_TOTAL_TOKENS} is the least: lower the first or raise the second"
            )
        if whole < asked:
            decisions.decide(path, whole, f"{asked} is not a whole number of pages of {page_size} tokens")
        return whole
    context, running = config.model.context_length, config.schedule.max_running_requests
    most = (
        _MAX_TOTAL_TOKENS
        if card.architecture is None
        else min(_MAX_TOTAL_TOKENS, max(_CPU_TOTAL_TOKENS, 8 * card.context_length))
    )
    useful_pages = max(
        most // page_size,
        -(-context // page_size) if context != "auto" else 0,
        running if running != "auto" else 0,
    )
    token_bytes = card.kv_bytes(dtype) * config.parallel.dp_size
    value = page_size * min(useful_pages, host.available_bytes // 2 // (token_bytes * page_size))
    if value < _MIN_TOTAL_TOKENS:
        raise ConfigError(
            f"only {_size(host.available_bytes)} of memory is available, and half of it does not hold a page of "
            f"{page_size} tokens for each replica: free memory, or lower --page-size or --dp-size"
        )
    return decisions.decide(path, value, f"{_size(value * token_bytes)} of the {_size(host.available_bytes)} available")


def _context_length(
    config: EngineConfig, card: ModelCard, page_size: int, max_total_tokens: int, decisions: _Decisions
) -> int:
    asked = config.model.context_length
    if asked != "auto" and asked > card.context_length:
        raise ConfigError(
            f"--context-length {asked} is more than the {card.context_length} tokens that {card.name} can attend to: "
            "lower it"
        )
    why = "the model's limit" if card.context_length <= max_total_tokens else "one sequence may fill all of KV memory"
    value = decisions.fill("model.context_length", asked, min(card.context_length, max_total_tokens), why)
    if value > max_total_tokens:
        limit = f"--max-total-tokens {max_total_tokens}"
        if config.memory.max_total_tokens == "auto":
            limit = f"the {max_total_tokens} tokens that half of the available memory holds"
        raise ConfigError(
            f"--context-length {value} is more than {limit}, "
            "so a sequence of that length could never run: lower the first or raise the second"
        )
    if page_size > value:
        raise ConfigError(
            f"--page-size {page_size} is more than --context-length {value}, so no page could ever be full: "
            "lower the first or raise the second"
        )
    return value


def _max_running_requests(
    config: EngineConfig, host: Host, card: ModelCard, num_pages: int, row_bytes: int, decisions: _Decisions
) -> int:
    """Every running request holds a page at least and a row of the page table, and takes a token of each step."""
    asked, per_step = config.schedule.max_running_requests, config.schedule.chunked_prefill_size
    limits = {
        "enough for a busy server": _MAX_RUNNING_REQUESTS if card.architecture is None else _CPU_RUNNING_REQUESTS,
        "one page each": num_pages,
        "page tables in a quarter of the available memory": max(1, host.available_bytes // 4 // row_bytes),
    }
    if per_step != "auto":
        limits["one token each in every step"] = per_step
    why = min(limits, key=lambda reason: limits[reason])
    value = decisions.fill("schedule.max_running_requests", asked, limits[why], why)
    if value > num_pages:
        raise ConfigError(
            f"--max-running-requests {value} is more than the {num_pages} pages that --max-total-tokens and "
            "--page-size make, and each request holds one at least: lower the first or the last, or raise the second"
        )
    if per_step != "auto" and value > per_step:
        raise ConfigError(
            f"--max-running-requests {value} is more than --chunked-prefill-size {per_step}, "
            "so a step could not carry a token of each: lower the first or raise the second"
        )
    return value


def _depth(config: EngineConfig, card: ModelCard, decisions: _Decisions) -> int:
    stages = config.parallel.pp_size
    if stages == 1 and card.architecture is not None:
        value, why = 1, "a CPU computes a step while it is launched"
    elif stages == 1:
        value, why = 2, "the host prepares one step while the device runs another"
    else:
        value, why = stages, f"a step in flight for each of {stages} pipeline stages"
    depth = decisions.fill("schedule.depth", config.schedule.depth, value, why)
    if depth < stages:
        raise ConfigError(
            f"--schedule-depth {depth} is less than --pp-size {stages}, so a stage would always be idle: "
            "leave the first out or lower the second"
        )
    return depth


def _refuse_what_does_not_fit(settled: Settled, host: Host, card: ModelCard, table_bytes: int) -> None:
    """Check sizes that follow from several settings at once."""
    num_pages = settled.max_total_tokens // settled.page_size
    if num_pages > _MAX_PAGES:
        raise ConfigError(
            f"--max-total-tokens {settled.max_total_tokens} and --page-size {settled.page_size} make {num_pages} "
            f"pages, but only {_MAX_PAGES} can be numbered: lower the first or raise the second"
        )
    replicas = settled.config.parallel.dp_size
    kv_bytes = replicas * settled.max_total_tokens * card.kv_bytes(settled.dtype)
    if kv_bytes + table_bytes > host.available_bytes:
        what = "--max-total-tokens" if kv_bytes >= table_bytes else "--max-running-requests or --context-length"
        raise ConfigError(
            f"KV memory ({_size(kv_bytes)}) and page tables ({_size(table_bytes)}) of {replicas} replicas are more "
            f"than the {_size(host.available_bytes)} available: lower {what}, or --dp-size"
        )
    debug, timeout_s = settled.config.debug, settled.config.observe.watchdog_timeout_s
    step_s = debug.oracle_step_ms / 1e3 + settled.chunked_prefill_size * debug.oracle_token_us / 1e6
    if step_s >= timeout_s:
        raise ConfigError(
            f"--debug.oracle-step-ms {debug.oracle_step_ms} and --debug.oracle-token-us {debug.oracle_token_us} make "
            f"steps of up to {step_s:.1f} s, but --watchdog-timeout {timeout_s} restarts what takes so long: "
            "lower the first two or raise the last"
        )


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
