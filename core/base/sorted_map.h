#pragma once
// Flat ordered map: the map we iterate. For tables of up to a few thousand entries that are read far more often than changed; larger
// ones are std::map.

#include <algorithm>
#include <utility>
#include <vector>

namespace fulmar {

template <class Key, class Value>
class SortedMap {
 public:
  using value_type = std::pair<Key, Value>;
  template <class K> Value* find(const K& key) {
    auto it = lower(key);
    return it != items_.end() && it->first == key ? &it->second : nullptr;
  }
  template <class K> const Value* find(const K& key) const { return const_cast<SortedMap*>(this)->find(key); }
  template <class K> bool contains(const K& key) const { return find(key) != nullptr; }
  Value& operator[](const Key& key) {
    auto it = lower(key);
    if (it == items_.end() || it->first != key) it = items_.insert(it, value_type(key, Value{}));
    return it->second;
  }
  template <class K> bool erase(const K& key) {
    auto it = lower(key);
    if (it == items_.end() || it->first != key) return false;
    items_.erase(it);
    return true;
  }
  template <class Predicate> size_t erase_if(Predicate predicate) { return std::erase_if(items_, predicate); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  void clear() { items_.clear(); }

 private:
  template <class K> auto lower(const K& key) {
    return std::lower_bound(items_.begin(), items_.end(), key, [](const value_type& item, const K& k) { return item.first < k; });
  }
  std::vector<value_type> items_;
};

}  // namespace fulmar
