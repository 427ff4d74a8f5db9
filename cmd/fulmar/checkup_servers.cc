// Of the network: the port, the server that lives there, name servers, and the address that clients are given.

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cmd/fulmar/checkup.h"
#include "cmd/fulmar/probe.h"
#include "cmd/fulmar/program.h"
#include "cmd/fulmar/server_config.h"
#include "core/client/routes.h"
#include "core/model/message.h"

namespace fulmar::cmd {

namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

// Sockets that listen at `port`, by inode.
std::vector<std::string> listening_inodes(uint16_t port) {
  std::vector<std::string> out;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string slot, local, remote, state, skip, inode;
      words >> slot >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      if (state == "0A" && local.ends_with(fmt::format(":{:04X}", port))) out.push_back(inode);
    }
  }
  return out;
}

// "process 4711 (java)", as far as we may look.
std::string port_owner(uint16_t port) {
  const std::vector<std::string> inodes = listening_inodes(port);
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    const std::string pid = process.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    for (fs::directory_iterator file(process.path() / "fd", ignored), end; file != end; file.increment(ignored)) {
      const std::string target = fs::read_symlink(file->path(), ignored).string();
      if (std::none_of(inodes.begin(), inodes.end(), [&](const std::string& inode) { return target == "socket:[" + inode + "]"; })) continue;
      std::string name;
      std::ifstream(process.path() / "comm") >> name;
      return fmt::format("process {} ({})", pid, name);
    }
  }
  return "another process";
}

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1" || host == "localhost"; }

bool is_own_address(const std::string& host) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return true;
  bool is_own = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    char text[NI_MAXHOST] = {};
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(one->ifa_addr, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) is_own = is_own || host == text;
  }
  freeifaddrs(all);
  return is_own;
}

// `option`: where to say another.
void check_port_is_free(const std::string& check, const Address& at, const std::string& option, Findings& out) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found) != 0) {
    out.push_back({Level::Bad, check, fmt::format("{} does not resolve", at.host), fmt::format("listen at an address of this machine, or at 0.0.0.0 ({})", option)});
    return;
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const int code = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0 ? 0 : errno;
  close(fd);
  freeaddrinfo(found);
  if (code == 0) out.push_back({Level::Good, check, fmt::format("{} is free", at.text()), ""});
  else if (code == EADDRINUSE) out.push_back({Level::Bad, check, fmt::format("{} is taken by {}", at.text(), port_owner(at.port)), fmt::format("stop that, or listen at another port ({})", option)});
  else if (code == EACCES) out.push_back({Level::Bad, check, fmt::format("{} may not be opened: {}", at.text(), std::strerror(code)), fmt::format("ports below 1024 are root's: choose a higher one ({})", option)});
  else if (code == EADDRNOTAVAIL) out.push_back({Level::Bad, check, fmt::format("{} is not an address of this machine", at.host), fmt::format("listen at one that is, or at 0.0.0.0 ({}); brokerIP1 is what clients are told", option)});
  else out.push_back({Level::Bad, check, fmt::format("{} cannot be opened: {}", at.text(), std::strerror(code)), fmt::format("another address ({})", option)});
}

void judge_status(const reply::Status& status, const std::string& store, Findings& out) {
  const auto value = [&](std::string_view name) { return std::string(status_value(status, name)); };
  const std::string state = value("brokerState"), store_state = value("storeState");
  out.push_back({state == "serving" ? Level::Good : Level::Notice, "broker", fmt::format("{} is {}, its store is {}", value("brokerName"), state, store_state), state == "serving" ? "" : "wait: a recovery says in the log how far it is"});
  if (store_state == "damaged") out.push_back({Level::Bad, "store", "the log is damaged: the broker is read-only", fmt::format("`fulmar store verify {}` names the bytes; restore them from a copy, or stop the broker and `fulmar store repair`", store)});
  if (value("isDiskFull") == "true") out.push_back({Level::Bad, "disk", "the broker refuses sends for want of room: " + value("commitLogDisk"), "free room on that disk: it takes sends again within seconds"});
  if (const std::string broken = value("brokenQueues"); !broken.empty() && broken != "0")
    out.push_back({Level::Bad, "queues", fmt::format("{} queues are broken and give nothing from some offset on", broken), "restart the broker: it builds the queues again from the log"});
  if (const std::string failure = value("registrationFailure"); !failure.empty())
    out.push_back({Level::Bad, "registration", "a name server does not take this broker: " + failure, "what it says above; clients cannot find the broker there"});
}

bool is_broker(const Result<Reply>& reply, const std::string& name) {
  const auto* status = reply ? std::get_if<reply::Status>(&*reply) : nullptr;
  return status != nullptr && status_value(*status, "brokerName") == name;
}

// Where the name server sends clients that look for this broker.
void check_advertised(const BrokerConfig& config, const Address& server, const reply::Route& route, bool is_live, Findings& out) {
  std::string address;
  for (const reply::RouteBroker& broker : route.brokers) {
    if (broker.name != config.broker_name) continue;
    for (const auto& [id, at] : broker.addresses) if (id.value() == config.broker_id) address = at;
  }
  if (address.empty()) {
    if (is_live) out.push_back({Level::Bad, "registration", fmt::format("{} does not know broker {} (id {})", server.text(), config.broker_name, config.broker_id), "does the broker name this server (namesrvAddr)? Its log says why it is not taken"});
    return;
  }
  const Result<Address> parsed = parse_address(address);
  const Result<Reply> answer = parsed ? ask_server(*parsed, command::GetStatus{}, 1000) : Result<Reply>(parsed.error());
  if (!is_live) {
    if (is_broker(answer, config.broker_name))
      out.push_back({Level::Bad, "name", fmt::format("another broker is registered as {} with id {}: it lives at {}", config.broker_name, config.broker_id, address), "give this one a brokerName or a brokerId of its own"});
    else out.push_back({Level::Good, "name", fmt::format("{} still names {} for {}, where nobody answers: it is forgotten within seconds", server.text(), address, config.broker_name), ""});
    return;
  }
  if (!is_broker(answer, config.broker_name))
    out.push_back({Level::Bad, "address", fmt::format("clients are sent to {}, where broker {} does not answer", address, config.broker_name), "set brokerIP1 to an address at which clients reach this machine, and open the port"});
  else if (is_loopback(parsed->host) && !is_loopback(config.listen_host) && config.broker_ip.empty())
    out.push_back({Level::Notice, "address", fmt::format("clients are sent to {}, which is right on this machine only", address), "name the name server by an address other than 127.0.0.1, or set brokerIP1"});
  else out.push_back({Level::Good, "address", fmt::format("clients are sent to {}, and it answers", address), ""});
}

}  // namespace

void check_broker(const BrokerConfig& config, const std::string& owner, Findings& out) {
  Address at{config.listen_host, config.listen_port};
  if (!config.broker_ip.empty() && !is_own_address(config.broker_ip))
    out.push_back({Level::Notice, "address", fmt::format("brokerIP1 is {}, which is not an address of this machine", config.broker_ip), "right behind a NAT or a load balancer, wrong otherwise"});
  if (owner.empty()) {
    check_port_is_free("port", at, "--listen HOST:PORT, listenHost, listenPort", out);
    if (const auto metrics = metrics_address(config); metrics && metrics->port != 0)
      check_port_is_free("metrics port", *metrics, "--metrics HOST:PORT, metricsPromExporterPort", out);
    return;
  }
  if (at.host == "0.0.0.0" || at.host == "::") at.host = "127.0.0.1";
  if (at.port == 0) {
    out.push_back({Level::Notice, "port", fmt::format("{} holds the store; with listenPort=0 nobody can know its port", owner), "give --listen HOST:PORT with the port of its ready line"});
    return;
  }
  const Result<Reply> reply = ask_server(at, command::GetStatus{});
  const auto* status = reply ? std::get_if<reply::Status>(&*reply) : nullptr;
  if (status != nullptr) {
    out.push_back({Level::Good, "port", fmt::format("{} holds the store, {} answers", owner, at.text()), ""});
    return judge_status(*status, config.store_path, out);
  }
  out.push_back({Level::Bad, "port", fmt::format("{} holds the store, but {}", owner, reply ? describe(*reply) : reply.error().detail),
                 "it listens elsewhere (then give --listen), is still starting, or hangs: see its log. Ending it with kill -9 is safe, the next start recovers"});
}

void check_name_servers(const BrokerConfig& config, bool is_live, Findings& out) {
  if (config.name_servers.empty())
    out.push_back({Level::Notice, "name servers", "none is configured: clients cannot find this broker", "-n HOST:9876, or namesrvAddr in the configuration"});
  for (const std::string& text : config.name_servers) {
    const Result<Address> server = parse_address(text);
    const Result<Reply> reply = server ? ask_server(*server, command::GetStatus{}) : Result<Reply>(server.error());
    const auto* status = reply ? std::get_if<reply::Status>(&*reply) : nullptr;
    if (status == nullptr) {
      out.push_back({Level::Bad, "name servers", reply ? describe(*reply) : reply.error().detail, "start one there (`fulmar namesrv`), or correct namesrvAddr or -n; a firewall lets the port through?"});
      continue;
    }
    if (status_value(*status, "role") != "nameserver") {
      out.push_back({Level::Bad, "name servers", fmt::format("a broker lives at {}, not a name server", text), "name servers listen at 9876, brokers at 10911, unless told otherwise"});
      continue;
    }
    out.push_back({Level::Good, "name servers", fmt::format("{} knows {} brokers and {} topics", text, status_value(*status, "brokers"), status_value(*status, "topics")), ""});
    const Result<Reply> route = ask_server(*server, command::QueryRoute{kMetaTopic});
    reply::Route none;
    const auto* known = route ? std::get_if<reply::Route>(&*route) : nullptr;
    check_advertised(config, *server, known != nullptr ? *known : none, is_live, out);
  }
}

}  // namespace fulmar::cmd
