# SPDX-License-Identifier: Apache-2.0
"""The lab's names. ZONES is plain data (name -> records); ODD holds the names that behave.

A record is "TYPE rdata" as in a zone file. A leading "*." matches any name below. Names under a TOP that are not
listed do not exist (NXDOMAIN with SOA).
"""

import itertools

import internet as i

TOPS = ["example", "test", "com", "net", "org"]
TTL = 60


def host(v4=i.WEB_V4, v6=i.WEB_V6):
    return [f"A {v4}"] * bool(v4) + [f"AAAA {v6}"] * bool(v6)


ECH = "AEX+DQBBAQAgACCpMQsqIvGO2wg2xHOzdIYaVkVy5MeSVdjyQyFqAS1CGAAEAAEAAQASY292ZXIuZXhhbXBsZS5vcmcAAA=="

ZONES = {
    # Ordinary names on one shared address.
    "allowed.example": host() + ['TXT "hello from the lab"', "MX 10 mail.allowed.example."],
    "*.allowed.example": host(),
    "other.example": host(i.OTHER_V4, i.OTHER_V6),
    "denied.example": host(),
    "www.denied.example": host(),
    "bucket-a.s3.example": host(),
    "bucket-b.s3.example": host(),
    "download.example": host(),
    "registry.example": host(),
    "*.wild.example": host(),
    # The table of domain patterns (spec 2.5).
    "example.com": host(),
    "www.example.com": host(),
    "www.api.example.com": host(),
    "a.b.c.example.com": host(),
    "notexample.com": host(),
    "example.com.evil.net": host(),
    # One family only, and mixtures.
    "v4only.example": host(v6=None),
    "v6only.example": host(v4=None),
    "txtonly.example": ['TXT "no address here"'],
    "two.example": [f"A {i.WEB_V4}", f"A {i.OTHER_V4}"],
    # Databases and odd servers.
    "db.example": host(i.DB_V4, i.DB_V6),
    "plaindb.example": host(i.PLAINDB_V4, i.PLAINDB_V6),
    "odd.example": host(i.ODD_V4, i.ODD_V6),
    # Chains and many records.
    "many.example": ["CNAME big.cdn.test."],
    "big.cdn.test": [f"A 198.18.42.{n}" for n in range(1, 43)],
    "chain.example": ["CNAME x.cdn.test."],
    "x.cdn.test": ["CNAME y.evil.test."],
    "y.evil.test": host(),
    # HTTPS records.
    "ech.example": host() + [f'HTTPS 1 . alpn="h3,h2" ipv4hint="{i.WEB_V4}" ech="{ECH}"'],
    "svcalias.example": host() + ["HTTPS 0 other.evil.test."],
    "svcport.example": host() + ['HTTPS 1 . port="8443" alpn="h2"'],
    # Names that lead where nobody may go.
    "metadata.example": ["A 169.254.169.254"],
    "private.example": ["A 10.0.0.5"],
    "private6.example": ["AAAA fd00::5"],
    "loopback.example": ["A 127.0.0.1", "AAAA ::1"],
    "zero.example": ["A 0.0.0.0", "AAAA ::"],
    "node.example": host(i.NODE_V4, i.NODE_V6),
    "pool.example": ["A 10.209.0.1", "AAAA fd53:616c:6c79::1"],
    "linklocal6.example": ["AAAA fe80::1"],
    "mapped.example": ["AAAA ::ffff:169.254.169.254"],
    "nat64.example": ["AAAA 64:ff9b::a9fe:a9fe"],
    "sixtofour.example": ["AAAA 2002:a9fe:a9fe::1"],
    "corp.example": [f"A {i.CORP_V4}"],
    "denied-range.example": host(i.ALTERNATE_V4, i.ALTERNATE_V6),
    # The enemy's zone: its authority sees every query, as the log does.
    "evil.test": host(i.ATTACKER_V4, i.ATTACKER_V6),
    "*.evil.test": host(i.ATTACKER_V4, i.ATTACKER_V6),
}


def _turns(*addresses):
    """Another answer at each query, never to be cached."""
    turn = itertools.cycle(addresses)
    return lambda rdtype: ("answer", 0, [next(turn)] if rdtype == "A" else [])


def _turns6(*addresses):
    turn = itertools.cycle(addresses)
    return lambda rdtype: ("answer", 0, [next(turn)] if rdtype == "AAAA" else [])


# name -> function(rdtype) -> (what, ttl, [rdata])
ODD = {
    "rotate.example": _turns(*[f"198.18.43.{n}" for n in range(1, 251)]),
    "rebind.example": _turns(i.WEB_V4, "169.254.169.254", "10.0.0.5"),
    "rebind-self.example": _turns(i.WEB_V4, "127.0.0.1", i.NODE_V4),
    "rebind6.example": _turns6(i.WEB_V6, "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "::1", "fe80::1", i.NODE_V6),
    "nx.example": lambda rdtype: ("nxdomain", 0, []),
    "servfail.example": lambda rdtype: ("servfail", 0, []),
    "silent.example": lambda rdtype: ("silent", 0, []),
}
