#pragma once
// What nodes call themselves in heartbeats and registrations.

#include <string_view>

namespace fulmar {

inline constexpr std::string_view kProgramVersion = "0.1.0";   // of the project; cmd/fulmar/main.cc compares

}  // namespace fulmar
