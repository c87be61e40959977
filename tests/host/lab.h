// SPDX-License-Identifier: Apache-2.0
// A node and an internet of one machine, in namespaces of their own: node (198.18.0.1, 2001:db8::1)
// and, behind it, an internet that answers on every address of 198.18.0.0/15 and 2001:db8::/32 and
// writes down every packet that reaches it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "host/netns.h"
#include "host/network.h"

namespace sallyport::host::lab {

// A packet as the internet saw it on its link.
struct Seen {
  Address source, destination;
  std::uint8_t protocol = 0;  // of IPv6: of the last header
  std::uint16_t source_port = 0, destination_port = 0;
  std::string payload;  // all after the IP header
};

class Internet {
 public:
  Internet();
  ~Internet();
  Internet(const Internet&) = delete;

  NodeNetwork node;  // the configuration for the functions under test
  Fd node_ns, internet_ns;

  // Everything that came from the node's side since the last call (neighbour discovery left out).
  std::vector<Seen> seen();
  [[nodiscard]] const std::string& node_name() const { return node_name_; }
  [[nodiscard]] const std::string& internet_name() const { return internet_name_; }
  [[nodiscard]] const Fd& capture() const { return capture_; }
  // Runs in the node's namespace, as the daemon does.
  template <class Work>
  auto as_daemon(Work&& work) {
    return in_namespace(node_ns, std::forward<Work>(work));
  }

 private:
  std::string node_name_, internet_name_;
  Fd capture_;
};

// What stands for a container: a process that sleeps in a network namespace of its own.
class Guest {
 public:
  Guest();
  ~Guest();
  Guest(const Guest&) = delete;
  int pid = 0;
  Fd ns;
};

inline constexpr const char* kBeacon = "198.18.1.99";

// A sandbox's network as the supervisor makes it, with a guest attached.
class Sandbox {
 public:
  Sandbox(Internet& internet, const std::string& name, unsigned slot);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;

  Applied apply(const AddressPolicy& policy);
  // Sends a raw IP packet from the guest's link, by default with the guest's own link-layer
  // address.
  void send_raw(const std::string& packet) const;
  // What reached the internet until now. Waits for no time but for a packet: one that the guest
  // sends to kBeacon, which the policy in force must open, and which arrives after all that was
  // sent before it.
  std::vector<Seen> seen();
  void renew_guest();  // the guest ends, a new one is attached
  [[nodiscard]] SandboxAddresses at() const { return addresses_of(internet_.node, network.slot); }

  SandboxNetwork network;
  std::unique_ptr<Guest> guest;
  std::vector<Fd> worker;  // as open_worker_sockets gives them

 private:
  Internet& internet_;
};

void run(const std::string& command);  // aborts the test program if it fails

// Probes. `ns` is where the socket is made.
Fd tcp_listener(const Fd& ns, const std::string& at);  // "198.18.0.2:80"
// 0, or the errno of the connection attempt; ETIMEDOUT if there was no answer in `ms`.
struct Dialled {
  int error = 0;
  Fd socket;
};
Dialled dial(const Fd& ns, const std::string& to, int ms = 3000);
Dialled dial_here(const std::string& to, int ms);  // in the namespace of the calling thread
Fd udp_socket(const Fd& ns, const std::string& bound_to = "");
int send_udp(const Fd& socket, const std::string& to, const std::string& text);  // errno
// What arrives within `ms`; empty if nothing does. `error` gets the errno of an ICMP error.
std::string receive(const Fd& socket, int ms, int* error = nullptr, Endpoint* from = nullptr);
bool readable(const Fd& socket, int ms);
// A raw packet, headers included, out of the link `link` of `ns`, to the link-layer address `to`.
void send_frame(const Fd& ns, const std::string& link, const std::array<std::uint8_t, 6>& from,
                const std::array<std::uint8_t, 6>& to, std::uint16_t ethertype,
                const std::string& packet);

}  // namespace sallyport::host::lab
