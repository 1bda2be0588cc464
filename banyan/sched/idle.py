"""What an idle turn does: self_check_during_idle. A leak is healed and reported; it never ends the process."""

import logging

from banyan.sched.check import findings
from banyan.sched.req import Phase
from banyan.sched.scheduler import Scheduler

_LOG = logging.getLogger(__name__)


def self_check_during_idle(scheduler: Scheduler) -> list[str]:
    """Check every invariant; repair the ledger where it is broken. Returns what was found."""
    found = findings(scheduler)
    for finding in found:
        _LOG.error("self check: %s", finding)
    if found:
        recovered = scheduler.cache.heal()
        scheduler.leaks_healed += 1
        for slot in scheduler.cache.suspects():  # their pages were another's too: compute them anew
            req = scheduler.roster.by_slot[slot]
            if req is None or req.phase in (Phase.DONE, Phase.RETRACT):
                continue
            if scheduler.roster.columns.in_flight[slot]:
                scheduler.roster.retract(req)
            else:
                scheduler.roster.forget_kv(req)
        _LOG.error("self check: healed, %d pages recovered", recovered)
    return found
