# SPDX-License-Identifier: Apache-2.0
"""Authority and resolver for all of the lab's zones (zones.py), over UDP and TCP, with a log of every query.

A small program of its own, because the interesting zones misbehave: other answers at each query, no answer, chains
over several zones. Arguments: LOGFILE READY_FD.
"""

import asyncio
import json
import os
import struct
import sys
import time

import dns.flags
import dns.message
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

import internet
import zones

ADDRESSES = [internet.RESOLVER_V4, internet.RESOLVER_V6, internet.PUBLIC_DNS_V4, internet.PUBLIC_DNS_V6]


def records_of(name):
    if name in zones.ZONES:
        return zones.ZONES[name]
    labels = name.split(".")
    for at in range(1, len(labels)):
        wildcard = "*." + ".".join(labels[at:])
        if wildcard in zones.ZONES:
            return zones.ZONES[wildcard]
    below = "." + name
    return [] if any(other.endswith(below) for other in zones.ZONES) else None  # empty non-terminal, or no such name


def soa(response, name):
    top = name.rsplit(".", 1)[-1] + "."
    response.authority.append(dns.rrset.from_text(top, 60, "IN", "SOA", f"ns.{top} host.{top} 1 3600 600 86400 60"))


def answer(query):
    """The response to `query`, or None for silence."""
    response = dns.message.make_response(query, recursion_available=True, our_payload=4096)
    question = query.question[0]
    rdtype = dns.rdatatype.to_text(question.rdtype)
    name = question.name.to_text(omit_final_dot=True).lower()
    for _hop in range(8):
        if name in zones.ODD:
            what, ttl, data = zones.ODD[name](rdtype)
            if what == "silent":
                return None
            if what in ("nxdomain", "servfail"):
                response.set_rcode(dns.rcode.from_text(what.upper()))
                if what == "nxdomain":
                    soa(response, name)
                return response
            records = [f"{rdtype} {value}" for value in data]
        else:
            records, ttl = records_of(name), zones.TTL
            if records is None:
                response.set_rcode(dns.rcode.NXDOMAIN)
                soa(response, name)
                return response
        wanted = [r.split(" ", 1)[1] for r in records if r.startswith(rdtype + " ") or rdtype == "ANY"]
        if wanted and rdtype != "ANY":
            response.answer.append(dns.rrset.from_text(name + ".", ttl, "IN", rdtype, *wanted))
            return response
        alias = [r.split(" ", 1)[1] for r in records if r.startswith("CNAME ")]
        if not alias:
            soa(response, name)
            return response
        response.answer.append(dns.rrset.from_text(name + ".", ttl, "IN", "CNAME", alias[0]))
        name = alias[0].rstrip(".")
    return response


class Server:
    def __init__(self, path):
        self.log = open(path, "a", buffering=1)

    def respond(self, wire, peer, transport):
        try:
            query = dns.message.from_wire(wire)
        except Exception:  # a query that cannot be parsed deserves a line, not an answer
            self.log.write(json.dumps({"time": time.time(), "odd": wire.hex()[:200]}) + "\n")
            return None
        question = query.question[0] if query.question else None  # (an RRset without data is falsy)
        self.log.write(json.dumps({
            "time": time.time(), "name": question.name.to_text(omit_final_dot=True).lower() if question is not None else None,
            "type": dns.rdatatype.to_text(question.rdtype) if question is not None else None, "peer": peer,
            "transport": transport}) + "\n")
        response = answer(query) if question is not None else None
        if response is None:
            return None
        if transport == "tcp":
            return response.to_wire()
        limit = max(512, query.payload) if query.edns >= 0 else 512
        try:
            return response.to_wire(max_size=limit)
        except dns.exception.TooBig:
            response.answer, response.flags = [], response.flags | dns.flags.TC
            return response.to_wire(max_size=limit)

    async def stream(self, reader, writer):
        try:
            while True:
                length = struct.unpack("!H", await reader.readexactly(2))[0]
                wire = self.respond(await reader.readexactly(length), writer.get_extra_info("peername")[0], "tcp")
                if wire:
                    writer.write(struct.pack("!H", len(wire)) + wire)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server):
        self.server, self.transport = server, None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        wire = self.server.respond(data, peer[0], "udp")
        if wire:
            self.transport.sendto(wire, peer)


async def main():
    server, ready = Server(sys.argv[1]), int(sys.argv[2])
    loop = asyncio.get_running_loop()
    for address in ADDRESSES:
        await loop.create_datagram_endpoint(lambda: Datagrams(server), local_addr=(address, 53))
        await asyncio.start_server(server.stream, address, 53)
    os.write(ready, b"1")
    os.close(ready)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
