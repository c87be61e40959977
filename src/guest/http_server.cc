// SPDX-License-Identifier: Apache-2.0
#include "guest/http_server.h"

#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "guest/start_request.h"

namespace sallyport::guest {
namespace {

constexpr std::size_t kMaxConnections =
    8;  // one supervisor, and its successor while the old one dies
constexpr std::uint32_t kMaxStreams = 1024;
constexpr std::size_t kMaxBody = kMaxStartRequest;
constexpr std::size_t kMaxPath = 4096;
constexpr std::size_t kReadSize = 64U << 10;

}  // namespace

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Loop& loop, Fd fd, const Serve& serve,
             std::function<void(std::shared_ptr<Connection>)> closed)
      : loop_(loop), fd_(std::move(fd)), serve_(serve), closed_(std::move(closed)) {}
  ~Connection() {
    for (auto& [id, stream] : streams_) leave(stream);
    nghttp2_session_del(session_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void close();

 private:
  struct Stream {
    Request request;
    std::string body;
    std::size_t body_sent = 0;
    std::shared_ptr<BodySource> source;
    bool too_large = false;
    bool answered = false;
  };

  static void leave(Stream& stream) {
    if (!stream.source) return;
    stream.source->on_wake({});
    stream.source->abandoned();
    stream.source.reset();
  }
  static Connection& self(void* user) { return *static_cast<Connection*>(user); }
  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_length, const std::uint8_t* value, std::size_t value_length,
                       std::uint8_t, void* user);
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                     std::size_t length, void* user);
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t, void* user);
  static ssize_t read_body(nghttp2_session*, std::int32_t id, std::uint8_t* out, std::size_t length,
                           std::uint32_t* flags, nghttp2_data_source*, void* user);

  void event();
  bool receive();
  void flush();
  void answer(std::int32_t id, Answer answer);

  Loop& loop_;
  Fd fd_;
  const Serve& serve_;
  std::function<void(std::shared_ptr<Connection>)> closed_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Stream> streams_;
  std::string pending_;  // made by nghttp2, not yet taken by the socket
  std::size_t pending_sent_ = 0;
  std::optional<Loop::TimerId> flush_timer_;
};

void Connection::start() {
  nghttp2_session_callbacks* callbacks = nullptr;
  CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, &on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, &on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &on_close);
  CHECK(nghttp2_session_server_new(&session_, callbacks, this) == 0);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxStreams}};
  CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 1) == 0);
  loop_.watch(fd_.get(), EPOLLIN, [this, keep = shared_from_this()] { event(); });
  flush();
}

int Connection::on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self(user).streams_[frame->hd.stream_id];
  return 0;
}

int Connection::on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                          std::size_t name_length, const std::uint8_t* value,
                          std::size_t value_length, std::uint8_t, void* user) {
  const auto found = self(user).streams_.find(frame->hd.stream_id);
  if (found == self(user).streams_.end()) return 0;
  const std::string_view key(reinterpret_cast<const char*>(name), name_length);
  const std::string_view text(reinterpret_cast<const char*>(value), value_length);
  if (text.size() > kMaxPath) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (key == ":method") found->second.request.method = text;
  if (key == ":path") found->second.request.path = text;
  return 0;
}

int Connection::on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                        std::size_t length, void* user) {
  const auto found = self(user).streams_.find(id);
  if (found == self(user).streams_.end()) return 0;
  auto& stream = found->second;
  if (stream.request.body.size() + length > kMaxBody) {
    stream.too_large = true;
    return 0;
  }
  stream.request.body.append(reinterpret_cast<const char*>(data), length);
  return 0;
}

int Connection::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  const bool carries = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
  if (!carries || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  auto& connection = self(user);
  const std::int32_t id = frame->hd.stream_id;
  const auto found = connection.streams_.find(id);
  if (found == connection.streams_.end()) return 0;
  if (found->second.too_large) {
    connection.answer(id, {.status = 413,
                           .body = R"({"error":{"code":"too_large","message":"body too large"}})",
                           .stream = nullptr});
    return 0;
  }
  connection.serve_(std::move(found->second.request),
                    [weak = connection.weak_from_this(), id](Answer answer) {
                      if (const auto strong = weak.lock()) strong->answer(id, std::move(answer));
                    });
  return 0;
}

int Connection::on_close(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
  auto& streams = self(user).streams_;
  const auto found = streams.find(id);
  if (found == streams.end()) return 0;
  leave(found->second);
  streams.erase(found);
  return 0;
}

ssize_t Connection::read_body(nghttp2_session*, std::int32_t id, std::uint8_t* out,
                              std::size_t length, std::uint32_t* flags, nghttp2_data_source*,
                              void* user) {
  const auto found = self(user).streams_.find(id);
  if (found == self(user).streams_.end()) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  auto& stream = found->second;
  if (stream.source) {
    bool end = false;
    const std::size_t count = stream.source->read({out, length}, end);
    if (end) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return count == 0 && !end ? ssize_t(NGHTTP2_ERR_DEFERRED) : ssize_t(count);
  }
  const std::size_t count =
      stream.body.copy(reinterpret_cast<char*>(out), length, stream.body_sent);
  stream.body_sent += count;
  if (stream.body_sent == stream.body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return ssize_t(count);
}

void Connection::answer(std::int32_t id, Answer answer) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.answered) {
    if (answer.stream) answer.stream->abandoned();
    return;
  }
  auto& stream = found->second;
  stream.answered = true;
  stream.body = std::move(answer.body);
  stream.source = std::move(answer.stream);
  if (stream.source) {
    stream.source->on_wake([this, id] {
      nghttp2_session_resume_data(session_, id);
      if (!flush_timer_)
        flush_timer_ = loop_.after(std::chrono::milliseconds(0), [this] { flush(); });
    });
  }
  std::string status = std::to_string(answer.status);
  std::string type = stream.source ? "application/octet-stream" : "application/json";
  const auto pair = [](std::string_view name, std::string& value) {
    return nghttp2_nv{reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(),
                      NGHTTP2_NV_FLAG_NONE};
  };
  const std::array headers{pair(":status", status), pair("content-type", type)};
  const nghttp2_data_provider provider{.source = {.ptr = nullptr}, .read_callback = &read_body};
  nghttp2_submit_response(session_, id, headers.data(), headers.size(), &provider);
  if (!flush_timer_) flush_timer_ = loop_.after(std::chrono::milliseconds(0), [this] { flush(); });
}

void Connection::event() {
  if (receive()) flush();
}

bool Connection::receive() {
  static std::array<std::uint8_t, kReadSize> buffer;
  const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0 || nghttp2_session_mem_recv(session_, buffer.data(), std::size_t(got)) < 0) {
    close();
    return false;
  }
  return true;
}

void Connection::flush() {
  if (flush_timer_) loop_.cancel(*flush_timer_);
  flush_timer_.reset();
  if (!fd_) return;
  for (;;) {
    if (pending_sent_ == pending_.size()) {
      const std::uint8_t* made = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &made);
      if (size < 0) return close();
      if (size == 0) break;
      pending_.assign(reinterpret_cast<const char*>(made), std::size_t(size));
      pending_sent_ = 0;
    }
    const ssize_t put = ::send(fd_.get(), pending_.data() + pending_sent_,
                               pending_.size() - pending_sent_, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return loop_.change(fd_.get(), EPOLLIN | EPOLLOUT);
    if (put < 0) return close();
    pending_sent_ += std::size_t(put);
  }
  loop_.change(fd_.get(), EPOLLIN);
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0)
    close();
}

void Connection::close() {
  if (!fd_) return;
  const auto keep = shared_from_this();
  if (flush_timer_) loop_.cancel(*flush_timer_);
  flush_timer_.reset();
  loop_.forget(fd_.get());
  fd_.reset();
  for (auto& [id, stream] : streams_) leave(stream);
  streams_.clear();
  closed_(keep);
}

HttpServer::HttpServer(Loop& loop, Fd listener, Serve serve)
    : loop_(loop), listener_(std::move(listener)), serve_(std::move(serve)) {
  ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(listener_.get(), F_SETFD, FD_CLOEXEC);
  loop_.watch(listener_.get(), EPOLLIN, [this] { acceptable(); });
}

HttpServer::~HttpServer() {
  loop_.forget(listener_.get());
  // The loop's handlers own the connections too: they must not outlive what their streams point to.
  for (const auto& connection : std::exchange(connections_, {})) connection->close();
}

void HttpServer::acceptable() {
  Fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!peer || connections_.size() >= kMaxConnections) return;
  auto connection = std::make_shared<Connection>(
      loop_, std::move(peer), serve_, [this](const auto& gone) { connections_.erase(gone); });
  connections_.insert(connection);
  connection->start();
}

}  // namespace sallyport::guest
