// SPDX-License-Identifier: Apache-2.0
// output is byte-exact for every reader, an unwatched command never blocks, a watched
// one is never overrun.
#include "sandbox/spool.h"

#include <gtest/gtest.h>

namespace sallyport::sandbox {
namespace {

class SpoolTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Spool::open("/tmp");
    ASSERT_TRUE(opened) << opened.error().message;
    spool_ = *opened;
  }
  void append(Output stream, const std::string& text) {
    ASSERT_TRUE(spool_->append(stream, as_bytes(text)));
  }
  static std::string read_all(Spool::Reader& reader, Output stream) {
    std::string out;
    while (true) {
      auto chunk = reader.next();
      EXPECT_TRUE(chunk);
      if (!chunk || !*chunk) return out;
      if ((*chunk)->stream == stream) out += (*chunk)->bytes;
    }
  }
  std::shared_ptr<Spool> spool_;
};

TEST_F(SpoolTest, several_readers_get_everything_from_the_beginning) {
  append(Output::out, "one");
  Spool::Reader early(spool_, [] {});
  append(Output::err, "two");
  append(Output::out, "three");
  Spool::Reader late(spool_, [] {});
  spool_->end();
  EXPECT_EQ(read_all(early, Output::out), "onethree");
  EXPECT_TRUE(early.ended());
  EXPECT_EQ(read_all(late, Output::err), "two");
  EXPECT_FALSE(late.missed());
}

TEST_F(SpoolTest, readers_are_woken_by_output_and_by_the_end) {
  int woken = 0;
  Spool::Reader reader(spool_, [&] { ++woken; });
  append(Output::out, "x");
  spool_->end();
  EXPECT_EQ(woken, 2);
  EXPECT_FALSE(reader.ended());  // there is still something to read
  EXPECT_EQ(read_all(reader, Output::out), "x");
  EXPECT_TRUE(reader.ended());
}

TEST_F(SpoolTest, without_readers_only_the_last_part_is_kept) {
  const std::string megabyte(1U << 20, 'a');
  for (std::uint64_t i = 0; i < Spool::kMostKept / megabyte.size() + 24; ++i) {
    append(Output::out, megabyte);
    ASSERT_FALSE(spool_->full());
  }
  append(Output::out, "end");
  Spool::Reader reader(spool_, [] {});
  EXPECT_TRUE(reader.missed());
  const std::string kept = read_all(reader, Output::out);
  EXPECT_TRUE(kept.ends_with("end"));
  EXPECT_GE(kept.size(), Spool::kMostKept - (1U << 20));
  EXPECT_LE(kept.size(), Spool::kMostKept + Spool::kMostKept / 4 + (1U << 20));
}

TEST_F(SpoolTest, less_is_kept_when_the_budget_is_shared) {
  append(Output::out, std::string(8U << 20, 'a'));
  spool_->set_kept(Spool::kLeastKept);
  Spool::Reader reader(spool_, [] {});
  EXPECT_LE(read_all(reader, Output::out).size(), Spool::kLeastKept);
  EXPECT_TRUE(reader.missed());
}

TEST_F(SpoolTest, a_slow_reader_fills_it_and_is_never_overrun) {
  int drained = 0;
  spool_->set_drained([&] { ++drained; });
  auto reader = std::make_unique<Spool::Reader>(spool_, [] {});
  const std::string megabyte(1U << 20, 'b');
  std::uint64_t written = 0;
  while (!spool_->full()) {
    append(Output::out, megabyte);
    written += megabyte.size();
    ASSERT_LE(written, Spool::kAhead + (2U << 20));
  }
  EXPECT_EQ(read_all(*reader, Output::out).size(), written);
  EXPECT_EQ(drained, 1);
  EXPECT_FALSE(spool_->full());
}

TEST_F(SpoolTest, a_reader_that_leaves_frees_the_command) {
  int drained = 0;
  spool_->set_drained([&] { ++drained; });
  {
    Spool::Reader reader(spool_, [] {});
    while (!spool_->full()) append(Output::out, std::string(1U << 20, 'c'));
  }
  EXPECT_EQ(drained, 1);
}

}  // namespace
}  // namespace sallyport::sandbox
