"""Tribunal: who is to blame when a step crashes. Finds one guilty request in about log2(suspects) crashes.

It speaks of int keys only, a larger key being a newer request, so the front uses it for processes that die and the
scheduler for steps that raise.

    crash     suspects:  [ g g g g | h h h h ]     g enters and is on trial, h waits in quarantine
    progress             every g has a new token, or has ended: h enters and is on trial
    crash                suspects among g: [ g g | g g ]  narrowed to one half; h waits on
    crash                a suspect that was alone is convicted
"""

from collections.abc import Callable, Iterable, Set

MAX_DELIBERATE = 2  # solo crashes by somebody else's hand (SIGKILL, OOM) that convict all the same
MAX_ALONE = 3  # crashes as the only one on trial, though others ran beside it, that convict


def _equals(_: int) -> int:
    return 0


class Tribunal:
    """Holds suspects back in groups, the most suspected first, and convicts who crashes alone.

    Whoever is not in `quarantined` may run. One guilty request among B suspects causes at most
    1 + ceil(log2 B) + 1 crashes that are not deliberate: one to be noticed, one for each halving, and one more where
    a suspect has to be tried again because somebody already acquitted ran beside it.

    Where several tribunals judge the same crashes, each with its own requests in view, they must agree on who enters
    first, or their suspects crash together for ever: so all suspects of a higher `rank` are tried before any other. Nor
    can one keep the other's requests from running beside a suspect; who has crashed as the only one on trial again and
    again is convicted all the same."""

    def __init__(self, rank: Callable[[int], int] = _equals) -> None:
        self._rank = rank
        self._trial: set[int] = set()
        self._unproven: set[int] = set()  # members of the trial without progress so far
        self._docket: list[set[int]] = []  # the groups in quarantine, in the order of their trials
        self._quarantined: set[int] = set()  # the union of the docket
        self._strikes: dict[int, int] = {}
        self._alone: dict[int, int] = {}
        self._doubted: set[int] = set()  # were in a step that somebody killed from outside, and not heard of since
        self._closed = False

    @property
    def active(self) -> bool:
        """True while anybody is suspected. Progress need not be reported otherwise."""
        return bool(self._trial or self._doubted)

    @property
    def on_trial(self) -> Set[int]:
        """The group that runs under suspicion."""
        return self._trial

    @property
    def quarantined(self) -> Set[int]:
        """Those who may not run now."""
        return self._quarantined

    @property
    def closed(self) -> bool:
        """True once a group on trial has crashed: somebody in it is guilty, and whoever enters beside it would only
        become a suspect too. So nobody new should enter until the trial is over."""
        return self._closed

    def crashed(self, suspects: Iterable[int], newcomers: Iterable[int], *, deliberate: bool) -> list[int]:
        """A step with these suspects crashed; the newcomers among them had just entered. Returns the convicted.

        A process that was killed from outside need be nobody's fault: the first time nobody is held back for it."""
        suspected = set(suspects)
        if not suspected:  # it died between steps: nobody is to blame, and the trial goes on
            return []
        only = min(suspected)
        if len(suspected) == 1 and self._convicts(only, deliberate):
            return self._convict(only)
        if deliberate and len(suspected) > 1 and not self._trial and not suspected <= self._doubted:
            self._doubted |= suspected
            return []
        prime = suspected & self._trial
        if len(prime) == 1 and not deliberate and self._is_always_there(min(prime)):
            return self._convict(min(prime))
        fresh = suspected - prime
        docket = [group - suspected for group in self._docket]
        if prime:  # whoever is guilty of both crashes is among them; the rest of the group is cleared
            self._docket = self._ranked([*_halves(prime), *docket, fresh])
            self._closed = True
        else:
            self._docket = self._ranked([*_first_groups(fresh, set(newcomers)), self._trial, *docket])
        self._trial = set()
        self._unproven = set()
        self._next_trial()
        return []

    def progressed(self, key: int) -> set[int]:
        """A request has a new token. Returns those who may enter because of it."""
        self._doubted.discard(key)
        self._strikes.pop(key, None)
        self._alone.pop(key, None)
        self._unproven.discard(key)
        return self._next_trial()

    def ended(self, key: int) -> set[int]:
        """A request is gone. Returns those who may enter because of it."""
        self._doubted.discard(key)
        self._strikes.pop(key, None)
        self._alone.pop(key, None)
        self._trial.discard(key)
        self._unproven.discard(key)
        if key in self._quarantined:
            for group in self._docket:
                group.discard(key)
        return self._next_trial()

    def _is_always_there(self, key: int) -> bool:
        """Count a crash in which nobody but this one was on trial."""
        self._alone[key] = self._alone.get(key, 0) + 1
        return self._alone[key] >= MAX_ALONE

    def _ranked(self, groups: list[set[int]]) -> list[set[int]]:
        """Part groups by rank, the highest first; within a rank the order stays."""
        ranks = sorted({self._rank(key) for group in groups for key in group}, reverse=True)
        parts = [{key for key in group if self._rank(key) == rank} for rank in ranks for group in groups]
        return [part for part in parts if part]

    def _convicts(self, key: int, deliberate: bool) -> bool:
        """Judge a solo crash. One that came from outside must happen again before it counts."""
        if not deliberate:
            return True
        self._strikes[key] = self._strikes.get(key, 0) + 1
        return self._strikes[key] >= MAX_DELIBERATE

    def _convict(self, key: int) -> list[int]:
        """Remove the guilty one; the others were held because of it, so all of them enter, as one group."""
        others = set().union(self._trial, *self._docket) - {key}
        self._strikes.clear()
        self._alone.clear()
        self._trial = set()
        self._unproven = set()
        self._docket = [others]
        self._closed = False
        self._next_trial()
        return [key]

    def _next_trial(self) -> set[int]:
        """Let the next group in when the present one is proven. Returns it."""
        if self._unproven:
            return set()
        self._trial = set()
        while self._docket and not self._trial:
            self._trial = self._docket.pop(0)
        self._unproven = set(self._trial)
        self._quarantined = set().union(*self._docket)
        self._closed = self._closed and bool(self._trial)
        return set(self._trial)


def _halves(keys: set[int]) -> list[set[int]]:
    """Split in two, the newer half first: it is the likelier one."""
    ordered = sorted(keys, reverse=True)
    middle = (len(ordered) + 1) // 2
    return [set(ordered[:middle]), set(ordered[middle:])]


def _first_groups(suspects: set[int], newcomers: set[int]) -> list[set[int]]:
    """Split the suspects of a first crash: newcomers are the likeliest. No group is larger than half of all."""
    half = (len(suspects) + 1) // 2
    groups = []
    for part in (suspects & newcomers, suspects - newcomers):
        groups += [part] if len(part) <= half else _halves(part)
    return groups
