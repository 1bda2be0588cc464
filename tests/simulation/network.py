"""Network: the clock and the transport of a simulation. Messages may be lost, doubled, delayed or overtaken."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

LATENCY_S = 0.0005


@dataclass(frozen=True, slots=True)
class Weather:
    """How often something happens to a message, and how often a process is killed from outside."""

    loss: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    longest_delay_s: float = 3.0
    kills: int = 0  # of schedulers and detokenizers, at random moments
    calm_after_s: float = 20.0  # then nothing happens any more, so that a run ends


class Network:
    """Runs what is due in the order of time; the only clock there is."""

    def __init__(self, rng: random.Random, weather: Weather) -> None:
        self.now = 0.0
        self.rng = rng
        self.weather = weather
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Do something at a time; in the order of the calls if at the same time."""
        self._count += 1
        heapq.heappush(self._events, (max(moment, self.now), self._count, action))

    def send(self, deliver: Callable[[], None]) -> None:
        """Carry a message; what is to be done with it on arrival is `deliver`."""
        weather, rng = self.weather, self.rng
        stormy = self.now < weather.calm_after_s
        if stormy and rng.random() < weather.loss:
            return
        copies = 2 if stormy and rng.random() < weather.double else 1
        for _ in range(copies):
            late = stormy and rng.random() < weather.delay
            self.at(self.now + (rng.uniform(0, weather.longest_delay_s) if late else LATENCY_S), deliver)

    def run_one(self) -> bool:
        """Do what comes next. False: nothing will ever happen again."""
        if not self._events:
            return False
        self.now, _, action = heapq.heappop(self._events)
        action()
        return True
