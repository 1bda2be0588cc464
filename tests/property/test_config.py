"""Properties of loading and resolving a config."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from banyan.config.card import read_card
from banyan.config.describe import as_yaml
from banyan.config.errors import ConfigError
from banyan.config.fields import Leaf, Value, as_text, changed, value_at
from banyan.config.host import Host
from banyan.config.load import ENGINE_LEAVES, from_options, load
from banyan.config.resolve import Settled, resolve
from banyan.config.spec import EngineConfig

CARD = read_card("oracle")


def values(kind: inspect.Type) -> st.SearchStrategy[Value]:
    """Values that a type allows; small ones often, for that is where settings meet."""
    match kind:
        case inspect.LiteralType(values=allowed):
            return st.sampled_from(allowed)
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=low, le=high):
            low = low or 0
            high = high if high is not None else 2**40
            return st.integers(low, min(high, low + 100)) | st.integers(low, high)
        case inspect.FloatType(ge=low, gt=above, le=high):
            bound = low if low is not None else above
            return st.floats(bound, high or 1e6, exclude_min=above is not None, allow_nan=False)
        case _:
            return st.text(max_size=8)


def leaf_values(leaf: Leaf) -> st.SearchStrategy[Value]:
    if leaf.path == "model.path":
        return st.just("oracle")
    return st.one_of([values(kind) for kind in leaf.kinds])


# A few settings at a time: with all of them at once nearly every config would be a contradiction.
asked = st.lists(st.sampled_from(ENGINE_LEAVES), max_size=6, unique_by=lambda leaf: leaf.path).flatmap(
    lambda leaves: st.fixed_dictionaries({leaf.path: leaf_values(leaf) for leaf in leaves})
)
hosts = (st.integers(0, 10**12) | st.integers(0, 10**4)).map(
    lambda n: Host(platform="linux-test", cpu="test", num_cores=2, total_bytes=10**12, available_bytes=n)
)


def try_resolve(config: EngineConfig, host: Host) -> Settled | None:
    try:
        return resolve(config, host, CARD)
    except ConfigError:
        return None


@settings(max_examples=400)
@given(asked, hosts)
def test_resolve_is_idempotent(paths: Mapping[str, Value], host: Host) -> None:
    settled = try_resolve(changed(EngineConfig(), paths), host)
    if settled is not None:
        again = resolve(settled.config, host, CARD)
        assert again == msgspec.structs.replace(settled, reasons=())


@settings(max_examples=400)
@given(asked, hosts)
def test_what_is_settled_fits_together(paths: Mapping[str, Value], host: Host) -> None:
    settled = try_resolve(changed(EngineConfig(), paths), host)
    if settled is None:
        return
    assert "auto" not in [value_at(settled.config, leaf) for leaf in ENGINE_LEAVES if leaf.default == "auto"]
    assert settled.max_total_tokens % settled.page_size == 0
    assert settled.page_size <= settled.context_length <= settled.max_total_tokens
    assert settled.max_running_requests * settled.page_size <= settled.max_total_tokens
    assert settled.max_running_requests <= settled.chunked_prefill_size
    assert settled.depth >= settled.config.parallel.pp_size
    assert settled.max_total_tokens * CARD.kv_bytes_per_token <= host.available_bytes
    assert msgspec.json.decode(msgspec.json.encode(settled), type=Settled) == settled


@settings(max_examples=400)
@given(asked, hosts)
def test_what_was_asked_for_is_never_changed_but_for_whole_pages(paths: Mapping[str, Value], host: Host) -> None:
    settled = try_resolve(changed(EngineConfig(), paths), host)
    if settled is not None:
        for leaf in ENGINE_LEAVES:
            if leaf.path in paths and paths[leaf.path] != "auto" and leaf.path != "memory.max_total_tokens":
                assert value_at(settled.config, leaf) == paths[leaf.path]


@given(asked)
def test_all_sources_read_the_same(paths: Mapping[str, Value]) -> None:
    leaves = {leaf.path: leaf for leaf in ENGINE_LEAVES}
    config = changed(EngineConfig(), paths)
    options: dict[str, Any] = dict(paths)
    assert from_options(options) == config
    assert load([f"{leaves[path].main_flag}={as_text(value)}" for path, value in paths.items()]) == config
    assert load([], {leaves[path].variable: as_text(value) for path, value in paths.items()}) == config


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked)
def test_a_config_written_as_yaml_is_read_back(tmp_path: Path, paths: Mapping[str, Value]) -> None:
    config = changed(EngineConfig(), paths)
    path = tmp_path / "engine.yaml"
    path.write_text(as_yaml(config, {}), encoding="utf-8")
    assert load(["--config", str(path)]) == config
