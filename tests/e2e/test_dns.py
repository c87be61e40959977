# SPDX-License-Identifier: Apache-2.0
"""DNS under a policy (docs/policy.md, "DNS"): who gets an answer, from whom, and what is in it."""

import pytest
from harness import ALLOW_ALL, DENY_ALL, both, domains, ranges


# FW-067
def test_a_custom_resolver_in_an_allowed_range_is_reached_itself(shared, node):
    box = shared(ranges("198.18.0.54/32", "198.18.0.10/32"))
    assert box.dig("denied.example", "A", "@198.18.0.54") == ("NOERROR", ["198.18.0.10"])
    asked = node.queries("denied.example")
    assert asked, "the custom resolver saw the query"
    assert box.fetch("http://198.18.0.10/")["secure"] is False


# FW-070 D-17
def test_with_ranges_only_every_name_resolves(shared):
    box = shared(ranges("10.0.0.0/8"))
    assert box.dig("denied.example") == ("NOERROR", ["198.18.0.10"])
    assert box.dig("allowed.example", "TXT") == ("NOERROR", ['"hello from the lab"'])


# FW-071 FW-183
def test_with_domains_only_their_names_resolve(shared, node):
    box = shared(domains("allowed.example"))
    assert box.dig("allowed.example") == ("NOERROR", ["198.18.0.10"])
    assert box.dig("denied.example") == ("NXDOMAIN", [])
    assert node.queries("denied.example") == []
    assert box.egress_line(protocol="dns", name="denied.example")["reason"] == "name_not_allowed"


# FW-072 R-082
@pytest.mark.parametrize("server", [None, "198.18.0.53", "198.18.0.54", "8.8.8.8", "169.254.169.253", "10.1.2.3",
                                    "2001:db8::54", "2001:4860:4860::8888"])
@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
def test_any_resolver_address_gets_the_same_filter(shared, node, server, transport):
    box = shared(domains("allowed.example"))
    options = [transport] + ([f"@{server}"] if server else [])
    assert box.dig("allowed.example", "A", *options) == ("NOERROR", ["198.18.0.10"])
    for rdtype in ("A", "TXT", "HTTPS", "ANY"):
        status, answers = box.dig("evil.test", rdtype, *options)
        assert status in ("NXDOMAIN", "REFUSED", "NOTIMP") and not answers
    assert node.queries("evil.test") == []
    assert node.attacker_packets() == []


# FW-073
def test_domains_and_ranges_together_keep_dns_filtered(shared):
    box = shared(both(["allowed.example"], allow=["198.18.0.11/32"]))
    assert box.dig("allowed.example")[0] == "NOERROR"
    assert box.dig("denied.example")[0] == "NXDOMAIN"


#
@pytest.mark.parametrize("edns,limit", [(None, 512), (512, 512), (1232, 1232), (4096, 4096), (65535, 65535)])
def test_a_udp_answer_fits_the_client(shared, edns, limit):
    box = shared(domains("many.example"))
    met = box.tool("dns", name="many.example", edns=edns)
    assert met["outcome"] == "reply" and met["bytes"] <= limit, met
    assert met["tc"] or met["answers"] == 43, met
    assert met["tc"] == (limit == 512), met
    assert box.tool("dns", name="many.example", edns=edns, tcp=True)["answers"] == 43


#
def test_the_whole_large_answer_reaches_a_program(shared):
    assert len(shared(domains("many.example")).tool("lookup", name="many.example")["addresses"]) == 42


# R-079 D-05
def test_negative_answers_pass_truly(shared):
    box = shared(domains("*.example"))
    met = box.tool("dns", name="v4only.example", rdtype=28)
    assert (met["rcode"], met["answers"]) == (0, 0)
    assert met["authority"] == 1, "the SOA lets the client cache that"
    assert box.dig("nx.example")[0] == "NXDOMAIN"
    assert box.dig("servfail.example")[0] == "SERVFAIL"
    assert box.tool("lookup", name="v4only.example")["addresses"] == ["198.18.0.10"]
    assert box.tool("lookup", name="v6only.example")["addresses"] == ["2001:db8::10"]


#
@pytest.mark.slow
def test_a_silent_authority_ends_in_servfail(shared):
    met = shared(domains("silent.example")).tool("dns", name="silent.example", timeout=30)
    assert met["outcome"] == "timeout" or met["rcode"] == 2, met


# R-080 D-04
def test_a_search_list_of_denied_names_costs_nothing(shared):
    box = shared(domains("allowed.example"))
    box.sh("cp /etc/resolv.conf /tmp/resolv.conf && { cat /tmp/resolv.conf; echo 'search a.test b.test c.test d.test e.test';"
           " echo 'options ndots:5'; } > /tmp/new && cat /tmp/new > /etc/resolv.conf", sudo=True)
    try:
        met = box.tool("lookup", name="allowed.example")
        assert met["addresses"], met
        assert met["ms"] < 1500, met
    finally:
        box.sh("cat /tmp/resolv.conf > /etc/resolv.conf", sudo=True)


# D-04
def test_a_denial_is_nxdomain_without_soa_and_says_why(shared):
    box = shared(domains("allowed.example"))
    met = box.tool("dns", name="denied.example", edns=1232)
    assert (met["rcode"], met["answers"], met["authority"]) == (3, 0, 0)
    shown = box.run("dig", "+tries=1", "denied.example").out
    assert "EDE: 15" in shown and "Blocked" in shown
    box.set_policy(domains("denied.example"))
    assert box.dig("denied.example")[0] == "NOERROR", "nothing cached the refusal"


#
@pytest.mark.parametrize("policy", [DENY_ALL, {}, {"subnets": {"deny": ["10.0.0.0/8"]}}, domains("allowed.example")],
                         ids=["deny-all", "empty", "deny-only", "domains"])
def test_no_denied_query_leaves_the_host(shared, node, policy):
    box = shared(policy)
    for command in ("dig +tries=1 data1.evil.test", "dig +tries=1 +tcp data2.evil.test TXT", "ping -c1 -W1 data3.evil.test",
                    "getent hosts data4.evil.test", "curl -m5 https://data5.evil.test/", "dig +tries=1 @198.18.0.54 data6.evil.test"):
        box.sh(command)
    box.tool("hello", address="198.18.0.10", name="data7.evil.test")
    assert node.queries("evil.test") == []
    assert node.attacker_packets() == []


#
def test_other_dns_ports_follow_the_policy_for_tcp_and_udp(shared, node):
    box = shared(domains("allowed.example"))
    assert box.tool("dns", name="allowed.example", address="198.18.66.6", port=5353)["outcome"] in ("refused", "unreachable")
    assert box.tool("hello", address="198.18.0.10", port=853, name="dns.evil.test")["outcome"] == "alert"
    assert box.tool("hello", address="198.18.0.10", port=853, name="allowed.example")["outcome"] == "served"
    assert node.attacker_packets() == []


# R-083 D-05
def test_https_records_lose_their_ech_and_nothing_else(shared):
    box = shared(domains("ech.example", "svcport.example", "svcalias.example"))
    status, answers = box.dig("ech.example", "HTTPS")
    assert status == "NOERROR"
    assert all("ech=" not in value for value in answers)
    assert not answers or "alpn" in answers[0]
    assert box.dig("denied.example", "HTTPS") == ("NXDOMAIN", [])
    assert box.dig("denied.example", "TYPE64")[0] == "NXDOMAIN"
    box.dig("svcalias.example", "HTTPS")
    assert box.dig("other.evil.test")[0] == "NXDOMAIN", "an alias widens nothing"


# R-084 D-05
def test_a_cname_target_gains_nothing(shared):
    box = shared(domains("chain.example"))
    status, answers = box.dig("chain.example")
    assert status == "NOERROR" and answers == ["x.cdn.test.", "y.evil.test.", "198.18.0.10"]
    assert box.tool("hello", address="198.18.0.10", name="chain.example")["outcome"] == "served"
    assert box.tool("hello", address="198.18.0.10", name="y.evil.test")["outcome"] == "alert"
    assert box.tool("hello", address="198.18.0.10")["outcome"] == "alert"
    assert box.tool("tcp", address="198.18.0.10", port=22, text="x")["outcome"] in ("reset", "closed", "refused")
    box.set_policy(domains("x.cdn.test"))
    assert box.dig("chain.example")[0] == "NXDOMAIN"


#
def test_a_reconnect_needs_no_new_lookup_by_the_guest(shared):
    box = shared(domains("allowed.example"))
    for _ in range(2):
        assert box.tool("hello", address="198.18.0.10", name="allowed.example")["outcome"] == "served"


# R-086 R-013
@pytest.mark.slow
def test_a_rebinding_name_never_reaches_a_forbidden_address(shared, node):
    box = shared(domains("rebind.example", "rebind-self.example", "rebind6.example"))
    met = box.tool("storm", targets=[["quick_hello", "198.18.0.10", "rebind.example"],
                                     ["quick_hello", "198.18.0.10", "rebind-self.example"],
                                     ["quick_hello", "2001:db8::10", "rebind6.example"]], seconds=10)
    served = sum(count for key, count in met["counts"].items() if key.endswith("served"))
    assert served > 10, met
    assert node.attacker_packets() == []
    assert node.canary.lines() == []
    assert box.egress_line(name="rebind.example", verdict="deny")["reason"] == "boundary"


#
def test_a_denied_range_over_the_plumbing_leaves_dns_alone(shared):
    box = shared(both(["allowed.example"], deny=["127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "0.0.0.0/0", "::/0"]))
    assert box.dig("allowed.example") == ("NOERROR", ["198.18.0.10"])
    assert box.dig("allowed.example", "A", "@8.8.8.8")[0] == "NOERROR"
    assert box.tool("hello", address="198.18.0.10", name="allowed.example")["outcome"] != "served"
    box.set_policy(both(["allowed.example"], deny=["127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16"]))
    assert box.fetch("https://allowed.example/")["sni"] == "allowed.example"


# FW-004 FW-072
def test_allow_all_lets_a_query_through_to_the_server_that_was_asked(shared, node):
    box = shared(ALLOW_ALL)
    assert box.dig("denied.example", "A", "@198.18.0.54") == ("NOERROR", ["198.18.0.10"])
    assert box.dig("evil.test") == ("NOERROR", ["198.18.66.6"])
