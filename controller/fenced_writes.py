"""Writes that only the current controller can make (decision).

Every transaction begins with a check of `/controller_epoch`. A controller that was paused while
another took over therefore changes nothing: its first write is refused and it resigns. Changes of
different znodes share transactions. If one change is refused, all changes of its transaction are
retried one by one.
"""

from collections.abc import Sequence
from typing import Final

from clusterstate.plans import Check, Outcome, Transaction, write
from clusterstate.znodes import paths
from controller.cluster import Cluster
from controller.effects import Plan
from controller.errors import ControllerMovedError

CHANGES_PER_TRANSACTION: Final = 100


def write_fenced(cluster: Cluster, changes: Sequence[Transaction]) -> Plan[list[Outcome]]:
    """Apply `changes`, each atomically, and return the outcome of each.

    Raises:
        ControllerMovedError: another controller has been elected; nothing more was applied.
    """
    fence = Check(paths.CONTROLLER_EPOCH, cluster.epoch_version)
    groups = [
        changes[start : start + CHANGES_PER_TRANSACTION]
        for start in range(0, len(changes), CHANGES_PER_TRANSACTION)
    ]
    answers = yield from write([(fence, *(op for one in group for op in one)) for group in groups])
    outcomes: list[Outcome | None] = []
    for group, answer in zip(groups, answers, strict=True):
        outcomes += _split(group, answer)
    again = [number for number, outcome in enumerate(outcomes) if outcome is None]
    answers = yield from write([(fence, *changes[number]) for number in again])
    for number, answer in zip(again, answers, strict=True):
        [outcomes[number]] = _split([changes[number]], answer)
    return [outcome for outcome in outcomes if outcome is not None]


def _split(group: Sequence[Transaction], answer: Outcome) -> Sequence[Outcome | None]:
    """Return the outcome of each change of a transaction; None if it must be retried alone."""
    if answer.refusal is not None:
        if answer.refused_at == 0:
            raise ControllerMovedError("the controller epoch has changed")
        alone = answer._replace(refused_at=answer.refused_at - 1)
        return [alone] if len(group) == 1 else [None] * len(group)
    outcomes, start = [], 1
    for change in group:
        outcomes.append(Outcome(answer.versions[start : start + len(change)]))
        start += len(change)
    return outcomes
