"""Tests of banyan.config.resolve."""

import re

import msgspec
import pytest

from banyan.config.card import ModelCard, card_from_hf, read_card
from banyan.config.errors import ConfigError
from banyan.config.fields import value_at
from banyan.config.host import Host
from banyan.config.load import ENGINE_LEAVES, Names, load
from banyan.config.resolve import Settled, resolve

GB = 10**9
CARD = read_card("oracle")
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "vocab_size": 64,
    "max_position_embeddings": 128,
}


def host(available_bytes: int = 8 * GB) -> Host:
    return Host(platform="linux-test", cpu="test", num_cores=2, total_bytes=16 * GB, available_bytes=available_bytes)


def settle(argv: str = "", machine: Host | None = None, card: ModelCard = CARD) -> Settled:
    return resolve(load(argv.split()), machine or host(), card)


def refused(argv: str, machine: Host | None = None, card: ModelCard = CARD) -> str:
    with pytest.raises(ConfigError) as caught:
        settle(argv, machine, card)
    said = str(caught.value)
    names = Names(ENGINE_LEAVES)
    for flag in re.findall(r"--[a-z.-]*[a-z]", said):
        assert names.leaf(flag), f"{flag} in a message is no flag"
    return said


def test_the_defaults_settle_to_these_values() -> None:
    settled = settle()
    assert (settled.served_name, settled.tokenizer) == ("oracle", "byte")
    assert (settled.vocab_size, settled.eos_ids) == (259, (256,))
    assert (settled.page_size, settled.max_total_tokens, settled.context_length) == (16, 1 << 20, 32_768)
    assert (settled.max_running_requests, settled.chunked_prefill_size, settled.depth) == (1024, 2048, 2)


def test_no_auto_is_left_and_the_plain_fields_agree_with_the_config() -> None:
    settled = settle()
    assert [leaf.path for leaf in ENGINE_LEAVES if value_at(settled.config, leaf) == "auto"] == []
    config = settled.config
    assert (config.model.served_name, config.model.tokenizer) == (settled.served_name, settled.tokenizer)
    assert config.model.context_length == settled.context_length
    assert (config.memory.page_size, config.memory.max_total_tokens) == (settled.page_size, settled.max_total_tokens)
    assert config.schedule.max_running_requests == settled.max_running_requests
    assert config.schedule.chunked_prefill_size == settled.chunked_prefill_size
    assert config.schedule.depth == settled.depth


def test_every_auto_gets_one_reason_and_nothing_else_does() -> None:
    settled = settle("--page-size 8 --seed 3")
    autos = {leaf.path for leaf in ENGINE_LEAVES if leaf.default == "auto"} - {"memory.page_size"}
    assert sorted(reason.split(" = ")[0] for reason in settled.reasons) == sorted(autos)
    assert all(re.fullmatch(r"[a-z_.]+ = \S+: .+", reason) for reason in settled.reasons)


def test_what_was_asked_for_is_kept() -> None:
    settled = settle(
        "--page-size 8 --max-total-tokens 800 --context-length 400 --max-running-requests 9 "
        "--chunked-prefill-size 64 --schedule-depth 5 --served-model-name me --tokenizer t.json "
        "--dtype float32 --load-format dummy --attention-backend cpu"
    )
    assert (settled.page_size, settled.max_total_tokens, settled.context_length) == (8, 800, 400)
    assert (settled.max_running_requests, settled.chunked_prefill_size, settled.depth) == (9, 64, 5)
    assert (settled.served_name, settled.tokenizer) == ("me", "t.json")
    assert settled.reasons == ()


def test_settled_survives_json() -> None:
    settled = settle("--pp-size 64 --dp-size 2")
    assert msgspec.json.decode(msgspec.json.encode(settled), type=Settled) == settled


def test_memory_limits_tokens_and_requests() -> None:
    settled = settle(machine=host(available_bytes=8_001_000))
    assert settled.max_total_tokens == 200_016  # half of the memory at 20 bytes a token, in whole pages
    assert settled.max_running_requests == 122  # a quarter of it at 2,048 pages of 8 bytes a request
    assert settle("--dp-size 2", host(available_bytes=8_001_000)).max_total_tokens == 100_000
    assert settle(machine=host(available_bytes=16_000)).context_length == 400


def test_more_tokens_than_usual_are_taken_for_more_requests_than_usual() -> None:
    assert settle("--max-running-requests 2000 --page-size 1024").max_total_tokens == 2000 * 1024


def test_tokens_are_rounded_down_to_whole_pages_and_say_so() -> None:
    settled = settle("--max-total-tokens 100 --page-size 16")
    assert settled.max_total_tokens == settled.config.memory.max_total_tokens == 96
    assert "memory.max_total_tokens = 96: 100 is not a whole number of pages of 16 tokens" in settled.reasons


def test_a_small_context_gets_small_pages() -> None:
    assert settle("--context-length 12").page_size == 8
    assert settle("--max-total-tokens 31 --context-length 9").page_size == 8
    assert settle("--max-total-tokens 128 --max-running-requests 9").page_size == 8
    assert "17" in refused("--max-total-tokens 16 --max-running-requests 17")


def test_fewer_requests_run_where_a_step_is_small_and_a_step_grows_with_the_requests() -> None:
    assert settle("--chunked-prefill-size 16").max_running_requests == 16
    assert settle("--max-running-requests 4096").chunked_prefill_size == 8192


@pytest.mark.parametrize(
    ("argv", "depth"), [("--pp-size 4", 4), ("--pp-size 64", 64), ("--pp-size 64 --schedule-depth 65", 65)]
)
def test_a_pipeline_is_kept_full(argv: str, depth: int) -> None:
    assert settle(argv).depth == depth


def test_decode_runs_in_a_pipeline_too() -> None:
    settled = settle("--disaggregation-mode decode --pp-size 2")
    assert (settled.config.disagg.mode, settled.depth) == ("decode", 2)


@pytest.mark.parametrize(
    ("argv", "first", "second"),
    [
        ("--context-length 800 --max-total-tokens 400", "--context-length 800", "--max-total-tokens 400"),
        ("--context-length 100 --max-total-tokens 100", "--context-length 100", "--max-total-tokens 96"),
        ("--page-size 64 --context-length 32", "--page-size 64", "--context-length 32"),
        ("--page-size 64 --max-total-tokens 32", "--page-size 64", "--max-total-tokens 32"),
        ("--page-size 11 --max-total-tokens 16", "--page-size 11 leaves 11", "--max-total-tokens 16"),
        ("--max-running-requests 9 --max-total-tokens 128 --page-size 16", "--max-running-requests 9", "8 pages"),
        (
            "--max-running-requests 64 --chunked-prefill-size 32",
            "--max-running-requests 64",
            "--chunked-prefill-size 32",
        ),
        ("--schedule-depth 3 --pp-size 4", "--schedule-depth 3", "--pp-size 4"),
        ("--disable-overlap-schedule --pp-size 2", "--schedule-depth 1", "--pp-size 2"),
        ("--context-length 40000", "--context-length 40000", "32768"),
        ("--debug.oracle-step-ms 40000", "--debug.oracle-step-ms 40000", "--watchdog-timeout 30"),
        ("--debug.oracle-token-us 20000", "--debug.oracle-token-us 20000", "--watchdog-timeout 30"),
        ("--disable-radix-cache --schedule-policy lpm", "--prefix-cache chunk", "--schedule-policy lpm"),
    ],
)
def test_what_cannot_work_is_refused_with_both_names(argv: str, first: str, second: str) -> None:
    said = refused(argv)
    assert first in said
    assert second in said


def test_several_conflicts_are_told_in_one_message() -> None:
    assert "; also " in refused("--disable-radix-cache --schedule-policy lpm --recovery.budget 0")


def test_more_memory_than_there_is_is_refused_with_the_numbers() -> None:
    said = refused("--max-total-tokens 2000000 --dp-size 2", host(available_bytes=30_000_000))
    assert "80.0 MB" in said
    assert "30.0 MB available" in said
    assert "lower --max-total-tokens" in said


def test_page_tables_count_as_memory() -> None:
    said = refused("--max-running-requests 65536 --page-size 1 --chunked-prefill-size 65536", host(2 * GB))
    assert "17.2 GB" in said
    assert "lower --max-running-requests or --context-length" in said


def test_a_machine_without_memory_for_a_page_is_refused() -> None:
    assert "only 0.0 MB of memory is available" in refused("", host(available_bytes=200))


def test_memory_too_small_for_the_context_asked_for_is_refused() -> None:
    said = refused("--context-length 2000", host(available_bytes=16_000))
    assert "--context-length 2000 is more than the 400 tokens that half of the available memory holds" in said


def test_page_numbers_must_fit_their_type() -> None:
    card = ModelCard(name="tiny", tokenizer="byte", vocab_size=2, context_length=64, eos_ids=(), kv_bytes_per_token=1)
    said = refused(f"--max-total-tokens {2**31} --page-size 1", host(available_bytes=64 * GB), card)
    assert str(2**31) in said


def test_a_network_on_a_cpu_is_settled_for_a_cpu() -> None:
    card = card_from_hf({**TINY, "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}, name="tiny")
    settled = settle(card=card)
    assert (settled.dtype, settled.depth, settled.load_format, settled.attention) == (
        "float32",
        1,
        "safetensors",
        "cpu",
    )
    assert settled.max_running_requests == 256
    assert not settled.card.needs_whole_prompts
    # Four bytes a number, whatever the file has: 2 layers of keys and values of 2 heads of 8.
    assert card.kv_bytes(settled.dtype) == 2 * 2 * 2 * 8 * 4


def test_a_model_whose_tokens_see_the_whole_prompt_shares_no_prefixes() -> None:
    card = card_from_hf({**TINY, "architectures": ["BertModel"]}, name="tiny")
    settled = settle(card=card)
    assert settled.card.needs_whole_prompts
    assert settled.config.memory.cache == "chunk"
    assert any(reason.startswith("memory.cache = chunk: ") for reason in settled.reasons)


def test_pipelines_are_for_the_oracle_only() -> None:
    card = card_from_hf({**TINY, "architectures": ["LlamaForCausalLM"]})
    assert "--pp-size 2 works with --model-path oracle only" in refused("--pp-size 2 --model-path smollm2", card=card)
