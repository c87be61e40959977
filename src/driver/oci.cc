// SPDX-License-Identifier: Apache-2.0
// How a container comes to be, in the order that leaves no window:
//
//   1. the agent's socket, listening                  connects work (and wait) from here on
//   2. the root file system                           host/disk.h
//   3. config.json                                    oci_config.h
//   4. `runtime create`                               namespaces, cgroup and limits exist; the
//   agent does not run yet
//   5. attach_network(pid)                            the firewall's policy is in force before the
//   link is (FW-008)
//   6. `runtime start`                                first instruction of the agent
//
// Whatever fails or is killed in between is undone by destroy(), which asks nothing of the state it
// finds: the runtime's own delete, then the cgroup's death, then the mounts, then the files. The
// runtime dies with us (program.h), so nothing goes on being made behind the sweep of a new daemon.
//
// crun 1.8 refuses machines whose cgroup v2 hierarchy beside v1 has a controller ("cgroups in
// hybrid mode not supported"). It only looks at the mount, so there it runs in a mount namespace
// without it.
#include "driver/oci.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "base/fd.h"
#include "driver/image.h"
#include "driver/oci_config.h"
#include "driver/program.h"
#include "driver/quiet_socket.h"
#include "host/cgroup.h"
#include "host/disk.h"

namespace sallyport::driver {
namespace {

namespace fs = std::filesystem;
using sandbox::DriverSpec;
using sandbox::Running;
using std::chrono::seconds;

constexpr seconds kRuntimeLimit{30};
constexpr int kBacklog = 8;
constexpr std::size_t kMaxLog = 4096;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string read_text(const std::string& path, std::size_t max) {
  std::ifstream in(path, std::ios::binary);
  std::string text(max, '\0');
  in.read(text.data(), std::streamsize(max));
  text.resize(std::size_t(in.gcount()));
  return text;
}

Result<> write_text(const std::string& path, std::string_view text, mode_t mode) {
  const std::string draft = path + ".new";
  const Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!file || ::fchmod(file.get(), mode) != 0) return fail_errno("write " + path);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t put = ::write(file.get(), rest.data(), rest.size());
    if (put < 0) return fail_errno("write " + path);
    rest.remove_prefix(std::size_t(put));
  }
  if (::rename(draft.c_str(), path.c_str()) != 0) return fail_errno("rename " + path);
  return {};
}

Result<> make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0)
    return errno == EEXIST ? Result<>{} : fail_errno("mkdir " + path);
  // The daemon's umask lets nobody else in; this directory may have other readers.
  if (::chmod(path.c_str(), mode) != 0) return fail_errno("chmod " + path);
  return {};
}

OciMachine look_at_machine() {
  OciMachine machine;
  machine.cpus = std::max(1U, std::thread::hardware_concurrency());
  machine.cgroup2 = exists("/sys/fs/cgroup/cgroup.controllers");
  machine.limits_swap = machine.cgroup2
                            ? exists("/proc/swaps")
                            : exists("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes");
  machine.limits_cpuset =
      machine.cgroup2
          ? read_text("/sys/fs/cgroup/cgroup.controllers", 1024).find("cpuset") != std::string::npos
          : exists("/sys/fs/cgroup/cpuset/cpuset.cpus");
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) machine.max_open_files = files.rlim_max;
  return machine;
}

Result<Fd> listen_at(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path)
    return fail(Code::invalid, "agent socket: path too long: " + path);
  path.copy(address.sun_path, path.size());
  auto socket = quiet_unix_socket();
  if (!socket) return socket;
  ::unlink(path.c_str());
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(socket->get(), kBacklog) != 0) {
    return fail_errno("agent socket " + path);
  }
  return socket;
}

// A node of our own: the host's may be root's alone, and a container's root is nobody to it. The
// kernel has to know the device, of which the host's node is the sign.
std::string place_device(const std::string& folder, const char* name, const char* host_node,
                         unsigned minor) {
  if (!exists(host_node)) return {};
  const std::string path = folder + "/" + name;
  const bool made =
      ::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(10, minor)) == 0 || errno == EEXIST;
  return made && ::chmod(path.c_str(), 0666) == 0 ? path : std::string();
}

// On a file system of their own: /run is commonly mounted `nodev`.
void place_devices(const std::string& folder, OciMachine& machine) {
  const auto below = host::mounts_below(fs::path(folder).parent_path());
  if (!make_directory(folder, 0711) || !below) return;
  if (std::ranges::find(*below, folder) == below->end() &&
      ::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC,
              "size=64k,nr_inodes=8,mode=0711") != 0) {
    return;
  }
  machine.tun = place_device(folder, "tun", "/dev/net/tun", 200);
  machine.fuse = place_device(folder, "fuse", "/dev/fuse", 229);
}

// The last line of the runtime's log, which says what went wrong.
std::string last_words(const std::string& log) {
  std::string text = read_text(log, kMaxLog);
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string own_directory() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).parent_path();
}

class OciDriver final : public sandbox::Driver {
 public:
  OciDriver(std::string runtime, std::string agent, std::string run_dir)
      : runtime_(std::move(runtime)),
        agent_(std::move(agent)),
        run_dir_(std::move(run_dir)),
        state_(run_dir_ + "/oci"),
        machine_(look_at_machine()),
        hybrid_(!machine_.cgroup2 && exists("/sys/fs/cgroup/unified/cgroup.controllers")) {
    place_devices(run_dir_ + "/devices", machine_);
  }
  // What running containers use of these mounts they hold themselves.
  ~OciDriver() override {
    ::umount2((run_dir_ + "/devices").c_str(), MNT_DETACH);
    if (const auto images = host::mounts_below(run_dir_ + "/images")) {
      for (const auto& path : *images) (void)host::unmount_base(path);
    }
  }
  OciDriver(const OciDriver&) = delete;
  OciDriver& operator=(const OciDriver&) = delete;

  [[nodiscard]] std::string name() const override {
    return "oci (" + fs::path(runtime_).filename().string() + ")";
  }
  [[nodiscard]] Result<Running> start(const DriverSpec& spec) override;
  [[nodiscard]] bool alive(const std::string& id, int pid) override;
  [[nodiscard]] Result<> destroy(const DriverSpec& spec) override;
  [[nodiscard]] Result<std::vector<std::string>> leftovers() override;

 private:
  [[nodiscard]] Result<> run(const DriverSpec& spec, std::vector<std::string> arguments,
                             int pass_fd = -1) const;
  [[nodiscard]] Result<int> create(const DriverSpec& spec, const std::string& root,
                                   int listener) const;
  [[nodiscard]] Result<Running> start_steps(const DriverSpec& spec);
  [[nodiscard]] Result<std::string> mount_root(const DriverSpec& spec) const;

  std::string runtime_;
  std::string agent_;
  std::string run_dir_;
  std::string state_;  // the runtime's own
  OciMachine machine_;
  bool hybrid_;
};

Result<> OciDriver::run(const DriverSpec& spec, std::vector<std::string> arguments,
                        int pass_fd) const {
  const std::string log = spec.run_dir + "/runtime.log";
  ::unlink(log.c_str());
  std::vector<std::string> argv{runtime_, "--root", state_, "--log", log};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const std::string what = fs::path(runtime_).filename().string() + " " + arguments[0];
  const Program program{.argv = std::move(argv),
                        .limit = kRuntimeLimit,
                        .pass_fd = pass_fd,
                        .without_hybrid_cgroup = hybrid_};
  auto done = run_program(program);
  if (done) return {};
  const std::string words = last_words(log);
  return fail(done.error().code, what + ": " + (words.empty() ? done.error().message : words));
}

Result<std::string> OciDriver::mount_root(const DriverSpec& spec) const {
  const std::string images = run_dir_ + "/images";
  if (auto made = make_directory(images, 0711); !made) return std::unexpected(made.error());
  std::error_code failed;
  const auto image = fs::canonical(spec.image_dir + "/root.img", failed);
  struct stat about{};
  if (failed || ::stat(image.c_str(), &about) != 0)
    return fail(Code::not_found, "image: no root.img in " + spec.image_dir);
  // One mount per image file: an image that was built again under the same name is another one.
  const std::string mounted_at = images + "/" + std::to_string(about.st_dev) + "-" +
                                 std::to_string(about.st_ino) + "-" +
                                 std::to_string(about.st_mtim.tv_sec);
  auto root = host::mount_root(
      {.base_image = image,
       .base_mount = mounted_at,
       .disk_image = spec.state_dir + "/disk.ext4",
       .disk_bytes = spec.resources.disk_bytes,
       .template_dir = fs::path(spec.state_dir).parent_path(),
       .dir = spec.run_dir,
       .id_range = host::IdRange{.first = first_uid(spec.slot), .count = kUidCount}});
  if (!root) return std::unexpected(root.error());
  return root->root;
}

Result<int> OciDriver::create(const DriverSpec& spec, const std::string& root, int listener) const {
  const std::string bundle = spec.run_dir + "/bundle";
  const std::string pid_file = spec.run_dir + "/pid";
  if (auto made = make_directory(bundle, 0700); !made) return std::unexpected(made.error());
  const auto config = oci_config({.hostname = spec.hostname,
                                  .root = root,
                                  .agent = agent_,
                                  .cgroup = host::container_cgroup_path(spec.id),
                                  .slot = spec.slot,
                                  .resources = spec.resources,
                                  .resolvers = spec.resolvers},
                                 machine_);
  if (auto put = write_text(bundle + "/config.json", json::serialize(config), 0600); !put) {
    return std::unexpected(put.error());
  }
  ::unlink(pid_file.c_str());
  auto created = run(
      spec, {"create", "--bundle", bundle, "--pid-file", pid_file, "--preserve-fds", "1", spec.id},
      listener);
  if (!created) return std::unexpected(created.error());
  const std::string text = read_text(pid_file, 32);
  int pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc{} || pid <= 1)
    return fail(Code::internal, "the runtime wrote no process id");
  return pid;
}

Result<Running> OciDriver::start_steps(const DriverSpec& spec) {
  // The container's root is nobody outside and has to be able to pass these on its way to its own
  // root.
  for (const std::string& path :
       {run_dir_, fs::path(spec.run_dir).parent_path().string(), spec.run_dir}) {
    if (::chmod(path.c_str(), 0711) != 0) return fail_errno("chmod " + path);
  }
  const std::string socket_path = spec.run_dir + "/agent.sock";
  const auto listener = listen_at(socket_path);
  if (!listener) return std::unexpected(listener.error());
  const auto root = mount_root(spec);
  if (!root) return std::unexpected(root.error());
  const auto pid = create(spec, *root, listener->get());
  if (!pid) return std::unexpected(pid.error());
  if (spec.attach_network) {
    if (auto attached = spec.attach_network(*pid); !attached)
      return context("network", attached.error());
  }
  if (auto started = run(spec, {"start", spec.id}); !started)
    return std::unexpected(started.error());
  return Running{.pid = *pid, .agent_socket = socket_path};
}

Result<Running> OciDriver::start(const DriverSpec& spec) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (spec.id.empty() || spec.id.size() > 64 || !std::ranges::all_of(spec.id, plain) ||
      spec.slot > kMaxSlot) {
    return fail(Code::invalid, "driver: bad sandbox id or slot");
  }
  if (auto clean = destroy(spec); !clean)
    return context("driver: clearing what was left", clean.error());
  auto running = start_steps(spec);
  if (running) return running;
  (void)destroy(spec);
  return context("driver", running.error());
}

bool OciDriver::alive(const std::string& id, int pid) {
  if (pid <= 1 || ::kill(pid, 0) != 0) return false;
  // A number that was reused belongs to another group.
  const std::string groups = read_text("/proc/" + std::to_string(pid) + "/cgroup", 8192);
  const std::string ours = host::container_cgroup_path(id);
  const std::string status = read_text("/proc/" + std::to_string(pid) + "/stat", 512);
  const auto after = status.rfind(')');
  const bool dead =
      after == std::string::npos || after + 2 >= status.size() || status[after + 2] == 'Z';
  return !dead && (groups.find(":" + ours + "\n") != std::string::npos ||
                   groups.find(":" + ours + "/") != std::string::npos);
}

Result<> OciDriver::destroy(const DriverSpec& spec) {
  const std::string state = state_ + "/" + spec.id;
  if (exists(state)) {
    // Best effort: what it leaves, the steps below remove. Its log needs the directory, which a
    // crash may have taken.
    if (exists(spec.run_dir)) (void)run(spec, {"delete", "--force", spec.id});
  }
  if (auto gone = host::Cgroup::open(host::container_cgroup_path(spec.id)).destroy(); !gone) {
    return context("driver: destroy", gone.error());
  }
  std::error_code failed;
  fs::remove_all(state, failed);
  if (failed) return fail(Code::internal, "driver: remove " + state + ": " + failed.message());
  if (!exists(spec.run_dir)) return {};
  if (auto gone = host::unmount_root(spec.run_dir); !gone)
    return context("driver: destroy", gone.error());
  for (const char* name :
       {"agent.sock", "pid", "runtime.log", "bundle/config.json", "bundle/config.json.new"}) {
    ::unlink((spec.run_dir + "/" + name).c_str());
  }
  ::rmdir((spec.run_dir + "/bundle").c_str());
  return {};
}

Result<std::vector<std::string>> OciDriver::leftovers() {
  std::set<std::string> ids;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(state_, ignored))
    ids.insert(entry.path().filename());
  // Control groups are not asked: another daemon's sandboxes are in the same place. One of ours has
  // its mounts from before its group was made until after the group is gone.
  const std::string sandboxes = run_dir_ + "/sandboxes";
  const auto mounts = host::mounts_below(sandboxes);
  if (!mounts) return std::unexpected(mounts.error());
  for (const auto& path : *mounts) {
    const std::string rest = path.substr(sandboxes.size() + 1);
    ids.insert(rest.substr(0, rest.find('/')));
  }
  return std::vector<std::string>(ids.begin(), ids.end());
}

Result<std::string> find_runtime(const std::string& wanted) {
  const std::vector<std::string> candidates = wanted.empty() || wanted == "auto"
                                                  ? std::vector<std::string>{"crun", "runc"}
                                                  : std::vector<std::string>{wanted};
  std::string tried;
  for (const auto& candidate : candidates) {
    const auto runs = run_program(
        {.argv = {candidate, "--version"}, .limit = seconds(10), .line = [](std::string_view) {}});
    if (runs) return candidate;
    tried += (tried.empty() ? "" : "; ") + runs.error().message;
  }
  return fail(Code::unavailable, "no container runtime works here: " + tried);
}

// A copy that the container's root can reach whatever the rights on the way to the installed one
// are.
Result<std::string> place_agent(const OciOptions& options) {
  const std::string source =
      options.agent.empty() ? own_directory() + "/sandbox-agent" : options.agent;
  std::ifstream in(source, std::ios::binary);
  if (!in) return fail(Code::unavailable, "the agent is missing: " + source);
  const std::string program{std::istreambuf_iterator<char>(in), {}};
  const std::string place = options.run_dir + "/agent";
  if (auto put = write_text(place, program, 0755); !put) return std::unexpected(put.error());
  return place;
}

}  // namespace

Result<std::unique_ptr<sandbox::Driver>> make_oci_driver(const OciOptions& options) {
  auto runtime = find_runtime(options.runtime);
  if (!runtime) return std::unexpected(runtime.error());
  if (auto made = make_directory(options.run_dir, 0711); !made)
    return std::unexpected(made.error());
  if (auto made = make_directory(options.run_dir + "/oci", 0700); !made)
    return std::unexpected(made.error());
  auto agent = place_agent(options);
  if (!agent) return context("driver", agent.error());
  return std::make_unique<OciDriver>(std::move(*runtime), std::move(*agent), options.run_dir);
}

}  // namespace sallyport::driver
