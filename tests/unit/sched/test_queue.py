"""WaitingQueue: order by key, out by name or by deadline, nothing kept of those who left."""

import weakref

from hypothesis import given
from hypothesis import strategies as st

from banyan.sched.policy import QueueKey
from banyan.sched.queue import WaitingQueue
from banyan.sched.req import Phase, Req
from tests.fakes.world import generate


def waiting(number: int, deadline: float = 100.0, length: int = 3) -> Req:
    return Req(generate(number, [1] * length), number, 0.0, deadline)


def key(req: Req) -> QueueKey:
    return (1, 0, req.number)


def test_requests_are_in_the_order_of_their_keys() -> None:
    queue, reqs = WaitingQueue(), {n: waiting(n) for n in range(1, 6)}
    for number, place in ((3, 0), (1, 5), (5, 2), (4, 2), (2, -1)):
        queue.add(reqs[number], (1, place, number))
    assert [req.number for req in queue] == [2, 3, 4, 5, 1]
    assert [req.number for req in queue.head(2)] == [2, 3]
    assert len(queue.head(99)) == len(queue) == 5


def test_leaving_takes_out_the_one_that_leaves() -> None:
    queue, reqs = WaitingQueue(), [waiting(n, length=n) for n in range(1, 5)]
    for req in reqs:
        queue.add(req, key(req))
    assert queue.num_tokens == 1 + 2 + 3 + 4
    queue.remove(reqs[1])
    assert reqs[1] not in queue
    assert reqs[2] in queue
    assert [req.number for req in queue] == [1, 3, 4]
    assert queue.num_tokens == 1 + 3 + 4


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_it_is_a_sorted_list(operations: list[tuple[int, bool]]) -> None:
    queue, model = WaitingQueue(), list[tuple[QueueKey, Req]]()
    for number, (place, leave) in enumerate(operations, start=1):
        if leave and model:
            _, req = model.pop(place % len(model))
            queue.remove(req)
        else:
            req = waiting(number)
            queue.add(req, (1, place, number))
            model = sorted([*model, ((1, place, number), req)], key=lambda entry: entry[0])
        assert list(queue) == [req for _, req in model]
        assert queue.num_tokens == sum(len(req.tokens) for _, req in model)


def test_deadlines_are_met_in_their_own_order() -> None:
    queue = WaitingQueue()
    for number, deadline in ((1, 30.0), (2, 10.0), (3, 20.0)):
        req = waiting(number, deadline)
        queue.add(req, key(req))
    assert queue.expired(9.0) == []
    assert [req.number for req in queue.expired(20.0)] == [2, 3]
    assert [req.number for req in queue] == [1]
    assert queue.expired(20.0) == []


def test_who_has_left_or_run_is_not_turned_away() -> None:
    queue, left, run = WaitingQueue(), waiting(1, 10.0), waiting(2, 10.0)
    for req in (left, run):
        queue.add(req, key(req))
        queue.remove(req)
        req.phase = Phase.DECODE
    run.retractions, run.phase = 1, Phase.WAITING
    queue.add(run, key(run))
    assert queue.expired(99.0) == []
    assert list(queue) == [run]


def test_requests_that_left_are_not_kept_until_their_deadline() -> None:
    queue = WaitingQueue()
    prompts = []
    for number in range(1, 2001):
        req = waiting(number, deadline=600.0)
        prompts.append(weakref.ref(req.tokens))
        queue.add(req, key(req))
        queue.remove(req)
        req.phase = Phase.DONE
    del req
    assert sum(prompt() is not None for prompt in prompts) < 200


def test_sweeping_keeps_the_deadlines_of_those_who_wait() -> None:
    queue, patient = WaitingQueue(), waiting(1, 50.0)
    queue.add(patient, key(patient))
    for number in range(2, 500):
        req = waiting(number, 40.0)
        queue.add(req, key(req))
        queue.remove(req)
        req.phase = Phase.DONE
    assert queue.expired(60.0) == [patient]
