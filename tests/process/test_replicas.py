"""Several replicas behind the controller, and several fronts on one tree."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from banyan.wire.request import SamplingParams
from banyan.worker.oracle import Oracle
from benchmarks.streams import Ledger, mixed_asks
from tests.process.harness import engine, findings, free_pages, greedy, kill, pid_of, serve, under_way, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("method", ["round_robin", "shortest_queue", "prefix_aware"])
def test_two_replicas_share_the_work_and_give_the_same_output(method: str) -> None:
    with engine(dp_size=2, load_balance_method=method) as running:
        assert findings(serve(running, mixed_asks(40, 60, seed=11))) == []
        outputs = [one.output_tokens for one in running.get_server_info()["replicas"]]
        assert min(outputs) > 0.25 * sum(outputs)
        until(lambda: free_pages(running), "release of all pages", 1.0)


def test_prefixes_stay_on_their_replica() -> None:
    groups = ["first " * 40, "second " * 40, "third " * 40, "fourth " * 40]

    def cached_tokens(method: str) -> int:
        with engine(dp_size=2, load_balance_method=method) as running:
            for number in range(6):
                assert findings(serve(running, [greedy(f"{group}{number}", 4) for group in groups])) == []
            return sum(one.cached_tokens for one in running.get_server_info()["replicas"])

    total = sum(6 * len(group) for group in groups)
    assert cached_tokens("prefix_aware") > 0.75 * total


def test_a_session_continues_where_it_was() -> None:
    with engine(dp_size=2, load_balance_method="round_robin") as running:
        name = running.open_session()
        said: list[int] = []
        sampling = SamplingParams(temperature=0.0, max_new_tokens=20, ignore_eos=True)
        for turn in range(4):
            new = list(f"turn {turn} of a talk that goes on for some time. ".encode())
            answer = running.generate(input_ids=new, sampling_params=sampling, session_params={"id": name})
            assert isinstance(answer, dict)
            said += new
            meta = answer["meta_info"]
            assert meta["prompt_tokens"] == len(said)
            assert (meta["cached_tokens"] > 0) == (turn > 0)  # so it went to the same replica
            assert answer["output_ids"] == Oracle().generate(said, sampling, 0)
            said += answer["output_ids"]
        running.close_session(name)


FRONT = """
import asyncio, sys
from pathlib import Path
import msgspec
from banyan.launch.front import Front
from banyan.launch.tree import read_attachment
from banyan.text.request import GenerateReqInput

async def main():
    front = Front(read_attachment(Path(sys.argv[1])), index=1)
    async def one(number):
        asked = GenerateReqInput(
            text=f"front {number}",
            sampling_params={"temperature": 0, "max_new_tokens": 300, "ignore_eos": True},
            stream=True,
        )
        begun = False
        async for chunk in front.manager.generate_request(asked):
            if not begun:
                print("begun", flush=True)
            begun = True
        return chunk["output_ids"]
    outputs = await asyncio.gather(*[one(number) for number in range(8)])
    await front.close()
    print(msgspec.json.encode(outputs).decode(), flush=True)

asyncio.run(main())
"""


def test_two_fronts_on_one_tree_survive_a_kill_together() -> None:
    options = {"recovery": "restart", "debug.oracle_step_ms": 3.0}
    with engine(tokenizer_worker_num=2, **options) as running:
        other = subprocess.Popen(
            [sys.executable, "-c", FRONT, running.attachment.ports.directory],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        stdout = other.stdout
        assert stdout is not None
        assert stdout.readline() == "begun\n"

        def strike(ledgers: list[Ledger]) -> None:
            under_way(ledgers, 0.1)
            kill(pid_of(running, "scheduler 0"))

        assert findings(serve(running, mixed_asks(20, 200, seed=12), strike)) == []
        lines = stdout.read().splitlines()
        assert other.wait(20) == 0
        stdout.close()
        outputs = msgspec.json.decode(lines[-1], type=list[list[int]])
        assert outputs == [greedy(f"front {number}", 300).tokens[0] for number in range(8)]
        assert running.restarts["scheduler 0"] == 1
        until(lambda: free_pages(running), "release of all pages", 2.0)
