# SPDX-License-Identifier: Apache-2.0
"""The three kinds of policy and switching between them: docs/policy.md, "Modes" and "Live update"."""

import itertools

import pytest
from harness import ALLOW_ALL, DENY_ALL, ApiError, domains, ranges

WEB = "https://allowed.example/"


def has_network(sandbox):
    return sandbox.curl(WEB, limit=8).code == 0


# FW-001
def test_there_are_exactly_three_kinds_of_policy(shared):
    assert shared(ALLOW_ALL).policy()["policy"] == {"mode": "allow-all"}
    assert shared(DENY_ALL).policy()["policy"] == {"mode": "deny-all"}
    box = shared(domains("allowed.example"))
    assert "allow" in box.policy()["policy"]
    with pytest.raises(ApiError) as refused:
        box.set_policy({"mode": "allow-some"})
    assert refused.value.status == 400


# FW-002
def test_a_switch_of_kind_leaves_processes_alone(shared):
    box = shared(ALLOW_ALL)
    before = box.run("sh", "-c", "nohup sleep 300 >/dev/null 2>&1 & echo $!").out.strip()
    for policy in (DENY_ALL, domains("allowed.example"), ALLOW_ALL):
        box.set_policy(policy)
    assert box.sh(f"ps -o comm= -p {before}; kill {before}").out.strip() == "sleep"


# FW-003 SB-030
def test_without_a_policy_everything_is_allowed(sandbox):
    box = sandbox()
    assert box.created["sandbox"]["networkPolicy"] == {"mode": "allow-all"}
    assert box.fetch(WEB)["sni"] == "allowed.example"


# FW-004
@pytest.mark.parametrize("port", [443, 8443, 9999])
def test_allow_all_reaches_any_port_with_dns(shared, port):
    assert shared(ALLOW_ALL).fetch(f"https://other.example:{port}/")["local"][1] == port


# FW-004
def test_allow_all_lets_plain_http_and_udp_pass(shared):
    box = shared(ALLOW_ALL)
    assert box.fetch("http://allowed.example/")["secure"] is False
    assert box.tool("udp", address="198.18.0.30", port=123)["outcome"] == "reply"
    assert box.tool("udp", address="2001:db8::30", port=443)["outcome"] == "reply"


# FW-005
@pytest.mark.parametrize("address", ["198.18.0.10", "2001:db8::10"])
@pytest.mark.parametrize("port", [22, 80, 443, 3306, 8443])
def test_deny_all_lets_no_connection_out(shared, address, port):
    met = shared(DENY_ALL).tool("tcp", address=address, port=port, text="x")
    assert met["outcome"] in ("refused", "reset", "closed"), met
    assert met["ms"] < 2000


# FW-006
def test_deny_all_answers_no_lookup(shared, node):
    box = shared(DENY_ALL)
    assert box.curl(WEB).code == 6
    for rdtype in ("A", "AAAA", "TXT", "HTTPS", "MX"):
        assert box.dig("allowed.example", rdtype) == ("NXDOMAIN", [])
    assert node.queries("allowed.example") == []


# FW-007 FW-184
def test_what_a_policy_does_not_allow_is_denied(shared):
    box = shared(domains("allowed.example"))
    assert has_network(box)
    assert box.curl("https://denied.example/").code != 0
    assert box.tool("tcp", address="198.18.0.11", port=3306, text="x")["outcome"] != "reply"


# FW-008 R-096
def test_the_policy_holds_before_the_first_instruction(sandbox, node):
    for _ in range(5):
        box = sandbox(domains("allowed.example"))
        ran = box.run("python3", "-c",
                      "import socket\n"
                      "for f,a in ((2,'198.18.66.6'),(10,'2001:db8:66::6')):\n"
                      "  for kind in (1,2):\n"
                      "    s=socket.socket(f,kind); s.settimeout(1)\n"
                      "    try: s.connect((a,53 if kind==2 else 443)); s.send(b'x'); s.recv(1)\n"
                      "    except OSError: pass\n")
        assert ran.code == 0, ran.err
    assert node.attacker_packets() == []


# FW-010 FW-189
def test_install_with_the_network_then_run_without(shared):
    box = shared(ALLOW_ALL)
    assert box.curl("https://registry.example/bytes/1000").code == 0
    box.set_policy(DENY_ALL)
    assert box.sh("echo still here").out == "still here\n"
    assert not has_network(box)


# FW-011
def test_the_same_policy_again_restores_access(shared):
    policy = domains("allowed.example")
    box = shared(policy)
    assert has_network(box)
    box.set_policy(DENY_ALL)
    assert not has_network(box)
    box.set_policy(policy)
    assert has_network(box)


# FW-012 FW-014 FW-030 D-16
def test_an_attached_private_network_needs_the_policy_as_well(sandbox):
    box = sandbox(ALLOW_ALL, networkId="corp")
    reach = lambda: box.tool("tcp", address="10.77.0.10", port=3306, text="x")["outcome"]  # noqa: E731
    assert reach() == "reply"
    box.set_policy(DENY_ALL)
    assert reach() != "reply"
    box.set_policy(ranges("10.0.0.0/8"))
    assert reach() == "reply"
    box.set_policy(domains("allowed.example"))
    assert reach() != "reply"


# D-16 SB-034
def test_a_private_network_that_is_not_attached_is_closed(shared):
    for policy in (ALLOW_ALL, ranges("10.0.0.0/8")):
        assert shared(policy).tool("tcp", address="10.77.0.10", port=3306, text="x")["outcome"] != "reply"


# FW-013 D-15 R-094
def test_a_running_download_stops_when_the_policy_is_tightened(shared):
    box = shared(domains("download.example", "allowed.example"))
    box.equip()
    download = box.start("curl", "-sS", "--cacert", "/tmp/lab-ca.pem", "https://download.example/slow", "-o", "-")
    download.until_bytes(50_000)
    answer = box.set_policy(domains("allowed.example"))
    assert answer["networkPolicyUpdate"]["cut"] >= 1
    assert download.wait(5).code in (18, 35, 52, 55, 56), "curl says that the transfer broke"
    assert has_network(box)


#
def test_every_order_of_modes_takes_full_effect(shared):
    """What each policy opens, checked after each switch: a domain, another domain, a range, DNS of another name."""
    kinds = {"allow-all": (ALLOW_ALL, (True, True, True, True)),
             "domains": (domains("allowed.example"), (True, False, False, False)),
             "ranges": (ranges("198.18.0.30/32"), (False, False, True, True)),
             "catch-all": (domains("*"), (True, True, True, True)),
             "deny-all": (DENY_ALL, (False, False, False, False))}
    box = shared(DENY_ALL)

    def seen():
        return (box.tool("hello", address="198.18.0.10", name="allowed.example")["outcome"] == "served",
                box.tool("hello", address="198.18.0.11", name="other.example")["outcome"] == "served",
                box.tool("tcp", address="198.18.0.30", port=3306, text="x")["outcome"] == "reply",
                box.tool("dns", name="denied.example")["rcode"] == 0)

    for first, second in itertools.permutations(kinds, 2):
        for kind in (first, second):
            box.set_policy(kinds[kind][0])
            assert seen() == kinds[kind][1], f"{first} -> {second}, at {kind}"
