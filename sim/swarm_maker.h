#pragma once
// Private to swarm*.cc: what makes a scenario of a profile and a seed. Each part draws from a stream of its own, so that one more draw in one
// of them moves nothing in the others.

#include <functional>
#include <string>
#include <string_view>

#include "sim/swarm.h"

namespace fulmar::sim {

class ScenarioMaker {
 public:
  ScenarioMaker(std::string_view profile, Seed seed);
  Scenario make();

 private:
  // Domains of scenario making, above Domain::Scenario.
  enum class Part : uint32_t { Shape = 1, Geometry, Disk, Network, Clock, Load, Faults, Rate, Edge, Churn, Still, Media, Retention, Cluster };
  using Make = std::function<void(Fault&, Prng&)>;   // what a fault of a class is, by draws of its own

  // --- what all profiles share (swarm.cc) -----------------------------------------------------------------------------------------------
  KeyedStream part(Part part, uint64_t entity = 0) const;
  BrokerGeometry geometry() const;
  void add_nodes(Scenario& s) const;
  void load(Scenario& s) const;
  void clocks(Scenario& s) const;
  void disk(DiskProfile& d, size_t host) const;
  void network(NetworkProfile& n) const;
  void cpu(CpuProfile& c) const;
  void add_class(Scenario& s, uint64_t index, uint64_t count_max, const Make& make) const;
  // A crash at one of the first calls of the nth recovery: a kill with these odds, else the loss of power.
  static void crash_in_recovery(Fault& f, Prng& one, Ratio kill, uint64_t nth_min, uint64_t nth_max);
  void faults(Scenario& s) const;
  void disk_faults(Scenario& s, const Make& on_broker) const;
  void network_faults(Scenario& s, const Make& on_broker) const;

  // --- what one has (swarm_profiles.cc) ------------------------------------------------------------------------------------------------
  void retain(BrokerGeometry& g) const;
  void slow_renames(DiskProfile& d, size_t host) const;
  void retention_load(Scenario& s) const;
  void add_cluster(Scenario& s) const;
  void cluster_load(WorkloadPlan& w) const;
  void media_load(Scenario& s) const;
  void churn_load(Scenario& s) const;
  void still_load(WorkloadPlan& w) const;
  void edge_load(WorkloadPlan& w) const;
  void edge_faults(Scenario& s, const Make& on_broker) const;
  void media_faults(Scenario& s, const Make& on_broker) const;
  void retention_faults(Scenario& s, const Make& on_broker) const;
  void churn_faults(Scenario& s, const Make& on_broker) const;
  void cluster_faults(Scenario& s, const Make& on_broker) const;

  std::string profile_;
  Seed seed_;
  bool is_calm_ = false, is_storm_ = false, has_disk_faults_ = false, has_network_faults_ = false, is_edge_ = false, is_churn_ = false, is_still_ = false, is_media_ = false, is_retention_ = false, is_cluster_ = false;
  uint64_t storm_ = 0;
  Duration chaos_;
};

}  // namespace fulmar::sim
