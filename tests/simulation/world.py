"""World: fronts, schedulers, a detokenizer and their supervisor on a simulated network; runs until all is quiet."""

import random
from collections import Counter
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from banyan.poison import MAX_ALONE
from banyan.text.tokenizer import byte_tokenizer
from banyan.wire.base import front_of
from banyan.wire.control import PeerRestarted, ToDetokenizer, ToFront, ToScheduler
from banyan.wire.request import AbortReq, ProbeReq
from banyan.worker.oracle import Oracle
from tests.fakes.server import Shape
from tests.simulation.network import Network, Weather
from tests.simulation.processes import Answer, DetokenizerProcess, Front, SchedulerProcess
from tests.simulation.requests import answer_to, is_right, make_request

ORACLE = Oracle(eos_chance=1 / 40)
TOKENIZER = byte_tokenizer()
TIME_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated."""

    shape: Shape
    weather: Weather
    fronts: int = 1
    replicas: int = 1
    turn_s: float = 0.002  # time that a turn of a scheduler takes
    requests: int = 10
    aborts: int = 0
    killers: int = 0  # requests whose step kills the scheduler
    bombs: int = 0  # requests whose step raises


class World:
    """One run, repeatable by its seed."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.rng = random.Random(seed)
        self.network = Network(self.rng, plan.weather)
        self.fronts = [Front(i, plan.replicas, self._to_scheduler, self.network) for i in range(plan.fronts)]
        fronts = [self.rng.randrange(plan.fronts) for _ in range(plan.requests)]
        self.requests = {r.uid: r for n, f in enumerate(fronts, 1) for r in [make_request(self.rng, f, n)]}
        uids = self.rng.sample(sorted(self.requests), plan.requests)
        self.killers = set(uids[: plan.killers])
        self.bombs = set(uids[plan.killers : plan.killers + plan.bombs])
        self.aborted: set[int] = set()
        self.poison_deaths = 0
        self.deaths = 0
        self.solo_kills: Counter[int] = Counter()  # requests that were alone in flight when somebody killed the process
        self.beside_poison: Counter[int] = Counter()  # deaths by poison with this request in flight too
        self._incarnations: Counter[tuple[str, int]] = Counter()
        self.schedulers = [self._scheduler(i) for i in range(plan.replicas)]
        self.detokenizer = DetokenizerProcess(TOKENIZER, self._to_front)
        self._schedule_events()

    # ------------------------------------------------------------------ who sends what to whom

    def _to_scheduler(self, message: ToScheduler) -> None:
        if isinstance(message, AbortReq | ProbeReq):
            targets = range(self.plan.replicas)
        else:
            targets = range(first := self.rng.randrange(self.plan.replicas), first + 1)
        for index in targets:
            self.network.send(partial(self._deliver, index, message))

    def _deliver(self, index: int, message: ToScheduler) -> None:
        self.schedulers[index].deliver(message)

    def _to_detokenizer(self, message: ToDetokenizer) -> None:
        self.network.send(lambda: self.detokenizer.deliver(message))

    def _to_front(self, front: int, message: ToFront) -> None:
        self.network.send(lambda: self.fronts[front].deliver(message))

    # ------------------------------------------------------------------ supervisor

    def _scheduler(self, index: int) -> SchedulerProcess:
        return SchedulerProcess(
            self.network,
            msgspec.structs.replace(self.plan.shape, replica=index),
            ORACLE,
            self._to_detokenizer,
            turn_s=self.plan.turn_s,
            killers=self.killers,
            bombs=self.bombs,
            die=lambda: self._scheduler_died(index, deliberate=False),
        )

    def _scheduler_died(self, index: int, *, deliberate: bool) -> None:
        dead = self.schedulers[index]
        if not dead.alive:
            return
        dead.alive = False
        assert dead.server.executor.faults_seen == []
        self.deaths += 1
        suspects = dead.flight.suspects()
        if deliberate and len(suspects) == 1:
            self.solo_kills[suspects[0]] += 1
        if not deliberate:
            self.poison_deaths += 1
            self.beside_poison.update(suspects)
        self._announce("scheduler", index, suspects, dead.flight.newcomers(), deliberate=deliberate)

    def _detokenizer_died(self) -> None:
        if self.detokenizer.alive:
            self.detokenizer.alive = False
            self.deaths += 1
            self._announce("detokenizer", 0, [], [], deliberate=True)

    def _announce(self, kind: str, index: int, suspects: list[int], newcomers: list[int], *, deliberate: bool) -> None:
        """Restart a process after a while, and tell the fronts. What is sent to it meanwhile is lost."""
        self._incarnations[kind, index] += 1
        news = PeerRestarted(
            kind="scheduler" if kind == "scheduler" else "detokenizer",
            index=index,
            incarnation=self._incarnations[kind, index],
            deliberate=deliberate,
            suspects=np.array(suspects, np.int64).tobytes(),
            newcomers=np.array(newcomers, np.int64).tobytes(),
        )

        def restart() -> None:
            if kind == "scheduler":
                self.schedulers[index] = self._scheduler(index)
            else:
                self.detokenizer = DetokenizerProcess(TOKENIZER, self._to_front)
            for front in self.fronts:
                front.deliver(news)

        self.network.at(self.network.now + self.rng.uniform(0.05, 0.5), restart)

    # ------------------------------------------------------------------ clients and accidents

    def _schedule_events(self) -> None:
        network, rng, weather = self.network, self.rng, self.plan.weather
        for uid in self.requests:
            network.at(rng.uniform(0, 0.3), partial(self._open, uid))
        for uid in rng.sample(sorted(self.requests), self.plan.aborts):
            network.at(rng.uniform(0, 1.0), partial(self._abort, uid))
        for _ in range(weather.kills):
            network.at(rng.uniform(0, 2.0), self._kill_somebody)
        for front in self.fronts:
            network.at(0.25, partial(self._tick, front))

    def _open(self, uid: int) -> None:
        front = self.fronts[front_of(uid)]
        front.answers[uid] = Answer()
        front.do(front.journal.open(self.requests[uid], self.network.now))

    def _abort(self, uid: int) -> None:
        front = self.fronts[front_of(uid)]
        if uid in front.journal:
            self.aborted.add(uid)
            front.do(front.journal.abort(uid, self.network.now))

    def _kill_somebody(self) -> None:
        victim = self.rng.randrange(self.plan.replicas + 1)
        if victim < self.plan.replicas:
            self._scheduler_died(victim, deliberate=True)
        else:
            self._detokenizer_died()

    def _tick(self, front: Front) -> None:
        front.do(front.journal.tick(self.network.now))
        # Fronts look after their requests for ever; here until all is done and the last stray message has come.
        if not self._is_done() or self.network.now < self.plan.weather.calm_after_s:
            self.network.at(self.network.now + 0.25, partial(self._tick, front))

    def _is_done(self) -> bool:
        return all(not len(f.journal) for f in self.fronts) and self.network.now > 1.0

    # ------------------------------------------------------------------ run

    def run(self) -> None:
        """Run to the end and check everything."""
        while self.network.run_one():
            assert self.network.now < TIME_LIMIT_S, f"still busy: {[len(f.journal) for f in self.fronts]} live requests"
        for uid in self.requests:
            self._check(uid)
        for scheduler in self.schedulers:
            assert scheduler.server.leaks() == []
        # One to be noticed, one for each halving, one where an acquitted one ran beside it; fronts that cannot see
        # each other's progress need a few more.
        bound = 2 + self.plan.requests.bit_length() + (4 if self.plan.fronts > 1 else 0)
        assert self.poison_deaths <= len(self.killers) * bound, f"{self.poison_deaths} restarts"

    def _is_unlucky(self, uid: int) -> bool:
        """Tell whether a request was in flight with another front's poison so often that it had to look guilty.

        Fronts do not see each other's progress; where messages take longer than they wait, they cannot do better."""
        return self.plan.fronts > 1 and bool(self.killers) and self.beside_poison[uid] >= MAX_ALONE

    def _check(self, uid: int) -> None:
        answer = self.fronts[front_of(uid)].answers[uid]
        right = answer_to(self.requests[uid], ORACLE, TOKENIZER)
        if uid in self.aborted:
            assert answer.reason is None
            assert answer.tokens == right.tokens[: len(answer.tokens)]
            assert right.text.startswith(answer.text)
            return
        assert answer.reason is not None, f"request {uid} has no end"
        if answer.reason.kind == "error":
            guilty = uid in self.killers or uid in self.bombs or self.solo_kills[uid] > 1
            assert guilty or self._is_unlucky(uid), f"request {uid} is innocent: {answer.reason}"
            assert answer.tokens == right.tokens[: len(answer.tokens)]
            return
        assert uid not in self.killers | self.bombs, f"request {uid} is poison and got away"
        assert is_right(answer, right), f"request {uid}: {answer} is not {right}"
