# SPDX-License-Identifier: Apache-2.0
"""R-095, R-097: kill -9 of the daemon at any moment of any operation leaves what the next start takes over or cleans away.

The moments are spread over creates, updates and stops that are all under way at once; the steps themselves are killed one by
one, on a fake kernel, in tests/sandbox/recovery_test.cc.
"""

import contextlib
import http.client
import random
import signal
import subprocess
import threading

import pytest
from harness import DENY_ALL, ApiError, Sandbox, alive, domains, wait_for

WEB = "198.18.0.10"
POLICIES = [domains("allowed.example"), DENY_ALL, {"subnets": {"allow": ["198.18.0.10/32"]}}]


def attempt(call, *arguments, **options):
    """The daemon may go while it is asked."""
    with contextlib.suppress(ApiError, OSError, http.client.HTTPException):
        return call(*arguments, **options)


def left_in_the_kernel(ids):
    """Whatever carries one of these session ids, anywhere."""
    found = []
    for line in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.splitlines():
        found += [f"netns {line}" for each in ids if each in line]
    with open("/proc/mounts") as mounts:
        found += [f"mount {line}" for line in mounts for each in ids if each in line]
    for command in subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines():
        found += [f"process {command}" for each in ids if each in command and "pytest" not in command]
    groups = subprocess.run(["find", "/sys/fs/cgroup", "-maxdepth", "4", "-path", "*sallyport/*", "-type", "d"],
                            capture_output=True, text=True).stdout.splitlines()
    return found + [f"cgroup {line}" for line in groups for each in ids if each in line]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kill_nine_at_any_moment_leaves_whole_sandboxes_or_nothing(node, seed):
    chance = random.Random(seed)
    node.mark()
    made = {}
    busy = threading.Event()

    def churn(number):
        box = attempt(node.create, chance.choice(POLICIES), name=f"kill-{seed}-{number}")
        busy.set()
        if box is None:
            return
        made[box.name] = box
        for _ in range(10):
            attempt(box.set_policy, chance.choice(POLICIES))
        if number % 2:
            attempt(box.stop)

    workers = [threading.Thread(target=churn, args=(n,)) for n in range(4)]
    for each in workers:
        each.start()
    if seed % 2:
        busy.wait(60)  # past the first create: into updates and stops
    threading.Event().wait(chance.uniform(0.0, 0.6))  # the moment is what is tested, so it is drawn, not awaited
    node.restart(signal.SIGKILL)
    for each in workers:
        each.join()

    listed = {box["name"]: box for box in node.sandboxes() if box["name"].startswith(f"kill-{seed}-")}
    ids = [box["currentSessionId"] for box in listed.values()]
    for name, box in listed.items():
        assert box["status"] in ("running", "stopped", "aborted"), box
        if box["status"] != "running":
            assert left_in_the_kernel([box["currentSessionId"]]) == []
            continue
        # Whole: commands run, and the policy that is reported is the one in force.
        live = made.get(name) or Sandbox(node, node.api("GET", f"/v2/sandboxes/{name}?projectId=default"))
        ran = live.sh("python3 - <<'X'\nimport socket\ns=socket.socket(); s.settimeout(3)\n"
                      f"try:\n s.connect(('{WEB}',80)); s.send(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(b'403' in s.recv(99) and 'refused' or 'open')\n"
                      "except OSError: print('refused')\nX")
        reported = live.info()["sandbox"]["networkPolicy"]
        assert ran.out.strip() == ("open" if "allowedCIDRs" in reported else "refused"), (reported, ran)
    assert node.attacker_packets() == []

    for name in listed:
        node.api("DELETE", f"/v2/sandboxes/{name}?projectId=default")
    assert left_in_the_kernel(ids) == []
    links = node.lab("node", "ip", "-o", "link").stdout
    wait_for(lambda: links.count("spu") == len([box for box in node.sandboxes() if box["status"] == "running"]), "no links left")
    assert alive(node.daemon_pid())
