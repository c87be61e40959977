// SPDX-License-Identifier: Apache-2.0
#include "driver/agent_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace sallyport::driver {
namespace {

constexpr std::size_t kMaxHeaderFields = 64;  // our agent sends two
constexpr std::size_t kHpackTable = 4096;

std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

nghttp2_nv header(std::string_view name, std::string_view value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

struct AgentSession::Callbacks {
  static Stream* find(void* user, std::int32_t id) {
    auto& streams = static_cast<AgentSession*>(user)->streams_;
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : &found->second;
  }
  static void changed(void* user, std::int32_t id) {
    static_cast<AgentSession*>(user)->changed_.push_back(id);
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    Stream* stream = find(user, frame->hd.stream_id);
    if (stream == nullptr || text_of(name, name_size) != ":status") return 0;
    const std::string_view text = text_of(value, value_size);
    int status = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), status);
    if (error != std::errc{} || end != text.data() + text.size())
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    // 1xx says nothing here; the final status follows. A second final one (trailers have none) is
    // nghttp2's to refuse.
    if (status >= 200) stream->status = status;
    changed(user, frame->hd.stream_id);
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id,
                     const std::uint8_t* data, std::size_t size, void* user) {
    nghttp2_session_consume_connection(session, size);
    Stream* stream = find(user, id);
    if (stream == nullptr) return 0;  // released; nghttp2 was told to reset it
    if (stream->body.size() + size > kStreamWindow) return NGHTTP2_ERR_CALLBACK_FAILURE;
    stream->body += text_of(data, size);
    changed(user, id);
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const bool carries = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (!carries || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    if (Stream* stream = find(user, frame->hd.stream_id)) stream->ended = true;
    changed(user, frame->hd.stream_id);
    return 0;
  }

  // We never send one by ourselves: the peer broke the protocol, and this is the farewell.
  static int on_send(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) static_cast<AgentSession*>(user)->failed_ = true;
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
    Stream* stream = find(user, id);
    if (stream == nullptr) return 0;
    if (!stream->ended || error != NGHTTP2_NO_ERROR) stream->reset = true;
    stream->ended = true;
    changed(user, id);
    return 0;
  }

  static ssize_t read_request(nghttp2_session*, std::int32_t id, std::uint8_t* out,
                              std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                              void* user) {
    Stream* stream = find(user, id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::size_t count =
        stream->request_body.copy(reinterpret_cast<char*>(out), size, stream->request_sent);
    stream->request_sent += count;
    if (stream->request_sent == stream->request_body.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      std::string().swap(stream->request_body);
      stream->request_sent = 0;
    }
    return ssize_t(count);
  }
};

AgentSession::AgentSession() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* options = nullptr;
  CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
  CHECK(nghttp2_option_new(&options) == 0);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Callbacks::on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Callbacks::on_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, &Callbacks::on_send);
  nghttp2_option_set_no_auto_window_update(
      options, 1);  // a window opens when its reader has taken the bytes
  nghttp2_option_set_max_deflate_dynamic_table_size(options, kHpackTable);
  CHECK(nghttp2_session_client_new2(&session_, callbacks, this, options) == 0);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(options);
  const std::array<nghttp2_settings_entry, 4> settings{{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kMaxHeaderFields * 128},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0},
  }};
  CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) ==
        0);
  CHECK(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, 16 << 20) == 0);
}

AgentSession::~AgentSession() { nghttp2_session_del(session_); }

bool AgentSession::receive(Bytes bytes) {
  if (failed_) return false;
  const ssize_t used = nghttp2_session_mem_recv(session_, bytes.data(), bytes.size());
  // A GOAWAY that ends everything, or a broken frame: either way there is no more to hear.
  if (used < 0 || nghttp2_session_want_read(session_) == 0) failed_ = true;
  return !failed_;
}

Bytes AgentSession::next_output() {
  const std::uint8_t* data = nullptr;
  const ssize_t size = nghttp2_session_mem_send(session_, &data);
  if (size < 0) failed_ = true;
  return size > 0 ? Bytes(data, std::size_t(size)) : Bytes{};
}

Result<int> AgentSession::request(std::string_view method, std::string_view path,
                                  std::string body) {
  if (failed_) return fail(Code::unavailable, "the connection to the agent is lost");
  if (streams_.size() >= kMaxAgentStreams)
    return fail(Code::unavailable, "too many requests at once");
  const std::array headers{header(":method", method), header(":scheme", "http"),
                           header(":authority", "agent"), header(":path", path)};
  const nghttp2_data_provider provider{.source = {.ptr = nullptr},
                                       .read_callback = &Callbacks::read_request};
  const std::int32_t id = nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(),
                                                 body.empty() ? nullptr : &provider, nullptr);
  if (id < 0) return fail(Code::unavailable, "the agent takes no more requests");
  streams_[id].request_body = std::move(body);
  return id;
}

int AgentSession::status(int stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second.status;
}

bool AgentSession::ended(int stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() || found->second.ended;
}

bool AgentSession::reset(int stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() || found->second.reset;
}

std::string AgentSession::take_body(int stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return {};
  std::string body = std::exchange(found->second.body, {});
  if (!body.empty() && !found->second.ended)
    nghttp2_session_consume_stream(session_, stream, body.size());
  return body;
}

void AgentSession::release(int stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  if (!found->second.ended)
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
  streams_.erase(found);
}

std::vector<int> AgentSession::take_changed() {
  std::ranges::sort(changed_);
  const auto [first, last] = std::ranges::unique(changed_);
  changed_.erase(first, last);
  return std::exchange(changed_, {});
}

}  // namespace sallyport::driver
