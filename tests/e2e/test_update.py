# SPDX-License-Identifier: Apache-2.0
"""A policy changes while traffic flows, and what holds when something dies (docs/policy.md, "Live update";
docs/operations.md)."""

import os
import signal
import threading
import time

import pytest
from harness import ALLOW_ALL, DENY_ALL, ApiError, alive, both, domains, ranges, wait_for

ODD, WEB = "198.18.0.30", "198.18.0.10"
GONE = ("reset", "closed", "refused")


# R-094 D-15 I4 FW-013
@pytest.mark.parametrize("before,name", [(domains("odd.example"), "odd.example"), (ranges(f"{ODD}/32"), None),
                                         (ALLOW_ALL, None), (domains("*"), None)],
                         ids=["domain", "range", "allow-all", "catch-all"])
@pytest.mark.parametrize("after", [DENY_ALL, domains("allowed.example")], ids=["deny-all", "other domain"])
def test_no_byte_goes_out_after_the_update_has_returned(shared, node, before, name, after):
    box = shared(before)
    sender = box.start_tool("ticker", address=ODD, port=7004, name=name)
    waiter = box.start_tool("idle", address=ODD, port=7003, name=name)
    answer = box.set_policy(after)
    returned = time.time()
    # Two flows end; the one that sends all the time may have met the new rules before it was counted.
    assert answer["networkPolicyUpdate"]["kept"] == 0 and answer["networkPolicyUpdate"]["cut"] in (1, 2)
    assert sender.wait(5).json()["outcome"] in GONE
    assert waiter.wait(5).json()["outcome"] in GONE
    arrivals = [line["time"] for line in node.services.lines() if line.get("service") == "sink"]
    assert arrivals and max(arrivals) <= returned + 0.02


#
def test_a_udp_flow_is_cut_too(shared):
    box = shared(ranges(f"{ODD}/32"))
    program = box.start("python3", "-c", "import socket,time\n"
                        f"s=socket.socket(2,2); s.settimeout(0.5); s.connect(('{ODD}',123))\n"
                        "s.send(b'x'); print('first',len(s.recv(9)),flush=True)\n"
                        "end=time.time()+5; missed=0\n"
                        "while time.time()<end and missed<3:\n"
                        "  try: s.send(b'x'); s.recv(9)\n"
                        "  except OSError: missed+=1\n"
                        "print('missed',missed)\n")
    program.until("first")
    box.set_policy(DENY_ALL)
    assert "missed 3" in program.wait(10).out


#
def test_a_policy_that_still_allows_a_flow_leaves_it_untouched(shared):
    box = shared(both(["odd.example"], allow=["198.18.0.11/32"]))
    spliced = box.start_tool("ticker", address=ODD, port=7003, name="odd.example", seconds=3)
    forwarded = box.start_tool("ticker", address="198.18.0.11", port=7003, seconds=3)
    answer = box.set_policy(both(["odd.example", "allowed.example"], allow=["198.18.0.0/27"]))
    assert answer["networkPolicyUpdate"]["kept"] >= 1 and answer["networkPolicyUpdate"]["cut"] == 0
    assert spliced.wait(10).json()["outcome"] == "alive"
    assert forwarded.wait(10).json()["outcome"] == "alive"


#
@pytest.mark.parametrize("wrong", [
    domains(*[f"n{n}.example" for n in range(49)], "api*.example.com", *[f"m{n}.example" for n in range(50)]),
    {"subnets": {"allow": ["198.18.0.0/24", "not-a-range"]}},
    {"mode": "allow-all", "allow": ["allowed.example"]},
    {"allow": [{"allowed.example": []}]},
    {"allow": {"allowed.example": [{"match": {"path": {"exact": "/"}}}]}},
], ids=["entry 50 of 100", "range", "mode and list", "list of objects", "rule without action"])
def test_a_refused_update_changes_nothing(shared, wrong):
    box = shared(domains("allowed.example"))
    version = box.policy()["version"]
    flow = box.start_tool("ticker", address=WEB, port=7003, name="allowed.example", seconds=2)
    with pytest.raises(ApiError) as refused:
        box.set_policy(wrong)
    assert refused.value.status == 400 and "$" in refused.value.message
    assert box.policy()["version"] == version
    assert flow.wait().json()["outcome"] == "alive"
    assert box.fetch("https://allowed.example/")["sni"] == "allowed.example"


#
@pytest.mark.slow
def test_updates_in_a_row_never_open_what_none_of_them_allows(shared, node):
    box = shared(domains("allowed.example"))
    storm = box.start_tool("storm", seconds=8, targets=[
        ["quick_tcp", "198.18.66.6", 443], ["quick_hello", "198.18.66.6", "denied.example"], ["quick_udp", "198.18.66.6", 443],
        ["quick_hello", WEB, "allowed.example"]])
    policies = [domains("allowed.example"), domains("allowed.example", "other.example"), both(["allowed.example"], allow=["198.18.0.30/32"]),
                both(["allowed.example"], deny=["198.18.66.0/24"])]
    count = 0
    while not storm.ended:
        box.set_policy(policies[count % len(policies)])
        count += 1
    counts = storm.wait().json()["counts"]
    assert count > 20
    assert node.attacker_packets() == []
    served = {key: n for key, n in counts.items() if key.startswith("quick_hello 198.18.0.10")}
    assert list(served) == [f"quick_hello {WEB} served"], f"an allowed name was refused in between: {served}"


#
def test_of_two_updates_at_once_one_wins_whole(shared):
    box = shared(DENY_ALL)
    choices = [domains("allowed.example"), domains("other.example")]
    for _ in range(5):
        threads = [threading.Thread(target=box.set_policy, args=(policy,)) for policy in choices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first = box.tool("hello", address=WEB, name="allowed.example")["outcome"] == "served"
        second = box.tool("hello", address=WEB, name="other.example")["outcome"] == "served"
        assert first != second
        assert ("allowed.example" in str(box.policy()["policy"])) == first, "what is reported is what holds"


# R-097 I5
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT], ids=lambda s: s.name)
def test_a_dead_worker_closes_everything_until_its_successor_has_the_policy(shared, node, how):
    box = shared(domains("allowed.example"))
    storm = box.start_tool("storm", seconds=5, targets=[
        ["quick_tcp", "198.18.66.6", 443], ["quick_hello", "2001:db8:66::6", "denied.example"], ["quick_udp", "198.18.66.6", 53],
        ["quick_hello", WEB, "allowed.example"]])
    worker = box.worker_pid()
    os.kill(worker, how)
    wait_for(lambda: box.worker_pid() not in (None, worker), "a new worker")
    wait_for(lambda: box.tool("hello", address=WEB, name="allowed.example")["outcome"] == "served", "the same policy back")
    assert box.tool("hello", address=WEB, name="denied.example")["outcome"] == "alert"
    storm.wait()
    assert node.attacker_packets() == []
    assert node.queries("evil.test") == []


#
def test_a_hung_worker_closes_everything(shared, node):
    box = shared(domains("allowed.example"))
    worker = box.worker_pid()
    os.kill(worker, signal.SIGSTOP)
    try:
        assert box.tool("hello", address="198.18.66.6", name="denied.example", timeout=2)["outcome"] != "served"
        assert box.tool("udp", address="198.18.66.6", port=443)["outcome"] != "reply"
        assert node.attacker_packets() == []
    finally:
        if alive(worker):
            os.kill(worker, signal.SIGCONT)
    wait_for(lambda: box.tool("hello", address=WEB, name="allowed.example")["outcome"] == "served", "the worker again")


# R-097 SB-004
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_a_daemon_restart_never_leaves_a_sandbox_open(sandbox, node, how):
    box = sandbox(domains("allowed.example"))
    storm = box.start("sh", "-c", "sleep 0; python3 -c \"\nimport socket,time\nend=time.time()+20\nwhile time.time()<end:\n"
                      " for a,f in (('198.18.66.6',2),('2001:db8:66::6',10)):\n"
                      "  s=socket.socket(f,1); s.settimeout(0.3)\n"
                      "  try: s.connect((a,443)); s.send(b'x')\n"
                      "  except OSError: pass\n\" & echo started", detached=True)
    assert storm.command["id"]
    node.restart(how)
    info = box.info()
    if info["sandbox"]["status"] == "running":
        assert box.tool("hello", address=WEB, name="allowed.example")["outcome"] == "served"
        assert box.tool("hello", address=WEB, name="denied.example")["outcome"] == "alert"
        box.set_policy(domains("other.example"))
        assert box.tool("hello", address=WEB, name="allowed.example")["outcome"] == "alert"
    else:
        assert info["sandbox"]["status"] in ("stopped", "failed", "aborted")
    assert node.attacker_packets() == []
    fresh = sandbox(domains("allowed.example"))
    assert fresh.fetch("https://allowed.example/")["sni"] == "allowed.example"


# R-098 R-18 (spec 2.2)
def test_a_policy_on_a_stopped_session_is_refused(sandbox):
    box = sandbox(domains("allowed.example"))
    box.stop()
    with pytest.raises(ApiError) as refused:
        box.set_policy(ALLOW_ALL)
    assert refused.value.status == 410
    assert box.info()["sandbox"]["networkPolicy"]["mode"] == "custom"


# FW-013
def test_versions_count_up_and_are_written_to_the_log(shared):
    box = shared(domains("allowed.example"))
    first = box.policy()["version"]
    second = box.set_policy(domains("other.example"))["networkPolicyUpdate"]["version"]
    assert second > first
    box.tool("hello", address=WEB, name="denied.example")
    assert box.egress_line(name="denied.example", policy=second)["verdict"] == "deny"
