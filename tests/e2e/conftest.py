# SPDX-License-Identifier: Apache-2.0
"""The lab and the daemon for a whole run, a factory of sandboxes for each test.

Run as root: /usr/bin/python3 -m pytest tests/e2e. LAB_BIN says which build is tested. A lab that was up already is
used and left alone.
"""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import harness  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than ten seconds")
    if os.geteuid() != 0:
        pytest.exit("the end-to-end tests need root (sudo)", 4)


@pytest.fixture(scope="session")
def node():
    """The lab with a running daemon and a base image."""
    lab_was_up = os.path.exists("/run/netns/" + os.environ.get("LAB_PREFIX", "splab-") + "node")
    harness.subprocess.run([harness.LAB, "up"], check=True)
    harness.subprocess.run([harness.LAB, "image"], check=True)
    node = harness.Node()
    daemon_was_up = node.lab("sandboxd", "status", check=False).returncode == 0
    node.lab("sandboxd", "start")
    yield node
    if not lab_was_up:
        harness.subprocess.run([harness.LAB, "down"], check=True)
    elif not daemon_was_up:
        node.lab("sandboxd", "stop")


@pytest.fixture
def sandbox(node):
    """sandbox(policy, ...) makes one; all are gone after the test."""
    made = []
    node.mark()

    def make(policy=None, **options):
        made.append(node.create(policy, **options))
        return made[-1]

    yield make
    for each in made:
        each.delete()


@pytest.fixture(scope="module")
def shared(node):
    """A sandbox that the tests of a module share when only its policy matters: shared(policy) sets it first."""
    made = []

    def with_policy(policy):
        node.mark()
        if not made:
            made.append(node.create(policy))
        else:
            made[0].set_policy(policy)
            made[0].forget_egress()
        return made[0]

    yield with_policy
    for each in made:
        each.delete()
