# SPDX-License-Identifier: Apache-2.0
"""A policy that allows nothing lets nothing out, DNS included (docs/policy.md, "Empty policies")."""

import pytest
from harness import DENY_ALL

EMPTY = {
    "FW-060 {}": {},
    "FW-061 allow {}": {"allow": {}},
    "FW-061 allow []": {"allow": []},
    "FW-062 subnets {}": {"subnets": {}},
    "FW-063 deny only": {"subnets": {"deny": ["203.0.113.0/24"]}},
    "FW-064 all empty": {"allow": [], "subnets": {"allow": [], "deny": []}},
    "FW-064 legacy": {"mode": "custom"},
    "FW-005 deny-all": DENY_ALL,
}


# FW-060 FW-061 FW-062 FW-063 FW-064 R-081
@pytest.mark.parametrize("policy", EMPTY.values(), ids=EMPTY)
def test_nothing_passes(shared, node, policy):
    box = shared(policy)
    for address in ("198.18.0.10", "2001:db8::10"):
        assert box.tool("hello", address=address, name="allowed.example")["outcome"] in ("alert", "reset", "closed", "refused")
        assert box.tool("tcp", address=address, port=3306, text="x")["outcome"] in ("reset", "closed", "refused")
        met = box.tool("tcp", address=address, port=80, text="GET / HTTP/1.0\r\n\r\n", expect=12)
        assert met["text"].startswith("HTTP/1.1 403"), "the firewall's own answer (D-06)"
        assert box.tool("udp", address=address, port=443)["outcome"] in ("refused", "unreachable")
    for name in ("allowed.example", "secret.evil.test"):
        for options in ((), ("+tcp",)):
            status, answers = box.dig(name, "A", *options)
            assert (status, answers) == ("NXDOMAIN", [])
    assert box.curl("https://allowed.example/").code == 6
    assert node.dns.lines() == [], "a denied query left the host"
    assert node.attacker_packets() == []
