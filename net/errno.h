#pragma once
// What the kernel says, in our words: an errno as the Errc some caller acts on, with a sentence for people.

#include <string_view>

#include "core/base/result.h"

namespace fulmar::net {

// "cannot <what>: <what the kernel says>", for instance what = "create /store/commitlog/0". `code` is a positive errno.
Error file_error(int code, std::string_view what);
// For sockets; takes libuv's negative codes. `what` as above.
Error network_error(int uv_code, std::string_view what);

}  // namespace fulmar::net
