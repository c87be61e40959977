# SPDX-License-Identifier: Apache-2.0
"""What a spliced connection keeps of TCP: half-close, order, backpressure, limits (docs/policy.md, "Connections")."""

import os

import pytest
from harness import ALLOW_ALL, both, domains, ranges, wait_for

ODD = "198.18.0.30"
ADMITTED = {"domain": (domains("odd.example"), "odd.example"), "range": (ranges(f"{ODD}/32"), None),
            "allow-all": (ALLOW_ALL, None), "catch-all": (domains("*"), None)}


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


#
@pytest.mark.parametrize("policy,name", ADMITTED.values(), ids=ADMITTED)
def test_half_close_by_the_client_keeps_the_answer_coming(shared, policy, name):
    met = shared(policy).tool("half_close", address=ODD, port=7001, name=name, expect=262144)
    assert met == {"outcome": "done", "bytes": 262144}


# R-016 R-019
@pytest.mark.parametrize("policy,name", ADMITTED.values(), ids=ADMITTED)
def test_upload_continues_after_the_server_closed_its_side(shared, node, policy, name):
    met = shared(policy).tool("upload", address=ODD, port=7002, name=name, size=16 << 20)
    assert met["outcome"] == "done"
    seen = wait_for(lambda: [line for line in node.services.lines() if line.get("service") == "greeting"],
                    "the server's checksum")[0]
    assert (seen["size"], seen["sha256"], seen["end"]) == (met["size"], met["sha256"], "eof")


#
@pytest.mark.parametrize("policy,name", [ADMITTED["domain"], ADMITTED["catch-all"]], ids=["domain", "catch-all"])
def test_a_thousand_resets_leave_no_trace(shared, policy, name):
    box = shared(policy)
    box.tool("tcp", address=ODD, port=7, text="x")
    worker = box.worker_pid()
    assert worker
    before = descriptors(worker)
    box.tool("resets", address=ODD, port=7, count=1000)
    wait_for(lambda: descriptors(worker) <= before + 8, "the worker's descriptors to be given back")
    if name:
        assert box.tool("hello", address="198.18.0.10", name="odd.example")["outcome"] in ("reset", "closed", "served", "alert", "refused")


#
def test_after_many_resets_a_normal_connection_still_works(shared):
    met = shared(domains("*")).tool("resets", address=ODD, port=7, count=500)
    assert met["text"] == "after"


#
def test_the_firewalls_own_listeners_refuse(shared):
    box = shared(domains("*"))
    gateway = box.sh("ip -4 route show default | sed 's/.*via \\([^ ]*\\).*/\\1/'").out.strip()
    before = descriptors(box.worker_pid())
    met = box.sh(f"for p in 1 22 53 80 443 1024 5000 8080 15001 15053; do nc -z -w 2 {gateway} $p && [ $p != 53 ] && echo open $p; done; true")
    assert met.out == "", met.out
    wait_for(lambda: descriptors(box.worker_pid()) <= before + 4, "no growth in descriptors")


#
@pytest.mark.slow
def test_one_sandbox_cannot_starve_another(sandbox):
    greedy, other = sandbox(domains("*")), sandbox(domains("allowed.example"))
    other.equip()
    greedy.equip()
    flood = greedy.start("python3", "/tmp/tools.py", "many", '{"address": "%s", "port": 7, "count": 900, "hold": 2}' % ODD)
    for _ in range(5):
        assert other.fetch("https://allowed.example/")["sni"] == "allowed.example"
    flood.wait()
    assert greedy.fetch("https://allowed.example/")["sni"] == "allowed.example"


#
@pytest.mark.slow
def test_a_slow_reader_slows_the_sender_and_costs_little(shared):
    box = shared(domains("download.example"))
    box.equip()
    box.fetch("https://download.example/")
    worker = box.worker_pid()
    before = rss_kb(worker)
    slow = [box.start("curl", "-sS", "--cacert", "/tmp/lab-ca.pem", "--limit-rate", "20k", "-m", "8", "-o", "/dev/null",
                      "https://download.example/bytes/2000000000") for _ in range(10)]
    for each in slow:
        each.wait()
    assert rss_kb(worker) - before < 10 * 512


#
def test_large_transfers_arrive_whole_both_ways(shared):
    box = shared(domains("download.example"))
    box.equip()
    ran = box.sh("curl -sS --cacert /tmp/lab-ca.pem https://download.example/bytes/200000000 | sha256sum;"
                 "python3 -c \"import hashlib; b=bytes(range(256))*256; h=hashlib.sha256(); n=200000000\n"
                 "while n: p=b[:min(n,len(b))]; h.update(p); n-=len(p)\n"
                 "print(h.hexdigest()+'  -')\"")
    first, second = ran.out.splitlines()
    assert first == second
    ran = box.sh("head -c 50000000 /dev/urandom > /tmp/up; sha256sum < /tmp/up; curl -sS --cacert /tmp/lab-ca.pem"
                 " --data-binary @/tmp/up -H 'Expect:' https://download.example/upload; rm /tmp/up")
    checksum, answer = ran.out.splitlines()
    assert checksum.split()[0] in answer and "50000000" in answer


#
def test_a_smaller_mtu_on_the_uplink_hurts_nobody(sandbox, node):
    node.lab("node", "ip", "link", "set", "uplink", "mtu", "1400")
    try:
        box = sandbox(both(["allowed.example", "download.example", "many.example"]))
        assert box.tool("hello", address="198.18.0.10", name="allowed.example", pad_to=1700)["outcome"] == "served"
        assert box.curl("https://download.example/bytes/10000000", "-o", "/dev/null").code == 0
        ran = box.sh("head -c 1000000 /dev/zero | curl -sS --cacert /tmp/lab-ca.pem --data-binary @- https://download.example/upload")
        assert '"size": 1000000' in ran.out, ran.err
        assert box.tool("dns", name="many.example", edns=4096)["answers"] == 43
    finally:
        node.lab("node", "ip", "link", "set", "uplink", "mtu", "1500")


#
def test_a_host_without_ipv6_delays_nobody(sandbox, node):
    node.lab("node", "ip", "-6", "route", "del", "default")
    try:
        box = sandbox(domains("allowed.example", "v6only.example"))
        ran = box.curl("https://allowed.example/", "-o", "/dev/null", "-w", "%{time_total}")
        assert ran.code == 0 and float(ran.out) < 2, ran
        met = box.tool("hello", address="2001:db8::10", name="allowed.example")
        assert met["outcome"] == "served" or met["ms"] < 2000, met
        assert box.tool("hello", address="2001:db8::10", name="v6only.example")["ms"] < 3000
    finally:
        node.lab("node", "ip", "-6", "route", "add", "default", "via", "2001:db8:200::1")


#
@pytest.mark.slow
def test_udp_leaves_no_state_behind(shared):
    box = shared(domains("allowed.example"))
    box.tool("dns_flood", address="198.18.0.53", name="allowed.example", count=500)
    worker = box.worker_pid()
    before = rss_kb(worker)
    assert box.tool("dns_flood", address="8.8.8.8", name="allowed.example", count=5000)["answered"] == 5000
    box.tool("dns_flood", address="8.8.8.8", name="denied.example", count=5000)
    box.tool("udp_flood", address="198.18.0.30", port=123, count=20000)
    assert rss_kb(worker) - before < 4096
    assert box.dig("allowed.example")[0] == "NOERROR"


# R-026 R-017
@pytest.mark.slow
def test_an_idle_connection_stays_open(shared):
    """Hours are the documented limit; a quarter of a minute shows that no short timer cuts."""
    box = shared(domains("odd.example"))
    assert box.tool("idle", address=ODD, port=7003, name="odd.example", seconds=12)["outcome"] == "alive"
