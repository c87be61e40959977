# SPDX-License-Identifier: Apache-2.0
"""The firewall is outside the sandbox and covers every protocol and both families (docs/policy.md, "Other protocols" and
"The boundary"). The long list of attempts is in escape/."""

import pytest
from harness import ALLOW_ALL, DENY_ALL, domains, ranges

CLOSED = ("refused", "reset", "closed", "unreachable", "timeout")


# FW-180
def test_root_inside_sees_no_firewall_to_change(sandbox, node):
    box = sandbox(domains("allowed.example"))
    box.sh("ip route replace default via 198.18.0.1 dev eth0 onlink; nft flush ruleset; iptables -F; ip link set eth0 promisc on;"
           "sysctl -w net.ipv4.ip_forward=1", sudo=True)
    assert box.tool("hello", address="198.18.66.6", name="denied.example", timeout=3)["outcome"] != "served"
    assert node.attacker_packets() == []


# FW-185 SB-009
def test_a_network_namespace_inside_obeys_the_same_policy(shared, node):
    box = shared(domains("allowed.example"))
    ran = box.sh("unshare -Urn true 2>/dev/null; curl -sk -m 5 --resolve denied.example:443:198.18.66.6 https://denied.example/", sudo=True)
    assert ran.code != 0
    assert node.attacker_packets() == []


# FW-186 D-09 R-092 R-093
@pytest.mark.parametrize("policy", [DENY_ALL, domains("allowed.example"), domains("*"), ranges("198.18.0.11/32")],
                         ids=["deny-all", "domains", "catch-all", "other range"])
@pytest.mark.parametrize("address", ["198.18.0.30", "2001:db8::30"])
def test_udp_and_icmp_are_rejected_at_once(shared, policy, address):
    box = shared(policy)
    for port in (123, 443, 4433):
        met = box.tool("udp", address=address, port=port)
        assert met["outcome"] in ("refused", "unreachable"), met
        assert met["ms"] < 300, "clients must fall back to TCP at once"
    assert box.sh(f"ping -c 1 -W 2 {address}").code != 0


# FW-186 R-092
@pytest.mark.parametrize("policy", [ALLOW_ALL, ranges("198.18.0.30/32", "2001:db8::30/128")], ids=["allow-all", "range"])
@pytest.mark.parametrize("address", ["198.18.0.30", "2001:db8::30"])
def test_udp_and_icmp_pass_where_the_address_is_allowed(shared, policy, address):
    box = shared(policy)
    for port in (123, 443):
        assert box.tool("udp", address=address, port=port)["outcome"] == "reply"
    assert box.sh(f"ping -c 1 -W 2 {address}").code == 0


#
@pytest.mark.parametrize("protocol", [47, 50, 132, 253])
@pytest.mark.parametrize("address", ["198.18.66.6", "2001:db8:66::6"])
def test_other_protocols_do_not_pass(shared, node, protocol, address):
    box = shared(domains("*"))
    box.run("python3", "-c", "import socket,sys\n"
            "a=sys.argv[1]; s=socket.socket(10 if ':' in a else 2, 3, int(sys.argv[2]))\n"
            "for _ in range(5):\n"
            "  try: s.sendto(b'x'*40,(a,0))\n"
            "  except OSError: pass\n", address, str(protocol), sudo=True)
    assert node.attacker_packets() == []


# FW-187 SB-004 R-020
@pytest.mark.parametrize("policy", [ALLOW_ALL, domains("*"), ranges("0.0.0.0/0", "::/0")],
                         ids=["allow-all", "catch-all", "everything"])
@pytest.mark.parametrize("address", ["198.18.200.2", "2001:db8:200::2", "gateway4", "gateway6", "169.254.169.254", "10.209.0.5"])
def test_the_host_and_metadata_are_closed_under_every_policy(shared, node, policy, address):
    box = shared(policy)
    if address.startswith("gateway"):
        address = box.sh(f"ip -{address[-1]} route show default | sed 's/.*via \\([^ ]*\\).*/\\1/' | head -1").out.strip()
    for port in (22, 80, 443, 2375, 8080):
        met = box.tool("tcp", address=address, port=port, text="x", timeout=3)
        assert met["outcome"] in CLOSED, (address, port, met)
    assert box.tool("udp", address=address, port=161)["outcome"] in CLOSED
    assert node.canary.lines() == []
    assert node.attacker_packets() == []


# FW-187 SB-003 SB-010
def test_one_sandbox_cannot_reach_another(sandbox):
    server = sandbox(ALLOW_ALL)
    client = sandbox(ALLOW_ALL)
    addresses = server.sh("ip -o addr show dev eth0 scope global | sed 's/.*inet6\\? \\([^/]*\\).*/\\1/'").out.split()
    assert len(addresses) >= 2
    server.start("python3", "-c", "import socket\n"
                 "s=socket.create_server(('::',8000),family=10,dualstack_ipv6=True)\n"
                 "print('ready',flush=True)\n"
                 "while True: s.accept()[0].sendall(b'leak')\n").until("ready")
    for policy in (ALLOW_ALL, ranges("0.0.0.0/0", "::/0"), domains("*")):
        client.set_policy(policy)
        for address in addresses:
            assert client.tool("tcp", address=address, port=8000, timeout=3)["outcome"] in CLOSED
            assert client.sh(f"ping -c1 -W1 {address}").code != 0


#
@pytest.mark.parametrize("address", ["::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "2001:0:a9fe:a9fe::1",
                                     "fe80::1%eth0", "ff02::1%eth0", "fd00::1", "169.254.169.254", "127.0.0.2", "0.0.0.0"])
def test_ipv4_inside_ipv6_and_special_addresses_are_closed(shared, node, address):
    box = shared(ranges("0.0.0.0/0", "::/0", deny=["10.0.0.0/8", "169.254.0.0/16"]))
    script = ("import socket,sys\n"
              "for kind in (1,2):\n"
              "  for f,_,_,_,a in socket.getaddrinfo(sys.argv[1],4444,type=kind):\n"
              "    s=socket.socket(f,kind); s.settimeout(2)\n"
              "    try:\n"
              "      s.connect(a); s.send(b'x'); print('got',s.recv(9))\n"
              "    except OSError as e: print(e)\n")
    assert "got" not in box.run("python3", "-c", script, address).out
    assert node.attacker_packets() == []
    assert node.canary.lines() == []


#
def test_the_guests_own_ipv6_addresses_and_routes_lead_nowhere(sandbox, node):
    box = sandbox(domains("allowed.example"))
    box.sh("ip -6 addr add 2001:db8:77::1/64 dev eth0 nodad; ip -6 addr add fd53:616c:6c79:999::2/64 dev eth0 nodad;"
           "for s in 2001:db8:77::1 fd53:616c:6c79:999::2; do for p in 22 443; do"
           " python3 -c \"import socket; s=socket.socket(10,1); s.settimeout(1); s.bind(('$s',0)); s.connect(('2001:db8:66::6',$p))\";"
           " done; ping -c1 -W1 -I $s 2001:db8:66::6; done; ip -6 addr del 2001:db8:77::1/64 dev eth0;"
           "ip -6 addr del fd53:616c:6c79:999::2/64 dev eth0", sudo=True)
    assert node.attacker_packets() == []
    assert box.fetch("https://allowed.example/")["sni"] == "allowed.example"
