// SPDX-License-Identifier: Apache-2.0
// Records in the file: one byte stream, four bytes length in host order, the bytes.
#include "sandbox/spool.h"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace sallyport::sandbox {
namespace {

struct [[gnu::packed]] Head {
  std::uint8_t stream;
  std::uint32_t size;
};

Result<> read_exactly(int file, void* out, std::size_t size, std::uint64_t at) {
  auto* to = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = ::pread(file, to, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_errno("read of a command's output", got == 0 ? EIO : errno);
    to += got;
    size -= static_cast<std::size_t>(got);
    at += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Spool>> Spool::open(const std::string& directory) {
  Fd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return fail_errno("make a command's output file in " + directory);
  return std::shared_ptr<Spool>(new Spool(std::move(file)));
}

Result<> Spool::append(Output stream, Bytes bytes) {
  while (!bytes.empty()) {
    const Bytes part = bytes.first(std::min(bytes.size(), kChunk));
    Head head{stream == Output::out ? std::uint8_t{1} : std::uint8_t{2},
              static_cast<std::uint32_t>(part.size())};
    const iovec parts[2] = {{&head, sizeof head},
                            {const_cast<std::uint8_t*>(part.data()), part.size()}};
    const ssize_t written = ::pwritev(file_.get(), parts, 2, static_cast<off_t>(end_));
    if (written < 0 && errno == EINTR) continue;
    if (written != static_cast<ssize_t>(sizeof head + part.size())) {
      return fail_errno("write of a command's output", written < 0 ? errno : ENOSPC);
    }
    end_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(part.size());
  }
  free_old();
  was_full_ = full();
  wake_all();
  return {};
}

void Spool::end() {
  ended_ = true;
  wake_all();
}

bool Spool::full() const { return !readers_.empty() && end_ - slowest() > kAhead; }

std::uint64_t Spool::slowest() const {
  std::uint64_t place = end_;
  for (const Reader* reader : readers_) place = std::min(place, reader->at_);
  return place;
}

// Frees whole records from the front until at most kept_ is left, but nothing that a reader still
// wants. In steps of a quarter of that, so that the usual append makes no further system call.
void Spool::free_old() {
  if (end_ - begin_ < kept_ + kept_ / 4) return;
  const std::uint64_t wanted = std::min(end_ - kept_, slowest());
  std::uint64_t place = begin_;
  while (place < wanted) {
    Head head{};
    if (!read_exactly(file_.get(), &head, sizeof head, place)) return;
    const std::uint64_t after = place + sizeof head + head.size;
    if (after > wanted) break;
    place = after;
  }
  if (place == begin_) return;
  (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(place));
  begin_ = place;
}

void Spool::set_kept(std::uint64_t bytes) {
  kept_ = std::clamp(bytes, kLeastKept, kMostKept);
  free_old();
}

void Spool::reader_moved() {
  if (!was_full_ || full()) return;
  was_full_ = false;
  if (drained_) drained_();
}

void Spool::wake_all() {
  for (const Reader* reader : readers_) reader->wake_();
}

Spool::Reader::Reader(std::shared_ptr<Spool> spool, std::function<void()> wake)
    : spool_(std::move(spool)),
      wake_(std::move(wake)),
      at_(spool_->begin_),
      missed_(spool_->begin_ != 0) {
  spool_->readers_.insert(this);
}

Spool::Reader::~Reader() {
  spool_->readers_.erase(this);
  spool_->reader_moved();
}

Result<std::optional<Spool::Chunk>> Spool::Reader::next() {
  if (at_ == spool_->end_) return std::nullopt;
  Head head{};
  if (Result<> done = read_exactly(spool_->file_.get(), &head, sizeof head, at_); !done)
    return std::unexpected(done.error());
  Chunk chunk{head.stream == 1 ? Output::out : Output::err, std::string(head.size, '\0')};
  if (Result<> done =
          read_exactly(spool_->file_.get(), chunk.bytes.data(), head.size, at_ + sizeof head);
      !done) {
    return std::unexpected(done.error());
  }
  at_ += sizeof head + head.size;
  spool_->reader_moved();
  return chunk;
}

void Spool::Reader::skip() {
  at_ = spool_->end_;
  spool_->reader_moved();
}

bool Spool::Reader::ended() const { return spool_->ended_ && at_ == spool_->end_; }

}  // namespace sallyport::sandbox
