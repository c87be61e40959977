# SPDX-License-Identifier: Apache-2.0
"""Writes one JSON line for every packet that reaches an interface of the attacker's host.

Only what a neighbour needs to say on its own link is left out (ARP, and IPv6 from a link-local or unspecified
source: no router passes those on), so an escape cannot look like that. Arguments: INTERFACE LOGFILE READY_FD.
"""

import ipaddress
import json
import os
import socket
import struct
import sys
import time

ETH_P_ALL, ETH_P_ARP, ETH_P_IP, ETH_P_IPV6 = 3, 0x0806, 0x0800, 0x86DD
PACKET_OUTGOING = 4


def describe(frame, ethertype):
    """What a reader of the log wants to see first; the bytes follow in hex."""
    line = {"ethertype": f"{ethertype:#06x}", "bytes": len(frame)}
    try:
        if ethertype == ETH_P_IP:
            header = (frame[14] & 15) * 4
            protocol, payload = frame[23], frame[14 + header:]
            line.update(source=str(ipaddress.ip_address(frame[26:30])), protocol=protocol,
                        destination=str(ipaddress.ip_address(frame[30:34])))
        elif ethertype == ETH_P_IPV6:
            protocol, payload = frame[20], frame[54:]
            line.update(source=str(ipaddress.ip_address(frame[22:38])), protocol=protocol,
                        destination=str(ipaddress.ip_address(frame[38:54])))
        else:
            protocol, payload = None, b""
        if protocol in (6, 17) and len(payload) >= 4:
            line["ports"] = list(struct.unpack("!HH", payload[:4]))
    except (IndexError, ValueError):
        line["odd"] = True
    line["hex"] = frame[:192].hex()
    return line


def link_noise(frame, ethertype):
    if ethertype == ETH_P_ARP:
        return True
    return ethertype == ETH_P_IPV6 and (frame[22:24] == b"\xfe\x80" or frame[22:38] == bytes(16))


def main():
    interface, path, ready = sys.argv[1], sys.argv[2], int(sys.argv[3])
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    packets.bind((interface, ETH_P_ALL))
    with open(path, "a", buffering=1) as log:
        os.write(ready, b"1")
        os.close(ready)
        while True:
            frame, address = packets.recvfrom(65535)
            if address[2] == PACKET_OUTGOING or link_noise(frame, address[1]):
                continue
            log.write(json.dumps({"time": time.time(), **describe(frame, address[1])}) + "\n")


if __name__ == "__main__":
    main()
