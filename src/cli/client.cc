// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations run to their end one at a time: Beast has deadlines only for those.
#include "cli/client.h"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

namespace sallyport::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::seconds kConnectTime{10};
constexpr std::chrono::minutes kAnswerTime{10};  // creating or stopping a sandbox may take a while

template <class Stream>
class Exchange {
 public:
  Exchange() : stream_(io_) {}

  Stream& stream() { return stream_; }
  asio::io_context& io() { return io_; }

  // Runs one operation to its end. `start` begins it with the handler it is given.
  template <class Start>
  ErrorCode run(const Start& start) {
    ErrorCode result = asio::error::operation_aborted;
    start([&result](ErrorCode error, auto&&...) { result = error; });
    io_.restart();
    io_.run();
    return result;
  }

  ErrorCode send(const http::request<http::string_body>& request) {
    stream_.expires_after(kAnswerTime);
    return run([&](auto handler) { http::async_write(stream_, request, handler); });
  }
  ErrorCode read_header(http::response_parser<http::string_body>& parser) {
    stream_.expires_after(kAnswerTime);
    return run([&](auto handler) { http::async_read_header(stream_, buffer_, parser, handler); });
  }
  ErrorCode read_all(http::response_parser<http::string_body>& parser) {
    stream_.expires_after(kAnswerTime);
    return run([&](auto handler) { http::async_read(stream_, buffer_, parser, handler); });
  }
  // Whatever comes next, however long it takes: a command may be silent for hours.
  ErrorCode read_some(http::response_parser<http::string_body>& parser) {
    stream_.expires_never();
    return run([&](auto handler) { http::async_read_some(stream_, buffer_, parser, handler); });
  }

 private:
  asio::io_context io_;
  Stream stream_;
  beast::flat_buffer buffer_;
};

using UnixStream = beast::basic_stream<asio::local::stream_protocol>;
using TcpStream = beast::tcp_stream;

ErrorCode open(Exchange<UnixStream>& exchange, const ApiAddress& address) {
  exchange.stream().expires_after(kConnectTime);
  const asio::local::stream_protocol::endpoint endpoint(address.unix_path);
  return exchange.run([&](auto handler) { exchange.stream().async_connect(endpoint, handler); });
}

ErrorCode open(Exchange<TcpStream>& exchange, const ApiAddress& address) {
  asio::ip::tcp::resolver resolver(exchange.io());
  ErrorCode error;
  const auto found = resolver.resolve(address.host, address.port, error);
  if (error) return error;
  exchange.stream().expires_after(kConnectTime);
  return exchange.run([&](auto handler) { exchange.stream().async_connect(found, handler); });
}

std::unexpected<Error> unreachable(const ApiAddress& address, const ErrorCode& error) {
  std::string message =
      fmt::format("cannot reach sandboxd at {}: {}", address.text, error.message());
  if (!address.unix_path.empty() && error == boost::system::errc::permission_denied) {
    message += "\nThe socket belongs to root: run this with sudo.";
  } else {
    message +=
        "\nIs the daemon running? Start it with: sudo sandboxd"
        "\nIf it listens elsewhere, say so with --api ADDRESS or SALLYPORT_API.";
  }
  return fail(Code::unavailable, std::move(message));
}

// {"error":{"code","message"}}, or what can be said without it.
Error api_error(unsigned status, std::string_view body) {
  std::string message = fmt::format("the API answered with status {}", status);
  if (const auto parsed = parse_json(body, {.max_bytes = kMaxAnswer});
      parsed && parsed->is_object()) {
    const auto* error = parsed->get_object().if_contains("error");
    const auto* text = error != nullptr && error->is_object()
                           ? error->get_object().if_contains("message")
                           : nullptr;
    if (text != nullptr && text->is_string()) message = std::string(text->get_string());
  }
  Code code = Code::internal;
  if (status == 400) code = Code::invalid;
  if (status == 401 || status == 403) code = Code::denied;
  if (status == 404) code = Code::not_found;
  if (status == 409 || status == 410 || status == 422) code = Code::conflict;
  return {code, std::move(message)};
}

http::request<http::string_body> make_request(std::string_view method, const std::string& target,
                                              const ApiAddress& address, const std::string& token,
                                              const std::optional<json::value>& body) {
  http::request<http::string_body> request(http::string_to_verb({method.data(), method.size()}),
                                           target, 11);
  request.set(http::field::host, address.unix_path.empty() ? address.host : "localhost");
  request.set(http::field::user_agent, "sallyport-cli");
  request.set(http::field::connection, "close");
  if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
  if (body) {
    request.set(http::field::content_type, "application/json");
    request.body() = serialize_ascii(*body);
  }
  request.prepare_payload();
  return request;
}

template <class Stream>
Result<json::value> call_over(const ApiAddress& address,
                              const http::request<http::string_body>& request) {
  Exchange<Stream> exchange;
  if (const ErrorCode error = open(exchange, address)) return unreachable(address, error);
  ErrorCode error = exchange.send(request);
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxAnswer);
  if (!error) error = exchange.read_all(parser);
  if (error)
    return fail(Code::unavailable,
                fmt::format("no whole answer from {}: {}", address.text, error.message()));
  const auto& answer = parser.get();
  const std::string& body = answer.body();
  if (answer.result_int() / 100 != 2) return std::unexpected(api_error(answer.result_int(), body));
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) return json::object{};
  auto value = parse_json(body, {.max_bytes = kMaxAnswer, .max_depth = 64});
  if (!value) return context("the API's answer", value.error());
  return value;
}

// Cuts what has come into lines; the rest waits for its end.
class Lines {
 public:
  explicit Lines(const Client::OnLine& on_line) : on_line_(on_line) {}

  // False: the callback wants no more.
  Result<bool> add(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      rest_ += bytes.substr(0, end);
      if (rest_.size() > kMaxLine)
        return fail(Code::internal, "a line of the API's answer is too long");
      if (end == std::string_view::npos) return true;
      bytes.remove_prefix(end + 1);
      const std::string line = std::exchange(rest_, {});
      if (!line.empty() && line != "\r" && !on_line_(line)) return false;
    }
    return true;
  }
  Result<bool> finish() { return rest_.empty() ? Result<bool>(true) : add("\n"); }

 private:
  const Client::OnLine& on_line_;
  std::string rest_;
};

template <class Stream>
Result<> stream_over(const ApiAddress& address, const http::request<http::string_body>& request,
                     const Client::OnLine& on_line) {
  Exchange<Stream> exchange;
  if (const ErrorCode error = open(exchange, address)) return unreachable(address, error);
  const auto broken = [&](const ErrorCode& error) {
    return fail(Code::unavailable,
                fmt::format("the connection to {} broke: {}", address.text, error.message()));
  };
  if (const ErrorCode error = exchange.send(request)) return broken(error);
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  if (const ErrorCode error = exchange.read_header(parser)) return broken(error);
  if (parser.get().result_int() / 100 != 2) {
    parser.body_limit(kMaxAnswer);
    if (!parser.is_done()) {
      if (const ErrorCode error = exchange.read_all(parser)) return broken(error);
    }
    return std::unexpected(api_error(parser.get().result_int(), parser.get().body()));
  }
  Lines lines(on_line);
  for (;;) {
    const std::string bytes = std::exchange(parser.get().body(), {});
    const auto more = lines.add(bytes);
    if (!more) return std::unexpected(more.error());
    if (!*more) return {};
    if (parser.is_done()) break;
    if (const ErrorCode error = exchange.read_some(parser)) return broken(error);
  }
  const auto last = lines.finish();
  if (!last) return std::unexpected(last.error());
  return {};
}

}  // namespace

Result<ApiAddress> ApiAddress::parse(std::string_view text) {
  ApiAddress address;
  address.text = std::string(text);
  if (text.starts_with("unix:")) {
    text.remove_prefix(5);
    while (text.starts_with("//")) text.remove_prefix(1);
    address.unix_path = std::string(text);
    // sun_path, with its NUL.
    if (text.empty() || text.size() > 107)
      return fail(Code::invalid, fmt::format("'{}' names no usable socket path", address.text));
    return address;
  }
  if (!text.starts_with("http://")) {
    return fail(Code::invalid,
                fmt::format("'{}' is neither unix:/path nor http://host:port", address.text));
  }
  text.remove_prefix(7);
  if (text.ends_with('/')) text.remove_suffix(1);
  std::string_view host = text;
  std::string_view port = "80";
  const auto bracket = text.rfind(']');
  const auto colon = text.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || port.empty() || host.find('/') != std::string_view::npos ||
      port.find_first_not_of("0123456789") != std::string_view::npos) {
    return fail(Code::invalid,
                fmt::format("'{}' is neither unix:/path nor http://host:port", address.text));
  }
  address.host = std::string(host);
  address.port = std::string(port);
  return address;
}

Result<json::value> Client::call(std::string_view method, const std::string& target,
                                 const std::optional<json::value>& body) const {
  const auto request = make_request(method, target, address_, token_, body);
  return address_.unix_path.empty() ? call_over<TcpStream>(address_, request)
                                    : call_over<UnixStream>(address_, request);
}

Result<> Client::stream(std::string_view method, const std::string& target,
                        const std::optional<json::value>& body, const OnLine& on_line) const {
  const auto request = make_request(method, target, address_, token_, body);
  return address_.unix_path.empty() ? stream_over<TcpStream>(address_, request, on_line)
                                    : stream_over<UnixStream>(address_, request, on_line);
}

std::string encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace sallyport::cli
