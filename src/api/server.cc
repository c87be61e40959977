// SPDX-License-Identifier: Apache-2.0
#include "api/server.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <variant>

#include "base/address.h"
#include "base/fd.h"
#include "base/log.h"

namespace sallyport::api {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using Stream = beast::basic_stream<asio::generic::stream_protocol>;
using boost::system::error_code;

constexpr std::size_t kMaxHeader = 64U << 10;

auto token(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

}  // namespace

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  using UnixAcceptor = asio::local::stream_protocol::acceptor;
  using TcpAcceptor = asio::ip::tcp::acceptor;

  Impl(asio::io_context& io, const Router& routes, ServerSettings config)
      : context(io), router(routes), settings(std::move(config)) {}

  asio::io_context& context;
  const Router& router;
  ServerSettings settings;
  std::variant<std::monostate, UnixAcceptor, TcpAcceptor> acceptor;
  std::string socket_path;
  std::size_t connections = 0;
  bool stopping = false;

  Result<> listen_unix(const std::string& path);
  Result<> listen_tcp(const std::string& address);
  template <class Acceptor>
  asio::awaitable<void> accept_loop(std::shared_ptr<Impl> self, Acceptor& from);
  asio::awaitable<void> serve(std::shared_ptr<Impl> self,
                              asio::generic::stream_protocol::socket socket);
  asio::awaitable<bool> serve_one(Stream& stream, beast::flat_buffer& buffer);
  asio::awaitable<Reply> dispatch(const http::request<http::string_body>& request,
                                  const Router::Found& found, Target target, Principal principal);
};

namespace {

// Streams are chunked; HTTP/1.0 clients get the end of the connection instead.
class ChunkOutput : public Output {
 public:
  ChunkOutput(Stream& stream, std::chrono::seconds limit, bool chunked)
      : stream_(stream), limit_(limit), chunked_(chunked) {}

  asio::awaitable<Result<>> write(std::string text) override {
    if (text.empty()) co_return Result<>();
    error_code error;
    stream_.expires_after(limit_);
    const std::string framed =
        chunked_ ? fmt::format("{:x}\r\n", text.size()) + text + "\r\n" : std::move(text);
    co_await asio::async_write(stream_, asio::buffer(framed), token(error));
    if (error) co_return fail(Code::unavailable, "client: " + error.message());
    co_return Result<>();
  }

 private:
  Stream& stream_;
  std::chrono::seconds limit_;
  bool chunked_;
};

asio::awaitable<bool> send_reply(Stream& stream, Reply& reply, unsigned version, bool keep_alive,
                                 std::chrono::seconds limit) {
  error_code error;
  stream.expires_after(limit);
  if (!reply.stream) {
    http::response<http::string_body> response(static_cast<http::status>(reply.status), version);
    response.set(http::field::content_type, reply.content_type);
    for (const auto& [name, value] : reply.headers) response.set(name, value);
    response.keep_alive(keep_alive);
    response.body() = serialize_ascii(reply.body);
    response.prepare_payload();
    co_await http::async_write(stream, response, token(error));
    co_return !error && keep_alive;
  }
  const bool chunked = version >= 11;
  http::response<http::empty_body> response(static_cast<http::status>(reply.status), version);
  response.set(http::field::content_type, reply.content_type);
  response.keep_alive(keep_alive && chunked);
  response.chunked(chunked);
  http::response_serializer<http::empty_body> serializer(response);
  co_await http::async_write_header(stream, serializer, token(error));
  if (error) co_return false;
  ChunkOutput output(stream, limit, chunked);
  co_await reply.stream(output);
  if (!chunked) co_return false;
  stream.expires_after(limit);
  co_await asio::async_write(stream, asio::buffer(std::string_view("0\r\n\r\n")), token(error));
  co_return !error && keep_alive;
}

}  // namespace

// Bound under another name and renamed, so that whoever finds the socket finds it listening and
// with its final mode.
Result<> Server::Impl::listen_unix(const std::string& path) {
  const std::string fresh = path + ".new";
  if (fresh.size() >= sizeof(sockaddr_un::sun_path))
    return fail(Code::invalid, "listen: the path is too long for a unix socket");
  (void)::unlink(fresh.c_str());
  const mode_t mask = ::umask(0177);
  error_code error;
  UnixAcceptor made(context);
  made.open({}, error);
  if (!error) made.bind(fresh, error);
  (void)::umask(mask);
  if (!error) made.listen(128, error);
  if (error) return fail(Code::internal, fmt::format("listen on {}: {}", path, error.message()));
  gid_t owner = 0;
  if (!settings.group.empty()) {
    const group* entry = ::getgrnam(settings.group.c_str());
    if (entry == nullptr)
      return fail(Code::invalid,
                  fmt::format("socket_group: no group '{}' on this machine", settings.group));
    owner = entry->gr_gid;
  }
  // Without root (tests) the socket keeps its maker as owner.
  if (::geteuid() == 0 && ::chown(fresh.c_str(), 0, owner) != 0)
    return fail_errno("chown " + fresh);
  if (::chmod(fresh.c_str(), 0660) != 0) return fail_errno("chmod " + fresh);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return fail_errno("rename " + fresh);
  socket_path = path;
  acceptor = std::move(made);
  return {};
}

Result<> Server::Impl::listen_tcp(const std::string& address) {
  const auto endpoint = Endpoint::parse(address);
  if (!endpoint)
    return fail(Code::invalid, fmt::format("listen: '{}' is no address:port", address));
  if (settings.tokens.empty())
    return fail(Code::invalid, "listen: TCP needs at least one entry in tokens");
  error_code error;
  const auto host = asio::ip::make_address(endpoint->address.to_string(), error);
  TcpAcceptor made(context);
  if (!error) made.open(host.is_v4() ? asio::ip::tcp::v4() : asio::ip::tcp::v6(), error);
  if (!error) made.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) made.bind({host, endpoint->port}, error);
  if (!error) made.listen(128, error);
  if (error) return fail(Code::internal, fmt::format("listen on {}: {}", address, error.message()));
  acceptor = std::move(made);
  return {};
}

template <class Acceptor>
asio::awaitable<void> Server::Impl::accept_loop(std::shared_ptr<Impl> self, Acceptor& from) {
  asio::steady_timer pause(context);
  while (!stopping) {
    error_code error;
    asio::generic::stream_protocol::socket socket(context);
    co_await from.async_accept(socket, token(error));
    if (stopping) co_return;
    if (error) {  // out of descriptors, most likely: not a reason to spin
      log::warn("accept failed", {{"error", error.message()}});
      pause.expires_after(std::chrono::milliseconds(200));
      co_await pause.async_wait(token(error));
      continue;
    }
    if (connections >= settings.max_connections) continue;  // closes it
    ++connections;
    // Detached from here, but not without an owner: it keeps `self`, and every wait in it has a
    // deadline.
    asio::co_spawn(context, serve(self, std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> Server::Impl::serve(std::shared_ptr<Impl> self,
                                          asio::generic::stream_protocol::socket socket) {
  Stream stream(std::move(socket));
  beast::flat_buffer buffer(kMaxHeader + kPolicyBody);
  try {
    while (!stopping && co_await serve_one(stream, buffer)) {
    }
  } catch (const std::exception& error) {  // a bug of ours costs one connection
    log::error("connection ended by an exception", {{"error", error.what()}});
  }
  error_code ignored;
  stream.socket().shutdown(asio::socket_base::shutdown_both, ignored);
  --connections;
}

// Reads one request and answers it. False: close the connection.
asio::awaitable<bool> Server::Impl::serve_one(Stream& stream, beast::flat_buffer& buffer) {
  error_code error;
  if (buffer.size() == 0) {
    stream.expires_after(settings.idle_limit);
    const auto space = buffer.prepare(4096);
    const std::size_t size = co_await stream.async_read_some(space, token(error));
    if (error) co_return false;
    buffer.commit(size);
  }
  http::request_parser<http::string_body> parser;
  parser.header_limit(kMaxHeader);
  parser.body_limit(kPolicyBody);
  stream.expires_after(settings.header_limit);
  co_await http::async_read_header(stream, buffer, parser, token(error));
  const unsigned version = error ? 11 : parser.get().version();
  if (error) {
    if (error == http::error::header_limit) {
      Reply reply = error_reply(431, "bad_request", "The request header is too large.");
      co_await send_reply(stream, reply, version, false, settings.write_limit);
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
               error != http::error::end_of_stream) {
      Reply reply = error_reply(400, "bad_request", "This is not HTTP/1.1: " + error.message());
      co_await send_reply(stream, reply, version, false, settings.write_limit);
    }
    co_return false;
  }
  const auto target = parse_target({parser.get().target().data(), parser.get().target().size()});
  Router::Found found;
  if (target)
    found = router.find({parser.get().method_string().data(), parser.get().method_string().size()},
                        target->path);

  std::optional<Principal> principal;
  if (std::holds_alternative<TcpAcceptor>(acceptor)) {
    const auto header = parser.get()[http::field::authorization];
    principal = authenticate(settings.tokens, {header.data(), header.size()});
  } else {
    principal = Principal{std::nullopt, "unix socket"};
  }
  // Whatever is refused here is refused before its body is read.
  std::optional<Reply> refused;
  if (!principal)
    refused = error_reply(401, "unauthorized", "A valid bearer token is required.");
  else if (!target)
    refused = error_reply(400, "bad_request", "The request target is malformed.");
  else if (found.route == nullptr && found.other_method)
    refused = error_reply(405, "method_not_allowed", "This path has no such method.");
  else if (found.route == nullptr)
    refused =
        error_reply(404, "not_found",
                    fmt::format("{} is not served by this version of Sallyport.", target->path));
  if (refused) {
    const bool has_body = parser.content_length().value_or(0) > 0 || parser.chunked();
    co_return co_await send_reply(stream, *refused, version, parser.get().keep_alive() && !has_body,
                                  settings.write_limit);
  }
  const auto too_large = [&] {
    return error_reply(413, "bad_request",
                       fmt::format("The body is larger than {} bytes.", found.route->max_body));
  };
  if (parser.content_length().value_or(0) >
      found.route->max_body) {  // known at once, so do not wait for it
    Reply reply = too_large();
    co_await send_reply(stream, reply, version, false, settings.write_limit);
    co_return false;
  }
  parser.body_limit(found.route->max_body);
  stream.expires_after(settings.body_limit);
  const auto expect = parser.get()[http::field::expect];
  if (beast::iequals(expect, "100-continue")) {
    co_await asio::async_write(
        stream, asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")), token(error));
  }
  if (!error) co_await http::async_read(stream, buffer, parser, token(error));
  if (error == http::error::body_limit) {
    Reply reply = too_large();
    co_await send_reply(stream, reply, version, false, settings.write_limit);
    co_return false;
  }
  if (error) co_return false;
  stream.expires_never();  // a handler may wait for a sandbox; writing has its own limit
  const http::request<http::string_body> request = parser.release();
  Reply reply = co_await dispatch(request, found, *target, *principal);
  const auto limit = reply.stream ? settings.stream_limit : settings.write_limit;
  co_return co_await send_reply(stream, reply, version, request.keep_alive(), limit);
}

asio::awaitable<Reply> Server::Impl::dispatch(const http::request<http::string_body>& request,
                                              const Router::Found& found, Target target,
                                              Principal principal) {
  Call call;
  call.method = std::string(request.method_string());
  call.path = std::move(target.path);
  call.params = found.params;
  call.query = std::move(target.query);
  call.body = request.body();
  call.principal = std::move(principal);
  try {
    Reply reply = co_await found.route->handler(call);
    log::debug("request", {{"method", call.method},
                           {"path", call.path},
                           {"status", reply.status},
                           {"by", call.principal.name}});
    co_return reply;
  } catch (const std::exception& error) {
    log::error("request ended by an exception",
               {{"method", call.method}, {"path", call.path}, {"error", error.what()}});
  }
  co_return error_reply(500, "internal_error",
                        "The request could not be served; the daemon's log says why.");
}

Server::Server(asio::io_context& context, const Router& router, ServerSettings settings)
    : impl_(std::make_shared<Impl>(context, router, std::move(settings))) {}

Server::~Server() { stop(); }

Result<> Server::start() {
  const std::string& listen = impl_->settings.listen;
  Result<> ready;
  if (listen.starts_with("unix:"))
    ready = impl_->listen_unix(listen.substr(5));
  else if (listen.starts_with("tcp:"))
    ready = impl_->listen_tcp(listen.substr(4));
  else
    return fail(Code::invalid, "listen: must be unix:/path or tcp:address:port");
  if (!ready) return ready;
  if (auto* unix_socket = std::get_if<Impl::UnixAcceptor>(&impl_->acceptor)) {
    asio::co_spawn(impl_->context, impl_->accept_loop(impl_, *unix_socket), asio::detached);
  } else if (auto* tcp = std::get_if<Impl::TcpAcceptor>(&impl_->acceptor)) {
    asio::co_spawn(impl_->context, impl_->accept_loop(impl_, *tcp), asio::detached);
  }
  return {};
}

void Server::stop() {
  asio::dispatch(impl_->context, [impl = impl_] {
    if (impl->stopping) return;
    impl->stopping = true;
    error_code ignored;
    if (auto* unix_socket = std::get_if<Impl::UnixAcceptor>(&impl->acceptor))
      unix_socket->close(ignored);
    if (auto* tcp = std::get_if<Impl::TcpAcceptor>(&impl->acceptor)) tcp->close(ignored);
    if (!impl->socket_path.empty()) (void)::unlink(impl->socket_path.c_str());
  });
}

std::uint16_t Server::port() const {
  const auto* tcp = std::get_if<Impl::TcpAcceptor>(&impl_->acceptor);
  return tcp == nullptr ? std::uint16_t{0} : tcp->local_endpoint().port();
}

}  // namespace sallyport::api
