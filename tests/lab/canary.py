# SPDX-License-Identifier: Apache-2.0
"""Listens on the node's own addresses and logs whoever gets through: nobody from a sandbox may.

Arguments: LOGFILE READY_FD.
"""

import asyncio
import json
import os
import socket
import sys
import time

import internet


class Canary:
    def __init__(self, path):
        self.log = open(path, "a", buffering=1)

    def note(self, kind, port, peer):
        self.log.write(json.dumps({"time": time.time(), "kind": kind, "port": port, "peer": peer[0]}) + "\n")


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, canary, port):
        self.canary, self.port, self.transport = canary, port, None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        self.canary.note("udp", self.port, peer)
        self.transport.sendto(b"canary", peer)


async def main():
    canary, ready = Canary(sys.argv[1]), int(sys.argv[2])
    loop = asyncio.get_running_loop()

    def greeter(port):
        async def greet(_reader, writer):
            canary.note("tcp", port, writer.get_extra_info("peername"))
            writer.write(b"canary\r\n")
            writer.close()
        return greet

    for port in internet.CANARY_TCP:
        server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        await asyncio.start_server(greeter(port), sock=server)
    for port in internet.CANARY_UDP:
        udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp.bind(("::", port))
        await loop.create_datagram_endpoint(lambda port=port: Datagrams(canary, port), sock=udp)
    os.write(ready, b"1")
    os.close(ready)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
