"""Choices that do not work together: each is refused with both names, none is silently switched off."""

from collections.abc import Iterator

from banyan.config.spec import EngineConfig


def conflicts(config: EngineConfig) -> Iterator[str]:
    """Say in one sentence each which choices contradict each other, whatever the machine and the model are."""
    yield from _without_shared_prefixes(config)
    if config.recovery.mode == "restart" and config.recovery.budget == 0:
        yield "--recovery restart cannot work with --recovery.budget 0: allow a restart, or use --recovery stop"
    if config.parallel.pp_size > 1 and config.model.path != "oracle":
        yield f"--pp-size {config.parallel.pp_size} works with --model-path oracle only: real models run in one stage"
    if config.observe.record and config.disagg.mode != "null":
        yield (
            f"--record cannot work with --disaggregation-mode {config.disagg.mode}: what comes over the link between "
            "servers is not recorded, so leave out one of them"
        )


def _without_shared_prefixes(config: EngineConfig) -> Iterator[str]:
    """Whatever orders, spreads or evicts by shared prefixes needs a cache that has some."""
    if config.memory.cache != "chunk":
        return
    cause = "--prefix-cache chunk shares no prefixes"
    policy, method = config.schedule.policy, config.parallel.load_balance_method
    if policy in ("lpm", "dfs-weight"):
        yield (
            f"{cause}, but --schedule-policy {policy} orders by them: "
            "use --schedule-policy fcfs or --prefix-cache radix"
        )
    if method == "prefix_aware" and config.parallel.dp_size > 1:
        yield (
            f"{cause}, but --load-balance-method {method} spreads requests by them: "
            "use --load-balance-method shortest_queue or --prefix-cache radix"
        )
    if config.memory.eviction_policy != "lru":
        yield (
            f"{cause}, so --radix-eviction-policy {config.memory.eviction_policy} has nothing to evict: "
            "leave it out or use --prefix-cache radix"
        )
