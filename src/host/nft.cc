// SPDX-License-Identifier: Apache-2.0
#include "host/nft.h"

#include <nftables/libnftables.h>

#include <memory>
#include <mutex>

namespace sallyport::host {

Result<> run_nft(const std::string& commands) {
  // libnftables does not promise that two contexts may run at once (its parser and symbol tables
  // have static parts).
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const std::unique_ptr<nft_ctx, void (*)(nft_ctx*)> context(nft_ctx_new(NFT_CTX_DEFAULT),
                                                             nft_ctx_free);
  if (!context) return fail(Code::unavailable, "nft: cannot make a context");
  nft_ctx_buffer_output(context.get());
  nft_ctx_buffer_error(context.get());
  if (nft_run_cmd_from_buffer(context.get(), commands.c_str()) != 0) {
    std::string_view why = nft_ctx_get_error_buffer(context.get());
    if (why.size() > 1000)
      why = why.substr(0, 1000);  // it quotes the command, which may be a whole map
    return fail(Code::internal, "nft: " + std::string(why));
  }
  return {};
}

}  // namespace sallyport::host
