#include "sim/profile.h"

namespace fulmar::sim {

namespace {

// -ln(1 - (i + 1/2) / 256) * 1024: an exponential of mean 1024 by its quantiles. Integers, because floats differ between builds.
constexpr std::array<uint16_t, 256> kExponential{
    2, 6, 10, 14, 18, 22, 26, 30, 35, 39, 43, 47, 51, 55, 60, 64,
    68, 73, 77, 81, 85, 90, 94, 99, 103, 107, 112, 116, 121, 125, 130, 134,
    139, 144, 148, 153, 158, 162, 167, 172, 176, 181, 186, 191, 196, 200, 205, 210,
    215, 220, 225, 230, 235, 240, 245, 250, 255, 260, 266, 271, 276, 281, 287, 292,
    297, 303, 308, 313, 319, 324, 330, 335, 341, 347, 352, 358, 364, 369, 375, 381,
    387, 392, 398, 404, 410, 416, 422, 428, 434, 441, 447, 453, 459, 465, 472, 478,
    484, 491, 497, 504, 510, 517, 524, 530, 537, 544, 551, 558, 565, 572, 579, 586,
    593, 600, 607, 614, 622, 629, 636, 644, 651, 659, 667, 674, 682, 690, 698, 706,
    714, 722, 730, 738, 746, 755, 763, 772, 780, 789, 797, 806, 815, 824, 833, 842,
    851, 860, 870, 879, 889, 898, 908, 917, 927, 937, 947, 957, 968, 978, 988, 999,
    1010, 1020, 1031, 1042, 1054, 1065, 1076, 1088, 1099, 1111, 1123, 1135, 1147, 1160, 1172, 1185,
    1197, 1210, 1224, 1237, 1250, 1264, 1278, 1292, 1306, 1321, 1335, 1350, 1365, 1380, 1396, 1412,
    1428, 1444, 1460, 1477, 1494, 1512, 1529, 1547, 1565, 1584, 1603, 1622, 1642, 1662, 1683, 1704,
    1725, 1747, 1769, 1792, 1815, 1839, 1863, 1888, 1914, 1940, 1967, 1995, 2023, 2052, 2082, 2113,
    2145, 2179, 2213, 2248, 2285, 2322, 2362, 2403, 2445, 2490, 2537, 2585, 2637, 2690, 2747, 2808,
    2872, 2940, 3013, 3092, 3177, 3270, 3373, 3487, 3615, 3762, 3933, 4138, 4395, 4740, 5263, 6388,
};

}  // namespace

Duration Latency::draw(Prng& prng) const {
  Duration out = base;
  if (mean.ns > 0) out.ns += static_cast<int64_t>(static_cast<__int128>(mean.ns) * kExponential[prng.below(256)] / 1024);
  if (tail.numerator > 0 && prng.chance(tail)) out.ns += static_cast<int64_t>(prng.below(static_cast<uint64_t>(tail_max.ns) + 1));
  return out;
}

const char* to_string(ImagePattern pattern) {
  switch (pattern) {
    case ImagePattern::None: return "none";
    case ImagePattern::All: return "all";
    case ImagePattern::Prefix: return "prefix";
    case ImagePattern::Suffix: return "suffix";
    case ImagePattern::OneHole: return "one-hole";
    case ImagePattern::OneOnly: return "one-only";
    case ImagePattern::Alternate: return "alternate";
    case ImagePattern::Reverse: return "reverse";
    case ImagePattern::Random: return "random";
    case ImagePattern::SectorTear: return "sector-tear";
    case ImagePattern::Intermediate: return "intermediate";
  }
  return "?";
}

}  // namespace fulmar::sim
