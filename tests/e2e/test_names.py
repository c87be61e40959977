# SPDX-License-Identifier: Apache-2.0
"""A name is bound to an address, and only the TLS name counts (docs/policy.md, "TLS names")."""

import pytest
from harness import both, domains, ranges

WEB, WEB6 = "198.18.0.10", "2001:db8::10"
DENIED = ("alert", "reset", "closed", "refused")


# FW-074 FW-078
def test_only_the_name_in_the_handshake_counts(shared):
    box = shared(domains("allowed.example"))
    met = box.tool("hello", address=WEB, name="allowed.example", host="denied.example")
    assert met["outcome"] == "served" and met["seen"]["host"] == "denied.example"
    assert box.tool("hello", address=WEB, name="denied.example", host="allowed.example")["outcome"] == "alert"


# FW-076 R-009 R-090
def test_plain_http_to_an_allowed_domain_is_blocked_unless_its_range_is_allowed(shared):
    box = shared(domains("allowed.example"))
    ran = box.curl("http://allowed.example/", "-w", "%{http_code}")
    assert ran.out.endswith("403") and '"secure"' not in ran.out, ran
    assert not [line for line in box.node.services.lines() if line["service"] == "http"]
    assert box.egress_line(destination="198.18.0.10:80", verdict="deny")["reason"] == "not_tls"
    box.set_policy(both(["allowed.example"], allow=["198.18.0.10/32"]))
    assert box.fetch("http://allowed.example/")["secure"] is False


# FW-077 FW-170 SB-041
@pytest.mark.parametrize("address", [WEB, WEB6])
def test_an_ordinary_domain_is_never_terminated(shared, address):
    box = shared(domains("allowed.example"))
    met = box.tool("hello", address=address, name="allowed.example", cafile="/tmp/lab-ca.pem")
    assert met["outcome"] == "served" and "Sallyport Lab CA" in met["issuer"]


# FW-080 R-014 I2
@pytest.mark.parametrize("address", ["198.18.66.6", "2001:db8:66::6", "8.8.8.8", "198.18.0.11"])
def test_an_allowed_name_opens_no_way_to_an_address_of_the_guests_choice(shared, node, address):
    box = shared(domains("allowed.example"))
    met = box.tool("hello", address=address, name="allowed.example")
    assert met["outcome"] == "served"
    assert met["seen"]["local"][0].removeprefix("::ffff:") in (WEB, WEB6), "dialled where the name really is"
    assert node.attacker_packets() == []
    line = box.egress_line(name="allowed.example", verdict="allow")
    assert line["dialled"] in (f"{WEB}:443", f"[{WEB6}]:443")


# FW-081 R-012 D-06
def test_a_denied_name_meets_an_alert_and_no_byte_goes_out(shared, node):
    box = shared(domains("allowed.example"))
    met = box.tool("hello", address="198.18.66.6", name="denied.example")
    assert met["outcome"] == "alert"
    assert met["alert"] in (49, 112), "access_denied or unrecognized_name"
    assert node.attacker_packets() == [] and node.dns.lines() == []


# FW-082 D-07 R-015
@pytest.mark.parametrize("port", [443, 853, 6380, 8443, 9999])
def test_a_domain_is_allowed_on_every_port_that_speaks_tls(shared, port):
    met = shared(domains("allowed.example")).tool("hello", address=WEB, port=port, name="allowed.example")
    assert met["outcome"] == "served" and met["seen"]["local"][1] == port


# FW-083 R-007 R-009
@pytest.mark.parametrize("first", {
    "no SNI": None,
    "SSH": b"SSH-2.0-x\r\n",
    "SMTP": b"EHLO x\r\n",
    "HTTP": b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
    "SSLv2": bytes.fromhex("802e0103010015000000100100800300800700c006004002008004008000"),
    "noise": bytes((n * 37 + 11) % 256 for n in range(64)),
    "one byte": b"\x16",
}.items(), ids=lambda item: item[0])
def test_without_a_readable_name_a_connection_is_denied(shared, first):
    box = shared(domains("allowed.example"))
    what, data = first
    if data is None:
        met = box.tool("hello", address=WEB)
    else:
        met = box.tool("tcp", address=WEB, port=443, send=data.hex(), shut=(what == "one byte"), expect=12)
    if what == "HTTP":
        assert met["text"].startswith("HTTP/1.1 403"), met
    else:
        assert met["outcome"] in DENIED, met


# FW-084 FW-108 R-007 R-010 D-08
def test_under_a_catch_all_what_has_no_name_passes_unmodified(shared):
    box = shared(domains("*"))
    assert box.tool("hello", address=WEB)["outcome"] == "served"
    assert box.tool("tcp", address="198.18.0.30", port=22)["text"] == "SSH-2.0-lab\r\n"
    assert box.tool("tcp", address="2001:db8::30", port=3306)["text"].startswith("banner")
    assert box.fetch("http://allowed.example/")["secure"] is False
    assert box.tool("tcp", address="198.18.0.30", port=7, text="echo", expect=4)["text"] == "echo"


#
def test_a_server_that_speaks_first_is_not_kept_waiting(shared):
    box = shared(both(["allowed.example"], allow=["198.18.0.30/32"]))
    assert box.tool("tcp", address="198.18.0.30", port=3306)["text"].startswith("banner")


# FW-085
def test_the_outer_name_counts_when_the_client_hello_is_encrypted(shared):
    """curl cannot do ECH here; what the firewall sees of such a hello is its outer name, like any other."""
    box = shared(domains("cover.example.org", "allowed.example"))
    met = box.tool("hello", address=WEB, name="cover.example.org")
    assert met["outcome"] != "served", "the outer name is resolved, and does not exist here"
    assert box.egress_line(name="cover.example.org")["dialled"] is None


#
@pytest.mark.parametrize("cuts", [[1], [5], [6], [43], [600], [1400], [1, 2, 3, 4, 5, 6], "all"], ids=str)
@pytest.mark.parametrize("name,expected", [("allowed.example", "served"), ("denied.example", "alert")])
def test_a_hello_over_several_segments_gets_the_same_verdict(shared, cuts, name, expected):
    box = shared(domains("allowed.example"))
    met = box.tool("hello", address=WEB, name=name, pad_to=1700, cuts=cuts, pause=0.0005 if cuts == "all" else 0.05)
    assert met["outcome"] == expected, met


#
@pytest.mark.slow
@pytest.mark.parametrize("name,expected", [("allowed.example", "served"), ("denied.example", "alert")])
def test_every_cut_of_a_hello_gets_the_same_verdict(shared, name, expected):
    met = shared(domains("allowed.example")).tool("hello_cuts", address=WEB, name=name, step=11)
    assert list(met["counts"]) == [expected], met


#
@pytest.mark.parametrize("records", [[516, 1], [60, 400], [1], [26], [10, 1, 500]], ids=str)
@pytest.mark.parametrize("name,expected", [("allowed.example", "served"), ("denied.example", "alert")])
def test_a_hello_over_several_records_gets_the_same_verdict(shared, records, name, expected):
    met = shared(domains("allowed.example")).tool("hello", address=WEB, name=name, records=records)
    assert met["outcome"] == expected, met


#
@pytest.mark.parametrize("size", [8193, 12000, 16000])
def test_a_large_hello_gets_the_same_verdict(shared, size):
    box = shared(domains("allowed.example"))
    assert box.tool("hello", address=WEB, name="allowed.example", pad_to=size)["outcome"] == "served"
    assert box.tool("hello", address=WEB, name="denied.example", pad_to=size)["outcome"] == "alert"


#
def test_a_hello_above_the_limit_is_closed_on_its_declared_length(shared):
    box = shared(domains("allowed.example"))
    met = box.tool("tcp", address=WEB, port=443, send=(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(64)).hex())
    assert met["outcome"] in DENIED and met["ms"] < 2000, met


# R-006 D-03
@pytest.mark.parametrize("name", ["a b.example", "198.18.0.10", "x" * 64 + ".example"])
def test_what_is_no_name_is_denied(shared, name):
    """Names that a TLS library refuses to send are covered by tests/tls."""
    box = shared(domains("*.example", "allowed.example"))
    hello = box.tool("hello", address=WEB, name=None)
    assert hello["outcome"] in DENIED
    ran = box.run("sh", "-c", f"echo | timeout 8 openssl s_client -connect {WEB}:443 -servername '{name}' 2>&1")
    assert "BEGIN CERTIFICATE" not in ran.out


#
def test_a_redirect_to_a_denied_name_fails_fast(shared):
    box = shared(domains("allowed.example"))
    ran = box.sh("for n in $(seq 20); do curl -sSL --max-time 5 --cacert /tmp/lab-ca.pem --resolve denied.example:443:198.18.0.10 "
                 "https://allowed.example/redirect/denied.example; echo $?; done")
    assert set(ran.out.split()) == {"35"}, ran.out + ran.err


# R-013 FW-080
def test_a_name_whose_address_changes_at_each_query_always_connects(shared):
    box = shared(domains("rotate.example"))
    for _ in range(10):
        assert box.fetch("https://rotate.example/")["local"][0].startswith("::ffff:198.18.43.")


#
@pytest.mark.parametrize("name", ["node.example", "loopback.example", "pool.example", "zero.example"])
def test_a_name_that_leads_back_to_the_host_is_refused(shared, node, name):
    box = shared(domains(name))
    assert box.curl(f"https://{name}/", "--resolve", f"{name}:443:198.18.0.10").code != 0
    assert box.egress_line(name=name, verdict="deny")["reason"] == "boundary"
    assert node.canary.lines() == []


# R-086 R-088 FW-187
@pytest.mark.parametrize("name", ["metadata.example", "private.example", "private6.example", "linklocal6.example",
                                  "mapped.example", "nat64.example", "sixtofour.example", "corp.example"])
def test_an_allowed_name_with_a_forbidden_address_is_refused(shared, node, name):
    box = shared(domains(name))
    met = box.tool("hello", address="198.18.0.10", name=name)
    assert met["outcome"] in DENIED, met
    assert node.attacker_packets() == []


#
@pytest.mark.parametrize("port", [22, 80, 443, 3306])
def test_a_domain_does_not_open_its_bare_address(shared, port):
    met = shared(domains("allowed.example")).tool("tcp", address=WEB, port=port, text="x", shut=True)
    assert met["outcome"] in DENIED, met


# FW-069 FW-068
def test_a_range_admits_whatever_name_is_spoken(shared):
    box = shared(ranges("198.18.0.10/32"))
    assert box.tool("hello", address=WEB, name="denied.example")["outcome"] == "served"
    assert box.tool("hello", address=WEB6, name="denied.example")["outcome"] in DENIED
