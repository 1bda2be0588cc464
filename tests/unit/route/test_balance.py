"""Balance methods: exactness of the load table, fairness, affinity, bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.route.balance import (
    BLOCK_BYTES,
    MAX_BLOCKS,
    LoadBalanceMethod,
    LoadTable,
    PrefixAware,
    PrefixIndex,
    RoundRobin,
    ShortestQueue,
    hash_blocks,
    make_balance,
    relative_load,
)
from banyan.wire.control import LoadReport
from banyan.wire.request import SamplingParams, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput

BLOCK = BLOCK_BYTES // 4
METHODS: tuple[LoadBalanceMethod, ...] = ("round_robin", "shortest_queue", "prefix_aware")


def request(
    tokens: list[int], uid: int = 0, committed: tuple[int, ...] = (), salt: str = "", lora: str = ""
) -> TokenizedGenerateReqInput:
    return TokenizedGenerateReqInput(
        uid=uid,
        rid=str(uid),
        tokens=np.array(tokens, np.int32).tobytes(),
        committed=np.array(committed, np.int32).tobytes(),
        sampling=SamplingParams(),
        seed=1,
        salt=salt,
        lora=lora,
    )


def report(replica: int, running: int = 0, waiting: int = 0, used: int = 0, total: int = 1000) -> LoadReport:
    return LoadReport(
        replica=replica, running=running, waiting=waiting, waiting_tokens=0, used_tokens=used, total_tokens=total
    )


def test_what_was_sent_counts_until_the_second_report_after_it() -> None:
    loads = LoadTable(2)
    loads.sent(0, num_tokens=10)
    loads.sent(0, num_tokens=10)
    assert (loads.requests(0), loads.requests(1)) == (2, 0)
    loads.report(report(0, running=1))  # may have crossed the second request on its way
    assert loads.requests(0) == 3
    loads.report(report(0, running=2))
    assert loads.requests(0) == 2


def test_pressure_counts_what_was_sent_and_is_zero_while_unknown() -> None:
    loads = LoadTable(1)
    assert loads.pressure(0) == 0.0
    loads.report(report(0, used=100))
    loads.sent(0, num_tokens=150)
    assert loads.pressure(0) == pytest.approx(0.25)
    loads.reset(0)
    assert (loads.pressure(0), loads.requests(0)) == (0.0, 0)


def test_round_robin_takes_turns_and_skips_the_dead() -> None:
    balance = RoundRobin(3)
    loads = LoadTable(3)
    assert [balance.place(request([1]), (0, 1, 2), loads) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    assert [balance.place(request([1]), (0, 2), loads) for _ in range(4)] == [0, 2, 0, 2]


def test_shortest_queue_goes_where_least_is_waiting() -> None:
    balance = ShortestQueue(3)
    loads = LoadTable(3)
    for replica, waiting in enumerate((5, 1, 3)):
        loads.report(report(replica, waiting=waiting))
    assert balance.place(request([1]), (0, 1, 2), loads) == 1
    assert balance.place(request([1]), (0, 2), loads) == 2


@pytest.mark.parametrize("method", METHODS)
def test_a_burst_spreads_although_no_report_arrives(method: LoadBalanceMethod) -> None:
    balance = make_balance(method, 4)
    loads = LoadTable(4)
    counts = [0] * 4
    for number in range(400):
        replica = balance.place(request([number] * BLOCK), range(4), loads)
        loads.sent(replica, BLOCK)
        counts[replica] += 1
    assert max(counts) - min(counts) <= 1


def test_prefix_aware_follows_a_prefix_and_leaves_an_overloaded_replica() -> None:
    balance = PrefixAware(2)
    loads = LoadTable(2)
    prompt = list(range(4 * BLOCK))
    home = balance.place(request(prompt), (0, 1), loads)
    assert [balance.place(request([*prompt, number]), (0, 1), loads) for number in range(5)] == [home] * 5
    loads.report(report(home, running=40))
    loads.report(report(1 - home, running=2))
    assert balance.place(request(prompt), (0, 1), loads) == 1 - home


def test_prefix_aware_prefers_the_longer_match() -> None:
    balance = PrefixAware(2)
    loads = LoadTable(2)
    short, long = [7] * BLOCK, [7] * BLOCK + [8] * BLOCK
    assert balance.place(request(short), (0,), loads) == 0
    assert balance.place(request(long), (1,), loads) == 1
    assert balance.place(request([*long, 9]), (0, 1), loads) == 1


def test_prefix_aware_forgets_the_cache_of_a_restarted_replica() -> None:
    balance = PrefixAware(2)
    loads = LoadTable(2)
    prompt = request([3] * BLOCK)
    assert balance.place(prompt, (0,), loads) == 0
    balance.forget(0)
    assert balance.place(prompt, (0, 1), loads) == 1  # no match anywhere: the one that waited longer


def test_pressure_of_long_contexts_outweighs_a_small_match() -> None:
    balance = PrefixAware(2)
    loads = LoadTable(2)
    balance.place(request([5] * BLOCK), (0,), loads)
    loads.report(report(0, running=1, used=900))
    loads.report(report(1, running=1, used=0))
    assert balance.place(request([5] * BLOCK + [6] * 9 * BLOCK), (0, 1), loads) == 1


def test_relative_load_is_zero_for_the_least_busy() -> None:
    loads = LoadTable(2)
    loads.report(report(0, running=8))
    assert relative_load((0, 1), loads) == {0: pytest.approx(8 / 12), 1: 0.0}


def test_blocks_of_two_tenants_adapters_or_pasts_never_match() -> None:
    tokens = [1] * BLOCK + [2] * BLOCK
    plain = hash_blocks(request(tokens))
    assert len(set(plain)) == 2
    for other in (
        request(tokens, salt="a"),
        request(tokens, lora="a"),
        request([9] * BLOCK + [2] * BLOCK),
    ):
        assert not set(hash_blocks(other)) & set(plain)
    assert hash_blocks(request(tokens, salt="ab", lora="c")) != hash_blocks(request(tokens, salt="a", lora="bc"))


def test_committed_tokens_are_part_of_the_prefix_and_length_is_bounded() -> None:
    whole = hash_blocks(request([4] * 2 * BLOCK))
    assert hash_blocks(request([4] * (BLOCK + 1), committed=(4,) * (BLOCK - 1))) == whole
    assert hash_blocks(request([4] * (BLOCK - 1))) == []
    assert len(hash_blocks(request([4] * (MAX_BLOCKS + 5) * BLOCK))) == MAX_BLOCKS
    embedding = TokenizedEmbeddingReqInput(uid=1, rid="", tokens=np.full(2 * BLOCK, 4, np.int32).tobytes())
    assert hash_blocks(embedding) == whole


def test_the_index_is_bounded_and_drops_the_end_of_a_prefix_first() -> None:
    index = PrefixIndex(2, capacity=3)
    index.add([b"a", b"b", b"c"], 0)
    index.add([b"x"], 1)
    assert len(index) == 3
    assert index.matched([b"a", b"b", b"c"]) == {0: 2}
    assert index.matched([b"x", b"y"]) == {1: 1}
    assert index.matched([]) == {}


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 2)), max_size=20),
    st.lists(st.integers(0, 3), max_size=5),
)
def test_the_index_counts_as_a_set_of_prefixes_would(added: list[tuple[list[int], int]], asked: list[int]) -> None:
    def chain(path: list[int]) -> list[bytes]:
        return [bytes(path[: end + 1]) for end in range(len(path))]

    index = PrefixIndex(3)
    seen: list[set[bytes]] = [set(), set(), set()]
    for path, replica in added:
        index.add(chain(path), replica)
        seen[replica].update(chain(path))
    expected = {replica: sum(block in seen[replica] for block in chain(asked)) for replica in range(3)}
    assert index.matched(chain(asked)) == {replica: count for replica, count in expected.items() if count}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=40))
def test_equal_histories_give_equal_choices(events: list[tuple[int, int]]) -> None:
    def run() -> list[int]:
        balance, loads, chosen = PrefixAware(3), LoadTable(3), []
        for kind, number in events:
            if kind == 0:
                loads.report(report(number % 3, running=number))
            else:
                chosen.append(balance.place(request([number] * BLOCK * kind), (0, 1, 2), loads))
                loads.sent(chosen[-1], kind)
        return chosen

    assert run() == run()
