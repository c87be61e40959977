# SPDX-License-Identifier: Apache-2.0
"""The lab's map: who owns which address. Everything else in tests/lab and tests/e2e reads it from here.

    <p>attacker --- <p>net (the internet: DNS, web, Postgres, odd servers) --- <p>node (runs sandboxd)

Every address that the map does not give to somebody belongs to the attacker: the internet's default route ends
there, so a packet that escapes to 8.8.8.8, to a metadata address or to nowhere is recorded just the same.
All addresses are from ranges that can never be routed in the real internet.
"""

NODE_V4, NODE_V6 = "198.18.200.2", "2001:db8:200::2"
NODE_GW_V4, NODE_GW_V6 = "198.18.200.1", "2001:db8:200::1"

RESOLVER_V4, RESOLVER_V6 = "198.18.0.53", "2001:db8::53"  # the node's resolver
PUBLIC_DNS_V4, PUBLIC_DNS_V6 = "198.18.0.54", "2001:db8::54"  # a resolver somebody else runs

WEB_V4, WEB_V6 = "198.18.0.10", "2001:db8::10"  # many TLS names on one shared address
OTHER_V4, OTHER_V6 = "198.18.0.11", "2001:db8::11"  # a second web host
ALTERNATE_V4, ALTERNATE_V6 = "198.18.0.12", "2001:db8::12"  # where names point that move
DB_V4, DB_V6 = "198.18.0.20", "2001:db8::20"  # Postgres that insists on TLS
PLAINDB_V4, PLAINDB_V6 = "198.18.0.21", "2001:db8::21"  # Postgres without TLS
ODD_V4, ODD_V6 = "198.18.0.30", "2001:db8::30"  # server-first, half-close, UDP echo
CORP_V4 = "10.77.0.10"  # a host in a private network that the operator may attach
MANY_V4 = "198.18.42.0/24"  # 42 records of one name
ROTATE_V4 = "198.18.43.0/24"  # another address at each query

ATTACKER_V4, ATTACKER_V6 = "198.18.66.6", "2001:db8:66::6"

# What a sandbox may reach at all in the lab: sandboxd closes these by default, since nobody routes them.
OPEN = ["198.18.0.0/15", "2001:db8::/32"]
CORP_NETWORK = "10.77.0.0/16"
POOL4, POOL6 = "10.209.0.0/16", "fd53:616c:6c79::/48"

INTERNET_ADDRESSES = [
    RESOLVER_V4, RESOLVER_V6, PUBLIC_DNS_V4, PUBLIC_DNS_V6, WEB_V4, WEB_V6, OTHER_V4, OTHER_V6,
    ALTERNATE_V4, ALTERNATE_V6, DB_V4, DB_V6, PLAINDB_V4, PLAINDB_V6, ODD_V4, ODD_V6, CORP_V4,
]
INTERNET_RANGES = [MANY_V4, ROTATE_V4]  # the web server answers on all of them

# TCP services of the internet, on each of its addresses.
HTTP_PORTS = [80, 8080]
HTTPS_PORTS = [443, 853, 6380, 8443, 9999]
SSH_PORT, BANNER_PORT, ECHO_PORT = 22, 3306, 7
HALF_CLOSE_PORT = 7001  # answers 256 KiB once the client has finished sending
GREETING_PORT = 7002  # greets, closes its side, then reads to the end and logs a checksum
NEVER_CLOSE_PORT = 7003  # reads to the end and never closes
SINK_PORT = 7004  # logs each arrival of bytes
UDP_ECHO_PORTS = [7, 123, 443, 4433]
UDP_ECHO_ADDRESSES = [WEB_V4, WEB_V6, ODD_V4, ODD_V6]

# Services of the node itself, which no sandbox may reach; tests/lab/canary.py logs whoever does.
CANARY_TCP = [22, 53, 80, 111, 443, 2375, 5432, 8000, 8080, 9090]
CANARY_UDP = [53, 111, 161, 443, 5353]
