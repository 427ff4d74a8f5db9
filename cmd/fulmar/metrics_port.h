#pragma once
// /metrics, /healthz and /readyz of a process and its nodes, on a port of their own. Nodes are asked by Told from threads of the HTTP server:
// a loop that is stuck or a scraper that reads slowly holds up nobody but who asks.
//
//   /metrics   Prometheus' text, page by page as nodes give it; 503 when a node does not answer; then at most a few scrapes at a time
//   /healthz   200 when every node answers within a second, 503 with the names of those that do not
//   /readyz    200 when every node does all that it is there for, 503 with what it wants, a line each

#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <vector>

#include "cmd/fulmar/served_node.h"
#include "net/http/http_server.h"

namespace fulmar::cmd {

class MetricsPort {
 public:
  // Where to listen, nothing when not at all; `node_count`: so many nodes will be watched, and before they are nobody is ready.
  MetricsPort(std::optional<Address> at, size_t node_count) : wanted_(std::move(at)), node_count_(node_count) {}
  // False: it cannot listen. Told, with cause and fix. True when nobody wants it.
  bool open();
  bool is_open() const { return server_ != nullptr; }
  // The node outlives this object.
  void watch(ServedNode& node);
  uint16_t port() const { return server_->at().port; }
  std::string url() const;                   // "http://127.0.0.1:5557/metrics"

 private:
  class Scrape;
  net::HttpAnswer answer(std::string_view path);
  net::HttpAnswer health(bool needs_readiness);
  net::HttpAnswer metrics();
  std::vector<ServedNode*> nodes() const;

  static constexpr int kScrapesMax = 2;
  const std::optional<Address> wanted_;
  const size_t node_count_;
  mutable std::mutex mutex_;
  std::vector<ServedNode*> nodes_;           // under mutex_
  std::counting_semaphore<kScrapesMax> scrapes_{kScrapesMax};
  std::unique_ptr<net::HttpServer> server_;  // last: gone before what its threads use
};

}  // namespace fulmar::cmd
