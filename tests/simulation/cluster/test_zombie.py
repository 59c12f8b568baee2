"""A controller that is paused while another is elected changes nothing afterwards (T6)."""

import os

import pytest

from clusterstate.znodes import paths
from kafkawire.ids import TopicPartition
from tests.simulation.cluster.quiescence import remaining_fault, settle
from tests.simulation.cluster.world import TOPIC, World

EFFECTS = 90
STRIDE = 1 if "OTTLA_SIM_SEEDS" in os.environ else 6
"""Step between tested pause points: all of them with `OTTLA_SIM_SEEDS`, some in `make check`."""

DOWN_MS = 200


@pytest.mark.parametrize("effect", range(1, EFFECTS, STRIDE))
def test_a_zombie_changes_nothing(effect: int) -> None:
    world = World(3)
    world.run(300)
    world.create_topic()
    world.create_topic("gone", partition_count=1)
    world.run(500)
    world.run_until(lambda: is_at_work(world))
    [zombie] = world.controllers
    others = [one for one in world.brokers if one != zombie.broker_id]

    # Many tasks at once; the controller is paused in the middle of them.
    zombie.pause_at_effect = zombie.effect_count + effect
    world.delete_topic("gone")
    world.reassign(TopicPartition(TOPIC, 0), others)
    world.elect_preferred()
    world.kill(others[0], is_seen=True)
    world.run(DOWN_MS)
    # The restart adds work, so that late pause points are reached reliably.
    world.start(others[0])
    world.run_until(lambda: zombie.is_paused)
    world.run_until(lambda: any(one is not zombie for one in world.controllers))
    world.resume(zombie.broker_id)
    world.run(1000)
    assert not zombie.planner.is_active
    settle(world)
    assert paths.topic("gone") not in world.coordinator.nodes


def is_at_work(world: World) -> bool:
    fault = remaining_fault(world)
    return fault is None or "differ" in fault or "committed" in fault
