# SPDX-License-Identifier: Apache-2.0
"""Who may be reached: domains, allowed ranges, denied ranges and their order (docs/policy.md, "Access")."""

import pytest
from harness import DENY_ALL, both, domains, ranges

WEB = "198.18.0.10"


# FW-020 FW-181 SB-033
def test_an_allowed_domain_is_let_through_without_proxy_settings(shared):
    box = shared(domains("allowed.example"))
    assert box.sh("env | grep -i _proxy || true").out == ""
    assert box.fetch("https://allowed.example/")["sni"] == "allowed.example"


# FW-021
def test_hosts_that_share_an_address_are_told_apart(shared):
    box = shared(domains("bucket-a.s3.example"))
    assert box.fetch("https://bucket-a.s3.example/")["sni"] == "bucket-a.s3.example"
    met = box.tool("hello", address=WEB, name="bucket-b.s3.example")
    assert met["outcome"] == "alert"


# FW-022
@pytest.mark.parametrize("address,cidr", [("198.18.0.30", "198.18.0.30/32"), ("2001:db8::30", "2001:db8::30/128")])
def test_an_allowed_range_lets_any_traffic_through(shared, address, cidr):
    box = shared(ranges(cidr))
    assert box.fetch(f"http://{'[' + address + ']' if ':' in address else address}/")["secure"] is False
    assert box.tool("tcp", address=address, port=22)["text"] == "SSH-2.0-lab\r\n"
    assert box.tool("tcp", address=address, port=3306)["text"].startswith("banner")
    assert box.tool("udp", address=address, port=123)["outcome"] == "reply"
    assert box.sh(f"ping -c 1 -W 2 {address}").code == 0


# FW-023 FW-065 FW-068
def test_an_allowed_range_knows_nothing_of_domains(shared):
    box = shared(both(["allowed.example"], allow=["198.18.0.11/32"]))
    met = box.tool("hello", address="198.18.0.11", name="denied.example", cafile="/tmp/lab-ca.pem")
    assert met["outcome"] == "served" and met["seen"]["sni"] == "denied.example"
    assert "Sallyport Lab CA" in met["issuer"]
    box.set_policy(DENY_ALL)  # the kernel writes a flow's line when it forgets it: at once, if the policy cuts it
    assert box.egress_line(destination="198.18.0.11:443")["via"] == "kernel"


# FW-024 FW-182
def test_a_denied_range_beats_an_allowed_domain(shared):
    box = shared(both(["allowed.example", "denied-range.example"], deny=["198.18.0.12/32", "2001:db8::12/128"]))
    assert box.curl("https://denied-range.example/").code != 0
    assert box.fetch("https://allowed.example/")["sni"] == "allowed.example"
    assert box.egress_line(destination="198.18.0.12:443", verdict="deny")["reason"] == "denied_range"
    assert box.tool("hello", address=WEB, name="denied-range.example")["outcome"] in ("alert", "reset", "closed")
    assert box.egress_line(name="denied-range.example", verdict="deny")["reason"] == "denied_range"


# FW-025 R-091
@pytest.mark.parametrize("allow,deny", [
    (["198.18.0.0/24"], ["198.18.0.30/32"]),
    (["198.18.0.30/32", "198.18.0.0/16"], ["198.18.0.0/27"]),
    (["0.0.0.0/0"], ["198.18.0.30/32"]),
    (["198.18.0.30/32"], ["0.0.0.0/0"]),
    (["198.18.0.0/24", "198.18.0.0/24"], ["198.18.0.30/32", "198.18.0.30/32"]),
    (["198.18.0.0/24"], ["::ffff:198.18.0.30/128"]),
])
def test_a_denied_range_beats_an_allowed_range(shared, allow, deny):
    box = shared(ranges(*allow, deny=deny))
    assert box.tool("tcp", address="198.18.0.30", port=3306)["outcome"] in ("refused", "reset")
    assert box.tool("udp", address="198.18.0.30", port=123)["outcome"] != "reply"


# FW-026 FW-063
def test_a_denied_range_grants_nothing(shared):
    box = shared({"subnets": {"deny": ["203.0.113.0/24"]}})
    assert box.tool("tcp", address="198.18.0.30", port=3306)["outcome"] != "reply"
    assert box.tool("hello", address=WEB, name="allowed.example")["outcome"] != "served"


# FW-069
@pytest.mark.parametrize("cidr,open_address,closed_address", [
    ("0.0.0.0/0", "198.18.0.30", "2001:db8::30"), ("::/0", "2001:db8::30", "198.18.0.30")])
def test_a_whole_family_can_be_opened(shared, cidr, open_address, closed_address):
    box = shared(both(["allowed.example"], allow=[cidr]))
    assert box.tool("tcp", address=open_address, port=3306, text="x")["outcome"] == "reply"
    assert box.tool("tcp", address=closed_address, port=3306, text="x")["outcome"] != "reply"


# FW-066
def test_a_literal_address_in_an_allowed_range_needs_no_dns(shared, node):
    box = shared(ranges("198.18.0.10/32"))
    assert box.fetch("http://198.18.0.10/")["host"] == "198.18.0.10"
    assert node.dns.lines() == []


# FW-027 FW-028 FW-029
def test_rules_are_checked_in_full_and_refused_until_they_can_be_kept(shared):
    """Handling comes later: until then a policy with rules is refused as a whole, never half-applied."""
    box = shared(domains("allowed.example"))
    version = box.policy()["version"]
    for rules, words in [
            ([{"transform": [{"headers": {"X-Key": "secret"}}]}], "allowed.example"),
            ([{"transform": [{"headers": {"X-Key": "s"}}], "forwardURL": "https://p.example/"}], "allowed.example")]:
        refused = box.node.api
        try:
            box.set_policy({"allow": {"allowed.example": rules}})
        except Exception as error:
            assert getattr(error, "status", None) in (400, 501), refused
            assert words in error.message
            assert "secret" not in error.message
        else:
            raise AssertionError("accepted")
    assert box.policy()["version"] == version
    assert box.fetch("https://allowed.example/")["sni"] == "allowed.example"
