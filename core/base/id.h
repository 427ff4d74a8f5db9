#pragma once
// The templates behind every strong id, offset and count. An offset is a place, a count is a distance: offset + count is an offset,
// offset - offset is a count, and nothing else adds up.

#include <compare>
#include <cstdint>
#include <fmt/format.h>

namespace fulmar {

template <class Tag, class Rep = uint64_t>
class Id {
 public:
  using rep = Rep;
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Rep value_{};
};

template <class Tag, class Rep = uint64_t>
class Count {
 public:
  using rep = Rep;
  constexpr Count() = default;
  constexpr explicit Count(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Count, Count) = default;
  friend constexpr Count operator+(Count a, Count b) { return Count(a.value_ + b.value_); }
  friend constexpr Count operator-(Count a, Count b) { return Count(a.value_ - b.value_); }
  constexpr Count& operator+=(Count b) { value_ += b.value_; return *this; }

 private:
  Rep value_{};
};

template <class Tag, class Distance>
class Offset {
 public:
  using rep = typename Distance::rep;
  constexpr Offset() = default;
  constexpr explicit Offset(rep value) : value_(value) {}
  constexpr rep value() const { return value_; }
  friend constexpr auto operator<=>(Offset, Offset) = default;
  friend constexpr Offset operator+(Offset a, Distance d) { return Offset(a.value_ + d.value()); }
  friend constexpr Offset operator-(Offset a, Distance d) { return Offset(a.value_ - d.value()); }
  friend constexpr Distance operator-(Offset a, Offset b) { return Distance(a.value_ - b.value_); }
  constexpr Offset& operator+=(Distance d) { value_ += d.value(); return *this; }

 private:
  rep value_{};
};

}  // namespace fulmar

template <class Tag, class Rep>
struct fmt::formatter<fulmar::Id<Tag, Rep>> : fmt::formatter<Rep> {
  template <class C> auto format(fulmar::Id<Tag, Rep> v, C& c) const { return fmt::formatter<Rep>::format(v.value(), c); }
};
template <class Tag, class Rep>
struct fmt::formatter<fulmar::Count<Tag, Rep>> : fmt::formatter<Rep> {
  template <class C> auto format(fulmar::Count<Tag, Rep> v, C& c) const { return fmt::formatter<Rep>::format(v.value(), c); }
};
template <class Tag, class D>
struct fmt::formatter<fulmar::Offset<Tag, D>> : fmt::formatter<typename D::rep> {
  template <class C> auto format(fulmar::Offset<Tag, D> v, C& c) const { return fmt::formatter<typename D::rep>::format(v.value(), c); }
};
